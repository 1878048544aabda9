//! Invariants of NUMA balancing while threads on two nodes use memory, are scanned and take hint faults.

mod reclaim_machine;

use machine::{Costs, Cpu, Machine, Node, PageSize, Topology};
use mm::address_space::{Backing, MmId, Pte, VmFlags, Vpn};
use mm::memcontrol::Memcg;
use mm::memory::Touch;
use mm::numa::features::AccessingPids;
use mm::numa::heat::VmaHeat;
use mm::numa::migrate::policy::{Mempolicy, Mode, Nodes};
use mm::numa::placement::TaskId;
use mm::numa::scan::policy::{SkipReason, pid_bit};
use mm::watermark::Mark;
use mm::{Category, Event, MemoryManager, MigrateType, Placement, Request, Series};
use proptest::prelude::*;
use reclaim_machine::{CPUS, boot};

const PAGES: u64 = 1500;

struct Threads {
    machine: Machine<Category>,
    mm: MemoryManager,
    space: MmId,
    start: Vpn,
    tasks: Vec<TaskId>,
}

/// A process with a thread on each CPU, scanned as often as settings allow.
fn start(variant: &str) -> Threads {
    let (mut machine, mut mm) = boot(Series::NUMA.variant(variant).unwrap());
    for (name, value) in [
        ("numa_balancing/scan_delay_ms", "8"),
        ("numa_balancing/scan_period_min_ms", "8"),
        ("numa_balancing/scan_period_max_ms", "64"),
        ("numa_balancing/scan_size_mb", "2"),
    ] {
        mm.set(name, value).unwrap();
    }
    let space = mm.parts.create_mm(Memcg::ROOT);
    let mut tasks: Vec<TaskId> = Vec::new();
    for cpu in 0..CPUS {
        let now = machine.now(Cpu(cpu));
        let task =
            mm.enter(&mut machine, Cpu(0)).add_task(now, space, 100 + u32::from(cpu), tasks.first().copied());
        mm.enter(&mut machine, Cpu(cpu)).switch_task(Some(task));
        tasks.push(task);
    }
    let start = mm.enter(&mut machine, Cpu(0)).mmap(space, PAGES, Backing::Anonymous, VmFlags::PRIVATE);
    Threads { machine, mm, space, start, tasks }
}

impl Threads {
    fn touch(&mut self, cpu: u16, page: u64, write: bool) {
        self.mm.enter(&mut self.machine, Cpu(cpu)).touch(self.space, self.start + page, write).unwrap();
        let entry = self.mm.parts.address_spaces.pte(self.space, self.start + page);
        assert!(entry.lets(write) || entry == Pte::ZERO && !write, "the PTE allows it");
    }

    fn tick(&mut self, cpu: u16, ms: u64) {
        let until = self.machine.now(Cpu(cpu)) + machine::Time::from_nanoseconds(ms * 1_000_000);
        for other in 0..CPUS {
            self.machine.wait_until(Cpu(other), Category::Program, until);
        }
        self.mm.enter(&mut self.machine, Cpu(cpu)).numa_tick();
    }

    fn count(&self, event: Event) -> u64 {
        self.mm.counters().get(event)
    }

    /// Panics unless every PTE, accessible or PROT_NONE, agrees with its folio and the node it is on.
    fn validate(&self) {
        self.mm.validate(0);
        let faults = self.count(Event::NumaHintFaults);
        let local = self.count(Event::NumaHintFaultsLocal);
        let migrated = self.count(Event::NumaPagesMigrated);
        assert!(faults <= self.count(Event::NumaPteUpdates), "each entry is restored once");
        assert!(local <= faults && migrated <= faults - local, "pages of local faults do not migrate");
        assert_eq!(self.count(Event::PgmigrateSuccess), migrated);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Touch(u16, u64, bool),
    Sweep(u16, u64, u64),
    Tick(u16, u64),
    Protect(u64, u64, bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let cpu = 0..CPUS;
    let step = prop_oneof![
        4 => (cpu.clone(), 0..PAGES, any::<bool>()).prop_map(|(cpu, page, write)| Step::Touch(cpu, page, write)),
        4 => (cpu.clone(), 0..PAGES, 1..PAGES).prop_map(|(cpu, from, pages)| Step::Sweep(cpu, from, pages)),
        6 => (cpu, 1..40u64).prop_map(|(cpu, ms)| Step::Tick(cpu, ms)),
        1 => (0..PAGES, 1..200u64, any::<bool>()).prop_map(|(from, pages, exec)| Step::Protect(from, pages, exec)),
    ];
    prop::collection::vec(step, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn pages_and_counters_add_up(steps in steps(), variant in 0..12usize) {
        let names = ["numa-base", "vma-scanning-1", "vma-scanning-2", "vma-scanning-3", "vma-scanning-4", "partial-vmas-4", "partial-vmas-5", "partial-vmas-6", "numa-6.8", "numa-6.12", "numa-6.12.117", "numa-6.19"];
        let mut threads = start(names[variant]);
        for step in steps {
            match step {
                Step::Touch(cpu, page, write) => threads.touch(cpu, page, write),
                Step::Sweep(cpu, from, pages) => {
                    (from..(from + pages).min(PAGES)).for_each(|page| threads.touch(cpu, page, true));
                }
                Step::Tick(cpu, ms) => threads.tick(cpu, ms),
                Step::Protect(from, pages, exec) => {
                    let rights = if exec { VmFlags::PRIVATE.or(VmFlags::EXEC) } else { VmFlags::PRIVATE };
                    let start = threads.start + from;
                    threads.mm.parts.mprotect(threads.space, start..start + pages.min(PAGES - from), rights);
                }
            }
            threads.validate();
        }
        let (space, mut machine) = (threads.space, threads.machine);
        for &task in &threads.tasks {
            threads.mm.parts.exit_task(task);
        }
        threads.mm.enter(&mut machine, Cpu(0)).exit_mm(space);
        threads.mm.validate(0);
    }

    /// Touching pages in bulk is the same as touching them one by one.
    #[test]
    fn a_sweep_is_many_touches(steps in steps()) {
        let (mut swept, mut touched) = (start("numa-6.12"), start("numa-6.12"));
        for step in steps {
            let (cpu, from, pages) = match step {
                Step::Sweep(cpu, from, pages) => (cpu, from, pages),
                Step::Touch(cpu, page, _) => (cpu, page, 1),
                Step::Tick(cpu, ms) => {
                    swept.tick(cpu, ms);
                    touched.tick(cpu, ms);
                    continue;
                }
                Step::Protect(..) => continue,
            };
            let end = (from + pages).min(PAGES);
            (from..end).for_each(|page| touched.touch(cpu, page, true));
            let (mut at, mut by_node) = (swept.start + from, [0; 2]);
            while at < swept.start + end {
                let pages = at..swept.start + end;
                let Threads { machine, mm, space, .. } = &mut swept;
                let next = mm.parts.sweep(machine, Cpu(cpu), *space, pages, true, &mut by_node);
                if next == at {
                    swept.mm.enter(&mut swept.machine, Cpu(cpu)).touch(swept.space, at, true).unwrap();
                }
                at = next;
            }
            prop_assert_eq!(by_node.iter().sum::<u64>(), end - from, "each page was touched");
            prop_assert_eq!(swept.mm.counters(), touched.mm.counters());
        }
        swept.validate();
    }
}

#[test]
fn memory_follows_a_thread_that_moves() {
    let mut threads = start("numa-base");
    let pages = 600;
    (0..pages).for_each(|page| threads.touch(0, page, true));
    // A page in a CPU's folio batch cannot be migrated: the pages of others drain the batch.
    (pages..PAGES).for_each(|page| threads.touch(0, page, true));
    for _ in 0..200 {
        threads.tick(2, 8);
        (0..pages).for_each(|page| threads.touch(2, page, true));
        threads.validate();
    }
    assert!(threads.count(Event::NumaPagesMigrated) >= pages, "{}", threads.count(Event::NumaPagesMigrated));
    assert_eq!(threads.mm.parts.numa.tasks.get(threads.tasks[2]).preferred, Some(Node(1)));
}

/// Until 6.1 a page may be written as soon as it has migrated. Since then the first store takes another fault, at once if it
/// was a store that made the page migrate.
#[test]
fn the_first_store_to_a_page_that_has_migrated_faults_from_6_2_on() {
    let cases = [
        ("mainline-6.1", true, [1, 0]),
        ("mainline-6.1", false, [1, 0]),
        ("numa-base", true, [2, 0]),
        ("numa-base", false, [1, 1]),
    ];
    for (variant, stores, expected) in cases {
        let mut threads = start(variant);
        (0..PAGES).for_each(|page| threads.touch(0, page, true));
        while threads.mm.parts.address_spaces.pte(threads.space, threads.start).lets(true) {
            threads.tick(2, 8);
        }
        let faults = [stores, true].map(|write| {
            let before = threads.count(Event::Pgfault);
            threads.touch(2, 0, write);
            threads.count(Event::Pgfault) - before
        });
        assert_eq!(threads.count(Event::NumaPagesMigrated), 1, "{variant}");
        assert_eq!(faults, expected, "{variant}, stores: {stores}");
        threads.validate();
    }
}

/// Two threads of two nodes fault on a page at the same time: it migrates for the one, and the other is seen
/// to share it.
#[test]
fn a_fault_at_the_same_time_shows_who_shares_a_page() {
    for (earlier, grouped) in [(true, true), (false, false)] {
        let mut threads = start("numa-6.12");
        let hint_fault = machine::Time::from_nanoseconds(1000);
        threads.machine.costs.numa =
            Some(machine::NumaCosts { hint_fault, page_migrate: hint_fault * 4, ..machine::NumaCosts::FREE });
        (0..PAGES).for_each(|page| threads.touch(0, page, true));
        while threads.mm.parts.address_spaces.pte(threads.space, threads.start).lets(true) {
            threads.tick(2, 8);
        }
        let began = threads.machine.now(Cpu(2));
        threads.touch(2, 0, true);
        let before = threads.count(Event::NumaHintFaults);
        threads.machine.wait_until(Cpu(1), Category::Program, began);
        let late = if earlier { hint_fault } else { hint_fault * 4 };
        threads.machine.charge(Cpu(1), Category::Program, late);
        let (space, page) = (threads.space, threads.start);
        assert!(threads.mm.enter(&mut threads.machine, Cpu(1)).wait_for_hint_fault(space, page));
        assert_eq!(threads.count(Event::NumaHintFaults) - before, u64::from(earlier));
        assert_eq!(threads.mm.parts.numa.tasks.group(threads.tasks[1]).is_some(), grouped);
        let record = threads.mm.parts.address_spaces.mm(space).vmas.numab(page).expect("it was scanned");
        let bit = pid_bit(AccessingPids::TwoWindowsHashed, 101);
        assert_eq!(record.pids[1] & bit != 0, earlier, "the access is recorded in the VMA");
        assert!(
            !threads.mm.enter(&mut threads.machine, Cpu(1)).wait_for_hint_fault(space, page),
            "it is over"
        );
    }
}

/// If CPUs take turns on a core, another thread meets a page in migration if the turn of the migrating CPU
/// has ended meanwhile, and until its next turn; not if the migration was done within one turn.
#[test]
fn a_page_that_moves_is_found_where_a_turn_has_ended() {
    let millisecond = machine::Time::from_nanoseconds(1_000_000);
    for (before_the_end, later, found) in [(500, 100, true), (500, 2000, false), (900, 0, false)] {
        let mut threads = start("numa-6.12");
        let half = machine::TurnShares { busy: vec![Cpu(0), Cpu(1)], shares: vec![0.5, 0.5] };
        let topology = Topology { turn_shares: vec![half], ..threads.machine.topology.clone() };
        threads.machine = Machine::new(topology, threads.machine.costs.clone());
        let microsecond = machine::Time::from_nanoseconds(1000);
        let costs = machine::NumaCosts { hint_fault: microsecond, ..machine::NumaCosts::FREE };
        // Four CPUs take turns: a fault with its migration takes between 0.5 and 0.9 ms.
        threads.machine.costs.numa = Some(machine::NumaCosts { page_migrate: microsecond * 150, ..costs });
        (0..PAGES).for_each(|page| threads.touch(0, page, true));
        while threads.mm.parts.address_spaces.pte(threads.space, threads.start).lets(true) {
            threads.tick(2, 8);
        }
        (0..CPUS).for_each(|cpu| threads.machine.set_busy(Cpu(cpu)));
        let rounds = threads.machine.now(Cpu(2)).picoseconds() / millisecond.picoseconds() + 2;
        let began = millisecond * rounds - microsecond * before_the_end;
        threads.machine.wait_until(Cpu(2), Category::Program, began);
        threads.touch(2, 0, true);
        assert_eq!(threads.count(Event::NumaPagesMigrated), 1);
        let took = threads.machine.now(Cpu(2)) - began;
        assert!(took > microsecond * 500 && took < microsecond * 900, "{took:?}");
        threads.machine.wait_until(Cpu(1), Category::Program, began + took + microsecond * later);
        let (space, page) = (threads.space, threads.start);
        let waits = threads.mm.enter(&mut threads.machine, Cpu(1)).wait_for_hint_fault(space, page);
        assert_eq!(waits, found, "{before_the_end} {later}");
        assert!(!threads.mm.enter(&mut threads.machine, Cpu(2)).wait_for_hint_fault(space, page), "its own");
    }
}

/// CPU 2 takes a hint fault on the first page, which leaves for its node 20 us after the time returned: a
/// hint fault costs 1 us, a migration 40 us.
fn moving_page(variant: &str) -> (Threads, machine::Time) {
    let mut threads = start(variant);
    let hint_fault = machine::Time::from_nanoseconds(1000);
    let costs = machine::NumaCosts { hint_fault, page_migrate: hint_fault * 40, ..machine::NumaCosts::FREE };
    threads.machine.costs.numa = Some(costs);
    (0..PAGES).for_each(|page| threads.touch(0, page, true));
    while threads.mm.parts.address_spaces.pte(threads.space, threads.start).lets(true) {
        threads.tick(2, 8);
    }
    let began = threads.machine.now(Cpu(2));
    threads.touch(2, 0, true);
    assert_eq!(threads.count(Event::NumaPagesMigrated), 1, "{variant}");
    (threads, began)
}

/// Of several threads that fault on a page while it is being handled, the first one that is on the page's
/// node makes it accessible again; those behind it find the PTE changed and take no hint fault of their own.
#[test]
fn the_first_that_need_not_move_a_page_ends_the_faults_on_it() {
    let (mut threads, began) = moving_page("numa-base");
    let before = (threads.count(Event::NumaHintFaults), threads.count(Event::NumaHintFaultsLocal));
    // CPU 3 is on the node that the page migrates to, CPUs 0 and 1 are on the one that it leaves.
    for cpu in [3, 0, 1] {
        threads.machine.wait_until(Cpu(cpu), Category::Program, began);
        let (space, page) = (threads.space, threads.start);
        assert!(threads.mm.enter(&mut threads.machine, Cpu(cpu)).wait_for_hint_fault(space, page));
    }
    assert_eq!(threads.count(Event::NumaHintFaults) - before.0, 2, "3 and 0");
    assert_eq!(threads.count(Event::NumaHintFaultsLocal) - before.1, 1, "0");
}

/// A thread that faults on a huge page while another one is still clearing it clears one of its own, and
/// frees it again; a later one finds the page mapped.
#[test]
fn who_comes_while_a_huge_page_is_cleared_clears_one_as_well() {
    let nanoseconds = machine::Time::from_nanoseconds;
    let took = nanoseconds(100 * 512);
    for (late, loses) in [(0, true), (51_000, true), (51_200, false)] {
        let mut threads = start("numa-6.12");
        threads.mm.set("transparent_hugepage/enabled", "always").unwrap();
        threads.machine.costs.page_clear = nanoseconds(100);
        let first = threads.start.next_multiple_of(512);
        let began = threads.machine.now(Cpu(0));
        threads.touch(0, first - threads.start, true);
        let free = |threads: &mut Threads| {
            threads.mm.enter(&mut threads.machine, Cpu(0)).drain_all_pages();
            threads.mm.parts.allocator.free_pages()
        };
        let before = (free(&mut threads), threads.count(Event::Pgfault));
        let Threads { machine, mm, space, .. } = &mut threads;
        machine.wait_until(Cpu(1), Category::Program, began + nanoseconds(late));
        let mut by_node = [0; 2];
        let mut sweep = |machine: &Machine<Category>, mm: &mut MemoryManager| {
            mm.parts.sweep(machine, Cpu(1), *space, first..first + 512, true, &mut by_node) - first
        };
        assert_eq!(sweep(machine, mm), if loses { 0 } else { 512 }, "{late}");
        assert!(!mm.enter(machine, Cpu(0)).lose_huge_page(*space, first), "its own page");
        assert_eq!(mm.enter(machine, Cpu(1)).lose_huge_page(*space, first), loses, "{late}");
        let cleared = if loses { took } else { nanoseconds(0) };
        assert_eq!(machine.now(Cpu(1)), began + nanoseconds(late) + cleared, "{late}");
        assert_eq!(sweep(machine, mm), 512, "{late}");
        assert_eq!(threads.count(Event::ThpFaultAlloc), 1, "one huge page is mapped");
        assert_eq!(threads.count(Event::Pgfault), before.1 + u64::from(loses));
        assert_eq!(free(&mut threads), before.0, "{late}");
        threads.validate();
    }
}

/// A thread that faults while a page is about to leave for the thread's own node tries to migrate it too, in
/// vain. 6.12 knows that at once. Before, the thread drops the page table lock for the attempt, and the
/// failure counts only if the page is still mapped when it has the lock again.
#[test]
fn what_was_tried_in_vain_counts_if_the_page_is_still_there() {
    for (variant, late, failed) in [
        ("numa-base", 10_000, 1),
        ("numa-base", 19_800, 0),
        ("numa-6.12", 10_000, 1),
        ("numa-6.12", 19_800, 1),
    ] {
        let (mut threads, began) = moving_page(variant);
        let before = threads.count(Event::NumaHintFaults);
        let come = began + machine::Time::from_nanoseconds(late);
        threads.machine.wait_until(Cpu(3), Category::Program, come);
        let (space, page) = (threads.space, threads.start);
        assert!(threads.mm.enter(&mut threads.machine, Cpu(3)).wait_for_hint_fault(space, page));
        assert_eq!(
            threads.count(Event::NumaHintFaults) - before,
            1,
            "{variant} {late}: it faults in any case"
        );
        let locality = threads.mm.parts.numa.tasks.get(threads.tasks[3]).locality;
        assert_eq!(locality.failed, failed, "{variant} {late}");
    }
}

/// Until 6.9 a page in a CPU's folio batch has an additional reference, so it is not made PROT_NONE. Later
/// kernels do make it PROT_NONE, but it cannot be migrated.
#[test]
fn pages_in_a_batch_are_scanned_from_6_10_on() {
    for (variant, scanned) in [("numa-6.8", false), ("numa-6.12", true)] {
        let mut threads = start(variant);
        // The pages do not fill the last batch, whether it holds 15 or 31.
        let pages = PAGES - 2;
        assert!(!pages.is_multiple_of(15) && !pages.is_multiple_of(31));
        (0..pages).for_each(|page| threads.touch(0, page, true));
        let last = threads.start + pages - 1;
        (0..200).for_each(|_| threads.tick(2, 8));
        assert!(
            !threads.mm.parts.address_spaces.pte(threads.space, threads.start).lets(true),
            "{variant} scans what is on a list"
        );
        assert_eq!(
            !threads.mm.parts.address_spaces.pte(threads.space, last).lets(true),
            scanned,
            "{variant}"
        );
    }
}

/// A process of one thread whose huge page has followed it to node 1, after `before` has done something to
/// its 512 pages.
fn migrated_huge_page(variant: &str, before: impl Fn(&mut Threads, Vpn)) -> (Threads, Vpn) {
    let mut threads = start(variant);
    threads.mm.set("transparent_hugepage/enabled", "always").unwrap();
    let first = threads.start.next_multiple_of(512);
    threads.touch(0, first - threads.start, true);
    before(&mut threads, first);
    // No folio batch of this CPU may hold it.
    threads.mm.enter(&mut threads.machine, Cpu(0)).drain_all_pages();
    for _ in 0..200 {
        threads.tick(2, 8);
        threads.touch(2, first - threads.start, true);
        threads.mm.validate(0);
    }
    assert_ne!(threads.mm.parts.pages_by_node(threads.space, first..first + 1)[1], 0, "{variant} moves it");
    (threads, first)
}

/// A huge page of which only one page is in use may be split when memory runs short. From 7.1 on this holds
/// after a migration too; before, the folio that it was copied to is not on the deferred split queue.
#[test]
fn an_underused_huge_page_that_migrates_is_forgotten_before_7_1() {
    for (variant, split) in
        [("mainline-6.12", 0), ("mainline-6.18", 0), ("mainline-7.0", 0), ("mainline-7.1", 1)]
    {
        let (mut threads, _) = migrated_huge_page(variant, |threads, _| {
            threads.mm.set("transparent_hugepage/khugepaged/max_ptes_none", "100").unwrap();
        });
        let request = Request::new(0, MigrateType::Unmovable, Placement::Bind(Node(1)));
        let taken =
            std::iter::from_fn(|| threads.mm.enter(&mut threads.machine, Cpu(2)).alloc(&request)).count();
        threads.mm.validate(taken as u64);
        assert_eq!(threads.count(Event::ThpUnderusedSplitPage), split, "{variant}");
    }
}

/// From 6.10 on, when hint faults began to migrate large folios that are mapped by PTEs, a huge page that is
/// not mapped whole is split first, and its pages migrate.
#[test]
fn a_huge_page_that_is_not_mapped_whole_is_split_to_migrate() {
    for variant in ["mainline-6.10", "mainline-6.12", "mainline-6.18", "mainline-7.2"] {
        let (threads, first) = migrated_huge_page(variant, |threads, first| {
            let Threads { machine, mm, space, .. } = threads;
            mm.enter(machine, Cpu(0)).madvise_dontneed(*space, first + 100..first + 110);
        });
        assert_eq!(threads.count(Event::ThpDeferredSplitPage), 1, "{variant}");
        assert_eq!(threads.count(Event::ThpSplitPage), 1, "{variant}");
        let by_node = threads.mm.parts.pages_by_node(threads.space, first..first + 512);
        assert!(by_node[0] == 0 && by_node[1] > 0, "{variant}: {by_node:?}");
    }
}

#[test]
fn nothing_is_scanned_when_balancing_is_off() {
    let mut threads = start("numa-6.12");
    threads.mm.set("kernel.numa_balancing", "0").unwrap();
    (0..PAGES).for_each(|page| threads.touch(0, page, true));
    (0..100).for_each(|_| threads.tick(2, 8));
    assert_eq!(threads.count(Event::NumaPteUpdates), 0);
}

/// Trap 11: the fault for a large folio maps pages that nobody uses, and scanning takes them for pages in
/// use.
#[test]
fn scanning_sees_pages_that_a_fault_mapped_and_nobody_touched() {
    let scanned = |sizes: &str| {
        let mut threads = start("mainline-6.18");
        threads.mm.set("thp_anon", sizes).unwrap();
        (0..PAGES / 16).for_each(|window| threads.touch(0, 16 * window, true));
        (0..200).for_each(|_| threads.tick(2, 8));
        threads.validate();
        threads.count(Event::NumaPteUpdates)
    };
    assert_eq!(["2M:never", "64K:always"].map(scanned), [PAGES / 16, PAGES / 16 * 16]);
}

#[test]
fn a_fork_starts_scanning_over_and_a_child_begins_where_the_parent_stopped() {
    let (mut machine, mut mm) = boot(Series::NUMA.variant("numa-6.12").unwrap());
    mm.set("numa_balancing/scan_delay_ms", "8").unwrap();
    mm.set("numa_balancing/scan_size_mb", "1").unwrap();
    let space = mm.parts.create_mm(Memcg::ROOT);
    let now = machine.now(Cpu(0));
    let task = mm.enter(&mut machine, Cpu(0)).add_task(now, space, 100, None);
    let start = mm.enter(&mut machine, Cpu(0)).mmap(space, PAGES, Backing::Anonymous, VmFlags::PRIVATE);
    mm.enter(&mut machine, Cpu(2)).switch_task(Some(task));
    for page in 0..PAGES {
        mm.enter(&mut machine, Cpu(0)).touch(space, start + page, true).unwrap();
    }
    while mm.parts.address_spaces.mm(space).numa_scan.scan_seq == 0
        || mm.parts.address_spaces.mm(space).numa_scan.scan_offset == 0
    {
        let until = machine.now(Cpu(2)) + machine::Time::from_nanoseconds(4_000_000);
        machine.wait_until(Cpu(2), Category::Program, until);
        mm.enter(&mut machine, Cpu(2)).numa_tick();
        assert!(
            until < machine::Time::from_seconds(400.0),
            "{:?}",
            mm.parts.address_spaces.mm(space).numa_scan
        );
    }
    let before = mm.parts.address_spaces.mm(space).numa_scan;
    let child = mm.enter(&mut machine, Cpu(2)).fork_mm(space);
    let (parent, child) =
        (mm.parts.address_spaces.mm(space).numa_scan, mm.parts.address_spaces.mm(child).numa_scan);
    assert_eq!((parent.scan_seq, child.scan_seq), (0, 0));
    assert_eq!((parent.scan_offset, child.scan_offset), (before.scan_offset, before.scan_offset));
    assert_eq!(parent.next_scan, child.next_scan);
    assert!(mm.parts.address_spaces.mm(space).vmas.iter().count() == 1);
}

/// If an address space has a second user, a fork does not restart its scanning, and pages that are on the
/// scanning thread's node are scanned too.
#[test]
fn what_is_done_for_a_process_of_one_thread_ends_with_the_second() {
    for users in [1, 2] {
        let mut threads = start("numa-6.12");
        threads.tasks.drain(users..).for_each(|task| threads.mm.parts.exit_task(task));
        (0..PAGES).for_each(|page| threads.touch(0, page, true));
        (0..100).for_each(|_| threads.tick(0, 8));
        assert_eq!(threads.count(Event::NumaPteUpdates) > 0, users == 2, "all pages are on its node");
        let seq = threads.mm.parts.address_spaces.mm(threads.space).numa_scan.scan_seq;
        assert!(seq > 0);
        threads.mm.enter(&mut threads.machine, Cpu(0)).fork_mm(threads.space);
        let after = threads.mm.parts.address_spaces.mm(threads.space).numa_scan.scan_seq;
        assert_eq!(after, if users == 1 { 0 } else { seq });
    }
}

/// Trap 2: a reader of /proc/PID/smaps or a debugger holds a reference to the mm of a process, which then
/// does not count as single-threaded. The number of threads is the same.
#[test]
fn a_reader_of_proc_counts_as_a_second_thread() {
    for is_read in [false, true] {
        let mut threads = start("numa-6.12");
        threads.tasks.drain(1..).for_each(|task| threads.mm.parts.exit_task(task));
        (0..PAGES).for_each(|page| threads.touch(0, page, true));
        let space = threads.space;
        if is_read {
            threads.mm.parts.address_spaces.mmget(space);
        }
        (0..100).for_each(|_| threads.tick(0, 8));
        assert_eq!(threads.count(Event::NumaPteUpdates) > 0, is_read, "all pages are on its node");
        let before = threads.mm.parts.address_spaces.mm(space).numa_scan;
        assert!(before.scan_seq > 0);
        let child = threads.mm.enter(&mut threads.machine, Cpu(0)).fork_mm(space);
        let [seq, of_child] =
            [space, child].map(|mm| threads.mm.parts.address_spaces.mm(mm).numa_scan.scan_seq);
        assert_eq!([seq, of_child], [if is_read { before.scan_seq } else { 0 }; 2]);
        if is_read {
            threads.mm.parts.address_spaces.mmput(space);
            threads.mm.enter(&mut threads.machine, Cpu(0)).fork_mm(space);
            assert_eq!(threads.mm.parts.address_spaces.mm(space).numa_scan.scan_seq, 0, "after mmput");
        }
    }
}

/// A page that is stored to in place after a fork may belong to somebody else now: its `cpupid` is forgotten,
/// and it follows the next thread at once, where it would take two faults in a row otherwise.
#[test]
fn a_store_in_place_after_a_fork_forgets_who_was_there() {
    for forks in [false, true] {
        let mut threads = start("numa-6.8");
        (0..PAGES).for_each(|page| threads.touch(0, page, true));
        threads.mm.enter(&mut threads.machine, Cpu(0)).lru_add_drain_all();
        let (space, start) = (threads.space, threads.start);
        // A thread of the other node has the page migrated, and is the last one to have touched it.
        let hide = |threads: &mut Threads| {
            while threads.mm.parts.address_spaces.pte(space, start).lets(false) {
                threads.tick(2, 8);
            }
        };
        hide(&mut threads);
        threads.touch(2, 0, false);
        assert_eq!(threads.mm.parts.pages_by_node(space, start..start + 1), [0, 1]);
        threads.mm.enter(&mut threads.machine, Cpu(0)).lru_add_drain_all();
        if forks {
            let child = threads.mm.enter(&mut threads.machine, Cpu(2)).fork_mm(space);
            threads.mm.enter(&mut threads.machine, Cpu(2)).exit_mm(child);
            threads.touch(2, 0, true);
        }
        hide(&mut threads);
        threads.touch(0, 0, false);
        let node = usize::from(!forks);
        assert_eq!(threads.mm.parts.pages_by_node(space, start..start + 1)[node], 1, "forks: {forks}");
    }
}

/// Until 6.9 a file page in a private mapping, to which the page cache has a reference, is not scanned.
#[test]
fn private_pages_of_files_are_scanned_from_6_10_on() {
    for (variant, shared, scanned) in [
        ("numa-6.8", false, false),
        ("numa-6.12", false, true),
        ("numa-6.8", true, true),
        ("numa-6.12", true, true),
    ] {
        let mut threads = start(variant);
        let flags = if shared { VmFlags::PRIVATE.or(VmFlags::SHARED) } else { VmFlags::PRIVATE };
        let (space, file) = (threads.space, threads.mm.parts.page_cache.open_file());
        let first =
            threads.mm.enter(&mut threads.machine, Cpu(0)).mmap(space, 64, Backing::File(file, 0), flags);
        for page in first..first + 64 {
            if let Ok(Touch::ReadFile(id)) =
                threads.mm.enter(&mut threads.machine, Cpu(0)).touch(space, page, false)
            {
                threads.mm.parts.lrus.end_read(id);
                threads.mm.enter(&mut threads.machine, Cpu(0)).touch(space, page, false).unwrap();
            }
        }
        threads.mm.enter(&mut threads.machine, Cpu(0)).lru_add_drain_all();
        (0..20).for_each(|_| threads.tick(2, 8));
        let hidden = (first..first + 64)
            .filter(|&page| threads.mm.parts.address_spaces.pte(space, page).has(Pte::PROT_NONE));
        assert_eq!(hidden.count(), if scanned { 64 } else { 0 }, "{variant}, shared: {shared}");
    }
}

/// A page that several processes map executable is not migrated, as it is in the caches of all nodes, nor is
/// a dirty one. All other file pages follow their users (`migrate_misplaced_folio_prepare`).
#[test]
fn code_that_is_shared_stays_where_it_is() {
    for (may_execute, shared, dirtied, follows) in [
        (false, false, false, true),
        (false, true, false, true),
        (true, false, false, true),
        (true, true, false, false),
        (false, true, true, false),
    ] {
        let mut threads = start("numa-6.12");
        let flags = VmFlags::PRIVATE.or(VmFlags::SHARED);
        let flags = if may_execute { flags.or(VmFlags::EXEC) } else { flags };
        let (space, file) = (threads.space, threads.mm.parts.page_cache.open_file());
        let other = threads.mm.parts.create_mm(Memcg::ROOT);
        let first =
            threads.mm.enter(&mut threads.machine, Cpu(0)).mmap(space, 64, Backing::File(file, 0), flags);
        let again =
            threads.mm.enter(&mut threads.machine, Cpu(0)).mmap(other, 64, Backing::File(file, 0), flags);
        let spaces = if shared { vec![(space, first), (other, again)] } else { vec![(space, first)] };
        for (space, first) in spaces {
            for page in first..first + 64 {
                while let Ok(Touch::ReadFile(id)) =
                    threads.mm.enter(&mut threads.machine, Cpu(0)).touch(space, page, false)
                {
                    threads.mm.parts.lrus.end_read(id);
                }
            }
        }
        threads.mm.enter(&mut threads.machine, Cpu(0)).lru_add_drain_all();
        while !threads.mm.parts.address_spaces.pte(space, first).has(Pte::PROT_NONE) {
            threads.tick(2, 8);
        }
        if dirtied {
            threads.mm.enter(&mut threads.machine, Cpu(0)).touch(other, again, true).unwrap();
        }
        threads.mm.enter(&mut threads.machine, Cpu(2)).touch(space, first, false).unwrap();
        let moved = threads.count(Event::NumaPagesMigrated);
        let of = format!("may be executed: {may_execute}, shared: {shared}, dirtied: {dirtied}");
        assert_eq!(moved, u64::from(follows), "{of}");
    }
}

/// `mprotect` gives PTEs the rights of their VMA, so no hint faults follow that would show who touches them.
#[test]
fn other_rights_end_hint_faults() {
    let mut threads = start("numa-6.12");
    (0..PAGES).for_each(|page| threads.touch(0, page, true));
    let (space, start) = (threads.space, threads.start);
    while threads.mm.parts.address_spaces.pte(space, start).lets(true) {
        threads.tick(2, 8);
    }
    // The same rights again change nothing.
    threads.mm.parts.mprotect(space, start..start + 8, VmFlags::PRIVATE);
    assert!(!threads.mm.parts.address_spaces.pte(space, start).lets(false));
    threads.mm.parts.mprotect(space, start..start + 8, VmFlags::READ);
    assert!(
        threads.mm.parts.address_spaces.pte(space, start).lets(false)
            && !threads.mm.parts.address_spaces.pte(space, start).lets(true)
    );
    threads.mm.parts.mprotect(space, start..start + 8, VmFlags::PRIVATE);
    assert!(threads.mm.parts.address_spaces.pte(space, start).lets(true), "no other process maps the page");
    let faults = threads.count(Event::NumaHintFaults);
    (0..8).for_each(|page| threads.touch(2, page, true));
    assert_eq!(threads.count(Event::NumaHintFaults), faults);
}

/// A new thread copies the sequence of its process (`init_numa_balancing`), so its first fault does not run
/// the placement.
#[test]
fn a_new_thread_begins_with_the_sequence_of_its_process() {
    let mut threads = start("numa-6.12");
    (0..PAGES).for_each(|page| threads.touch(0, page, true));
    while threads.mm.parts.address_spaces.mm(threads.space).numa_scan.scan_seq < 5 {
        threads.tick(2, 8);
    }
    let now = threads.machine.now(Cpu(0));
    let thread = threads.mm.enter(&mut threads.machine, Cpu(0)).add_task(
        now,
        threads.space,
        200,
        Some(threads.tasks[0]),
    );
    let seq = threads.mm.parts.address_spaces.mm(threads.space).numa_scan.scan_seq;
    assert_eq!(threads.mm.parts.numa.tasks.get(thread).scan_seq, seq);
}

/// A process whose VMAs are inaccessible has nothing to scan. Its threads begin passes nevertheless, but only
/// one in each period, by whichever thread comes first.
#[test]
fn passes_that_find_nothing_are_as_rare_as_others() {
    let mut threads = start("numa-6.12");
    threads.mm.parts.mprotect(threads.space, threads.start..threads.start + PAGES, VmFlags::default());
    let period = 8;
    for _ in 0..100 {
        (0..CPUS).for_each(|cpu| threads.tick(cpu, 1));
    }
    let passes = threads.count(Event::NumaScanPasses);
    assert!((20..=100 * u64::from(CPUS) / period + 1).contains(&passes), "{passes} passes");
    assert!(threads.count(Event::NumaSkipInaccessible) >= passes);
    assert_eq!(threads.count(Event::NumaPteUpdates), 0);
}

/// Two processes share memory of a file, and their threads have the same PID, as in two namespaces. Accesses
/// are recorded in the VMA of each process: the one that never touched the memory does not scan it.
#[test]
fn who_touched_shared_memory_is_known_of_each_process() {
    let (mut machine, mut mm) = boot(Series::NUMA.variant("vma-scanning-4").unwrap());
    scan_often(&mut mm);
    mm.set("kernel.numa_balancing", "1").unwrap();
    mm.set("numa_balancing/scan_period_max_ms", "8").unwrap();
    let file = mm.parts.page_cache.open_file();
    let mut process = |cpu: u16| {
        let space = mm.parts.create_mm(Memcg::ROOT);
        let now = machine.now(Cpu(cpu));
        let task = mm.enter(&mut machine, Cpu(0)).add_task(now, space, 100, None);
        mm.enter(&mut machine, Cpu(cpu)).switch_task(Some(task));
        (
            space,
            mm.enter(&mut machine, Cpu(0)).mmap(
                space,
                64,
                Backing::File(file, 0),
                VmFlags::PRIVATE.or(VmFlags::SHARED),
            ),
        )
    };
    let [(user, start), (idle, _)] = [0, 2].map(&mut process);
    for round in 0..200u64 {
        for page in start..start + 64 {
            if let Ok(Touch::ReadFile(id)) = mm.enter(&mut machine, Cpu(0)).touch(user, page, false) {
                mm.parts.lrus.end_read(id);
                mm.enter(&mut machine, Cpu(0)).touch(user, page, false).unwrap();
            }
        }
        let until = machine::Time::from_nanoseconds(8_000_000 * (round + 1));
        (0..CPUS).for_each(|cpu| machine.wait_until(Cpu(cpu), Category::Program, until));
        [0, 2].iter().for_each(|&cpu| mm.enter(&mut machine, Cpu(cpu)).numa_tick());
    }
    let inactive = |space| {
        let areas = mm.parts.numa.heat().iter().filter(|&(mm, ..)| mm == space);
        areas.map(|(.., heat)| heat.skipped[SkipReason::PidInactive as usize]).sum::<u64>()
    };
    assert!(mm.counters().get(Event::NumaHintFaults) > 64);
    assert!(
        mm.parts.address_spaces.mm(user).numa_scan.scan_seq > 10
            && mm.parts.address_spaces.mm(idle).numa_scan.scan_seq > 10
    );
    assert_eq!(inactive(user), 0);
    assert!(inactive(idle) > 10, "{}", inactive(idle));
}

/// Which of several equal threads scans depends on the order of their ticks; how often and how much is
/// scanned does not.
#[test]
fn whose_tick_is_first_decides_who_scans_and_nothing_else() {
    let scanned = |order: [u16; 3]| {
        let mut threads = start("numa-base");
        (0..PAGES).for_each(|page| threads.touch(0, page, true));
        let mut first = None;
        for round in 1..100 {
            let until = machine::Time::from_nanoseconds(8_000_000 * round);
            (0..CPUS).for_each(|cpu| threads.machine.wait_until(Cpu(cpu), Category::Program, until));
            let before = threads.count(Event::NumaScanPasses);
            order.iter().for_each(|&cpu| threads.mm.enter(&mut threads.machine, Cpu(cpu)).numa_tick());
            assert!(threads.count(Event::NumaScanPasses) - before <= 1, "at most one thread scans");
            let of = |(.., heat): (MmId, u64, &VmaHeat)| heat.threads().map(|(task, _)| task).next();
            first = first.or_else(|| threads.mm.parts.numa.heat().iter().find_map(of));
            threads.validate();
        }
        assert_eq!(first, Some(threads.tasks[usize::from(order[0])]), "{order:?}");
        [Event::NumaScanPasses, Event::NumaPteUpdates].map(|event| threads.count(event))
    };
    let expected = scanned([1, 2, 3]);
    assert!(expected[0] > 10 && expected[1] > PAGES - 64, "{expected:?}");
    for order in [[1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]] {
        assert_eq!(scanned(order), expected, "{order:?}");
    }
}

/// Each reason of `sched_skip_vma_numa` occurs in a process with VMAs for it.
#[test]
fn every_reason_to_skip_a_vma_is_met() {
    let mut threads = start("numa-6.12");
    let rights = VmFlags::PRIVATE.or(VmFlags::EXEC);
    let bound = threads.mm.enter(&mut threads.machine, Cpu(0)).mmap(
        threads.space,
        8,
        Backing::Anonymous,
        VmFlags::PRIVATE,
    );
    threads.mm.parts.address_spaces.mbind(
        threads.space,
        bound..bound + 8,
        Some(Mempolicy {
            mode: Mode::Bind(Nodes::of(Node(0))),
            migrate_on_fault: false,
            migrate_on_referencing_node: false,
        }),
    );
    let file = threads.mm.parts.page_cache.open_file();
    threads.mm.enter(&mut threads.machine, Cpu(0)).mmap(
        threads.space,
        8,
        Backing::File(file, 0),
        VmFlags::READ,
    );
    let guard = threads.mm.enter(&mut threads.machine, Cpu(0)).mmap(
        threads.space,
        8,
        Backing::Anonymous,
        VmFlags::PRIVATE,
    );
    threads.mm.parts.mprotect(threads.space, guard..guard + 8, VmFlags::default());
    let others =
        threads.mm.enter(&mut threads.machine, Cpu(0)).mmap(threads.space, 8, Backing::Anonymous, rights);
    for page in others..others + 8 {
        threads.mm.enter(&mut threads.machine, Cpu(0)).touch(threads.space, page, true).unwrap();
    }
    let count = |threads: &Threads, reason| threads.count(SkipReason::event(reason));
    for round in 0..400u64 {
        // One thread uses the large VMA, and another one scans.
        (0..PAGES).for_each(|page| threads.touch(1, page, true));
        threads.tick(if round % 8 == 0 { 2 } else { 1 }, 8);
        if round == 200 {
            threads.mm.enter(&mut threads.machine, Cpu(0)).mmap(
                threads.space,
                8,
                Backing::Anonymous,
                VmFlags::PRIVATE,
            );
        }
    }
    for reason in SkipReason::ALL {
        assert!(count(&threads, reason) > 0, "{}", reason.name());
    }
    threads.validate();
}

#[test]
fn a_cpuset_of_one_node_is_not_scanned_from_7_2_on() {
    for (variant, nodes, scanned) in [("numa-6.19", 1, false), ("numa-6.19", 3, true), ("numa-6.12", 1, true)]
    {
        let mut threads = start(variant);
        for &task in &threads.tasks {
            threads.mm.parts.numa.set_mems_allowed(task, Some(Nodes(nodes)));
        }
        (0..PAGES).for_each(|page| threads.touch(0, page, true));
        (0..100).for_each(|_| threads.tick(2, 8));
        assert_eq!(threads.count(Event::NumaPteUpdates) > 0, scanned, "{variant}, nodes {nodes}");
        assert_eq!(threads.count(Event::NumaSkipCpuset) > 0, !scanned, "{variant}, nodes {nodes}");
    }
}

/// Pages under a memory policy migrate to its node, whoever touches them, or stay if the policy has no
/// MPOL_F_MOF.
#[test]
fn a_policy_says_where_pages_go() {
    for (migrate_on_fault, moves) in [(true, true), (false, false)] {
        let mut threads = start("numa-base");
        let mode = Mode::Bind(Nodes::of(Node(1)));
        let policy = Mempolicy { mode, migrate_on_fault, migrate_on_referencing_node: false };
        let area = threads.start..threads.start + PAGES;
        (0..PAGES).for_each(|page| threads.touch(0, page, true));
        threads.mm.parts.address_spaces.mbind(threads.space, area.clone(), Some(policy));
        for _ in 0..100 {
            threads.tick(0, 8);
            (0..PAGES).for_each(|page| threads.touch(0, page, true));
        }
        let there = threads.mm.parts.pages_by_node(threads.space, area)[1];
        // A page in a CPU's folio batch cannot be migrated.
        assert_eq!(there > PAGES - 64, moves, "{there} pages");
        assert_eq!(threads.count(Event::NumaPteUpdates) > 0, moves);
    }
}

/// The memory of a thread that binds it to a node stays there, wherever the thread runs. While the binding
/// lasts, passes find no VMA to scan, and the first sequences, in which any thread may scan, go by. After
/// that, kernels that ask who touched a VMA never scan what the thread has stored to. numa01 of the AutoNUMA
/// benchmark is such a program.
#[test]
fn what_was_bound_in_the_first_sequences_is_left_alone() {
    for (variant, scanned) in [
        ("numa-base", true),
        ("vma-scanning-1", true),
        ("vma-scanning-2", false),
        ("vma-scanning-4", false),
        ("numa-6.8", true),
    ] {
        let mut threads = start(variant);
        let mode = Mode::Bind(Nodes::of(Node(1)));
        let policy = Mempolicy { mode, migrate_on_fault: false, migrate_on_referencing_node: false };
        let first = threads.tasks[0];
        threads.mm.parts.numa.set_mempolicy(first, Some(policy));
        (0..PAGES).for_each(|page| threads.touch(0, page, true));
        let area = threads.start..threads.start + PAGES;
        assert_eq!(threads.mm.parts.pages_by_node(threads.space, area), [0, PAGES], "{variant}");
        (0..400).for_each(|_| threads.tick(0, 8));
        assert!(threads.count(Event::NumaScanPasses) > 2, "{variant}");
        assert_eq!(threads.count(Event::NumaPteUpdates), 0, "{variant}");
        threads.mm.parts.numa.set_mempolicy(first, None);
        for _ in 0..400 {
            threads.tick(0, 8);
            (0..PAGES).for_each(|page| threads.touch(0, page, true));
        }
        assert_eq!(threads.count(Event::NumaPteUpdates) > 0, scanned, "{variant}");
    }
}

/// A process whose VMAs have no `numab_state` is not scanned until they get one. By then the first sequences,
/// in which any thread may scan, are over, and from vma-scanning-2 to partial-vmas-5 a VMA that was never
/// scanned counts as never touched: it is never scanned.
#[test]
fn without_records_nothing_is_scanned() {
    let kernels = [
        ("numa-base", true, true),
        ("vma-scanning-1", false, true),
        ("vma-scanning-2", false, false),
        ("vma-scanning-4", false, false),
        ("partial-vmas-5", false, false),
        ("partial-vmas-6", false, true),
        ("numa-6.8", false, true),
        ("numa-6.19", false, true),
    ];
    for (variant, without, later) in kernels {
        let mut threads = start(variant);
        let mut scanned_with = |ppm: &str| {
            threads.mm.set("failslab/ppm", ppm).unwrap();
            let before = threads.count(Event::NumaPteUpdates);
            for _ in 0..20 {
                (0..PAGES).for_each(|page| threads.touch(2, page, true));
                threads.tick(2, 40);
            }
            threads.validate();
            assert!(threads.count(Event::NumaScanPasses) > 0);
            threads.count(Event::NumaPteUpdates) > before
        };
        assert_eq!((scanned_with("1000000"), scanned_with("0")), (without, later), "{variant}");
    }
}

/// With interleaving, huge pages take turns too, and from 6.7 on hint faults leave them where they are.
/// Before, a hint fault asked for the turn of the huge page's first page, which is the first node for all of
/// them.
#[test]
fn huge_pages_keep_their_turn_from_6_7_on() {
    for (variant, on_nodes) in [
        ("numa-base", [1024, 0]),
        ("partial-vmas-6", [1024, 0]),
        ("numa-6.8", [512, 512]),
        ("numa-6.12", [512, 512]),
    ] {
        let mut threads = start(variant);
        threads.mm.set("transparent_hugepage/enabled", "always").unwrap();
        let mode = Mode::Interleave(Nodes(0b11));
        let policy = Mempolicy { mode, migrate_on_fault: true, migrate_on_referencing_node: false };
        let area = threads.start..threads.start + 1024;
        threads.mm.parts.address_spaces.mbind(threads.space, area.clone(), Some(policy));
        (0..1024).for_each(|page| threads.touch(0, page, true));
        assert_eq!(threads.mm.parts.pages_by_node(threads.space, area.clone())[..2], [512, 512], "{variant}");
        for _ in 0..100 {
            threads.tick(0, 8);
            (0..1024).for_each(|page| threads.touch(0, page, true));
        }
        assert!(threads.count(Event::NumaHugePteUpdates) > 0);
        assert_eq!(threads.mm.parts.pages_by_node(threads.space, area)[..2], on_nodes, "{variant}");
    }
}

/// A VMA that is split off has no record, and a copy of an address space has none at all: both are scanned
/// after a new delay.
#[test]
fn a_split_and_a_fork_lose_what_scanning_knew() {
    let mut threads = start("vma-scanning-1");
    (0..PAGES).for_each(|page| threads.touch(0, page, true));
    let skipped = |threads: &Threads| threads.count(Event::NumaSkipScanDelay);
    while threads.mm.parts.address_spaces.mm(threads.space).numa_scan.scan_seq < 3 {
        threads.tick(2, 40);
        (0..PAGES).for_each(|page| threads.touch(2, page, true));
    }
    let before = skipped(&threads);
    threads.tick(2, 40);
    assert_eq!(skipped(&threads), before, "all are old enough");
    let rights = VmFlags::PRIVATE.or(VmFlags::EXEC);
    threads.mm.parts.mprotect(threads.space, threads.start + 700..threads.start + PAGES, rights);
    let mut more = 0;
    for _ in 0..8 {
        threads.tick(2, 40);
        more = skipped(&threads) - before;
        (0..PAGES).for_each(|page| threads.touch(2, page, true));
    }
    assert!(more > 0, "the VMA that was split off waits");
}

/// Only a fork of a single-threaded process restarts its scanning; with a second user of the address space,
/// of whatever kind, scanning goes on.
#[test]
fn a_fork_of_several_threads_goes_on_being_scanned() {
    let mut threads = start("numa-6.12");
    (0..PAGES).for_each(|page| threads.touch(0, page, true));
    while threads.mm.parts.address_spaces.mm(threads.space).numa_scan.scan_seq == 0 {
        threads.tick(2, 8);
    }
    let before = threads.mm.parts.address_spaces.mm(threads.space).numa_scan;
    let child = threads.mm.enter(&mut threads.machine, Cpu(2)).fork_mm(threads.space);
    assert_eq!(threads.mm.parts.address_spaces.mm(threads.space).numa_scan, before);
    assert_eq!(threads.mm.parts.address_spaces.mm(child).numa_scan, before, "a copy of the parent's");
}

/// The second thread of a process delays scanning, as a fork does; further threads do not.
#[test]
fn a_process_is_scanned_anew_when_it_gets_its_second_thread() {
    let (mut machine, mut mm) = boot(Series::NUMA.variant("numa-6.12").unwrap());
    let space = mm.parts.create_mm(Memcg::ROOT);
    let now = machine.now(Cpu(0));
    let first = mm.enter(&mut machine, Cpu(0)).add_task(now, space, 100, None);
    assert_eq!(mm.parts.address_spaces.mm(space).numa_scan.next_scan, 0);
    let now = machine.now(Cpu(0));
    mm.enter(&mut machine, Cpu(0)).add_task(now, space, 101, Some(first));
    // 1000 ms are 250 jiffies, and boot is at jiffy 1.
    assert_eq!(mm.parts.address_spaces.mm(space).numa_scan.next_scan, 251);
    machine.wait_until(Cpu(0), Category::Program, machine::Time::from_seconds(1.0));
    let now = machine.now(Cpu(0));
    mm.enter(&mut machine, Cpu(0)).add_task(now, space, 102, Some(first));
    assert_eq!(mm.parts.address_spaces.mm(space).numa_scan.next_scan, 251);
}

/// Some of the counters of hint faults and migrations.
fn counted(threads: &Threads) -> [u64; 5] {
    use Event::{NumaHintFaults, NumaHugePteUpdates, NumaPagesMigrated, NumaPteUpdates, PgmigrateSuccess};
    [NumaPteUpdates, NumaHugePteUpdates, NumaHintFaults, NumaPagesMigrated, PgmigrateSuccess]
        .map(|event| threads.count(event))
}

/// Makes the thread on CPU 2 scan until a page is PROT_NONE.
fn hide(threads: &mut Threads, page: u64) {
    for _ in 0..1000 {
        if !threads.mm.parts.address_spaces.pte(threads.space, threads.start + page).lets(false) {
            return;
        }
        threads.tick(2, 8);
    }
    panic!("page {page} is never scanned");
}

/// Trap 16: a folio of any size is one hint fault and migrates with all its pages. A huge page counts as one
/// update of a PMD and as many updates of PTEs as it has pages. The statistics of threads count pages.
#[test]
fn a_large_folio_is_one_fault_and_all_of_its_pages() {
    for (variant, settings, size, huge) in [
        ("mainline-6.18", &[("thp_anon", "2M:never;64K:always")][..], 16, 0),
        ("numa-base", &[("transparent_hugepage/enabled", "always")], 512, 1),
        ("numa-6.12", &[("transparent_hugepage/enabled", "always")], 512, 1),
        ("numa-6.19", &[("transparent_hugepage/enabled", "always")], 512, 1),
        ("mainline-6.18", &[], 1, 0),
    ] {
        let mut threads = start(variant);
        for (name, value) in settings {
            threads.mm.set(name, value).unwrap();
        }
        // One folio on the first node, and nothing else.
        threads.touch(0, 0, true);
        threads.mm.enter(&mut threads.machine, Cpu(0)).lru_add_drain_all();
        let (space, area) = (threads.space, threads.start..threads.start + size);
        assert_eq!(threads.mm.parts.pages_by_node(space, threads.start..threads.start + PAGES), [size, 0]);
        hide(&mut threads, 0);
        assert_eq!(counted(&threads), [size, huge, 0, 0, 0], "{variant}, {size} pages");
        // The last page faults, and the whole folio becomes accessible.
        threads.touch(2, size - 1, false);
        assert_eq!(counted(&threads), [size, huge, 1, size, size], "{variant}, {size} pages");
        assert!(
            area.clone().all(|page| threads.mm.parts.address_spaces.pte(space, page).lets(false)),
            "{variant}, {size} pages"
        );
        assert_eq!(threads.mm.parts.pages_by_node(space, area), [0, size], "{variant}, {size} pages");
        let locality = threads.mm.parts.numa.tasks.get(threads.tasks[2]).locality;
        assert_eq!((locality.remote, locality.local, locality.failed), (size, 0, 0), "{variant}, {size}");
        assert_eq!(
            threads.mm.parts.numa.tasks.get(threads.tasks[2]).pages_migrated,
            size,
            "{variant}, {size}"
        );
        // From a CPU on its node it is a local fault of as many pages.
        hide(&mut threads, 0);
        threads.touch(2, 0, false);
        assert_eq!(threads.count(Event::NumaHintFaultsLocal), 1, "{variant}, {size} pages");
        threads.mm.validate(0);
    }
}

/// A page migrates only if its new node keeps more free pages than the high watermark, by as many as migrate:
/// with one page less free it does not, with that page it does. Without tiering nobody reclaims for it, and
/// the failure is recorded.
#[test]
fn a_page_stays_if_its_node_would_fall_to_the_high_watermark() {
    for (settings, size) in [(&[][..], 1), (&[("thp_anon", "2M:never;64K:always")][..], 16)] {
        for (spare, moves) in [(-1, false), (0, false), (1, true)] {
            let mut threads = start("mainline-6.18");
            // Allocating a node's pages for the kernel mixes pageblocks, which must not boost its watermarks
            // here.
            threads.mm.set("vm.watermark_boost_factor", "0").unwrap();
            for (name, value) in settings {
                threads.mm.set(name, value).unwrap();
            }
            threads.touch(0, 0, true);
            threads.mm.enter(&mut threads.machine, Cpu(0)).lru_add_drain_all();
            hide(&mut threads, 0);
            let zone = threads.mm.parts.allocator.zones().len() - 1;
            let left = |mm: &MemoryManager| {
                let zone = &mm.parts.allocator.zones()[zone];
                zone.free_pages() - (zone.wmark(Mark::High) + size) as i64
            };
            take_until(&mut threads, |mm| left(mm) - spare);
            assert_eq!(left(&threads.mm), spare);
            threads.touch(2, 0, false);
            let node = threads.mm.parts.pages_by_node(threads.space, threads.start..threads.start + size);
            assert_eq!(node, if moves { [0, size] } else { [size, 0] }, "{size} pages, {spare} spare");
            let own = threads.mm.parts.numa.tasks.get(threads.tasks[2]);
            assert_eq!(own.locality.failed, if moves { 0 } else { size }, "{size} pages, {spare} spare");
            assert_eq!(own.locality.remote, size);
            let (hints, moved) =
                (threads.count(Event::NumaHintFaults), threads.count(Event::NumaPagesMigrated));
            assert_eq!((hints, moved), (1, if moves { size } else { 0 }), "{size} pages, {spare} spare");
            assert_eq!(threads.count(Event::PgmigrateFail), 0, "the migration was not tried");
            assert!(
                threads.mm.enter(&mut threads.machine, Cpu(0)).start_kswapd(Node(1)).is_none(),
                "nobody makes room for it"
            );
        }
    }
}

/// Allocates pages of the second node until `left`, which returns how many too many are free, returns 0. No
/// CPU keeps free pages or counts that have not been added to the zone's.
fn take_until(threads: &mut Threads, left: impl Fn(&MemoryManager) -> i64) {
    let (mm, machine) = (&mut threads.mm, &mut threads.machine);
    for order in (0..=10).rev() {
        let request = Request::new(order, MigrateType::Unmovable, Placement::Bind(Node(1)));
        while left(mm) >= 1 << order && mm.enter(machine, Cpu(2)).alloc(&request).is_some() {
            mm.enter(machine, Cpu(2)).drain_all_pages();
            (0..CPUS).for_each(|cpu| {
                mm.enter(machine, Cpu(cpu)).vmstat_update();
            });
        }
    }
}

/// Before 6.10, a fault on a large folio that is mapped by PTEs makes it accessible and has no other effect:
/// it does not count as a hint fault, and nothing migrates. Such a folio comes from a huge page that was made
/// PROT_NONE and then partially unmapped.
#[test]
fn large_folios_mapped_by_entries_count_from_6_10_on() {
    for (variant, counts) in [
        ("numa-base", false),
        ("vma-scanning-4", false),
        ("numa-6.8", false),
        ("numa-6.12", true),
        ("numa-6.19", true),
    ] {
        let mut threads = start(variant);
        threads.mm.set("transparent_hugepage/enabled", "always").unwrap();
        threads.touch(0, 0, true);
        threads.mm.enter(&mut threads.machine, Cpu(0)).lru_add_drain_all();
        hide(&mut threads, 0);
        let (space, start) = (threads.space, threads.start);
        threads.mm.enter(&mut threads.machine, Cpu(0)).munmap(space, start + 256..start + 512);
        let rest = start..start + 256;
        assert!(
            rest.clone().all(|page| !threads.mm.parts.address_spaces.pte(space, page).lets(false)),
            "{variant}: all is hidden"
        );
        threads.touch(2, 0, false);
        assert!(
            rest.clone().all(|page| threads.mm.parts.address_spaces.pte(space, page).lets(false)),
            "{variant}: nothing is"
        );
        assert_eq!(threads.count(Event::NumaHintFaults), u64::from(counts), "{variant}");
        assert_eq!(threads.count(Event::NumaPagesMigrated) > 0, counts, "{variant}");
        assert_eq!(threads.mm.parts.pages_by_node(space, rest)[1] > 0, counts, "{variant}");
        let known = threads.mm.parts.numa.tasks.get(threads.tasks[2]).faults.is_some();
        assert_eq!(known, counts, "{variant}");
    }
}

/// From 7.2 on PMDs are checked like PTEs: huge pages that a child shares are not scanned, nor are those on
/// the node of a process's only thread. Before, they are made PROT_NONE.
#[test]
fn huge_pages_are_asked_for_sharers_from_7_2_on() {
    for (variant, shared, alone, scanned) in [
        ("numa-6.12", false, false, true),
        ("numa-6.12", true, false, true),
        ("numa-6.12", false, true, true),
        ("numa-6.19", false, false, true),
        ("numa-6.19", true, false, false),
        ("numa-6.19", false, true, false),
    ] {
        let mut threads = start(variant);
        threads.mm.set("transparent_hugepage/enabled", "always").unwrap();
        let space = threads.space;
        if alone {
            threads.tasks.drain(1..).for_each(|task| threads.mm.parts.exit_task(task));
        }
        threads.touch(0, 0, true);
        if shared {
            threads.mm.enter(&mut threads.machine, Cpu(0)).fork_mm(space);
        }
        (0..100).for_each(|_| threads.tick(if alone { 0 } else { 2 }, 8));
        assert!(threads.count(Event::NumaScanPasses) > 0);
        let hidden = threads.mm.parts.address_spaces.pte(space, threads.start).has(Pte::PROT_NONE);
        assert_eq!(hidden, scanned, "{variant}, shared: {shared}, alone: {alone}");
        assert_eq!(threads.count(Event::NumaHugePteUpdates) > 0, scanned, "{variant}, shared: {shared}");
    }
}

/// Boots a machine of nodes with a CPU and 64 MiB each; the last `memory_only_nodes` have slow memory and no
/// CPU.
fn boot_nodes(variant: &str, nodes: u8, memory_only_nodes: u8) -> (Machine<Category>, MemoryManager) {
    let topology = Topology {
        sockets: (nodes - memory_only_nodes).into(),
        memory_only_nodes,
        ..Topology::of_nodes(nodes, 1)
    };
    let memory = mm::memory_map::memory_layout(nodes, 64);
    let features = Series::NUMA.variant(variant).unwrap().features;
    let mut settings = mm::Settings::new(PageSize::Kib4);
    settings.set("transparent_hugepage/enabled", "never").unwrap();
    let mm = MemoryManager::new(&topology, &memory, features, settings, rand_pcg::Pcg64Mcg::new(1));
    (Machine::new(topology, Costs::FREE), mm)
}

#[test]
fn a_sweep_knows_each_of_many_nodes() {
    const NODES: u8 = 20;
    let (mut machine, mut mm) = boot_nodes("numa-base", NODES, 0);
    let space = mm.parts.create_mm(Memcg::ROOT);
    let start = mm
        .enter(&mut machine, Cpu(0))
        .mmap(space, 1024, Backing::Anonymous, VmFlags::PRIVATE)
        .next_multiple_of(512);
    for page in 0..512 {
        let cpu = Cpu(page as u16 % u16::from(NODES));
        mm.enter(&mut machine, cpu).touch(space, start + page, true).unwrap();
    }
    let expected = mm.parts.pages_by_node(space, start..start + 512);
    assert!(expected.iter().all(|&pages| pages == 25 || pages == 26), "{expected:?}");
    // The first time page by page, then all at once.
    for _ in 0..2 {
        let mut by_node = [0; NODES as usize];
        let end = start + 512;
        assert_eq!(mm.parts.sweep(&machine, Cpu(0), space, start..end, true, &mut by_node), end);
        assert_eq!(by_node[..], expected);
    }
}

/// Makes the thread on CPU 0 scan until `page` is PROT_NONE.
fn scan_until_hidden(machine: &mut Machine<Category>, mm: &mut MemoryManager, space: MmId, page: Vpn) {
    for _ in 0..1000 {
        if !mm.parts.address_spaces.pte(space, page).lets(false) {
            return;
        }
        let until = machine.now(Cpu(0)) + machine::Time::from_nanoseconds(8_000_000);
        for cpu in machine.topology.all_cpus() {
            machine.wait_until(cpu, Category::Program, until);
        }
        mm.enter(machine, Cpu(0)).numa_tick();
    }
    panic!("page {page} is never scanned");
}

fn scan_often(mm: &mut MemoryManager) {
    for (name, value) in [
        ("kernel.numa_balancing", "2"),
        ("numa_balancing/scan_delay_ms", "8"),
        ("numa_balancing/scan_period_min_ms", "8"),
        ("numa_balancing/scan_size_mb", "256"),
    ] {
        mm.set(name, value).unwrap();
    }
}

#[test]
fn each_fast_node_has_a_promotion_rate_of_its_own() {
    let (mut machine, mut mm) = boot_nodes("numa-6.12", 3, 1);
    scan_often(&mut mm);
    mm.set("kernel.numa_balancing_promote_rate_limit_MBps", "1").unwrap();
    let space = mm.parts.create_mm(Memcg::ROOT);
    let now = machine.now(Cpu(0));
    let first = mm.enter(&mut machine, Cpu(0)).add_task(now, space, 100, None);
    let now = machine.now(Cpu(1));
    let second = mm.enter(&mut machine, Cpu(0)).add_task(now, space, 101, Some(first));
    mm.enter(&mut machine, Cpu(0)).switch_task(Some(first));
    mm.enter(&mut machine, Cpu(1)).switch_task(Some(second));
    let start = mm.enter(&mut machine, Cpu(0)).mmap(space, 1024, Backing::Anonymous, VmFlags::PRIVATE);
    let mode = Mode::Bind(Nodes::of(Node(2)));
    let policy = Mempolicy { mode, migrate_on_fault: true, migrate_on_referencing_node: false };
    mm.parts.address_spaces.mbind(space, start..start + 1024, Some(policy));
    for page in start..start + 1024 {
        mm.enter(&mut machine, Cpu(0)).touch(space, page, true).unwrap();
    }
    mm.parts.address_spaces.mbind(space, start..start + 1024, None);
    assert_eq!(mm.parts.pages_by_node(space, start..start + 1024), [0, 0, 1024]);
    scan_until_hidden(&mut machine, &mut mm, space, start);
    // 1 MiB a second is 256 pages, for each of the nodes that pages are promoted to.
    for (cpu, pages) in [(0, start..start + 400), (1, start + 400..start + 600)] {
        for page in pages.clone() {
            mm.enter(&mut machine, Cpu(cpu)).touch(space, page, false).unwrap();
        }
        let promoted = mm.parts.pages_by_node(space, pages)[usize::from(cpu)];
        let expected = if cpu == 0 { 255..=256 } else { 200..=200 };
        assert!(expected.contains(&promoted), "{promoted} to node {cpu}");
    }
}

#[test]
fn a_promotion_without_room_wakes_the_kswapd_of_its_node_only() {
    let (mut machine, mut mm) =
        reclaim_machine::boot_with_cpus_on(1, Series::NUMA.variant("numa-6.12").unwrap());
    scan_often(&mut mm);
    let space = mm.parts.create_mm(Memcg::ROOT);
    let now = machine.now(Cpu(0));
    let task = mm.enter(&mut machine, Cpu(0)).add_task(now, space, 100, None);
    mm.enter(&mut machine, Cpu(0)).switch_task(Some(task));
    let start = mm.enter(&mut machine, Cpu(0)).mmap(space, 9000, Backing::Anonymous, VmFlags::PRIVATE);
    let mut next = start;
    while mm.parts.allocator.zones().iter().any(|zone| zone.free_pages() > zone.wmark(Mark::High) as i64) {
        mm.enter(&mut machine, Cpu(0)).touch(space, next, true).unwrap();
        next += 1;
    }
    let slow = (start..next).find(|&page| mm.parts.pages_by_node(space, page..page + 1)[1] == 1).unwrap();
    scan_until_hidden(&mut machine, &mut mm, space, slow);
    let asked = |mm: &mut MemoryManager, machine: &mut Machine<Category>| {
        [0, 1].map(|node| mm.enter(machine, Cpu(0)).start_kswapd(Node(node)).is_some())
    };
    asked(&mut mm, &mut machine);
    mm.enter(&mut machine, Cpu(0)).touch(space, slow, false).unwrap();
    assert_eq!(asked(&mut mm, &mut machine), [true, false]);
    assert_eq!(mm.parts.pages_by_node(space, slow..slow + 1), [0, 1]);
}
