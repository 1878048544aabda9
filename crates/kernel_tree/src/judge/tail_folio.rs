//! A folio at the tail of the oldest generation: whether it is kept, and what isolation does to its flags, as `mglru/policy.rs` has both.
//!
//! Not drawn, as the twin has none: folios that were lazily freed, and mlocked ones, which it takes off the list before. Reclaim may
//! write, unmap and swap.

use super::case::{Both, Case, Known, Span};
use super::draw::Draw;
use super::features::generations;
use mm::Features;
use mm::decisions::{Decisions, Rule, TailFolioState};
use mm::folio::{FolioFlags, ListEnd};
use mm::mglru::policy::{AtTail, Sorted, folio_use, inc_gen, isolate, sort};
use mm::workingset::policy::{folio_refs, tier};

pub fn cases() -> Vec<Case> {
    let case = |name, rule: fn(&Decisions) -> Rule<TailFolioState>, own, known| {
        Case::from(Both { name, releases: Span::ALL, rule, draw: folio, own, known })
    };
    vec![
        case("sort_folio", |d| d.judged.sort_folio, sort_folio, SORTED),
        case("isolate_folio", |d| d.judged.isolate_folio, isolate_folio, ISOLATED),
    ]
}

const SORTED: &[Known<TailFolioState>] = &[Known {
    releases: Span::only(6, 12),
    when: |s| s.locked != 0 || s.writeback != 0 || s.dirty != 0 && s.swapbacked == 0,
    why: "since 6.12.114 folios that have to be written first are isolated, as in 7.2; the twin's 6.12 is that of November 2024",
}];

const ISOLATED: &[Known<TailFolioState>] = &[Known {
    releases: Span::only(6, 12),
    when: |s| s.reclaim != 0,
    why: "since 6.12.114 PG_reclaim is left to the common code; the twin's 6.12 is that of November 2024",
}];

/// The number of zones that a node may have.
const ZONES: i64 = 4;

fn folio(draw: &mut Draw) -> TailFolioState {
    let min_seq = draw.number(0, 1 << 40, &[]);
    let stays = draw.flag();
    TailFolioState {
        generation: if stays { min_seq % 4 } else { draw.number(0, 3, &[]) } as i32,
        refs: draw.number(0, 3, &[]) as i32,
        referenced: draw.flag().into(),
        workingset: draw.flag().into(),
        reclaim: draw.flag().into(),
        lru: (draw.number(0, 3, &[]) > 0).into(),
        dirty: draw.flag().into(),
        writeback: draw.flag().into(),
        locked: draw.flag().into(),
        swapbacked: draw.flag().into(),
        swapcache: draw.flag().into(),
        zone: draw.number(0, ZONES - 1, &[]) as i32,
        nr_pages: 1 << draw.number(0, 9, &[]),
        min_seq: min_seq as u64,
        tier_idx: draw.number(0, 3, &[]) as i32,
        reclaim_idx: draw.number(0, ZONES - 1, &[]) as i32,
        ..TailFolioState::default()
    }
}

fn flags(s: &TailFolioState) -> FolioFlags {
    let mut flags = FolioFlags::default();
    let of_state = [
        (s.referenced, FolioFlags::REFERENCED),
        (s.workingset, FolioFlags::WORKINGSET),
        (s.reclaim, FolioFlags::RECLAIM),
        (s.lru, FolioFlags::LRU),
        (s.dirty, FolioFlags::DIRTY),
        (s.writeback, FolioFlags::WRITEBACK),
        (s.locked, FolioFlags::LOCKED),
        (s.swapbacked, FolioFlags::SWAPBACKED),
        (s.swapcache, FolioFlags::SWAPCACHE),
    ];
    of_state.into_iter().filter(|(is_set, _)| *is_set != 0).for_each(|(_, flag)| flags.set(flag));
    flags.set_refs(s.refs as u8);
    flags.set_generation(Some(s.generation as usize));
    flags
}

fn leave(s: &mut TailFolioState, flags: FolioFlags) {
    s.refs = flags.refs().into();
    s.referenced = flags.has(FolioFlags::REFERENCED).into();
    s.workingset = flags.has(FolioFlags::WORKINGSET).into();
    s.reclaim = flags.has(FolioFlags::RECLAIM).into();
    s.lru = flags.has(FolioFlags::LRU).into();
    s.generation = flags.generation().map_or(-1, |generation| generation as i32);
}

/// What the mechanics make of it too: where the folio goes, and what is counted.
fn sort_folio(f: &Features, s: &mut TailFolioState) {
    let f = generations(f);
    let mut flags = flags(s);
    let oldest = (s.min_seq % 4) as usize;
    let refs = folio_refs(&f, folio_use(flags));
    let tier = tier(&f, refs, flags.has(FolioFlags::WORKINGSET));
    let at_tail = AtTail { flags, oldest, refs, tier, eligible: s.zone <= s.reclaim_idx };
    let sorted = sort(&f, &at_tail, s.tier_idx as u8);
    let end = match sorted {
        Sorted::Evictable => None,
        Sorted::Promoted | Sorted::Writeback => Some(ListEnd::Head),
        Sorted::Protected(protection) => Some(protection.end),
        Sorted::Ineligible => Some(ListEnd::Tail),
    };
    if let Sorted::Protected(protection) = sorted {
        s.protected[usize::from(tier) - 1] = if protection.counted { s.nr_pages } else { 0 };
        s.activated = if protection.activates { s.nr_pages } else { 0 };
    }
    if !matches!(sorted, Sorted::Evictable | Sorted::Promoted) {
        inc_gen(&f, &mut flags, oldest);
    }
    if sorted == Sorted::Writeback {
        flags.set(FolioFlags::RECLAIM);
    }
    leave(s, flags);
    s.answer = end.is_some().into();
    s.moved_to = match end {
        None => 0,
        Some(ListEnd::Head) => 1,
        Some(ListEnd::Tail) => 2,
    };
}

/// A folio that is in a batch of some CPU stays where it is.
fn isolate_folio(f: &Features, s: &mut TailFolioState) {
    if s.lru == 0 {
        return;
    }
    let mut flags = flags(s);
    isolate(&generations(f), &mut flags);
    leave(s, flags);
    s.answer = 1;
}
