//! A machine whose memory is smaller than its only process, with the twin's own decisions and with those of an unchanged tree.

use crate::kernels::Kernel;
use machine::{Cpu, Machine, Node, Profile, Time, Topology};
use mm::address_space::{Backing, MmId, VmFlags, Vpn};
use mm::memcontrol::Memcg;
use mm::memory_map::MemoryRange;
use mm::{Category, Decisions, Event, MemoryManager, Settings, ZoneType};
use rand_pcg::Pcg64Mcg;

/// Pages of the process; memory has 5,500.
pub const PAGES: u64 = 9000;

/// The machine, its memory manager, and the process.
pub struct Host {
    pub mm: MemoryManager,
    pub machine: Machine<Category>,
    pub space: MmId,
    /// The first page of the process.
    pub start: Vpn,
}

/// A host before its process has touched anything; `set` writes settings.
fn boot(kernel: &Kernel, decisions: Decisions, set: fn(&mut MemoryManager)) -> Host {
    let profile =
        Profile::parse(include_str!("../../../../machines/intel-2s-128.toml")).expect("it is built in");
    let topology = Topology::of_nodes(1, 2);
    let range = |kind, span| MemoryRange::all_free(Node(0), kind, span);
    let memory = [range(ZoneType::Dma32, 4096..5596), range(ZoneType::Normal, 1 << 20..(1 << 20) + 4000)];
    let (noise, settings) = (Pcg64Mcg::new(1), Settings::default());
    let mut mm = MemoryManager::deciding_by(decisions, &topology, &memory, kernel.features, settings, noise);
    let mut machine: Machine<Category> = Machine::new(topology, profile.costs());
    set(&mut mm);
    mm.parts.swap.swapon(4 * PAGES, Some(Time::ZERO));
    let space = mm.parts.create_mm(Memcg::ROOT);
    let start = mm.enter(&mut machine, Cpu(0)).mmap(space, PAGES, Backing::Anonymous, VmFlags::PRIVATE);
    Host { mm, machine, space, start }
}

/// Runs the process on both kernels and compares every counter and the clock. `evicted` has to count more than `least`: memory is
/// short.
pub fn compare(
    kernel: &Kernel,
    decisions: Decisions,
    set: fn(&mut MemoryManager),
    run: fn(&mut Host),
    (evicted, least): (Event, u64),
) {
    let outcome = |decisions: Decisions| {
        let mut host = boot(kernel, decisions, set);
        run(&mut host);
        let counters = host.mm.counters();
        (format!("{counters:?}"), host.machine.now(Cpu(0)), counters.get(evicted))
    };
    let own = outcome(Decisions::default());
    assert_eq!(own, outcome(decisions), "{}", kernel.release);
    assert!(own.2 > least, "memory is short: {own:?}");
}
