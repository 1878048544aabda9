//! The study of reclaim: what does each mechanism of the multi-gen LRU give and cost, on which demand is the classic LRU ahead, and
//! which release changed what?
//!
//! ```text
//!   demand ──► 6.18 with every set of mechanisms ──► Shapley shares of (all - none), and what 6.18 loses without one of them
//!         └──► releases x both LRUs              ──► the classic LRU against the multi-gen one, each release against the one before
//! ```
//!
//! Mechanisms are switched by features of a kernel, page-table walks by a bit of `lru_gen/enabled`. Sets that are the same kernel run
//! once: the Bloom filter belongs to the walks, and without the PID controller no tier is protected, so tiers change nothing.
//! Because every set is run, a mechanism's share is what it gives on average over all orders in which mechanisms can be added
//! (`explain/shapley.rs`); what is lost without it is what it gives beside all others. Where the two differ, mechanisms do each
//! other's work, or need each other.
//!
//! Gains are in the better direction of the demand's first metric; costs are CPU time of the kernel.

use crate::experiment::Experiment;
use crate::explain::shapley::{self, Players};
use crate::results::Record;
use crate::scenario::ScenarioError;
use crate::statistics::{Change, Interval, change, mean, mean_interval};
use mm::Variant;
use mm::series::RELEASES;
use schemars::JsonSchema;
use serde::Serialize;
use sim::Workload;
use sim::metric::{Better, Metric, SYSTEM_TIME};
use std::collections::BTreeMap;
use workload::tasks::ProgramSpec;

/// The kernel whose mechanisms are switched.
pub const KERNEL: &str = "6.18";
/// The setting that chooses the LRU, and whether the multi-gen one walks page tables.
pub const LRU_GEN: &str = "lru_gen/enabled";
/// Its default, without page-table walks, and for the classic LRU.
const ALL_BITS: &str = "7";
const NO_WALKS: &str = "5";
const CLASSIC: &str = "0";

/// A mechanism of the multi-gen LRU that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// Folios of a generation are told apart by how often they were accessed.
    Tiers,
    /// Refault rates decide which tiers are protected and which type of memory goes.
    PidController,
    /// Aging walks page tables (bit 1 of `lru_gen/enabled`).
    PageTableWalks,
    /// Walks pass over tables in which the walk before found little.
    BloomFilter,
    /// Reclaim looks at the entries around a young one.
    LookAround,
}

impl Mechanism {
    pub const ALL: [Mechanism; 5] = [
        Mechanism::Tiers,
        Mechanism::PidController,
        Mechanism::PageTableWalks,
        Mechanism::BloomFilter,
        Mechanism::LookAround,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Tiers => "tiers",
            Mechanism::PidController => "PID controller",
            Mechanism::PageTableWalks => "page-table walks",
            Mechanism::BloomFilter => "Bloom filter",
            Mechanism::LookAround => "look-around",
        }
    }

    /// The feature that switches it, if one does.
    fn feature(self) -> Option<&'static str> {
        match self {
            Mechanism::Tiers => Some("mglru.tiers"),
            Mechanism::PidController => Some("mglru.pid_controller"),
            Mechanism::PageTableWalks => None,
            Mechanism::BloomFilter => Some("mglru.bloom_filter"),
            Mechanism::LookAround => Some("mglru.look_around"),
        }
    }
}

/// A kernel of the study: a variant, and its `lru_gen/enabled`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kernel {
    pub variant: String,
    pub lru_gen: &'static str,
}

impl Kernel {
    fn new(variant: impl Into<String>, lru_gen: &'static str) -> Kernel {
        Kernel { variant: variant.into(), lru_gen }
    }

    /// [`KERNEL`] with these mechanisms of [`Mechanism::ALL`] alone.
    fn with(on: Players) -> Kernel {
        let has = |mechanism: Mechanism| on.has(mechanism as usize);
        let walks = has(Mechanism::PageTableWalks);
        // What nothing depends on is left as it is, so that the same kernel has one name.
        let is_moot = |mechanism: Mechanism| match mechanism {
            Mechanism::Tiers => !has(Mechanism::PidController),
            Mechanism::BloomFilter => !walks,
            _ => false,
        };
        let off = Mechanism::ALL.into_iter().filter(|&mechanism| !has(mechanism) && !is_moot(mechanism));
        let features: Vec<String> =
            off.filter_map(|mechanism| Some(format!("{}=off", mechanism.feature()?))).collect();
        let variant =
            if features.is_empty() { KERNEL.into() } else { format!("{KERNEL}:{}", features.join("+")) };
        Kernel::new(variant, if walks { ALL_BITS } else { NO_WALKS })
    }
}

/// A demand: a scenario, in a size of which hundreds of runs are made and at which memory is short.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    pub name: &'static str,
    /// What it stands for.
    pub what: &'static str,
    scenario: &'static str,
    /// Gives the scenario that size.
    resize: fn(&mut Workload),
}

/// All demand of the study.
pub const DEMANDS: [Demand; 7] = [
    Demand {
        name: "stream-and-hot",
        what: "sequential reads beside hot file pages and idle memory, in one cgroup",
        scenario: "streaming-vs-hot",
        resize: |host| take(host, 5000, 2000),
    },
    Demand {
        name: "moving-set",
        what: "file pages in use that change every few seconds, in a cgroup",
        scenario: "working-set-shift-1g",
        resize: |host| take(host, 1250, 3000),
    },
    Demand {
        name: "neighbours",
        what: "two cgroups without limits on a full machine, one with hot pages, one that streams",
        scenario: "noisy-neighbour",
        resize: |host| take(host, 9000, 2000),
    },
    Demand {
        name: "heap",
        what: "memory of a program, twice as much as its cgroup may have, with swap on zram",
        scenario: "heap-over-limit",
        resize: |_| {},
    },
    Demand {
        name: "build",
        what: "a recorded kernel build in a cgroup of 1 GiB",
        scenario: "kernel-build-3g",
        resize: |host| limit(host, 1024),
    },
    Demand {
        name: "database",
        what: "sysbench on MySQL, a buffer pool of 3.75 GiB and page cache in a cgroup of 4 GiB",
        scenario: "mysql-readonly",
        resize: |host| {
            take(host, 20_000, 5000);
            limit(host, 4096);
            for program in &mut host.programs {
                if let ProgramSpec::SysbenchReadOnly(server) = &mut program.program {
                    (server.tables, server.buffer_pool_mib) = (12, 3840);
                }
            }
        },
    },
    Demand {
        name: "phone",
        what: "30 apps that are opened in turn",
        scenario: "app-launches",
        resize: |host| take(host, 30_000, 60_000),
    },
];

/// Sets the milliseconds of warming up and of measuring.
fn take(host: &mut Workload, warm: u64, measured: u64) {
    (host.warm_milliseconds, host.milliseconds) = (warm, measured);
}

/// Sets `memory.max` of all cgroups.
fn limit(host: &mut Workload, mib: u64) {
    host.cgroups.iter_mut().for_each(|cgroup| cgroup.max_mib = Some(mib));
}

/// Releases whose reclaim differs from that of the release before, and [`KERNEL`].
pub fn releases() -> Vec<&'static str> {
    let reclaim = |name: &str| Variant::of_release(name).map(|variant| variant.features.reclaim);
    let mut releases: Vec<&'static str> = Vec::new();
    for (at, &(release, _)) in RELEASES.iter().enumerate() {
        if at == 0 || release == KERNEL || reclaim(release) != reclaim(RELEASES[at - 1].0) {
            releases.push(release);
        }
    }
    releases
}

/// The sets of mechanisms, and the kernel of each.
fn sets() -> impl Iterator<Item = (Players, Kernel)> {
    Players::all(Mechanism::ALL.len()).subsets().map(|set| (set, Kernel::with(set)))
}

impl Demand {
    /// Its experiments: kernels that have the same `lru_gen/enabled` together; with so many seeds, or the scenario's number.
    pub fn experiments(&self, seeds: Option<u32>) -> Result<Vec<Experiment>, ScenarioError> {
        let mut template = Experiment::of(self.scenario, seeds)?;
        template.scenario.name = format!("study-reclaim-{}", self.name);
        (self.resize)(&mut template.scenario.workload);
        let of_releases = releases()
            .into_iter()
            .flat_map(|release| [ALL_BITS, CLASSIC].map(|bits| Kernel::new(release, bits)));
        let mut variants: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
        for Kernel { variant, lru_gen } in sets().map(|(_, kernel)| kernel).chain(of_releases) {
            let of = variants.entry(lru_gen).or_default();
            if !of.contains(&variant) {
                of.push(variant);
            }
        }
        let experiment = |(lru_gen, variants): (&'static str, Vec<String>)| {
            let mut experiment = Experiment { variants, ..template.clone() };
            experiment.changes.insert(LRU_GEN.into(), lru_gen.into());
            experiment
        };
        Ok(variants.into_iter().map(experiment).collect())
    }
}

/// The runs of a demand, by kernel.
#[derive(Debug)]
pub struct Runs {
    demand: Demand,
    metric: Metric,
    of: BTreeMap<Kernel, Vec<Record>>,
}

/// What a mechanism does to a metric, relative to [`KERNEL`] with all of them; positive is better, or more where it costs.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Worth {
    /// What is lost without it and it alone.
    pub alone: Estimate,
    /// Its Shapley share of what all mechanisms give together.
    pub share: Estimate,
}

/// What mechanisms do on one demand.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Row {
    pub demand: &'static str,
    pub what: &'static str,
    /// The metric that tells gains.
    pub metric: &'static str,
    /// Gains, in the order of [`Mechanism::ALL`].
    pub gains: Vec<Worth>,
    /// What all mechanisms give together, the sum of their shares.
    pub together: Estimate,
    /// CPU time of the kernel, in the same order.
    pub costs: Vec<Worth>,
    pub costs_together: Estimate,
    /// What the multi-gen LRU gives against the classic one on [`KERNEL`].
    pub against_classic: Estimate,
    /// Both LRUs over the releases.
    pub releases: Vec<ReleaseCell>,
}

/// A relative difference, positive where it is better, with its 95 % interval over seeds.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Estimate {
    pub value: f64,
    pub interval: Option<Interval>,
}

impl Estimate {
    fn of(values: &[f64]) -> Estimate {
        Estimate { value: mean(values), interval: mean_interval(values) }
    }

    /// Whether it is at least `relevant`, and its interval is on one side of nothing.
    pub fn counts(&self, relevant: f64) -> bool {
        let apart = self.interval.is_none_or(|of| of.low > 0.0 || of.high < 0.0);
        self.value.abs() >= relevant && apart
    }
}

/// Both LRUs of a release.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ReleaseCell {
    pub release: &'static str,
    /// The multi-gen LRU against the classic one.
    pub against_classic: Estimate,
    /// The multi-gen LRU against that of the release before in the list.
    pub multi_gen: Option<Estimate>,
    /// The classic LRU likewise.
    pub classic: Option<Estimate>,
}

impl Runs {
    /// Sorts the records of a demand's experiments, in their order.
    pub fn new(demand: Demand, experiments: &[(Experiment, Vec<Record>)]) -> Runs {
        let mut of = BTreeMap::new();
        let mut metric = None;
        for (experiment, records) in experiments {
            let lru_gen = [ALL_BITS, NO_WALKS, CLASSIC]
                .into_iter()
                .find(|bits| experiment.changes.get(LRU_GEN).is_some_and(|set| set == bits));
            let seeds = experiment.seeds as usize;
            for (variant, records) in experiment.variants.iter().zip(records.chunks(seeds)) {
                let kernel = Kernel::new(variant.clone(), lru_gen.unwrap_or(ALL_BITS));
                of.insert(kernel, records.to_vec());
            }
            metric = metric.or_else(|| experiment.scenario.directed_metrics().next());
        }
        let metric = metric.expect("each demand has a metric that is better or worse");
        Runs { demand, metric, of }
    }

    fn values(&self, metric: Metric, kernel: &Kernel) -> Vec<f64> {
        let value = |record: &Record| record.metrics.get(metric.name).copied().unwrap_or_default();
        self.of[kernel].iter().map(value).collect()
    }

    /// How far `kernel` is from `base`, relative, in the better direction of the demand's metric.
    fn gain(&self, base: &Kernel, kernel: &Kernel) -> Estimate {
        estimate(&change(&self.values(self.metric, base), &self.values(self.metric, kernel)), self.sign())
    }

    fn sign(&self) -> f64 {
        if self.metric.better == Better::Lower { -1.0 } else { 1.0 }
    }

    /// What each mechanism is worth, and all of them together, in a metric that counts with this sign.
    fn worths(&self, metric: Metric, sign: f64) -> (Vec<Worth>, Estimate) {
        let kernels: BTreeMap<Players, Vec<f64>> =
            sets().map(|(set, kernel)| (set, self.values(metric, &kernel))).collect();
        let all = Players::all(Mechanism::ALL.len());
        let base = mean(&kernels[&all]);
        let relative = |difference: f64| if base == 0.0 { 0.0 } else { sign * difference / base };
        let seeds = kernels[&all].len();
        let shares: Vec<Vec<f64>> =
            (0..seeds).map(|seed| shapley::exact(all, &|set| kernels[&set][seed])).collect();
        let lost = |without: Players| {
            let of_seed = |seed: usize| relative(kernels[&all][seed] - kernels[&without][seed]);
            Estimate::of(&(0..seeds).map(of_seed).collect::<Vec<_>>())
        };
        let worth = |mechanism: Mechanism| {
            let at = mechanism as usize;
            let share: Vec<f64> = shares.iter().map(|shares| relative(shares[at])).collect();
            Worth { alone: lost(all.without(at)), share: Estimate::of(&share) }
        };
        (Mechanism::ALL.into_iter().map(worth).collect(), lost(Players::NONE))
    }

    /// What comes of all runs of the demand.
    pub fn row(&self) -> Row {
        let all = Kernel::with(Players::all(Mechanism::ALL.len()));
        let releases = releases();
        let cell = |(at, &release): (usize, &&'static str)| {
            let both = [ALL_BITS, CLASSIC].map(|bits| Kernel::new(release, bits));
            let before = at.checked_sub(1).map(|before| releases[before]);
            let since = |bits| {
                before.map(|before| self.gain(&Kernel::new(before, bits), &Kernel::new(release, bits)))
            };
            ReleaseCell {
                release,
                against_classic: self.gain(&both[1], &both[0]),
                multi_gen: since(ALL_BITS),
                classic: since(CLASSIC),
            }
        };
        let (gains, together) = self.worths(self.metric, self.sign());
        let (costs, costs_together) = self.worths(SYSTEM_TIME, 1.0);
        Row {
            demand: self.demand.name,
            what: self.demand.what,
            metric: self.metric.name,
            gains,
            together,
            costs,
            costs_together,
            against_classic: self.gain(&Kernel::new(KERNEL, CLASSIC), &all),
            releases: releases.iter().enumerate().map(cell).collect(),
        }
    }
}

/// A change as a gain: more is better where `sign` is 1, less where it is -1.
fn estimate(change: &Change, sign: f64) -> Estimate {
    let gain = |ratio: f64| sign * (ratio - 1.0);
    let interval = change.ratio_interval.map(|Interval { low, high }| match sign < 0.0 {
        true => Interval { low: gain(high), high: gain(low) },
        false => Interval { low: gain(low), high: gain(high) },
    });
    Estimate { value: change.ratio.map_or(0.0, gain), interval }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Run;
    use sim::metric::SCORE;
    use sim::outcome::Outcome;

    #[test]
    fn sets_that_are_one_kernel_run_once() {
        let kernels: std::collections::BTreeSet<Kernel> = sets().map(|(_, kernel)| kernel).collect();
        // Tiers and the controller: both, no tiers, no controller; walks: with the filter, without it, none; look-around or not.
        assert_eq!(kernels.len(), 3 * 3 * 2);
        assert_eq!(Kernel::with(Players::all(5)), Kernel::new(KERNEL, ALL_BITS));
    }

    #[test]
    fn all_demand_can_be_run() {
        for demand in DEMANDS {
            let experiments = demand.experiments(Some(2)).unwrap();
            assert_eq!(experiments.len(), 3, "{}", demand.name);
            for experiment in experiments {
                let runs = experiment.runs().unwrap_or_else(|error| panic!("{}: {error}", demand.name));
                assert_eq!(runs.len(), 2 * experiment.variants.len());
            }
        }
        assert!(["6.1", KERNEL].iter().all(|release| releases().contains(release)));
    }

    /// Records of a demand whose score is what `score` says of a kernel.
    fn runs(score: &dyn Fn(&Run) -> f64) -> Runs {
        let demand = DEMANDS[0];
        let of = |experiment: Experiment| {
            let record = |run: Run| {
                let mut outcome = Outcome::default();
                outcome.set(SCORE, score(&run));
                outcome.set(SYSTEM_TIME, 1.0);
                Record::new(String::new(), &run, &outcome)
            };
            let records = experiment.runs().unwrap().into_iter().map(record).collect();
            (experiment, records)
        };
        let experiments = demand.experiments(Some(3)).unwrap();
        Runs::new(demand, &experiments.into_iter().map(of).collect::<Vec<_>>())
    }

    #[test]
    fn who_does_the_same_work_shares_it_and_loses_nothing_alone() {
        // Walks or look-around give 100 of 200, both together no more; the classic LRU has 240.
        let score = |run: &Run| {
            let bits = run.settings[LRU_GEN].as_str();
            let looks = !run.variant.contains("mglru.look_around=off");
            match bits {
                CLASSIC => 240.0,
                NO_WALKS if !looks => 100.0 + run.seed as f64,
                _ => 200.0 + run.seed as f64,
            }
        };
        let row = runs(&score).row();
        let of = |mechanism: Mechanism| row.gains[mechanism as usize];
        let half = 50.0 / 202.0;
        for mechanism in Mechanism::ALL {
            let shares = [Mechanism::PageTableWalks, Mechanism::LookAround].contains(&mechanism);
            let expected = if shares { half } else { 0.0 };
            assert!(
                (of(mechanism).share.value - expected).abs() < 1e-9,
                "{mechanism:?}: {:?}",
                of(mechanism)
            );
            assert_eq!(of(mechanism).alone.value, 0.0);
            assert!(!of(mechanism).alone.counts(0.01));
        }
        assert!((row.together.value - 2.0 * half).abs() < 1e-9, "{:?}", row.together);
        assert!((row.against_classic.value - (202.0 / 240.0 - 1.0)).abs() < 1e-9);
        assert!(row.against_classic.counts(0.01));
        assert!(
            row.costs_together.value == 0.0
                && row.releases.iter().all(|cell| cell.classic.is_none_or(|of| of.value == 0.0))
        );
    }

    #[test]
    fn where_less_is_better_a_gain_is_a_smaller_value() {
        let change = change(&[10.0, 20.0, 30.0], &[9.0, 18.0, 27.0]);
        let gain = estimate(&change, -1.0);
        assert!((gain.value - 0.1).abs() < 1e-12);
        assert!(gain.interval.is_some_and(|of| of.low <= of.high && of.high > 0.0));
    }
}
