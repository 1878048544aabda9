//! `lru_gen/min_ttl_ms`: what was used lately stays, and if that leaves nothing to evict, a process goes.

mod reclaim_machine;

use machine::{Cpu, Node, Time};
use mm::Variant;
use mm::address_space::{Backing, MmId, VmFlags};
use mm::filemap::Read;
use mm::memcontrol::Memcg;
use reclaim_machine::boot;

/// Fills memory with files beside two processes, one larger than the other, all within a second; who is to be killed, and
/// the larger one.
fn fill(min_ttl_ms: &str) -> (Option<MmId>, MmId) {
    let (mut machine, mut mm) = boot(Variant::of_release("6.12").unwrap());
    mm.set("lru_gen/min_ttl_ms", min_ttl_ms).unwrap();
    let processes = [300, 600].map(|pages| {
        let process = mm.create_mm(Memcg::ROOT);
        let start = mm.mmap(process, pages, Backing::Anonymous, VmFlags::PRIVATE);
        for page in start..start + pages {
            mm.touch(&mut machine, Cpu(0), process, page, true).unwrap();
        }
        process
    });
    let file = mm.open_file();
    for index in 0..20_000 {
        match mm.read_page(&mut machine, Cpu(0), Memcg::ROOT, file, index, false) {
            Ok(Read::Miss(id)) => mm.end_read(id),
            Ok(Read::Hit(_)) => {}
            Err(_) => break,
        }
        machine.charge(Cpu(0), mm::Category::Program, Time::from_nanoseconds(20_000));
        for node in 0..2 {
            if let Some(mut kswapd) = mm.start_kswapd(Node(node)) {
                while kswapd.step(&mut mm, &mut machine, Cpu(0)) {}
            }
        }
        if let Some(victim) = mm.take_oom_victim() {
            assert_eq!(mm.counters().get(mm::Event::OomKill), 1);
            return (Some(victim), processes[1]);
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
