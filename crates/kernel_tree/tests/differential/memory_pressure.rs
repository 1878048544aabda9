//! A process that is larger than memory: what is evicted as an unchanged tree's multi-gen LRU says is what the policies evict.

use crate::kernels::Kernel;
use machine::{Cpu, Machine, Node, Profile, Time, Topology};
use mm::address_space::{Backing, VmFlags};
use mm::memcontrol::Memcg;
use mm::memory_map::MemoryRange;
use mm::{Category, Decisions, Event, MemoryManager, Settings, ZoneType};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// Pages of the process; memory has 5,500.
const PAGES: u64 = 9000;
/// How often one is touched.
const TOUCHES: u64 = 100_000;

/// What came of a run.
#[derive(Debug, PartialEq)]
struct Outcome {
    counters: String,
    clock: Time,
    evicted: u64,
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
    mm.set("transparent_hugepage/enabled", "never").expect("the kernel has the setting");
    mm.parts.swap.swapon(4 * PAGES, Some(Time::ZERO));
    let space = mm.parts.create_mm(Memcg::ROOT);
    let start = mm.enter(&mut machine, Cpu(0)).mmap(space, PAGES, Backing::Anonymous, VmFlags::PRIVATE);
    let mut random = Pcg64Mcg::new(2);
    for _ in 0..TOUCHES {
        // Half of all touches are of a tenth of all pages.
        let among = if random.random_range(0..2) == 0 { PAGES / 10 } else { PAGES };
        let (page, write) = (random.random_range(0..among), random.random_range(0..2) == 0);
        let touched = mm.enter(&mut machine, Cpu(0)).touch(space, start + page, write);
        touched.expect("swap has room");
    }
    let counters = mm.counters();
    let evicted = counters.get(Event::PgstealAnon);
    Outcome { counters: format!("{counters:?}"), clock: machine.now(Cpu(0)), evicted }
}

/// Runs both.
pub fn compare(kernel: &Kernel, decisions: Decisions) {
    let own = outcome(kernel, Decisions::default());
    assert_eq!(own, outcome(kernel, decisions), "{}", kernel.release);
    assert!(own.evicted > PAGES, "memory is short: {own:?}");
}
