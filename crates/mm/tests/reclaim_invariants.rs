//! Invariants of reclaim after every step of random demand, by several memory cgroups on a machine of two
//! nodes that is always short of memory, for every variant and release: no folio is in two places or lost,
//! lists and counters agree, there are two to four generations, page tables, files and swap refer to folios
//! that refer to them, and memcgs are charged with what they use.

mod reclaim_host;
mod reclaim_machine;

use machine::{Cpu, Machine, Node, Time};
use mm::address_space::{Advice, Backing, VmFlags};
use mm::allocator::request::Effort;
use mm::filemap::{Access, Read};
use mm::memcontrol::Memcg;
use mm::memory::Touch;
use mm::xarray::FileId;
use mm::{Category, Event, MemoryManager, MigrateType, Placement, Request, Series, Variant};
use proptest::prelude::*;
use reclaim_host::{GROUPS, Host, MAPPED_PAGES, Step, open_with_large_folios, step};
use reclaim_machine::boot;

fn variants() -> impl Strategy<Value = &'static Variant> {
    proptest::sample::select(Series::RECLAIM.variants().collect::<Vec<_>>())
}

fn host(variant: &Variant, synchronous_swap: bool) -> Host {
    Host::on(boot(variant), synchronous_swap)
}

/// The sequence numbers of all lruvecs.
fn generations(host: &Host) -> Vec<[u64; 3]> {
    let groups = (0..host.groups).map(Memcg);
    let lruvecs = groups.flat_map(|memcg| [0, 1].map(|node| host.mm.parts.lrus.lruvec(memcg, Node(node))));
    lruvecs
        .map(|lruvec| {
            let generations = &lruvec.generations;
            [generations.max_seq, generations.min_seq[0], generations.min_seq[1]]
        })
        .collect()
}

/// The state after some steps, which differs between kernels that decide differently: counters, generations,
/// ages.
fn outcome(variant: &str, steps: &[Step]) -> (Vec<u64>, Vec<[u64; 3]>, Vec<u64>) {
    let mut host = host(Series::RECLAIM.variant(variant).unwrap(), true);
    for step in steps {
        let _ = host.run(step);
    }
    let counts = Event::ALL.iter().map(|&event| host.mm.counters().get(event)).collect();
    let groups = (0..host.groups).map(Memcg);
    let lists =
        groups.flat_map(|memcg| [0, 1].map(|node| host.mm.parts.lrus.lruvec(memcg, Node(node)).stat.nr_lru));
    (counts, generations(&host), lists.flatten().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hold_after_every_step(
        variant in variants(),
        synchronous_swap in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let mut host = host(variant, synchronous_swap);
        for step in &steps {
            let before = generations(&host);
            let _ = host.run(step);
            host.mm.validate(host.held.len() as u64);
            for (before, after) in before.iter().zip(generations(&host)) {
                let forward = before.iter().zip(after).all(|(&before, after)| before <= after);
                prop_assert!(forward, "generations only begin and end: {:?}, then {:?}", before, after);
            }
            check_ages(&host.mm, host.groups)?;
            check_counters(&host.mm)?;
        }
        // All that processes had is freed with them.
        for id in host.reads.drain(..) {
            host.mm.parts.lrus.end_read(id);
        }
        // Pages that are being read ahead are locked, so the exit of their process would leave them to
        // reclaim.
        host.mm.parts.end_swap_reads();
        for process in host.processes.drain(..) {
            host.mm.enter(&mut host.machine, Cpu(0)).exit_mm(process);
        }
        host.writes.extend(host.mm.parts.page_cache.take_submitted_writes());
        for id in std::mem::take(&mut host.writes) {
            host.mm.enter(&mut host.machine, Cpu(1)).end_write(id);
        }
        host.mm.validate(host.held.len() as u64);
        prop_assert_eq!(host.mm.parts.swap.used(), 0, "swap in use after all processes have exited");
    }

    /// Patches of the series that change no decision.
    #[test]
    fn equal_variants_have_equal_outcomes(steps in proptest::collection::vec(step(), 1..40)) {
        for (one, other) in [("refault-distance-1", "refault-distance-2"), ("refault-distance-2", "refault-distance-3"), ("refault-distance-4", "refault-distance-5")] {
            prop_assert_eq!(outcome(one, &steps), outcome(other, &steps));
        }
    }

    /// With the classic LRU only the first patch of the series changes decisions.
    #[test]
    fn later_patches_leave_the_classic_lru_alone(steps in proptest::collection::vec(step(), 1..40)) {
        let mut steps = steps;
        steps.retain(|step| !matches!(step, Step::Set { name: "lru_gen/enabled", .. }));
        prop_assert_eq!(outcome("refault-distance-1-classic", &steps), outcome("refault-distance-6-classic", &steps));
    }

    /// The multi-gen LRU does not swap with swappiness 0, nor with fewer than 64 pages of swap free.
    #[test]
    fn multi_gen_does_not_swap_without_swappiness_or_room(
        variant in variants(),
        swap in prop_oneof![Just(None), (1..64u64).prop_map(Some)],
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        let (machine, mm) = boot(variant);
        let mut host = Host { mm, machine, ..host(variant, true) };
        host.mm.set("lru_gen/enabled", "7").unwrap();
        let groups: Vec<Memcg> = (1..GROUPS).map(|_| host.mm.parts.lrus.create_memcg(Memcg::ROOT)).collect();
        host.files = (0..3).map(|_| host.mm.parts.page_cache.open_file()).collect();
        host.open[0] = open_with_large_folios(&mut host.mm, host.files[0]);
        host.processes = groups.iter().map(|&memcg| host.mm.parts.create_mm(memcg)).collect();
        for &process in &host.processes {
            for (start, backing, flags) in &mut host.mappings {
                if let Backing::File(file, _) = backing {
                    *file = host.mm.parts.page_cache.open_file();
                    if flags.has(VmFlags::SHARED) {
                        host.open[1] = open_with_large_folios(&mut host.mm, *file);
                    }
                }
                *start = host.mm.enter(&mut host.machine, Cpu(0)).mmap(process, MAPPED_PAGES, *backing, *flags);
            }
        }
        match swap {
            Some(pages) => host.mm.parts.swap.swapon(pages, Some(Time::ZERO)),
            None => {
                host.mm.parts.swap.swapon(5000, Some(Time::ZERO));
                host.mm.set("vm.swappiness", "0").unwrap();
            }
        }
        for step in steps.iter().filter(|step| !matches!(step, Step::Set { .. } | Step::Swapon { .. })) {
            let _ = host.run(step);
        }
        prop_assert_eq!(host.mm.counters().get(Event::Pswpout), 0);
    }
}

/// The age of a memcg's lruvec counts the evictions from it and from those of the memcgs below.
fn check_ages(mm: &MemoryManager, groups: u16) -> Result<(), TestCaseError> {
    for node in [0, 1].map(Node) {
        let mut below = vec![0; groups.into()];
        for memcg in (0..groups).rev().map(Memcg) {
            let age = mm.parts.lrus.lruvec(memcg, node).nonresident_age;
            prop_assert!(age >= below[memcg.index()], "the age of {:?} on {:?}", memcg, node);
            if let Some(parent) = mm.parts.lrus.memcg(memcg).parent {
                below[parent.index()] += age;
            }
        }
    }
    Ok(())
}

fn check_counters(mm: &MemoryManager) -> Result<(), TestCaseError> {
    let count = |event| mm.counters().get(event);
    for [scanned, stolen] in
        [[Event::PgscanAnon, Event::PgstealAnon], [Event::PgscanFile, Event::PgstealFile]]
    {
        prop_assert!(count(stolen) <= count(scanned), "{:?} {} of {}", stolen, count(stolen), count(scanned));
    }
    // Nothing truncates files, so only reclaim removes pages from the page cache.
    prop_assert_eq!(count(Event::PageCacheRemoved), count(Event::PgstealFile));
    prop_assert_eq!(
        count(Event::PageCacheAdded) - count(Event::PageCacheRemoved),
        mm.parts.page_cache.files().nr_folios(),
    );
    prop_assert!(count(Event::WorkingsetRefaultFile) <= count(Event::PageCacheAdded));
    prop_assert!(count(Event::WorkingsetRefaultAnon) <= count(Event::Pswpin));
    // A page is read from swap because of a fault, or ahead with one that is.
    prop_assert!(count(Event::Pswpin) <= count(Event::Pgmajfault) + count(Event::SwapRa));
    Ok(())
}

/// From 6.3 on, accesses through a mapping with `MADV_RANDOM` do not keep a page in memory.
#[test]
fn accesses_without_recency_keep_no_page() {
    for (variant, has_recency, stays) in [
        ("classic", true, true),
        ("classic", false, false),
        ("mglru-6.5", true, true),
        ("mglru-6.5", false, false),
        ("mainline-6.18", true, true),
        ("mainline-6.18", false, false),
        ("mainline-6.1", false, true),
    ] {
        let (mut machine, mut mm) = boot(Series::RECLAIM.variant(variant).unwrap());
        let memcg = mm.parts.lrus.create_memcg(Memcg::ROOT);
        mm.parts.lrus.memcg_mut(memcg).max = 500;
        let file = mm.parts.page_cache.open_file();
        let process = mm.parts.create_mm(memcg);
        let page_0 = mm.enter(&mut machine, Cpu(0)).mmap(
            process,
            1,
            Backing::File(file, 0),
            VmFlags::READ.or(VmFlags::SHARED),
        );
        if !has_recency {
            mm.enter(&mut machine, Cpu(0)).madvise(process, page_0..page_0 + 1, Advice::Random);
        }
        let mut faults = 0;
        for page in 1..3000 {
            if let Touch::ReadFile(id) = mm.enter(&mut machine, Cpu(0)).touch(process, page_0, false).unwrap()
            {
                faults += 1;
                mm.parts.lrus.end_read(id);
            }
            // A scan of the rest of the file.
            if let Read::Miss(id) =
                mm.enter(&mut machine, Cpu(0)).read_page(memcg, file, page, Access::New).unwrap()
            {
                mm.parts.lrus.end_read(id);
            }
        }
        assert_eq!(faults == 1, stays, "{variant}, recency {has_recency}: read {faults} times");
    }
}

/// Reads pages of a file in order for a task of a memcg.
fn read_pages(
    machine: &mut Machine<Category>,
    mm: &mut MemoryManager,
    memcg: Memcg,
    file: FileId,
    pages: std::ops::Range<u32>,
) {
    for page in pages {
        if let Read::Miss(id) = mm.enter(machine, Cpu(0)).read_page(memcg, file, page, Access::New).unwrap() {
            mm.parts.lrus.end_read(id);
        }
    }
}

/// Two memcgs claim all of their parent's protection, so each gets half of it. From 6.11 on a call of reclaim may have enough from the
/// first of them, and shares of protection go by what memcgs use: the first gets less, the second more.
#[test]
fn nested_groups_share_the_protection_of_their_parent() {
    for (variant, first, second) in [
        ("classic", 180..=330, 180..=330),
        ("mglru-6.5", 180..=330, 180..=330),
        ("mainline-6.10", 180..=330, 180..=330),
        ("mainline-6.18", 140..=180, 220..=330),
    ] {
        let (mut machine, mut mm) = boot(Series::RECLAIM.variant(variant).unwrap());
        let limited = mm.parts.lrus.create_memcg(Memcg::ROOT);
        mm.parts.lrus.memcg_mut(limited).max = 1000;
        let parent = mm.parts.lrus.create_memcg(limited);
        mm.parts.lrus.memcg_mut(parent).min = 400;
        let children = [mm.parts.lrus.create_memcg(parent), mm.parts.lrus.create_memcg(parent)];
        for child in children {
            mm.parts.lrus.memcg_mut(child).min = 400;
        }
        let neighbour = mm.parts.lrus.create_memcg(limited);
        let file = mm.parts.page_cache.open_file();
        let mut next = 0;
        let mut read = |mm: &mut MemoryManager, memcg, pages| {
            read_pages(&mut machine, mm, memcg, file, next..next + pages);
            next += pages;
        };
        children.iter().for_each(|&child| read(&mut mm, child, 400));
        read(&mut mm, neighbour, 5000);
        let left = children.map(|child| mm.parts.lrus.memcg(child).current);
        // The stocks and batches of CPUs make these numbers inexact.
        assert!(first.contains(&left[0]) && second.contains(&left[1]), "{variant}: {left:?}");
    }
}

/// Before 7.2, pages reclaimed for the limit of a memcg are counted by type, but not by who reclaims.
#[test]
fn who_reclaims_for_a_limit_is_counted_from_7_2_on() {
    for (variant, is_counted) in [("classic", false), ("mglru-6.14", false), ("mglru-7.2", true)] {
        let (mut machine, mut mm) = boot(Series::RECLAIM.variant(variant).unwrap());
        let memcg = mm.parts.lrus.create_memcg(Memcg::ROOT);
        mm.parts.lrus.memcg_mut(memcg).max = 500;
        let file = mm.parts.page_cache.open_file();
        read_pages(&mut machine, &mut mm, memcg, file, 0..2000);
        let [direct, of_files] =
            [Event::PgstealDirect, Event::PgstealFile].map(|event| mm.counters().get(event));
        assert!(of_files >= 1500, "{variant}: {of_files}");
        assert_eq!(direct, if is_counted { of_files } else { 0 }, "{variant}");
    }
}

/// From 6.12 on the classic LRU deactivates by statistics of the last flush; before, it flushes them first.
#[test]
fn reclaim_flushes_statistics_until_6_11() {
    for (release, flushes) in [("mainline-6.11", true), ("mainline-6.12", false), ("mainline-6.18", false)] {
        let classic = Series::RECLAIM.variant("classic").unwrap().settings;
        let variant = Variant { settings: classic, ..*Series::PCP.variant(release).unwrap() };
        let (mut machine, mut mm) = boot(&variant);
        let memcg = mm.parts.lrus.create_memcg(Memcg::ROOT);
        mm.parts.lrus.memcg_mut(memcg).max = 1000;
        let file = mm.parts.page_cache.open_file();
        // There are more active than inactive pages, which no flush has counted yet.
        (0..3).for_each(|_| read_pages(&mut machine, &mut mm, memcg, file, 0..800));
        let mut deactivated = |mm: &mut MemoryManager, pages| {
            read_pages(&mut machine, mm, memcg, file, pages);
            mm.counters().get(Event::Pgdeactivate)
        };
        let early = deactivated(&mut mm, 800..1300);
        assert_eq!(early > 0, flushes, "{release}: {early}");
        mm.parts.lrus.flush_stats(Time::ZERO);
        let late = deactivated(&mut mm, 1300..1800);
        assert!(late > 0, "{release}");
        mm.validate(0);
    }
}

/// Less is scanned of a memcg that is partially protected: by the classic LRU, and by the multi-gen LRU from
/// 7.2 on.
#[test]
fn protection_in_part_is_in_proportion() {
    let lost = |variant| {
        let (mut machine, mut mm) = boot(Series::RECLAIM.variant(variant).unwrap());
        let limited = mm.parts.lrus.create_memcg(Memcg::ROOT);
        mm.parts.lrus.memcg_mut(limited).max = 4200;
        let [protected, plain, neighbour] = [(); 3].map(|()| mm.parts.lrus.create_memcg(limited));
        mm.parts.lrus.memcg_mut(protected).low = 1500;
        let file = mm.parts.page_cache.open_file();
        let mut next = 0;
        let mut read = |mm: &mut MemoryManager, memcg, pages| {
            read_pages(&mut machine, mm, memcg, file, next..next + pages);
            next += pages;
        };
        [protected, plain].iter().for_each(|&memcg| read(&mut mm, memcg, 2000));
        read(&mut mm, neighbour, 1000);
        [protected, plain].map(|memcg| 2000i64 - mm.parts.lrus.memcg(memcg).current as i64)
    };
    for variant in ["classic", "mglru-7.2"] {
        let [protected, plain] = lost(variant);
        assert!(plain > 200 && protected < plain / 2, "{variant}: {protected}, {plain}");
    }
    let [protected, plain] = lost("mglru-6.14");
    assert!(protected > plain / 2, "mglru-6.14: {protected}, {plain}");
}

/// A memcg that reads a stream keeps shadows for eight times the pages that it has in memory, as xarray nodes
/// are charged to it; its neighbour keeps all of its own.
#[test]
fn shadows_of_a_group_are_limited_by_its_memory() {
    const LIMIT: u32 = 2000;
    for variant in ["classic", "mglru-6.5", "mainline-6.18"] {
        let (mut machine, mut mm) = boot(Series::RECLAIM.variant(variant).unwrap());
        let [streaming, neighbour] = [(); 2].map(|()| mm.parts.lrus.create_memcg(Memcg::ROOT));
        let files = [streaming, neighbour].map(|memcg| {
            mm.parts.lrus.memcg_mut(memcg).max = LIMIT.into();
            (memcg, mm.parts.page_cache.open_file())
        });
        let mut read = |mm: &mut MemoryManager, (memcg, file), pages| {
            read_pages(&mut machine, mm, memcg, file, 0..pages);
        };
        read(&mut mm, files[1], 5 * LIMIT);
        assert_eq!(mm.counters().get(Event::WorkingsetNodereclaim), 0, "{variant}");
        let of_neighbour = mm.parts.page_cache.files().workingset_nodes();
        read(&mut mm, files[0], 40 * LIMIT);
        let nodes = mm.parts.page_cache.files().workingset_nodes() - of_neighbour;
        // A shrinker frees half of the excess if that is a batch of 128 objects; the memory of the nodes
        // themselves counts too.
        let most = u64::from(LIMIT) / 8;
        assert!((most..most + 2 * 128 + most / 16).contains(&nodes), "{variant}: {nodes} nodes");
        let reclaimed = mm.counters().get(Event::WorkingsetNodereclaim);
        // A node or two have both folios and shadows.
        let left = u64::from(39 * LIMIT) / 64;
        assert!((nodes + reclaimed).abs_diff(left) < 3, "{variant}: {nodes} and {reclaimed} of {left}");
        mm.validate(0);
    }
}

/// A fault that reads a page has waited for it and counts as major, even if the allocation for a copy of the
/// page fails after that.
#[test]
fn a_fault_that_reads_is_a_major_one_whatever_comes_of_it() {
    for variant in Series::RECLAIM.variants() {
        let (mut machine, mut mm) = boot(variant);
        mm.parts.swap.swapon(100, Some(Time::ZERO));
        mm.set("vm.page-cluster", "0").unwrap();
        let memcg = mm.parts.lrus.create_memcg(Memcg::ROOT);
        mm.parts.lrus.memcg_mut(memcg).max = 200;
        let parent = mm.parts.create_mm(memcg);
        let start = mm.enter(&mut machine, Cpu(0)).mmap(parent, 600, Backing::Anonymous, VmFlags::PRIVATE);
        let mut pages = start..start + 600;
        // Until swap is full too.
        while mm.enter(&mut machine, Cpu(0)).touch(parent, pages.next().unwrap(), true).is_ok() {}
        let child = mm.enter(&mut machine, Cpu(0)).fork_mm(parent);
        let page =
            (start..).find(|&page| mm.parts.address_spaces.pte(child, page).folio().is_none()).unwrap();
        mm.parts.lrus.memcg_mut(memcg).max = mm.parts.lrus.memcg(memcg).current + 1;
        assert!(mm.enter(&mut machine, Cpu(0)).touch(child, page, true).is_err(), "{}", variant.name);
        let counted = [Event::Pswpin, Event::Pgmajfault].map(|event| mm.counters().get(event));
        assert_eq!(counted, [1, 1], "{}", variant.name);
    }
}

/// A page fault on a machine whose free pages were taken from far below the min watermark. Returns how often it failed for others to
/// run, and what it came to.
fn fault_below_min(variant: &Variant, reschedules: bool) -> (u32, Vec<u64>) {
    let (mut machine, mut mm) = reclaim_machine::boot(variant);
    let file = mm.parts.page_cache.open_file();
    read_pages(&mut machine, &mut mm, Memcg::ROOT, file, 0..6000);
    let effort = Effort { memalloc: true, ..Effort::LIGHT };
    let unmovable = Request { effort, ..Request::new(0, MigrateType::Unmovable, Placement::Local) };
    while mm.enter(&mut machine, Cpu(0)).alloc(&unmovable).is_some() {}
    if reschedules {
        mm.parts.allocator.let_faults_reschedule();
    }
    let process = mm.parts.create_mm(Memcg::ROOT);
    let start = mm.enter(&mut machine, Cpu(0)).mmap(process, 1, Backing::Anonymous, VmFlags::PRIVATE);
    let mut failed = 0;
    while mm.enter(&mut machine, Cpu(0)).touch(process, start, true).is_err() {
        assert!(mm.parts.allocator.take_need_resched(), "{}", variant.name);
        failed += 1;
    }
    assert!(!mm.parts.allocator.take_need_resched(), "{}", variant.name);
    let counted =
        [Event::Pgfault, Event::AllocFail, Event::PgscanDirect, Event::PgstealFile, Event::PcpDrainedPages];
    (failed, counted.map(|event| mm.counters().get(event)).to_vec())
}

#[test]
fn a_fault_may_let_others_run_between_rounds_of_direct_reclaim() {
    for variant in Series::RECLAIM.variants() {
        let (at_once, reclaimed) = fault_below_min(variant, false);
        assert_eq!(at_once, 0, "{}", variant.name);
        let (failed, in_turns) = fault_below_min(variant, true);
        assert!(failed > 1, "{}", variant.name);
        assert_eq!(in_turns, reclaimed, "{}: {failed} times", variant.name);
    }
}
