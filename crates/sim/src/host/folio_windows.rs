//! How often page faults with room for folios of the preferred size get them, while programs map and unmap memory for long.
//!
//! ```text
//!   faults with room    ▪▪▫▪▪▪▫▪▫▫▪▫ ...        500 of them are a window: the part that got a folio of the preferred size or a larger one,
//!                       └─ window ─┘            and what memory is like at its end
//! ```
//!
//! A kernel without large folios is asked instead whether it could have allocated one, where an area has room for it.

mod windows;

use super::threads::{Process, Running};
use crate::outcome::{Outcome, Sample};
use crate::{System, metric};
use machine::{Cpu, PageSize, Time};
use mm::Event;
use mm::address_space::Vpn;
use mm::compaction::policy::unusable_free_index;
use mm::huge_memory::orders::Orders;
use mm::huge_memory::stats::MthpStat;
use mm::page::NR_PAGE_ORDERS;
use std::ops::Range;
use windows::{ATTEMPTS, Window, Windows};
use workload::operation::Footprint;

/// The windows of programs whose memory comes and goes, if there are any.
pub(super) struct FolioWindows(Option<Judged>);

/// Faults, and those of them that got what they wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Attempts {
    all: i64,
    successful: i64,
}

struct Judged {
    /// The preferred order, in base pages.
    order: u8,
    page_size: PageSize,
    /// Pages that the allocator manages.
    memory: u64,
    /// Of a kernel that makes no large folios, what it could have allocated.
    probes: Attempts,
    /// Up to the last window.
    before: Attempts,
    /// What programs had used when measuring began.
    footprint_before: Footprint,
    windows: Vec<Window>,
}

/// What all programs whose memory comes and goes have used; `None` without such a program.
fn footprint(programs: &[Running]) -> Option<Footprint> {
    let footprints = programs.iter().filter_map(|program| program.generator.footprint());
    footprints.reduce(|sum, of| Footprint {
        preferred_kib: sum.preferred_kib,
        target: sum.target + of.target,
        mapped: sum.mapped + of.mapped,
        touched: sum.touched + of.touched,
        touched_so_far: sum.touched_so_far + of.touched_so_far,
    })
}

impl FolioWindows {
    pub fn new(system: &System, programs: &[Running]) -> FolioWindows {
        let judged = footprint(programs).map(|footprint| {
            let allocator = &system.mm.parts.allocator;
            let page_size = allocator.page_size();
            Judged {
                order: (footprint.preferred_kib / page_size.kib()).ilog2() as u8,
                page_size,
                memory: allocator.zones().iter().map(|zone| zone.managed).sum(),
                probes: Attempts::default(),
                before: Attempts::default(),
                footprint_before: Footprint::default(),
                windows: Vec::new(),
            }
        });
        FolioWindows(judged)
    }

    /// Forgets what was before.
    pub fn start_measuring(&mut self, system: &System, programs: &[Running]) {
        if let Some(judged) = &mut self.0 {
            judged.windows.clear();
            judged.before = judged.attempts(system);
            judged.footprint_before = footprint(programs).unwrap_or_default();
        }
    }

    /// Notes that `cpu` has mapped an area: a kernel without large folios is asked whether it could allocate one for it, and a window ends if
    /// there were faults enough.
    pub fn mapped(
        &mut self,
        system: &System,
        (cpu, area): (Cpu, &Range<Vpn>),
        programs: &[Running],
        processes: &[Process],
    ) {
        let Some(judged) = &mut self.0 else { return };
        judged.probe(system, cpu, area);
        if judged.attempts(system).all - judged.before.all >= ATTEMPTS {
            self.close(system, system.machine.now(cpu), programs, processes);
        }
    }

    /// Ends a window.
    pub fn close(&mut self, system: &System, now: Time, programs: &[Running], processes: &[Process]) {
        let (Some(judged), Some(used)) = (&mut self.0, footprint(programs)) else { return };
        let attempts = judged.attempts(system);
        if attempts == judged.before {
            return;
        }
        let parts = &system.mm.parts;
        let mut blocks = [0; NR_PAGE_ORDERS];
        for z in 0..parts.allocator.zones().len() {
            blocks.iter_mut().zip(parts.allocator.free_blocks(z)).for_each(|(sum, free)| *sum += free);
        }
        let its =
            processes.iter().filter(|process| programs[process.program].generator.footprint().is_some());
        let rss: u64 = its.filter_map(|process| Some(parts.address_spaces.mm(process.mm?).rss())).sum();
        let turned_over = used.mapped - judged.footprint_before.mapped;
        judged.windows.push(Window {
            time: now,
            end: turned_over as f64 / used.target as f64,
            attempts: attempts.all - judged.before.all,
            successes: attempts.successful - judged.before.successful,
            unusable: unusable_free_index(&blocks, judged.order) as f64,
            folios: parts.address_spaces.mthp_stats().get(judged.order, MthpStat::NrAnon) as f64,
            rss: rss as f64,
            untouched: (rss * judged.page_size.parts()).saturating_sub(used.touched) as f64
                / judged.page_size.parts() as f64,
        });
        judged.before = attempts;
    }

    /// Sets the metrics of programs whose memory comes and goes, if there are any.
    pub fn fill(self, outcome: &mut Outcome, system: &System, programs: &[Running]) {
        let (Some(judged), Some(used)) = (self.0, footprint(programs)) else { return };
        let windows = Windows::new(judged.windows);
        let rates = [
            (metric::PREFERRED_SUCCESS, windows.settled()),
            (metric::PREFERRED_SUCCESS_EARLY, windows.early()),
            (metric::PREFERRED_DRIFT, windows.drift()),
        ];
        for (metric, rate) in rates {
            if let Some(rate) = rate {
                outcome.set(metric, 100.0 * rate);
            }
        }
        if let Some(turnovers) = windows.equilibrium_time() {
            outcome.set(metric::EQUILIBRIUM_TIME, turnovers);
        }
        let share = |of: fn(&Window) -> f64| 100.0 * windows.mean(of) / judged.memory as f64;
        outcome.set(metric::PREFERRED_FOLIOS, windows.mean(|window| window.folios));
        outcome.set(metric::UNUSABLE_FREE, windows.mean(|window| window.unusable));
        outcome.set(metric::ANON_MEMORY, share(|window| window.rss));
        // Whether pages that were swapped out had been touched is not known.
        if !outcome.counters.get(Event::Pswpout).gt(&0) {
            outcome.set(metric::UNTOUCHED_MEMORY, share(|window| window.untouched));
        }
        let touched = used.touched_so_far - judged.footprint_before.touched_so_far;
        let faults = outcome.counters.get(Event::Pgfault) as f64;
        outcome.set(metric::FAULTS_PER_PAGE, faults / touched.max(1) as f64);
        outcome.set(metric::PAGES_MIGRATED, outcome.counters.get(Event::PgmigrateSuccess) as f64);
        outcome.notes.extend(system.note_of_sizes());
        for window in windows.all() {
            if let Some(rate) = window.rate() {
                let seconds = window.time.seconds();
                outcome.series.push(Sample { seconds, name: "turnovers", value: window.end });
                outcome.series.push(Sample { seconds, name: "preferred_success", value: 100.0 * rate });
            }
        }
    }
}

/// Whether page faults have got a large folio, or failed to.
fn makes_folios(system: &System) -> bool {
    let stats = system.mm.parts.address_spaces.mthp_stats();
    let tried =
        |order| stats.get(order, MthpStat::AnonFaultAlloc) + stats.get(order, MthpStat::AnonFaultFallback);
    Orders::all_anon(system.mm.parts.allocator.geometry()).descending().any(|order| tried(order) > 0)
}

impl Judged {
    /// For a kernel that makes no large folios, finds out whether it could allocate one for an area that has room for it.
    fn probe(&mut self, system: &System, cpu: Cpu, area: &Range<Vpn>) {
        let size = 1 << self.order;
        if area.start.next_multiple_of(size) + size > area.end || makes_folios(system) {
            return;
        }
        self.probes.all += 1;
        let (features, node) = (system.mm.features(), system.machine.node(cpu));
        let could = system.mm.parts.allocator.could_allocate(features, node, self.order);
        self.probes.successful += i64::from(could);
    }

    /// Faults so far that had room for the preferred order or a larger one, and those of them that got it.
    fn attempts(&self, system: &System) -> Attempts {
        let stats = system.mm.parts.address_spaces.mthp_stats();
        let preferred =
            Orders::all_anon(system.mm.parts.allocator.geometry()).without(Orders::range(0, self.order - 1));
        let made: i64 = preferred.descending().map(|order| stats.get(order, MthpStat::AnonFaultAlloc)).sum();
        let failed = stats.get(self.order, MthpStat::AnonFaultFallback);
        Attempts { all: made + failed + self.probes.all, successful: made + self.probes.successful }
    }
}
