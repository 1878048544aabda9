//! The twin's own /proc text, parsed by the code that parses the running kernel's.

use live::proc::{parse_buddyinfo, parse_vmstat, parse_zoneinfo};
use machine::{Cpu, Machine, Profile};
use mm::memory_map::memory_layout;
use mm::watermark::Mark;
use mm::{MemoryManager, MigrateType, Placement, Request, Series, Settings};
use rand_pcg::Pcg64Mcg;

#[test]
fn zoneinfo_buddyinfo_and_vmstat_parse_back() {
    let profile = Profile::parse(include_str!("../../../machines/intel-2s-128.toml")).unwrap();
    for variant in Series::PCP.variants() {
        let topology = profile.topology();
        let memory = memory_layout(topology.nodes, 8192);
        let noise = Pcg64Mcg::new(1);
        let mut mm = MemoryManager::new(&topology, &memory, variant.features, Settings::default(), noise);
        let mut machine = Machine::new(topology, profile.costs());
        for order in [0, 0, 1, 3, 9, 10] {
            let request = Request::new(order, MigrateType::Unmovable, Placement::Local);
            let pfn = mm.enter(&mut machine, Cpu(3)).alloc(&request).unwrap();
            if order == 3 {
                mm.enter(&mut machine, Cpu(5)).free(pfn, order);
            }
        }
        let info = parse_zoneinfo(&mm::proc::zoneinfo(&mm)).unwrap();
        assert_eq!(info.zones.len(), mm.parts.allocator.zones().len());
        for (parsed, zone) in info.zones.iter().zip(mm.parts.allocator.zones()) {
            assert_eq!((parsed.name.as_str(), parsed.node), (zone.kind.name(), zone.node.0.into()));
            assert_eq!((parsed.free as i64, parsed.managed), (zone.free_pages(), zone.managed));
            let marks = [Mark::Min, Mark::Low, Mark::High].map(|mark| zone.wmark(mark));
            assert_eq!([parsed.min, parsed.low, parsed.high], marks);
            assert_eq!(parsed.start_pfn, Some(zone.buddy.span().start.into()));
            assert_eq!(parsed.protection, zone.lowmem_reserve);
            assert_eq!(parsed.pagesets.len(), zone.pagesets.len());
            for (parsed, pageset) in parsed.pagesets.iter().zip(&zone.pagesets) {
                let p = &pageset.tuning;
                assert_eq!(
                    (parsed.count as i32, parsed.high as i32, parsed.batch as i32),
                    (p.count, p.high, p.batch)
                );
                let bounds = variant.features.zoneinfo_prints_bounds.then_some((p.high_min, p.high_max));
                let printed = parsed.high_min.zip(parsed.high_max).map(|(min, max)| (min as i32, max as i32));
                assert_eq!(printed, bounds, "{}", variant.name);
            }
        }
        let blocks = parse_buddyinfo(&mm::proc::buddyinfo(&mm)).unwrap();
        assert_eq!(blocks.len(), mm.parts.allocator.zones().len());
        let counters = parse_vmstat(&mm::proc::vmstat(&mm)).unwrap();
        assert_eq!(counters["pgalloc_normal"] + counters["pgalloc_dma32"], 1 + 1 + 2 + 8 + 512 + 1024);
        assert_eq!(counters["pgfree"], 8);
    }
}
