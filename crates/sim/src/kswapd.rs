//! kswapds on simulated CPUs. A kswapd runs on a CPU that is idle when it is woken, or on the last one of its
//! node, one step at a time between the threads there.

use crate::System;
use machine::{Cpu, Node};
use mm::vmscan::Kswapd;

/// For each node, the running kswapd and its CPU.
#[derive(Default)]
pub(super) struct Kswapds(Vec<Option<(Kswapd, Cpu)>>);

impl Kswapds {
    /// Starts the kswapds that were woken, at the time of `cpu`.
    pub fn wake(&mut self, system: &mut System, cpu: Cpu) {
        let nodes = system.machine.topology.nodes;
        self.0.resize_with(nodes.into(), || None);
        for (node, place) in (0..nodes).map(Node).zip(&mut self.0) {
            if place.is_some() {
                continue;
            }
            let Some(kswapd) = system.mm.enter(&mut system.machine, Cpu(0)).start_kswapd(node) else {
                continue;
            };
            let cpus = system.machine.topology.cpus_of(node);
            let idle = cpus.iter().copied().find(|&cpu| !system.is_busy(cpu));
            let at = idle.or(cpus.last().copied()).unwrap_or(cpu);
            *place = Some((kswapd, at));
            system.wake(at, system.machine.now(cpu));
        }
    }

    /// Whether a kswapd runs on `cpu`.
    pub fn are_on(&self, cpu: Cpu) -> bool {
        self.0.iter().flatten().any(|(_, at)| *at == cpu)
    }

    /// Runs one step of the kswapd on `cpu`. Returns whether there is one.
    pub fn step(&mut self, system: &mut System, cpu: Cpu) -> bool {
        let on_cpu = |place: &&mut Option<(Kswapd, Cpu)>| place.as_ref().is_some_and(|(_, at)| *at == cpu);
        let Some(place) = self.0.iter_mut().find(on_cpu) else { return false };
        if let Some((kswapd, _)) = place
            && !kswapd.step(&mut system.mm.enter(&mut system.machine, cpu))
        {
            *place = None;
        }
        true
    }
}
