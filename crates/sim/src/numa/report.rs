//! Results of a run of threads on several nodes: time by cause, local accesses, memory by node, scans and
//! faults by VMA.

use crate::outcome::{AreaHeat, Outcome, Sample, ThreadHeat};
use crate::{System, metric};
use machine::Time;
use machine::topology::MAX_NODES;
use mm::address_space::MmId;
use mm::numa::heat::VmaHeat;
use mm::numa::placement::TaskId;
use mm::numa::scan::policy::SkipReason;
use mm::{Category, Event, Zone};
use std::sync::LazyLock;

/// Virtual time between two samples.
const INTERVAL: Time = Time::from_nanoseconds(100_000_000);
/// Names of the series of pages in use on each node.
static PAGES_OF_NODE: LazyLock<Vec<String>> =
    LazyLock::new(|| (0..MAX_NODES).map(|node| format!("pages_node{node}")).collect());
/// Number of VMAs reported in the heat map.
const AREAS: usize = 8;

/// What is recorded while threads run.
#[derive(Default)]
pub(super) struct Report {
    /// Pages accessed when the last sample was taken.
    sampled: [u64; 2],
    next_sample: Time,
    series: Vec<Sample>,
    transactions: u64,
}

impl Report {
    pub fn transaction(&mut self) {
        self.transactions += 1;
    }

    /// Takes a sample of memory by node and of the share of local accesses, if one is due. `accesses` are the pages accessed so
    /// far: on other nodes, and on the thread's own.
    pub fn sample(&mut self, system: &System, now: Time, accesses: [u64; 2]) {
        if now < self.next_sample {
            return;
        }
        self.next_sample = now + INTERVAL;
        let [remote, local] = [0, 1].map(|at| accesses[at] - self.sampled[at]);
        self.sampled = accesses;
        let seconds = now.seconds();
        if remote + local > 0 {
            let value = 100.0 * local as f64 / (remote + local) as f64;
            self.series.push(Sample { seconds, name: "local_accesses", value });
        }
        for (node, name) in (0u8..).zip(PAGES_OF_NODE.iter()).take(system.machine.topology.nodes.into()) {
            let zones = system.mm.parts.allocator.zones().iter().filter(|zone| zone.node.0 == node);
            let free = |zone: &Zone| zone.exact_free_pages() + zone.pages_in_pagesets() as i64;
            let used: i64 = zones.map(|zone| zone.managed as i64 - free(zone)).sum();
            self.series.push(Sample { seconds, name, value: used as f64 });
        }
    }

    /// The results of a run that ended at `end`, with the pages accessed on other nodes and on the thread's own.
    pub fn outcome(self, system: &System, end: Time, accesses: [u64; 2]) -> Outcome {
        let mut outcome = system.outcome(end);
        let spent = |wanted: &dyn Fn(Category) -> bool| -> f64 {
            let of = Category::ALL.iter().filter(|&&category| wanted(category));
            of.map(|&category| system.machine.accounts.total(category).seconds()).sum()
        };
        let is_user = |category| matches!(category, Category::Program | Category::RemoteMemory);
        outcome.set(metric::ELAPSED, end.seconds());
        outcome.set(metric::USER_TIME, spent(&is_user));
        let is_system = |category| !is_user(category) && category != Category::Idle;
        outcome.set(metric::SYSTEM_TIME, spent(&is_system));
        outcome.set(metric::SCORE, self.transactions as f64 / end.seconds().max(1e-9));
        let [remote, local] = accesses.map(|pages| pages as f64);
        outcome.set(metric::LOCAL_ACCESSES, 100.0 * local / (local + remote).max(1.0));
        let counted = |event| outcome.counters.get(event) as f64;
        let (faults, local) = (counted(Event::NumaHintFaults), counted(Event::NumaHintFaultsLocal));
        let (updates, migrated) = (counted(Event::NumaPteUpdates), counted(Event::NumaPagesMigrated));
        outcome.set(metric::HINT_FAULTS_LOCAL, 100.0 * local / faults.max(1.0));
        outcome.set(metric::AUTONUMA_COST, autonuma_cost(updates, faults, migrated));
        outcome.series.extend(self.series);
        outcome.areas = heat_map(system);
        outcome
    }
}

/// The "AutoNUMA cost" of mmtests. The weights reproduce all four published costs from the counters next to
/// them.
fn autonuma_cost(pte_updates: f64, hint_faults: f64, migrated: f64) -> f64 {
    7e-6 * pte_updates + 5e-3 * hint_faults + 1.9e-5 * migrated
}

/// The heat map: threads that touched, scanned and faulted in the VMAs with most touches.
fn heat_map(system: &System) -> Vec<AreaHeat> {
    let area = |(mm, address, heat): (MmId, u64, &VmaHeat)| {
        let skipped = SkipReason::ALL.into_iter().zip(heat.skipped).filter(|(_, times)| *times > 0);
        let thread = |(task, heat): (TaskId, mm::numa::heat::ThreadHeat)| ThreadHeat {
            thread: task.0,
            touched: heat.touched,
            scanned: heat.scanned,
            local_faults: heat.faults[1],
            remote_faults: heat.faults[0],
        };
        AreaHeat {
            process: mm.index() as u32,
            address,
            pages: heat.pages,
            skipped: skipped.map(|(reason, times)| (reason.name().into(), times)).collect(),
            threads: heat.threads().map(thread).collect(),
        }
    };
    let order = [AreaHeat::touched, AreaHeat::faults, AreaHeat::scanned];
    let mut areas: Vec<AreaHeat> = system.mm.parts.numa.heat().iter().map(area).collect();
    areas.retain(|area| order.iter().any(|of| of(area) > 0));
    areas.sort_by_key(|area| std::cmp::Reverse(order.map(|of| of(area))));
    areas.truncate(AREAS);
    areas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_costs_follow_from_printed_counters() {
        for (updates, faults, migrated, cost) in [
            (477_310.0, 96_817.0, 86_660.0, 489.07),
            (392_566.0, 87_555.0, 85_363.0, 442.14),
            (152_259_275.0, 154_660_352.0, 8_179_067.0, 774_522.98),
            (50_075.0, 39_014.0, 14_147.0, 195.69),
        ] {
            assert!((autonuma_cost(updates, faults, migrated) - cost).abs() < 0.01, "{cost}");
        }
    }
}
