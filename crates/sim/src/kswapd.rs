//! kswapds on the CPUs of a simulation: each on one that is idle when it is woken, or on the last of its node, a step at a
//! time between threads.

use crate::System;
use machine::{Cpu, Node};
use mm::vmscan::Kswapd;

/// Runs of kswapd that are under way, by node, and where.
#[derive(Default)]
pub(super) struct Kswapds(Vec<Option<(Kswapd, Cpu)>>);

impl Kswapds {
    /// Starts those that were woken, as `cpu` sees the time.
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

    /// Runs the kswapd that is on `cpu` for a step, if one is; whether it was.
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
