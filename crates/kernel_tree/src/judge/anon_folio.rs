//! Large folios: which order a fault gets, as `huge_memory/policy.rs` has it.
//!
//! Orders are enabled each by itself, allocations fail as the state says. A fault always finds a page table, and memory is anonymous.

use super::case::{Both, Case, Span};
use super::draw::Draw;
use mm::Features;
use mm::decisions::AnonFolioState;
use mm::huge_memory::policy::{
    Advice, Disabled, Failure, Userfault, VmaState, after_failure, candidates, effort, fitting_in_fault,
};
use mm::huge_memory::settings::{Defrag, Enabled, Mode, ThpSettings};

pub fn cases() -> Vec<Case> {
    vec![
        Both {
            name: "vma_thp_gfp_mask",
            releases: Span::ALL,
            rule: |d| d.folios.vma_thp_gfp_mask,
            draw: fault,
            own: |f, s| s.gfp = gfp(f, s),
            known: &[],
        }
        .into(),
        Both {
            name: "alloc_anon_folio",
            releases: Span::since(6, 8),
            rule: |d| d.folios.alloc_anon_folio,
            draw: fault,
            own: alloc,
            known: &[],
        }
        .into(),
    ]
}

const PAGE_SHIFT: u32 = 12;
/// PTEs of a page table.
const PTES: u64 = 512;
const ENABLED: [Enabled; 3] = [Enabled::Always, Enabled::Madvise, Enabled::Never];
const DEFRAG: [Defrag; 5] =
    [Defrag::Always, Defrag::Defer, Defrag::DeferMadvise, Defrag::Madvise, Defrag::Never];

fn fault(draw: &mut Draw) -> AnonFolioState {
    let seldom = |draw: &mut Draw, flag| draw.one_of([0, 0, 0, flag]);
    let start = draw.number(0, 1 << 35, &[512, 1 << 20]);
    let end = start + draw.number(1, 1 << 20, &[16, 512, 1024]);
    let page = draw.number(start, end - 1, &[start, end - 1]);
    let bytes = |pages: i64| (pages as u64) << PAGE_SHIFT;
    let mut state = AnonFolioState {
        vm_start: bytes(start),
        vm_end: bytes(end),
        vm_flags: draw.one_of([
            0,
            AnonFolioState::HUGEPAGE,
            AnonFolioState::NOHUGEPAGE,
            AnonFolioState::HUGEPAGE,
            0,
        ]) | seldom(draw, AnonFolioState::USERFAULT)
            | seldom(draw, AnonFolioState::TEMPORARY_STACK),
        addr: bytes(page) + draw.number(0, 4095, &[]) as u64,
        thp_disabled: seldom(draw, 1) as i32,
        enabled: draw.one_of([0, 1, 2]),
        defrag: draw.one_of([0, 1, 2, 3, 4]),
        no_block: draw.number(0, 0x3ff, &[0, 1]) as u64 & !seldom(draw, 0x3fe),
        no_room: if draw.flag() { draw.number(0, 0x3ff, &[0, 1]) as u64 } else { 0 },
        ..AnonFolioState::default()
    };
    for order in 2..=9 {
        match draw.one_of([0, 1, 2, 3]) {
            0 => {}
            1 => state.orders_always |= 1 << order,
            2 => state.orders_madvise |= 1 << order,
            _ => state.orders_inherit |= 1 << order,
        }
    }
    let place = page % PTES as i64;
    for _ in 0..draw.one_of([0, 0, 1, 2, 5]) {
        let near = [place - 2, place + 2, place - 8, place + 16, place + 64];
        let other = draw.number(0, PTES as i64 - 1, &near);
        state.populated[other as usize / 64] |= 1 << (other % 64);
    }
    state
}

fn settings(s: &AnonFolioState) -> ThpSettings {
    let mut thp = ThpSettings {
        enabled: ENABLED[s.enabled as usize],
        defrag: DEFRAG[s.defrag as usize],
        ..ThpSettings::default()
    };
    for order in 2..=9 {
        let has = |orders: u64| orders >> order & 1 != 0;
        thp.modes[order] = match () {
            () if has(s.orders_always) => Mode::Always,
            () if has(s.orders_madvise) => Mode::Madvise,
            () if has(s.orders_inherit) => Mode::Inherit,
            () => Mode::Never,
        };
    }
    thp
}

fn vma(s: &AnonFolioState) -> VmaState {
    VmaState {
        advice: match s.vm_flags & (AnonFolioState::HUGEPAGE | AnonFolioState::NOHUGEPAGE) {
            0 => Advice::None,
            AnonFolioState::HUGEPAGE => Advice::Huge,
            _ => Advice::NoHuge,
        },
        disabled: if s.thp_disabled != 0 { Disabled::Completely } else { Disabled::No },
        userfault: if s.vm_flags & AnonFolioState::USERFAULT != 0 { Userfault::Armed } else { Userfault::No },
        temporary_stack: s.vm_flags & AnonFolioState::TEMPORARY_STACK == AnonFolioState::TEMPORARY_STACK,
    }
}

/// As the kernel's flags have it.
fn gfp(f: &Features, s: &AnonFolioState) -> u32 {
    let effort = effort(&f.folios, &settings(s), &vma(s));
    let of = [(effort.direct, 0x400), (effort.wakes, 0x800), (effort.no_retry, 0x1_0000)];
    of.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum()
}

/// The walk of a fault through the orders, with allocations that fail.
fn alloc(f: &Features, s: &mut AnonFolioState) {
    let page = s.addr >> PAGE_SHIFT;
    let first = page / PTES * PTES;
    let pages = s.vm_start >> PAGE_SHIFT..s.vm_end >> PAGE_SHIFT;
    let populated = s.populated;
    let is_populated = |place: u64| populated[place as usize / 64] >> (place % 64) & 1 != 0;
    let orders = candidates(&f.folios, &settings(s), &vma(s));
    let mut orders = fitting_in_fault(&f.folios, orders, &pages, page, |window| {
        (window.start - first..window.end - first).any(is_populated)
    });
    s.answer = loop {
        let order = orders.highest().unwrap_or(0);
        let bit = 1 << order;
        s.tried |= bit;
        if order > 0 {
            s.gfp = gfp(f, s);
        }
        let failure = match () {
            () if s.no_block & bit != 0 => Failure::NoBlock,
            () if s.no_room & bit != 0 => Failure::NoRoom,
            () => break order.into(),
        };
        let Some(next) = after_failure(&f.folios, orders, order, failure) else { break -1 };
        orders = next;
        s.fallbacks |= bit;
        s.charge_fallbacks |= if failure == Failure::NoRoom { bit } else { 0 };
    };
}
