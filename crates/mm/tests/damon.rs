//! DAMON_RECLAIM on a machine with a process that goes on using a part of its memory, and how it stops.

use machine::{Costs, Cpu, Machine, Node, Time, Topology};
use mm::address_space::{Backing, MmId, VmFlags};
use mm::damon::Idle;
use mm::memcontrol::Memcg;
use mm::memory_map::MemoryRange;
use mm::{Category, Event, MemoryManager, Series, Settings, ZoneType};
use rand_pcg::Pcg64Mcg;

const CPU: Cpu = Cpu(0);
/// Pages of memory.
const MEMORY: u64 = 100_000;
/// Pages that the process has stored to.
const PAGES: u64 = 65_000;
/// Of these, the first that it goes on loading.
const HOT: u64 = 8_000;

struct Watched {
    machine: Machine<Category>,
    mm: MemoryManager,
    process: MmId,
    start: u64,
}

impl Watched {
    /// A machine with so much swap that 35 % of its memory is free.
    fn new(variant: &str, settings: &[(&str, &str)]) -> Watched {
        let topology = Topology::of_nodes(1, 2);
        let range = MemoryRange::all_free(Node(0), ZoneType::Normal, 1 << 20..(1 << 20) + MEMORY as u32);
        let mut own = Settings::default();
        for (name, value) in [("transparent_hugepage/enabled", "never")].iter().chain(settings) {
            own.set(name, value).unwrap();
        }
        let features = Series::PCP.variant(variant).unwrap().features;
        let mut mm = MemoryManager::new(&topology, &[range], features, own, Pcg64Mcg::new(1));
        let mut machine = Machine::new(topology, Costs::FREE);
        mm.parts.swap.swapon(MEMORY, Some(Time::ZERO));
        let process = mm.parts.create_mm(Memcg::ROOT);
        let start = mm.enter(&mut machine, CPU).mmap(process, PAGES, Backing::Anonymous, VmFlags::PRIVATE);
        let mut watched = Watched { machine, mm, process, start };
        (0..PAGES).for_each(|page| watched.touch(page, true));
        watched.mm.enter(&mut watched.machine, CPU).lru_add_drain_all();
        watched
    }

    fn touch(&mut self, page: u64, write: bool) {
        self.mm.enter(&mut self.machine, CPU).touch(self.process, self.start + page, write).unwrap();
        self.mm.parts.end_swap_reads();
    }

    /// Lets so many seconds pass, in which the process loads its hot pages every millisecond.
    fn pass(&mut self, seconds: u64) {
        let end = self.machine.now(CPU) + Time::from_nanoseconds(seconds * 1_000_000_000);
        while self.machine.now(CPU) < end {
            for page in (0..HOT).step_by(4) {
                self.touch(page, false);
            }
            while self.mm.kdamond_due() <= self.machine.now(CPU) {
                while self.mm.enter(&mut self.machine, CPU).kdamond() {}
            }
            let next = self.machine.now(CPU) + Time::from_nanoseconds(1_000_000);
            self.machine.idle_until(CPU, next);
        }
    }

    /// How many of the process's pages are in memory: of those that it uses, and of the others.
    fn resident(&self) -> (u64, u64) {
        let is_resident = |&page: &u64| self.mm.parts.is_resident(self.process, self.start + page);
        let count = |pages: std::ops::Range<u64>| pages.filter(is_resident).count() as u64;
        (count(0..HOT), count(HOT..PAGES))
    }

    fn count(&self, event: Event) -> u64 {
        self.mm.counters().get(event)
    }
}

const AFTER_TWO_SECONDS: [(&str, &str); 2] =
    [("damon_reclaim.enabled", "1"), ("damon_reclaim.min_age", "2000000")];

#[test]
fn what_is_used_stays_and_what_is_not_is_paged_out() {
    for variant in ["mainline-6.1", "mainline-6.18"] {
        let mut watched = Watched::new(variant, &AFTER_TWO_SECONDS);
        watched.pass(20);
        let (used, unused) = watched.resident();
        assert!(used > HOT * 99 / 100, "{variant}: {used} of {HOT} pages in use are in memory");
        assert!(unused < (PAGES - HOT) * 9 / 10, "{variant}: {unused} others are");
        let paged_out = watched.count(Event::DamonReclaimReclaimedBytes) / 4096;
        assert!(paged_out >= PAGES - HOT - unused, "{variant}: {paged_out}");
        watched.mm.validate(0);
    }
}

#[test]
fn a_lost_scheme_watches_and_pages_nothing_out() {
    let mut watched = Watched::new("mainline-6.12", &AFTER_TWO_SECONDS);
    watched.pass(10);
    assert_eq!((watched.resident(), watched.count(Event::DamonReclaimTriedRegions)), ((HOT, PAGES - HOT), 0));
    assert_eq!(watched.mm.why_kdamond_is_idle(), Some(Idle::SchemeLost));
}

#[test]
fn parameters_that_do_not_fit_together_leave_it_off() {
    for (name, value) in [("damon_reclaim.sample_interval", "100001"), ("damon_reclaim.max_nr_regions", "9")]
    {
        let mut watched = Watched::new("mainline-6.18", &[("damon_reclaim.enabled", "1"), (name, value)]);
        watched.pass(1);
        assert_eq!(watched.mm.kdamond_due(), Time::NEVER, "{name}");
        assert_eq!(watched.mm.why_kdamond_is_idle(), Some(Idle::Refused), "{name}");
    }
}

#[test]
fn it_waits_for_the_age_that_is_asked_for() {
    let mut watched = Watched::new("mainline-6.18", &AFTER_TWO_SECONDS);
    watched.pass(2);
    assert_eq!(watched.count(Event::DamonReclaimTriedRegions), 0, "nothing is two seconds old");
    watched.pass(2);
    assert!(watched.count(Event::DamonReclaimTriedRegions) > 0);
}

#[test]
fn it_works_only_between_the_marks() {
    // 350 of 1000 pages are free.
    for (mark, value) in [("damon_reclaim.wmarks_high", "340"), ("damon_reclaim.wmarks_low", "360")] {
        let mut settings = AFTER_TWO_SECONDS.to_vec();
        settings.extend([(mark, value), ("damon_reclaim.wmarks_mid", "340")]);
        let mut watched = Watched::new("mainline-6.18", &settings);
        watched.pass(12);
        assert_eq!(watched.count(Event::DamonReclaimTriedRegions), 0, "{mark} = {value}");
        assert_eq!(watched.mm.why_kdamond_is_idle(), Some(Idle::OutsideMarks));
    }
}

#[test]
fn the_quota_bounds_what_is_tried_in_a_window() {
    let mut settings = AFTER_TWO_SECONDS.to_vec();
    settings.extend([("damon_reclaim.quota_ms", "0"), ("damon_reclaim.quota_sz", "1048576")]);
    let mut watched = Watched::new("mainline-6.18", &settings);
    watched.pass(4);
    let mut before = watched.count(Event::DamonReclaimTriedBytes);
    for second in 0..6 {
        watched.pass(1);
        let now = watched.count(Event::DamonReclaimTriedBytes);
        assert!(now - before <= 2 << 20, "second {second}: {} bytes", now - before);
        before = now;
    }
    assert!(watched.count(Event::DamonReclaimQuotaExceeds) > 3);
}

#[test]
fn switched_off_it_forgets_what_it_has_seen() {
    let mut watched = Watched::new("mainline-6.18", &AFTER_TWO_SECONDS);
    watched.pass(6);
    watched.mm.set("damon_reclaim.enabled", "0").unwrap();
    assert_eq!(watched.mm.kdamond_due(), Time::NEVER);
    let tried = watched.count(Event::DamonReclaimTriedRegions);
    watched.pass(3);
    assert_eq!(watched.count(Event::DamonReclaimTriedRegions), tried);
    watched.mm.set("damon_reclaim.enabled", "1").unwrap();
    watched.pass(1);
    assert_eq!(watched.count(Event::DamonReclaimTriedRegions), tried, "all is as young as when it began");
}

#[test]
fn the_same_seed_pages_out_the_same_pages() {
    let run = || {
        let mut watched = Watched::new("mainline-6.18", &AFTER_TWO_SECONDS);
        watched.pass(6);
        (watched.resident(), watched.count(Event::DamonReclaimTriedBytes))
    };
    assert_eq!(run(), run());
}
