//! Folios: what reclaim does with one that was used, as `vmscan/policy.rs` has it, and which orders are inside of a VMA, as
//! `huge_memory/policy.rs` has it.
//!
//! How many PTEs say that a folio was used is known before; that nobody can tell, as another CPU holds the lock of the reverse map, does
//! not happen here.

use super::case::{Both, Case, Known, Span};
use super::draw::Draw;
use super::features::lru;
use mm::Features;
use mm::decisions::{ReferencesState, ThpWindowState};
use mm::folio::FolioFlags;
use mm::huge_memory::features::Search;
use mm::huge_memory::orders::Orders;
use mm::huge_memory::policy::fitting;
use mm::vmscan::policy::{References, check_references};

pub fn cases() -> Vec<Case> {
    vec![
        Both {
            name: "folio_check_references",
            releases: Span::until(6, 13),
            rule: |d| d.judged.folio_check_references,
            draw: folio,
            own: references,
            known: LOCKED,
        }
        .into(),
        Both {
            name: "thp_vma_suitable_orders",
            releases: Span::since(6, 8),
            rule: |d| d.judged.thp_vma_suitable_orders,
            draw: window,
            own: |_, s| s.answer = orders_inside(s),
            known: &[],
        }
        .into(),
    ]
}

const LOCKED: &[Known<ReferencesState>] = &[Known {
    releases: Span::until(6, 13),
    when: |s| s.locked != 0 && s.referenced != 0,
    why: "until 6.13 the kernel clears PG_referenced before it finds that a locked VMA maps the folio; the twin keeps the flag",
}];

fn folio(draw: &mut Draw) -> ReferencesState {
    ReferencesState {
        referenced_ptes: draw.number(0, 1 << 9, &[0, 1, 2]) as i32,
        locked: draw.flag().into(),
        executable: draw.flag().into(),
        swapbacked: draw.flag().into(),
        referenced: draw.flag().into(),
        answer: 0,
    }
}

fn references(f: &Features, s: &mut ReferencesState) {
    let mut flags = FolioFlags::default();
    let of_state = [
        (s.executable, FolioFlags::EXECUTABLE),
        (s.swapbacked, FolioFlags::SWAPBACKED),
        (s.referenced, FolioFlags::REFERENCED),
    ];
    of_state.into_iter().filter(|(is_set, _)| *is_set != 0).for_each(|(_, flag)| flags.set(flag));
    let young = (s.locked == 0).then_some(s.referenced_ptes as u16);
    s.answer = match check_references(&lru(f), &mut flags, young) {
        References::Reclaim => 0,
        References::ReclaimClean => 1,
        References::Keep => 2,
        References::Activate => 3,
    };
    s.referenced = flags.has(FolioFlags::REFERENCED).into();
}

/// Pages of 4 KiB.
const PAGE_SHIFT: u32 = 12;

/// A fault inside of a VMA, and orders up to that of a huge page of 2 MiB.
fn window(draw: &mut Draw) -> ThpWindowState {
    let start = draw.number(0, 1 << 35, &[512, 1 << 20]);
    let end = start + draw.number(1, 1 << 20, &[16, 512, 1024]);
    let page = draw.number(start, end - 1, &[start, end - 1]);
    let bytes = |pages: i64| (pages as u64) << PAGE_SHIFT;
    ThpWindowState {
        vm_start: bytes(start),
        vm_end: bytes(end),
        addr: bytes(page) + draw.number(0, 4095, &[]) as u64,
        // Order 0 is none of a large folio, and there is none of order 1.
        orders: draw.number(0, 0x3ff, &[0x200, 0x3fc]) as u64 & !3,
        answer: 0,
    }
}

fn orders_inside(s: &ThpWindowState) -> u64 {
    let asked: Vec<u8> = (0..=9).filter(|order| s.orders >> order & 1 != 0).collect();
    let vma = s.vm_start >> PAGE_SHIFT..s.vm_end >> PAGE_SHIFT;
    let page = s.addr >> PAGE_SHIFT;
    let inside = fitting(Search::PerCandidate, Orders::of(&asked), &vma, page, |_| false);
    inside.descending().map(|order| 1 << order).sum()
}
