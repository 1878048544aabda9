//! khugepaged: whether it makes a huge page out of a range of small pages, as `khugepaged/policy.rs` has it.
//!
//! Folios are of order 0. Not drawn, as the twin has none: PTEs that a userfaultfd write-protects, `MADV_COLLAPSE`, pages of devices, and
//! nodes that are too far away for `vm.zone_reclaim_mode`.

use super::case::{Both, Case, Known, Span};
use super::draw::Draw;
use mm::decisions::ScanPmdState;
use mm::huge_memory::khugepaged::policy::{
    EntryState, MappedPage, ScanResult, entry_of, is_used, limits, scan,
};
use mm::huge_memory::settings::{Khugepaged, ThpSettings};

pub fn cases() -> Vec<Case> {
    vec![
        Both {
            name: "hpage_collapse_scan_pmd",
            releases: Span::ALL,
            rule: |d| d.judged.hpage_collapse_scan_pmd,
            draw: range,
            own: |_, s| scan_pmd(s),
            known: KNOWN,
        }
        .into(),
    ]
}

const KNOWN: &[Known<ScanPmdState>] = &[
    Known {
        releases: Span::until(6, 17),
        when: |s| s.entries.iter().all(|entry| entry & WRITE == 0),
        why: "until 6.18 a range without a writable PTE is not collapsed; the twin's khugepaged does not look at that",
    },
    Known {
        releases: Span::ALL,
        when: |s| s.userfault != 0 && s.entries.iter().any(|&entry| entry == 0 || entry & ZERO != 0),
        why: "in a VMA that is registered with a userfaultfd no empty PTE is filled; the twin's khugepaged knows no userfaultfd",
    },
    Known {
        releases: Span::until(6, 9),
        when: |s| s.entries.iter().any(|entry| entry & (PRESENT | ZERO | ANON) == PRESENT),
        why: "until 6.10 a page of a file is recognised after all else, and the reason is another one; the twin looks as since then",
    },
];

const PRESENT: u32 = 1;
const SWAP: u32 = 2;
const ZERO: u32 = 4;
const WRITE: u32 = 8;
const YOUNG: u32 = 0x10;
const ANON: u32 = 0x20;
const LRU: u32 = 0x40;
const LOCKED: u32 = 0x80;
const SHARED: u32 = 0x100;
const HELD: u32 = 0x200;
const REFERENCED: u32 = 0x400;
const FOLIO_YOUNG: u32 = 0x800;
const SWAPCACHE: u32 = 0x1000;
/// A page that is in the way of nothing.
const FIT: u32 = PRESENT | ANON | LRU;

/// PTEs of a page table.
const PTES: usize = 512;
/// The order of a huge page.
const HUGE: u8 = 9;

/// Mostly one kind of PTE, with rows of others in between.
fn range(draw: &mut Draw) -> ScanPmdState {
    let limit = |draw: &mut Draw, usual| draw.number(0, PTES as i64 - 1, &[0, 1, usual, 511]) as u32;
    let mut state = ScanPmdState {
        pmd: draw.one_of([0, 0, 0, 0, 0, 0, 1, 2]),
        userfault: draw.one_of([0, 0, 0, 1]),
        max_ptes_none: limit(draw, 511),
        max_ptes_swap: limit(draw, 64),
        max_ptes_shared: limit(draw, 256),
        ..ScanPmdState::default()
    };
    state.entries = [entry(draw); PTES];
    for _ in 0..draw.one_of([0, 1, 2, 4, 8]) {
        let from = draw.number(0, PTES as i64 - 1, &[0, 255, 256, 511]) as usize;
        let length = draw.number(1, PTES as i64, &[1, 64, 255, 256]) as usize;
        let kind = entry(draw);
        state.entries[from..PTES.min(from + length)].fill(kind);
    }
    state
}

fn entry(draw: &mut Draw) -> u32 {
    let some = |draw: &mut Draw, flags: u32| draw.number(0, flags.into(), &[]) as u32 & flags;
    match draw.one_of([0, 1, 2, 3, 3, 3, 3, 4]) {
        0 => 0,
        1 => SWAP,
        2 => PRESENT | ZERO,
        3 => FIT | some(draw, WRITE | YOUNG | SHARED | REFERENCED | FOLIO_YOUNG | SWAPCACHE),
        _ => PRESENT | some(draw, WRITE | YOUNG | ANON | LRU | LOCKED | SHARED | HELD | SWAPCACHE),
    }
}

fn scan_pmd(s: &mut ScanPmdState) {
    let thp = ThpSettings::default();
    let khugepaged = Khugepaged {
        max_ptes_none: s.max_ptes_none,
        max_ptes_swap: s.max_ptes_swap,
        max_ptes_shared: s.max_ptes_shared,
        ..thp.khugepaged
    };
    let thp = ThpSettings { khugepaged, ..thp };
    let result = match s.pmd {
        1 => ScanResult::PmdNull,
        2 => ScanResult::PmdMapped,
        _ => match scan(s.entries.iter().map(|&entry| state_of(entry)), &limits(&thp, HUGE)) {
            Ok(found) if is_used(&thp, &found) => {
                (s.referenced, s.unmapped) = (found.referenced as i32, found.swapped as i32);
                ScanResult::Succeed
            }
            Ok(_) => ScanResult::LackReferencedPage,
            Err(reason) => reason,
        },
    };
    s.answer = number(result);
}

fn state_of(entry: u32) -> EntryState {
    let has = |flags| entry & flags != 0;
    match entry {
        0 => EntryState::None,
        _ if has(SWAP) => EntryState::Swapped,
        _ if has(ZERO) => EntryState::None,
        _ => entry_of(&MappedPage {
            anon: has(ANON),
            lru: has(LRU),
            locked: has(LOCKED),
            held: has(HELD),
            shared: has(SHARED),
            young: has(YOUNG | REFERENCED | FOLIO_YOUNG),
        }),
    }
}

/// The number in the kernel's `enum scan_result`; 0 is `SCAN_FAIL`, which a scan never is.
fn number(result: ScanResult) -> i32 {
    match result {
        ScanResult::Succeed => 1,
        ScanResult::PmdNull => 2,
        ScanResult::PmdMapped => 4,
        ScanResult::ExceedNonePte => 5,
        ScanResult::ExceedSwapPte => 6,
        ScanResult::ExceedSharedPte => 7,
        ScanResult::LackReferencedPage => 12,
        ScanResult::PageCount => 15,
        ScanResult::PageLru => 16,
        ScanResult::PageLock => 17,
        ScanResult::PageAnon => 18,
        _ => 0,
    }
}
