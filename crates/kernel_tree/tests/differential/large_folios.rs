//! Faults that may get large folios while memory becomes short and fragmented: an unchanged tree says the orders that the policy says.

use crate::kernels::Kernel;
use machine::{Cpu, Machine, Node, Profile, Time, Topology};
use mm::address_space::{Advice, Backing, VmFlags};
use mm::memcontrol::Memcg;
use mm::memory_map::MemoryRange;
use mm::{Category, Decisions, Event, MemoryManager, Settings, ZoneType};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// Pages of the process; memory has 5,500.
const PAGES: u64 = 9000;
/// How often something is touched or given back.
const STEPS: u64 = 20_000;

/// What came of a run.
#[derive(Debug, PartialEq)]
struct Outcome {
    counters: String,
    clock: Time,
    swapped_out: u64,
}

fn outcome(kernel: &Kernel, decisions: Decisions) -> Outcome {
    let profile =
        Profile::parse(include_str!("../../../../machines/intel-2s-128.toml")).expect("it is built in");
    let topology = Topology::of_nodes(1, 2);
    let range = |kind, span| MemoryRange::all_free(Node(0), kind, span);
    let memory = [range(ZoneType::Dma32, 4096..5596), range(ZoneType::Normal, 1 << 20..(1 << 20) + 4000)];
    let (noise, settings) = (Pcg64Mcg::new(1), Settings::default());
    let mut mm = MemoryManager::deciding_by(decisions, &topology, &memory, kernel.features, settings, noise);
    let mut machine: Machine<Category> = Machine::new(topology, profile.costs());
    mm.set("transparent_hugepage/enabled", "always").expect("the kernel has the setting");
    for (size, mode) in [(16, "always"), (64, "inherit"), (512, "madvise")] {
        // Kernels before 6.8 have no such files.
        let _ = mm.set(&format!("transparent_hugepage/hugepages-{size}kB/enabled"), mode);
    }
    mm.parts.swap.swapon(4 * PAGES, Some(Time::ZERO));
    let space = mm.parts.create_mm(Memcg::ROOT);
    let start = mm.enter(&mut machine, Cpu(0)).mmap(space, PAGES, Backing::Anonymous, VmFlags::PRIVATE);
    mm.enter(&mut machine, Cpu(0)).madvise(space, start..start + PAGES / 2, Advice::HugePage);
    let mut random = Pcg64Mcg::new(2);
    for step in 0..STEPS {
        let page = start + random.random_range(0..PAGES);
        if random.random_range(0..32) == 0 {
            let end = (page + random.random_range(1..=64)).min(start + PAGES);
            mm.enter(&mut machine, Cpu(0)).madvise_dontneed(space, page..end);
        } else {
            mm.enter(&mut machine, Cpu(0)).touch(space, page, step % 3 > 0).expect("swap has room");
        }
    }
    Outcome {
        counters: format!("{:?}", mm.counters()),
        clock: machine.now(Cpu(0)),
        swapped_out: mm.counters().get(Event::Pswpout),
    }
}

/// Runs both.
pub fn compare(kernel: &Kernel, decisions: Decisions) {
    let own = outcome(kernel, Decisions::default());
    assert_eq!(own, outcome(kernel, decisions), "{}", kernel.release);
    assert!(own.swapped_out > 0, "memory is short: {own:?}");
}
