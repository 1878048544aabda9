//! Requests that cannot sleep (`GFP_ATOMIC`): the fast path heeds the low watermark alone, the slow path lets them use reserves.

mod small_machine;

use machine::{Cpu, Machine};
use mm::allocator::request::Effort;
use mm::watermark::Reserves;
use mm::{Category, Event, Features, MemoryManager, MigrateType, Placement, Request, Series};

const CPU: Cpu = Cpu(0);

fn atomic(order: u8) -> Request {
    let reserves = Reserves { min_reserve: true, non_block: true, oom: false };
    let effort = Effort { wakes: true, ..Effort::LIGHT };
    Request { reserves, effort, ..Request::new(order, MigrateType::Unmovable, Placement::Local) }
}

/// Boots a machine all of whose zones have less free memory than their low watermark, and more than their min watermark.
fn boot(features: Features) -> (Machine<Category>, MemoryManager) {
    let (machine, mut mm) = small_machine::boot(features);
    let free = mm.parts.allocator.free_pages() * 4;
    mm.set("vm.min_free_kbytes", &(free * 9 / 10).to_string()).unwrap();
    (machine, mm)
}

#[test]
fn wake_kswapd_at_the_low_watermark() {
    for variant in Series::PCP.variants() {
        let (mut machine, mut mm) = boot(variant.features);
        // Reserves would let it have more than half of what is below the low watermark.
        mm.enter(&mut machine, CPU).alloc(&atomic(0)).expect("above the min watermark");
        assert_eq!(mm.counters().get(Event::KswapdWake), 1, "{}", variant.name);
    }
}

#[test]
fn go_below_the_min_watermark() {
    let (mut machine, mut mm) = boot(Series::PCP.variants().next().unwrap().features);
    let ordinary = Request { reserves: Reserves::default(), effort: Effort::LIGHT, ..atomic(0) };
    while mm.enter(&mut machine, CPU).alloc(&ordinary).is_some() {}
    assert!(mm.enter(&mut machine, CPU).alloc(&atomic(0)).is_some());
    assert!(mm.enter(&mut machine, CPU).alloc(&ordinary).is_none());
}

#[test]
fn of_high_order_have_a_pageblock_set_aside_when_memory_is_short() {
    let set_aside =
        |mm: &MemoryManager| mm.parts.allocator.zones().iter().any(|zone| zone.nr_reserved_highatomic > 0);
    for variant in Series::PCP.variants() {
        let (mut machine, mut mm) = small_machine::boot(variant.features);
        mm.enter(&mut machine, CPU).alloc(&atomic(4)).expect("memory is free");
        assert!(!set_aside(&mm), "{}", variant.name);
        let (mut machine, mut mm) = boot(variant.features);
        mm.enter(&mut machine, CPU).alloc(&atomic(4)).expect("above the min watermark");
        assert!(set_aside(&mm), "{}", variant.name);
    }
}
