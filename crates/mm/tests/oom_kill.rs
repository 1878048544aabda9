//! The OOM killer. `lru_gen/min_ttl_ms`: pages that were used lately are not evicted, and if that leaves
//! nothing to evict, a process is killed.

mod reclaim_machine;

use machine::{Cpu, Node, Time};
use mm::Variant;
use mm::address_space::{Backing, MmId, VmFlags};
use mm::filemap::{Access, Read};
use mm::memcontrol::Memcg;
use mm::oom_kill::OomCause;
use reclaim_machine::boot;

/// Fills memory with file pages beside two processes, one larger than the other, all within a second. Returns
/// the process that is killed, if any, and the larger one.
fn fill(min_ttl_ms: &str) -> (Option<MmId>, MmId) {
    let (mut machine, mut mm) = boot(Variant::of_release("6.12").unwrap());
    mm.set("lru_gen/min_ttl_ms", min_ttl_ms).unwrap();
    let processes = [300, 600].map(|pages| {
        let process = mm.parts.create_mm(Memcg::ROOT);
        let start = mm.enter(&mut machine, Cpu(0)).mmap(process, pages, Backing::Anonymous, VmFlags::PRIVATE);
        for page in start..start + pages {
            mm.enter(&mut machine, Cpu(0)).touch(process, page, true).unwrap();
        }
        process
    });
    let file = mm.parts.page_cache.open_file();
    for index in 0..20_000 {
        match mm.enter(&mut machine, Cpu(0)).read_page(Memcg::ROOT, file, index, Access::New) {
            Ok(Read::Miss(id)) => mm.parts.lrus.end_read(id),
            Ok(Read::Hit(_)) => {}
            Err(_) => break,
        }
        machine.charge(Cpu(0), mm::Category::Program, Time::from_nanoseconds(20_000));
        for node in 0..2 {
            if let Some(mut kswapd) = mm.enter(&mut machine, Cpu(0)).start_kswapd(Node(node)) {
                while kswapd.step(&mut mm.enter(&mut machine, Cpu(0))) {}
            }
        }
        if let Some(kill) = mm.enter(&mut machine, Cpu(0)).take_oom_kill() {
            assert_eq!(mm.counters().get(mm::Event::OomKill), 1);
            assert_eq!((kill.cause, &kill.victims[..]), (OomCause::MinTtl, &[kill.chosen.0][..]));
            return (Some(kill.chosen.0), processes[1]);
        }
    }
    (None, processes[1])
}

#[test]
fn the_largest_process_goes_where_everything_is_too_young() {
    let (victim, largest) = fill("1000");
    assert_eq!(victim, Some(largest));
}

#[test]
fn nobody_goes_without_a_promise() {
    assert_eq!(fill("0").0, None);
}

/// Three processes with so many pages each, in two memcgs below a parent and in one beside it. Returns the
/// cause and the processes that an allocation of the first one kills.
fn killed(pages: [u64; 3], limits: [Option<u64>; 3], oom_group: [bool; 3]) -> (OomCause, Vec<usize>) {
    let (mut machine, mut mm) = boot(Variant::of_release("6.18").unwrap());
    // parent ── first, second; beside
    let parent = mm.parts.lrus.create_memcg(Memcg::ROOT);
    let groups = [
        mm.parts.lrus.create_memcg(parent),
        mm.parts.lrus.create_memcg(parent),
        mm.parts.lrus.create_memcg(Memcg::ROOT),
    ];
    let processes = std::array::from_fn::<MmId, 3, _>(|number| {
        let process = mm.parts.create_mm(groups[number]);
        let start =
            mm.enter(&mut machine, Cpu(0)).mmap(process, pages[number], Backing::Anonymous, VmFlags::PRIVATE);
        for page in start..start + pages[number] {
            mm.enter(&mut machine, Cpu(0)).touch(process, page, true).unwrap();
        }
        process
    });
    for (group, limit) in [groups[0], parent, groups[2]].into_iter().zip(limits) {
        mm.parts.lrus.memcg_mut(group).max = limit.unwrap_or(mm::memcontrol::UNLIMITED);
    }
    for (group, together) in [groups[0], parent, groups[2]].into_iter().zip(oom_group) {
        mm.parts.lrus.memcg_mut(group).oom_group = together;
    }
    let kill = mm.enter(&mut machine, Cpu(0)).out_of_memory(groups[0]).unwrap();
    assert_eq!(mm.counters().get(mm::Event::OomKill), kill.victims.len() as u64);
    let number = |victim: &MmId| processes.iter().position(|process| process == victim).unwrap();
    (kill.cause, kill.victims.iter().map(number).collect())
}

#[test]
fn the_worst_process_below_the_limit_goes_and_with_oom_group_all_of_its_group() {
    let (first, parent) = (Memcg(2), Memcg(1));
    let none = [false; 3];
    // No memcg is at its limit: the machine is out of memory, and the largest process of all is killed.
    assert_eq!(killed([30, 40, 50], [None; 3], none), (OomCause::NoFreePage, vec![2]));
    // The memcg of the allocating process is at its limit: its only process is killed.
    assert_eq!(killed([30, 40, 50], [Some(1), None, None], none), (OomCause::MemoryMax(first), vec![0]));
    // The parent is at its limit: the larger process of the two below it is killed.
    assert_eq!(killed([30, 40, 50], [None, Some(1), None], none), (OomCause::MemoryMax(parent), vec![1]));
    // With `memory.oom.group`, all processes of a memcg are killed, of the highest such memcg up to the one
    // at its limit.
    assert_eq!(killed([30, 40, 50], [None, Some(1), None], [true, true, false]).1, [0, 1]);
    assert_eq!(killed([30, 40, 50], [Some(1), None, None], [true, true, false]).1, [0]);
    assert_eq!(killed([30, 40, 20], [None; 3], [false, true, true]).1, [0, 1]);
    // Of equal processes, the youngest is killed.
    assert_eq!(killed([30, 30, 30], [None; 3], none).1, [2]);
}
