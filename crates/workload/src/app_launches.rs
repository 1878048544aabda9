//! Apps of a phone, of which a user opens one after the other, round after round.
//!
//! ```text
//!   app 0   ██ launch ──────────── in the background ───────────── ██ launch ──── ...
//!   app 1             ██ launch ──────────── in the background ──────────── ██
//!   ...                         each round in an order of its own
//!
//!   a launch    blocks of the framework, of the app's file and of its memory: those that it always needs, and some drawn anew
//! ```
//!
//! All apps together need more memory than there is, so a launch finds some of what it needs evicted: pages of files are read again,
//! memory comes back from swap. How long a launch takes is the time of a transaction. Files are mapped, as executables and
//! libraries are, so the kernel learns of an access to a page that is there from its accessed bit alone. In its first launch an app
//! stores to all of its memory.
//!
//! Not modelled: a low-memory killer, work of apps in the background, reads of files by calls.

use crate::demand::{Descriptor, File, MIB_PAGES, Thread, nanoseconds};
use crate::keys::{Bounds, MILLISECONDS, SHARE, SOME_NANOSECONDS, TIMES};
use crate::operation::{Extent, Layout, Operation, Operations, Own, OwnSpec, Process};
use machine::WrongValue;
use machine::profile::Figure;
use mm::readahead::Advice;
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;
use std::ops::Range;

/// Bounds of apps.
const APPS: Bounds = Bounds::new(1.0, 1000.0, "apps that somebody has installed");
/// Pages that are needed together: 64 KiB.
const BLOCK: u64 = 16;

/// Of memory and files of an app in MiB, of which each app keeps an order of its own.
const OF_PHONES: Bounds = Bounds::new(1.0, 16_384.0, "16 GiB, as much as a phone has for all apps");

crate::keys! {
    /// Apps that are opened in turn.
    pub struct AppLaunches {
        /// Number of apps, each a process of its own.
        pub apps: u32 => APPS,
        /// How often each app is opened.
        pub rounds: u64 => TIMES,
        /// Time from the start of one launch to that of the next, in milliseconds.
        pub interval_milliseconds: u64 => MILLISECONDS,
        /// Memory of an app in MiB.
        pub memory_mib: u64 => OF_PHONES,
        /// Code and resources of an app in MiB, which it maps.
        pub file_mib: u64 => OF_PHONES,
        /// Code and resources in MiB that all apps map.
        pub framework_mib: u64 => OF_PHONES,
        /// The part of memory and files that each launch of an app needs, 0 to 1.
        pub needed_share: Figure => SHARE,
        /// The part that a launch needs besides, other pages each time.
        pub other_share: Figure => SHARE,
        /// Of accesses to memory, those that store, 0 to 1.
        pub write_share: Figure => SHARE,
        /// CPU time for each page that a launch accesses, in nanoseconds.
        pub compute_ns: Figure => SOME_NANOSECONDS,
    }
}

impl AppLaunches {
    pub(crate) fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
        vec![
            ("needed_share".into(), &mut self.needed_share),
            ("other_share".into(), &mut self.other_share),
            ("write_share".into(), &mut self.write_share),
            ("compute_ns".into(), &mut self.compute_ns),
        ]
    }

    /// The lengths in pages of an app's areas: its memory, the framework, its own file.
    fn areas(&self) -> [u64; 3] {
        [self.memory_mib, self.framework_mib, self.file_mib].map(|mib| mib * MIB_PAGES)
    }
}

impl OwnSpec for AppLaunches {
    fn start(&self, _seed: u64, random: &dyn Fn(u64) -> Pcg64Mcg) -> Result<Own, WrongValue> {
        let [memory, framework, own] = self.areas();
        let file = |pages| File { pages, advice: Advice::Normal, descriptor: Descriptor::Shared, new: false };
        let files = std::iter::once(framework).chain((0..self.apps).map(|_| own)).map(file).collect();
        let process =
            |app| Process { areas: vec![memory], mapped_files: vec![0, 1 + app], ..Process::default() };
        let layout = Layout {
            processes: (0..self.apps).map(process).collect(),
            files,
            threads: (0..self.apps).map(Thread::of).collect(),
            stays: true,
            ..Layout::default()
        };
        let app = |number| App::new(self, random(u64::from(number)));
        let operations = Launches {
            apps: (0..self.apps).map(app).collect(),
            places: Vec::new(),
            random: random(u64::from(self.apps)),
            spec: self.clone(),
        };
        Ok(Own { layout, operations: Box::new(operations) })
    }
}

/// Blocks of an area.
struct Blocks {
    area: u32,
    /// All of them in an order of the app's own; those that each launch needs come first.
    order: Vec<u64>,
    needed: usize,
    /// How many a launch needs besides.
    other: usize,
}

struct App {
    random: Pcg64Mcg,
    areas: Vec<Blocks>,
    /// Launches begun.
    launches: u64,
    /// What is left of the launch under way.
    left: VecDeque<Operation>,
}

impl App {
    fn new(spec: &AppLaunches, mut random: Pcg64Mcg) -> App {
        let blocks = |(area, pages): (u32, u64)| {
            let mut order: Vec<u64> = (0..pages / BLOCK).collect();
            order.shuffle(&mut random);
            let part = |share: &Figure| (share.value * order.len() as f64).round() as usize;
            let needed = part(&spec.needed_share);
            let other = part(&spec.other_share).min(order.len() - needed);
            Blocks { area, order, needed, other }
        };
        let areas = (0..).zip(spec.areas()).map(blocks).collect();
        App { random, areas, launches: 0, left: VecDeque::new() }
    }

    /// The accesses of a launch, in random order.
    fn accesses(&mut self, spec: &AppLaunches) -> Vec<Operation> {
        let mut accesses = Vec::new();
        for Blocks { area, order, needed, other } in &mut self.areas {
            let (always, rest) = order.split_at_mut(*needed);
            let (drawn, _) = rest.partial_shuffle(&mut self.random, *other);
            for &mut block in always.iter_mut().chain(drawn) {
                let write = *area == 0 && self.random.random_bool(spec.write_share.value);
                accesses.push(access(*area, block * BLOCK..(block + 1) * BLOCK, write));
            }
        }
        accesses.shuffle(&mut self.random);
        accesses
    }

    /// Begins a launch at this time after the start.
    fn launch(&mut self, spec: &AppLaunches, nanoseconds_after: u64) {
        self.left.push_back(Operation::SleepUntil { nanoseconds: nanoseconds_after });
        self.left.push_back(Operation::TransactionBegin);
        if self.launches == 0 {
            let [memory, ..] = spec.areas();
            self.left.push_back(store(0..memory));
        }
        let compute = Operation::Compute { nanoseconds: BLOCK * nanoseconds(&spec.compute_ns) };
        let accesses = self.accesses(spec);
        self.left.extend(accesses.into_iter().flat_map(|access| [access, compute]));
        self.left.push_back(Operation::TransactionEnd);
        self.launches += 1;
    }
}

fn access(area: u32, pages: Range<u64>, write: bool) -> Operation {
    let (first, pages) = (pages.start, pages.end - pages.start);
    Operation::Access { area, first, pages, write, extent: Extent::Nothing }
}

/// Stores to pages of an app's memory.
fn store(pages: Range<u64>) -> Operation {
    let write = true;
    access(0, pages, write)
}

/// All apps, running.
struct Launches {
    spec: AppLaunches,
    apps: Vec<App>,
    /// By round, the place of each app in it.
    places: Vec<Vec<u32>>,
    random: Pcg64Mcg,
}

impl Launches {
    /// The place of an app in a round.
    fn place(&mut self, round: u64, app: usize) -> u32 {
        while self.places.len() as u64 <= round {
            let mut places: Vec<u32> = (0..self.spec.apps).collect();
            places.shuffle(&mut self.random);
            self.places.push(places);
        }
        self.places[round as usize][app]
    }
}

impl Operations for Launches {
    fn next(&mut self, thread: usize, _now: u64) -> Option<Operation> {
        if self.apps[thread].left.is_empty() {
            let round = self.apps[thread].launches;
            if round == self.spec.rounds {
                return None;
            }
            let before = round * u64::from(self.spec.apps) + u64::from(self.place(round, thread));
            let nanoseconds = before * self.spec.interval_milliseconds * 1_000_000;
            self.apps[thread].launch(&self.spec, nanoseconds);
        }
        self.apps[thread].left.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Value;
    use rand::SeedableRng;
    use std::collections::BTreeSet;

    fn spec() -> AppLaunches {
        toml::from_str(
            "apps = 3\nrounds = 4\ninterval_milliseconds = 10\nmemory_mib = 2\nfile_mib = 1\nframework_mib = 1\n\
             needed_share = { value = 0.5, source = 'made up' }\nother_share = { value = 0.25, source = 'made up' }\n\
             write_share = { value = 0.5, source = 'made up' }\ncompute_ns = { value = 100.0, source = 'made up' }",
        )
        .unwrap()
    }

    /// The operations of an app, launch by launch.
    fn launches(operations: &mut dyn Operations, app: usize) -> Vec<Vec<Operation>> {
        let all: Vec<Operation> = std::iter::from_fn(|| operations.next(app, 0)).collect();
        all.split_inclusive(|operation| *operation == Operation::TransactionEnd).map(<[_]>::to_vec).collect()
    }

    fn blocks(launch: &[Operation]) -> BTreeSet<(u32, u64)> {
        let block = |operation: &Operation| match *operation {
            Operation::Access { area, first, pages: BLOCK, .. } => Some((area, first)),
            _ => None,
        };
        launch.iter().filter_map(block).collect()
    }

    #[test]
    fn every_launch_needs_the_same_half_and_another_quarter() {
        let spec = spec();
        assert!(spec.check_bounds("").is_ok());
        let mut own = spec.start(1, &|stream| Pcg64Mcg::seed_from_u64(stream)).unwrap();
        let launches = launches(&mut *own.operations, 1);
        assert_eq!(launches.len(), 4);
        let needed: Vec<BTreeSet<(u32, u64)>> = launches.iter().map(|launch| blocks(launch)).collect();
        // 32, 16 and 16 blocks in the three areas.
        assert!(needed.iter().all(|blocks| blocks.len() == 48), "{needed:?}");
        let always = needed.iter().skip(1).fold(needed[0].clone(), |all, blocks| &all & blocks);
        assert!((32..40).contains(&always.len()), "{}", always.len());
        // The first one stores to all memory.
        let all = |launch: &[Operation]| launch.contains(&store(0..512));
        assert!(all(&launches[0]) && !all(&launches[1]));
    }

    #[test]
    fn apps_take_turns() {
        let mut own = spec().start(1, &|stream| Pcg64Mcg::seed_from_u64(stream)).unwrap();
        let start = |launch: &Vec<Operation>| match launch[0] {
            Operation::SleepUntil { nanoseconds } => nanoseconds / 10_000_000,
            _ => panic!("a launch begins with waiting"),
        };
        let mut starts: Vec<u64> =
            (0..3).flat_map(|app| launches(&mut *own.operations, app)).map(|launch| start(&launch)).collect();
        starts.sort_unstable();
        assert_eq!(starts, (0..12).collect::<Vec<_>>());
    }
}
