//! Kernels with base pages of 4, 16 and 64 KiB: what follows from bytes is equal on all of them, what follows
//! from pages is not.

use machine::{Costs, Cpu, Machine, PageSize, Time, Topology};
use mm::address_space::{Advice as Madvise, Backing, VmFlags};
use mm::huge_memory::features::FolioSize;
use mm::huge_memory::policy::{Advice, VmaState, candidates};
use mm::huge_memory::settings::{Enabled, ThpSettings};
use mm::huge_memory::stats::MthpStat;
use mm::memcontrol::Memcg;
use mm::memory_map::memory_layout_of;
use mm::page::Geometry;
use mm::watermark::Mark;
use mm::{Category, Event, MemoryManager, Series, SettingError, Settings, Variant, ZoneType};
use proptest::prelude::*;
use rand_pcg::Pcg64Mcg;

const MIB: u64 = 8192;

fn variant(name: &str) -> &'static Variant {
    Series::FOLIOS.variant(name).unwrap()
}

/// Boots a machine with 8 GiB on one node and these settings.
fn boot(name: &str, size: PageSize, changes: &[(&str, &str)]) -> (Machine<Category>, MemoryManager) {
    let mut settings = Settings::new(size);
    for (name, value) in changes {
        settings.set(name, value).unwrap();
    }
    let topology = Topology::single();
    let memory = memory_layout_of(size, 1, MIB);
    let features = variant(name).features;
    let mm = MemoryManager::new(&topology, &memory, features, settings, Pcg64Mcg::new(1));
    (Machine::new(topology, Costs::FREE), mm)
}

/// `calculate_min_free_kbytes` and `__setup_per_zone_wmarks`: `min_free_kbytes` is four times the square root
/// of low memory in kB, whatever the page size.
#[test]
fn watermarks_are_those_of_equal_memory() {
    let never = [("transparent_hugepage/enabled", "never")];
    for size in PageSize::ALL {
        let (_, mm) = boot("folios-6.12", size, &never);
        let kib = |pages: u64| pages * size.kib();
        let managed = mm.parts.allocator.zones().iter().map(|zone| kib(zone.managed)).sum::<u64>();
        assert!(managed <= MIB << 10 && managed > (MIB << 10) - 2 * size.kib());
        let root = ((managed * 16) as f64).sqrt() as u64;
        assert_eq!(mm.parts.allocator.min_free_kbytes(), root, "{size:?}");
        assert!((11_584..=11_585).contains(&root), "4 * sqrt(8 GiB in kB)");
        let normal = mm.parts.allocator.zones().iter().find(|zone| zone.kind == ZoneType::Normal).unwrap();
        // Half of memory is above 4 GiB, so this zone has half of the minimum, and watermarks 0.1 % apart.
        let min = kib(normal.wmark(Mark::Min));
        assert!(min.abs_diff(root / 2) <= 2 * size.kib(), "{size:?}: {min}");
        let gap = kib(normal.wmark(Mark::High)) - kib(normal.wmark(Mark::Low));
        assert!(gap.abs_diff((MIB / 2) << 10 >> 10) <= 200, "{size:?}: {gap}");
    }
}

/// khugepaged keeps pageblocks free (`set_recommended_min_free_kbytes`): 11 in each zone, but at most a
/// twentieth of memory, which larger base pages reach.
#[test]
fn huge_pages_keep_more_memory_free() {
    let reserve = |size| {
        boot("folios-6.12", size, &[("transparent_hugepage/enabled", "madvise")])
            .1
            .parts
            .allocator
            .min_free_kbytes()
    };
    // The zones are DMA, DMA32 and Normal.
    assert_eq!(reserve(PageSize::Kib4), 3 * 11 * 2048);
    for size in [PageSize::Kib16, PageSize::Kib64] {
        assert!(reserve(size).abs_diff((MIB << 10) / 20) <= size.kib(), "{size:?}");
    }
}

#[test]
fn pagesets_fetch_a_quarter_of_a_mebibyte() {
    let batch = |size| boot("folios-6.12", size, &[]).1.parts.allocator.zones().last().unwrap().batch;
    assert_eq!(PageSize::ALL.map(batch), [63, 15, 3]);
}

#[test]
fn free_memory_is_in_the_largest_blocks() {
    for size in PageSize::ALL {
        let (_, mm) = boot("folios-6.12", size, &[]);
        let Geometry { max_page_order, pageblock_order, .. } = mm.parts.allocator.geometry();
        let order = size.shift() - 12;
        assert_eq!(u64::from(max_page_order), [10, 11, 13][order as usize / 2]);
        assert_eq!(u64::from(pageblock_order), [9, 11, 13][order as usize / 2]);
        let normal = mm.parts.allocator.zones().iter().find(|zone| zone.kind == ZoneType::Normal).unwrap();
        let in_largest = normal.buddy.nr_free(max_page_order) << max_page_order;
        assert_eq!(in_largest, normal.managed >> max_page_order << max_page_order, "{size:?}");
        assert_eq!((max_page_order + 1..14).map(|order| normal.buddy.nr_free(order)).sum::<u64>(), 0);
        mm.validate(0);
    }
}

/// The directories of sizes, and the values that khugepaged's files accept.
#[test]
fn files_are_those_of_the_size() {
    let sizes = |size| {
        let files = boot("folios-6.12", size, &[]).1.sysfs_files();
        let sizes = files.iter().filter_map(|path| {
            let rest = path.strip_prefix("transparent_hugepage/hugepages-")?;
            rest.strip_suffix("kB/enabled")?.parse::<u64>().ok()
        });
        sizes.collect::<Vec<_>>()
    };
    assert_eq!(sizes(PageSize::Kib4), [16, 32, 64, 128, 256, 512, 1024, 2048]);
    let doubled =
        |least: u64, most: u64| (least.ilog2()..=most.ilog2()).map(|shift| 1 << shift).collect::<Vec<_>>();
    assert_eq!(sizes(PageSize::Kib16), doubled(64, 32_768));
    assert_eq!(sizes(PageSize::Kib64), doubled(256, 524_288));
    let huge = PageSize::ALL.map(|size| {
        let (_, mm) = boot("folios-6.12", size, &[]);
        let read = |file: &str| {
            let text = mm.read_sysfs(&format!("transparent_hugepage/{file}")).unwrap();
            text.trim().parse::<u64>().unwrap()
        };
        (read("hpage_pmd_size") >> 20, read("khugepaged/max_ptes_none"), read("khugepaged/pages_to_scan"))
    });
    assert_eq!(huge, [(2, 511, 4096), (32, 2047, 16_384), (512, 8191, 65_536)]);
    let mut settings = Settings::new(PageSize::Kib64);
    let missing = "transparent_hugepage/hugepages-64kB/enabled";
    let refused = settings.set(missing, "always").unwrap_err();
    assert_eq!(refused, SettingError::NoSize { name: missing, page_size: PageSize::Kib64 });
    assert!(settings.set("transparent_hugepage/khugepaged/max_ptes_none", "8192").is_err());
    settings.set("transparent_hugepage/khugepaged/max_ptes_none", "8191").unwrap();
    assert!(settings.set("thp_anon", "64K:always").is_err() && settings.set("thp_anon", "2M:always").is_ok());
}

/// The candidate sizes of a version in KiB with this advice.
fn sizes(name: &str, size: PageSize, advice: Advice) -> Vec<u64> {
    let thp = ThpSettings { enabled: Enabled::Madvise, ..ThpSettings::new(size) };
    let vma = VmaState { advice, ..VmaState::default() };
    candidates(&variant(name).features.folios, &thp, &vma)
        .descending()
        .map(|order| size.kib() << order)
        .collect()
}

/// The limits of v1 and v2 on arm64: 64 KiB, and the size of the contiguous bit in VMAs that may have huge
/// pages. v3 to v5 prefer the latter, or at most 64 KiB without advice, and then order 3.
#[test]
fn versions_want_what_arm64_wants() {
    use Advice::{Huge, None};
    let [_, kib16, kib64] = PageSize::ALL;
    for name in ["folios-v1", "folios-v2"] {
        assert_eq!(sizes(name, kib16, None), [64], "{name}");
        assert_eq!(sizes(name, kib16, Huge), [2048, 1024, 512, 256, 128, 64], "{name}");
        assert_eq!(sizes(name, kib64, None), [0u64; 0], "{name}: a page has 64 KiB");
        assert_eq!(sizes(name, kib64, Huge), [2048, 1024, 512, 256], "{name}");
    }
    assert_eq!(
        (sizes("folios-v2-simple", kib16, None), sizes("folios-v2-simple", kib16, Huge)),
        (vec![64], vec![2048])
    );
    assert_eq!(sizes("folios-v2-32k", kib16, None), [0u64; 0], "no anonymous folio has order 1");
    for name in ["folios-v3", "folios-v4", "folios-v5"] {
        assert_eq!(sizes(name, kib16, None), [64], "{name}");
        assert_eq!(sizes(name, kib16, Huge), [2048, 128], "{name}");
        assert_eq!(sizes(name, kib64, None), [0u64; 0], "{name}");
        assert_eq!(sizes(name, kib64, Huge), [2048, 512], "{name}");
    }
    assert_eq!(PageSize::ALL.map(|size| FolioSize::Contpte.order(size)), [4, 7, 5]);
}

/// Huge pages of 2, 32 and 512 MiB: allocated by one fault, mapped by one PMD, enabled by the file of their
/// size.
#[test]
fn a_huge_page_is_what_a_page_table_is_for() {
    for (size, order) in PageSize::ALL.into_iter().zip([9u8, 11, 13]) {
        let (mut machine, mut mm) = boot("folios-6.12", size, &[("transparent_hugepage/enabled", "always")]);
        let (pages, id) = (1 << order, mm.parts.create_mm(Memcg::ROOT));
        let start = mm.enter(&mut machine, Cpu(0)).mmap(id, 3 * pages, Backing::Anonymous, VmFlags::PRIVATE);
        assert_eq!(start % pages, 0);
        mm.enter(&mut machine, Cpu(0)).touch(id, start + pages + 7, false).unwrap();
        mm.enter(&mut machine, Cpu(0)).touch(id, start + 5, true).unwrap();
        let events = [Event::Pgfault, Event::ThpZeroPageAlloc, Event::ThpFaultAlloc];
        assert_eq!(events.map(|event| mm.counters().get(event)), [2, 1, 1], "{size:?}");
        assert_eq!(
            (mm.parts.address_spaces.mm(id).rss(), mm.parts.anon_pages_by_order(id)[usize::from(order)]),
            (pages, pages)
        );
        let directory = format!("transparent_hugepage/hugepages-{}kB", size.kib() << order);
        let read = |mm: &MemoryManager, file: &str| mm.read_sysfs(&format!("{directory}/{file}")).unwrap();
        assert_eq!(read(&mm, "stats/nr_anon"), "1\n");
        assert_eq!(read(&mm, "enabled"), "always [inherit] madvise never\n");
        // With the file at "never" there are single pages.
        mm.write_sysfs(&format!("{directory}/enabled"), "never").unwrap();
        mm.enter(&mut machine, Cpu(0)).touch(id, start + 2 * pages, true).unwrap();
        assert_eq!(mm.parts.address_spaces.mm(id).rss(), pages + 1);
        // Zapping one page splits the PMD and queues the folio to be split.
        mm.enter(&mut machine, Cpu(0)).madvise_dontneed(id, start..start + 1);
        assert_eq!(read(&mm, "stats/split_deferred"), "1\n");
        assert_eq!(read(&mm, "stats/nr_anon_partially_mapped"), "1\n");
        mm.validate(0);
        // The child maps all pages except that one too, until it stores to one of them.
        let child = mm.enter(&mut machine, Cpu(0)).fork_mm(id);
        mm.enter(&mut machine, Cpu(0)).touch(child, start + 9, true).unwrap();
        assert_eq!(
            (mm.parts.address_spaces.mm(child).rss(), read(&mm, "stats/nr_anon")),
            (pages, "1\n".into())
        );
        mm.validate(0);
        mm.enter(&mut machine, Cpu(0)).exit_mm(id);
        mm.enter(&mut machine, Cpu(0)).exit_mm(child);
        mm.validate(0);
        assert_eq!(read(&mm, "stats/nr_anon"), "0\n");
    }
}

/// More processes than 16 bits can count the PTEs of, with pages of 64 KiB.
#[test]
fn many_children_share_a_huge_page_that_was_split() {
    let size = PageSize::Kib64;
    let (mut machine, mut mm) = boot("folios-6.12", size, &[("transparent_hugepage/enabled", "always")]);
    let (pages, id) = (8192, mm.parts.create_mm(Memcg::ROOT));
    let start = mm.enter(&mut machine, Cpu(0)).mmap(id, pages, Backing::Anonymous, VmFlags::PRIVATE);
    mm.enter(&mut machine, Cpu(0)).touch(id, start, true).unwrap();
    mm.enter(&mut machine, Cpu(0)).madvise_dontneed(id, start..start + 1);
    let children: Vec<_> = (0..20).map(|_| mm.enter(&mut machine, Cpu(0)).fork_mm(id)).collect();
    mm.validate(0);
    mm.enter(&mut machine, Cpu(0)).exit_mm(id);
    mm.validate(0);
    for child in children {
        assert_eq!(mm.enter(&mut machine, Cpu(0)).exit_mm(child).pages(), pages - 1);
    }
    mm.validate(0);
    assert_eq!(mm.parts.address_spaces.mthp_stats().get(13, MthpStat::NrAnon), 0);
}

/// khugepaged collapses small pages into a huge page, and in 7.2 into smaller folios where a whole one is not
/// worth it.
#[test]
fn khugepaged_makes_huge_pages_of_any_size() {
    for (size, order) in PageSize::ALL.into_iter().zip([9u8, 11, 13]) {
        let run = |name: &str, stored: u64, max_ptes_none: u64| {
            let (mut machine, mut mm) = boot(name, size, &[("transparent_hugepage/enabled", "never")]);
            let (pages, id) = (1 << order, mm.parts.create_mm(Memcg::ROOT));
            let start = mm.enter(&mut machine, Cpu(0)).mmap(id, pages, Backing::Anonymous, VmFlags::PRIVATE);
            for page in 0..stored {
                mm.enter(&mut machine, Cpu(0)).touch(id, start + page, true).unwrap();
            }
            mm.set("transparent_hugepage/enabled", "madvise").unwrap();
            mm.set(&format!("transparent_hugepage/hugepages-{}kB/enabled", size.kib() << 4), "madvise")
                .unwrap();
            let none = max_ptes_none.to_string();
            mm.set("transparent_hugepage/khugepaged/max_ptes_none", &none).unwrap();
            mm.enter(&mut machine, Cpu(0)).madvise(id, start..start + pages, Madvise::HugePage);
            let now = machine.now(Cpu(0));
            while mm.khugepaged_due() <= now {
                mm.enter(&mut machine, Cpu(0)).khugepaged();
            }
            mm.validate(0);
            let by_order = mm.parts.anon_pages_by_order(id);
            (by_order[usize::from(order)], by_order[4], by_order[0])
        };
        let pages = 1 << order;
        assert_eq!(run("folios-6.12", 1, pages - 1), (pages, 0, 0), "{size:?}: the creep");
        assert_eq!(run("folios-6.12", pages / 2, pages / 2), (pages, 0, 0), "{size:?}");
        assert_eq!(run("folios-6.12", 40, pages / 2), (0, 0, 40), "{size:?}");
        assert_eq!(run("folios-7.2", 40, 0), (0, 32, 8), "{size:?}");
    }
}

/// A huge page of which few pages were stored to is split when memory runs short, and its pages of zeroes are
/// freed.
#[test]
fn underused_huge_pages_are_split() {
    for (size, order) in PageSize::ALL.into_iter().zip([9u8, 11, 13]) {
        let (mut machine, mut mm) = boot("folios-6.12", size, &[("transparent_hugepage/enabled", "always")]);
        mm.set("transparent_hugepage/khugepaged/max_ptes_none", "400").unwrap();
        let (pages, memcg) = (1 << order, mm.parts.lrus.create_memcg(Memcg::ROOT));
        let [id, other] = [memcg; 2].map(|memcg| mm.parts.create_mm(memcg));
        let start = mm.enter(&mut machine, Cpu(0)).mmap(id, pages, Backing::Anonymous, VmFlags::PRIVATE);
        for page in 0..5 {
            mm.enter(&mut machine, Cpu(0)).touch(id, start + 9 * page, true).unwrap();
        }
        assert_eq!(mm.parts.address_spaces.mm(id).rss(), pages);
        mm.parts.lrus.memcg_mut(memcg).max = 64;
        let page = mm.enter(&mut machine, Cpu(0)).mmap(other, 1, Backing::Anonymous, VmFlags::PRIVATE);
        mm.enter(&mut machine, Cpu(0)).touch(other, page, true).unwrap();
        assert_eq!(mm.counters().get(Event::ThpUnderusedSplitPage), 1, "{size:?}");
        assert_eq!(mm.parts.address_spaces.mm(id).rss(), 5, "{size:?}");
        mm.validate(0);
    }
}

#[test]
fn large_folios_are_swapped_page_by_page() {
    for (size, whole) in PageSize::ALL.into_iter().zip([true, false, false]) {
        let file = format!("transparent_hugepage/hugepages-{}kB/enabled", size.kib() << 4);
        let (mut machine, mut mm) = boot("folios-6.12", size, &[(&file, "always")]);
        mm.parts.swap.swapon(4096, Some(Time::ZERO));
        let memcg = mm.parts.lrus.create_memcg(Memcg::ROOT);
        mm.parts.lrus.memcg_mut(memcg).max = 256;
        let id = mm.parts.create_mm(memcg);
        let start = mm.enter(&mut machine, Cpu(0)).mmap(id, 1024, Backing::Anonymous, VmFlags::PRIVATE);
        for page in (0..1024).step_by(16) {
            mm.enter(&mut machine, Cpu(0)).touch(id, start + page, true).unwrap();
        }
        let count = |stat| mm.parts.address_spaces.mthp_stats().get(4, stat);
        assert_eq!(
            (count(MthpStat::Swpout) > 0, count(MthpStat::SwpoutFallback) > 0),
            (whole, !whole),
            "{size:?}"
        );
        mm.validate(0);
    }
}

proptest! {
    /// The same bytes are mapped and touched: with larger pages there are never more faults, and never less
    /// memory is used. Enabled sizes give folios of the same bytes, as long as all windows and VMAs are
    /// multiples of the larger base page.
    #[test]
    fn equal_bytes_on_all_sizes(
        areas in prop::collection::vec((1..40u64, any::<bool>()), 1..8),
        touches in prop::collection::vec((0..8usize, 0..640u64), 1..80),
    ) {
        let run = |size: PageSize| {
            let changes = ["256", "512"].map(|kib| (format!("transparent_hugepage/hugepages-{kib}kB/enabled"), "always"));
            let changes = [0, 1].map(|at| (changes[at].0.as_str(), changes[at].1));
            let (mut machine, mut mm) = boot("folios-6.12", size, &changes);
            let id = mm.parts.create_mm(Memcg::ROOT);
            let mut starts = Vec::new();
            // VMAs whose lengths are multiples of 64 KiB, 4 MiB apart.
            for (number, &(length, aligned)) in areas.iter().enumerate() {
                let start = ((number as u64 + 1) << 22) + if aligned { 0 } else { 3 << 16 };
                let pages = (length << 16) >> size.shift();
                let (backing, flags) = (Backing::Anonymous, VmFlags::PRIVATE);
                mm.enter(&mut machine, Cpu(0)).mmap_fixed(id, start >> size.shift(), pages, backing, flags);
                starts.push(start);
            }
            for &(area, at) in &touches {
                let (area, at) = (area % areas.len(), at << 12);
                if at < areas[area].0 << 16 {
                    mm.enter(&mut machine, Cpu(0)).touch(id, (starts[area] + at) >> size.shift(), true).unwrap();
                }
            }
            mm.validate(0);
            let made = [256u64, 512].map(|kib| {
                let order = (kib / size.kib()).ilog2() as u8;
                mm.parts.address_spaces.mthp_stats().get(order, MthpStat::AnonFaultAlloc)
            });
            (mm.counters().get(Event::Pgfault), mm.parts.address_spaces.mm(id).rss() * size.kib(), made)
        };
        let [small, middle, large] = PageSize::ALL.map(run);
        prop_assert!(small.0 >= middle.0 && middle.0 >= large.0, "faults: {:?} {:?} {:?}", small, middle, large);
        prop_assert!(small.1 <= middle.1 && middle.1 <= large.1, "memory: {:?} {:?} {:?}", small, middle, large);
        prop_assert_eq!((small.2, middle.2), (large.2, large.2), "folios of 256 and 512 KiB");
    }
}
