//! Memory tiers: what reclaim of a fast node migrates to a slow one, and that it evicts nothing.

mod reclaim_machine;

use machine::{Cpu, Machine, Node};
use mm::address_space::{Backing, MmId, VmFlags, Vpn};
use mm::memcontrol::Memcg;
use mm::{Category, Event, MemoryManager, MigrateType, Placement, Request, Series};

const CPU: Cpu = Cpu(0);
const FAST: Node = Node(0);
/// Pages of the process. The fast node has 5500 pages, the slow one 3000.
const PAGES: u64 = 5000;
/// Pages of the fast node that others allocate and keep.
const WANTED: u64 = 1500;
/// The first pages of the process, which are used again and again.
const HOT: u64 = 1000;

struct Host {
    machine: Machine<Category>,
    mm: MemoryManager,
    process: MmId,
    start: Vpn,
    /// A request for one of the pages that others allocate.
    request: Request,
    got: u64,
    free_after_kswapd: i64,
    /// How many of the hot and of the cold pages were on the fast node when others had half of their pages.
    fast_halfway: [u64; 2],
}

impl Host {
    /// A process on a machine without swap that has stored to all of its memory. Then others allocate on the
    /// fast node, and the kswapds do what they can.
    fn new(variant: &str, settings: &[(&str, &str)]) -> Host {
        let variant = Series::NUMA.variant(variant).unwrap();
        let (mut machine, mut mm) = reclaim_machine::boot_with_cpus_on(1, variant);
        for (name, value) in settings {
            mm.set(name, value).unwrap();
        }
        let process = mm.parts.create_mm(Memcg::ROOT);
        let start = mm.enter(&mut machine, CPU).mmap(process, PAGES, Backing::Anonymous, VmFlags::PRIVATE);
        let request = Request::new(0, MigrateType::Unmovable, Placement::Bind(FAST));
        let mut host =
            Host { machine, mm, process, start, request, got: 0, free_after_kswapd: 0, fast_halfway: [0; 2] };
        (0..PAGES).for_each(|page| host.touch(page));
        for page in 0..WANTED {
            if page == WANTED / 2 {
                host.fast_halfway = [host.fast(0..HOT), host.fast(HOT..PAGES)];
            }
            if page % 32 == 0 {
                (0..HOT).for_each(|page| host.touch(page));
            }
            host.got += u64::from(host.mm.enter(&mut host.machine, CPU).alloc(&host.request).is_some());
            for node in [0, 1] {
                if let Some(mut kswapd) = host.mm.enter(&mut host.machine, CPU).start_kswapd(Node(node)) {
                    while kswapd.step(&mut host.mm.enter(&mut host.machine, CPU)) {}
                    host.free_after_kswapd = host.free();
                }
            }
        }
        host.mm.validate(host.got);
        host
    }

    fn touch(&mut self, page: u64) {
        self.mm.enter(&mut self.machine, CPU).touch(self.process, self.start + page, true).unwrap();
    }

    fn count(&self, event: Event) -> u64 {
        self.mm.counters().get(event)
    }

    /// Free pages of the fast node.
    fn free(&self) -> i64 {
        self.mm
            .parts
            .allocator
            .zones()
            .iter()
            .filter(|zone| zone.node == FAST)
            .map(|zone| zone.free_pages())
            .sum()
    }

    /// How many of `pages` are on the fast node.
    fn fast(&self, pages: std::ops::Range<u64>) -> u64 {
        self.mm.parts.pages_by_node(self.process, self.start + pages.start..self.start + pages.end)[0]
    }
}

#[test]
fn cold_pages_of_fast_memory_go_to_slow_memory() {
    for lru in ["0", "7"] {
        let settings = [("numa/demotion_enabled", "1"), ("lru_gen/enabled", lru)];
        let host = Host::new("numa-6.12", &settings);
        let demoted = host.count(Event::PgdemoteKswapd) + host.count(Event::PgdemoteDirect);
        assert_eq!(host.got, WANTED);
        assert_eq!(demoted, PAGES - host.fast(0..PAGES), "all pages on the slow node");
        assert_eq!(host.count(Event::PgstealAnon), demoted, "demoted pages count as reclaimed");
        assert_eq!(
            (host.mm.parts.address_spaces.mm(host.process).rss(), host.count(Event::Pgfault)),
            (PAGES, PAGES)
        );
        // A kswapd that has just cleared accessed bits cannot tell hot pages from cold ones, so only the
        // second half counts.
        let (hot, cold) =
            (host.fast_halfway[0] - host.fast(0..HOT), host.fast_halfway[1] - host.fast(HOT..PAGES));
        assert!(hot < cold / 20, "lru_gen {lru}: {hot} hot pages moved, {cold} cold ones");
    }
}

#[test]
fn without_the_setting_nothing_moves() {
    let host = Host::new("numa-6.12", &[]);
    assert!(host.got < WANTED, "{} of {WANTED} without swap", host.got);
    assert_eq!(host.fast(0..PAGES), PAGES);
}

#[test]
fn tiering_keeps_room_for_what_is_promoted() {
    let free = |mode| {
        // Watermarks that are further apart than a batch.
        let settings = [
            ("numa/demotion_enabled", "1"),
            ("kernel.numa_balancing", mode),
            ("vm.watermark_scale_factor", "300"),
        ];
        Host::new("numa-6.12", &settings).free_after_kswapd
    };
    let (plain, tiered) = (free("1"), free("2"));
    assert!(tiered > plain, "{plain} free, {tiered} with tiers");
}

#[test]
fn what_finds_no_room_below_stays() {
    let mut host = Host::new("numa-6.12", &[("numa/demotion_enabled", "1")]);
    // Others allocate as many pages as the slow node has left, and more on the fast one.
    let (fast, slow) = (host.request, Request { placement: Placement::Bind(Node(1)), ..host.request });
    for request in [slow, fast] {
        while host.mm.enter(&mut host.machine, CPU).alloc(&request).is_some() {
            host.got += 1;
        }
    }
    assert_eq!(host.mm.parts.address_spaces.mm(host.process).rss(), PAGES, "nothing is lost");
    host.mm.validate(host.got);
}
