//! Boot of the page allocator: zones and zonelists once; watermarks, reserves and pagesets at boot and after
//! each change of a setting.
//!
//! In the kernel: `build_zonelists`, `__setup_per_zone_wmarks`, `setup_per_zone_lowmem_reserve` and
//! `setup_zone_pageset` in mm/page_alloc.c.

use super::PageAllocator;
use crate::allocator::compaction::KcompactdState;
use crate::allocator::fault_injection::Injection;
use crate::allocator::memory_map::{MemoryRange, ZoneType};
use crate::allocator::page::Geometry;
use crate::allocator::pcp;
use crate::allocator::watermark;
use crate::allocator::zone::Zone;
use crate::decisions::{Decisions, MOST_ZONES, PcpDecisions, Rule, WatermarkState, nonsense};
use crate::features::Features;
use crate::sysctl::Settings;
use machine::{Node, Time, Topology};

impl PageAllocator {
    /// Zones with all their memory free, and zonelists. Watermarks and pagesets stay unset until
    /// [`PageAllocator::configure`].
    pub(crate) fn new(
        topology: &Topology,
        memory: &[MemoryRange],
        geometry: Geometry,
        failslab: Injection,
    ) -> PageAllocator {
        let cpus = topology.cpus();
        let numbered = memory.iter().zip(0..);
        let zones: Vec<Zone> =
            numbered.map(|(range, number)| Zone::new(geometry, range, cpus, number)).collect();
        let nodes: Vec<Node> = (0..topology.nodes).map(Node).collect();
        let own_zones: Vec<Vec<usize>> = nodes
            .iter()
            .map(|&node| {
                let mut own: Vec<usize> = (0..zones.len()).filter(|&z| zones[z].node == node).collect();
                own.sort_by_key(|&z| std::cmp::Reverse(zones[z].kind));
                own
            })
            .collect();
        let zonelists = nodes
            .iter()
            .map(|&node| {
                topology.nodes_by_distance(node).iter().flat_map(|n| own_zones[n.index()].clone()).collect()
            })
            .collect();
        PageAllocator {
            geometry,
            zones,
            zonelists,
            own_zones,
            min_free_kbytes: 0,
            local_cpus: nodes.iter().map(|&node| topology.cpus_of(node).len() as u64).collect(),
            online_cpus: cpus as u64,
            kcompactds: vec![KcompactdState::default(); nodes.len()],
            draining_until: Time::ZERO,
            lets_faults_reschedule: false,
            need_resched: false,
            failslab,
        }
    }

    /// Managed pages of all zones (`totalram_pages`).
    pub(crate) fn totalram_pages(&self) -> u64 {
        self.zones.iter().map(|zone| zone.managed).sum()
    }

    /// Recomputes watermarks, lowmem reserves and pagesets from the settings, at boot and after each change.
    /// If khugepaged runs and `vm.min_free_kbytes` is not set, its recommended value is used.
    pub(crate) fn configure(
        &mut self,
        features: &Features,
        decisions: &Decisions,
        settings: &Settings,
        khugepaged: bool,
    ) {
        let lowmem: u64 = self.zones.iter().filter(|z| z.kind != ZoneType::Movable).map(|z| z.managed).sum();
        let page_size = self.geometry.page_size;
        // At boot the high watermarks are still zero, so all of lowmem counts.
        let computed = watermark::default_min_free_kbytes(lowmem * page_size.kib());
        let wanted = settings.min_free_kbytes.unwrap_or(computed);
        let populated = self.zones.iter().filter(|z| z.kind <= ZoneType::Normal).count() as u64;
        let huge = watermark::khugepaged_min_free_kbytes(self.geometry, populated, lowmem);
        let raised = khugepaged && settings.min_free_kbytes.is_none();
        self.min_free_kbytes = if raised { wanted.max(huge) } else { wanted };
        let marks = self.marks(decisions, lowmem, settings.watermark_scale_factor);
        let managed: Vec<(Node, ZoneType, u64)> =
            self.zones.iter().map(|z| (z.node, z.kind, z.managed)).collect();
        for (zone, marks) in self.zones.iter_mut().zip(marks) {
            zone.marks = marks;
            zone.buddy.watermark_boost = 0;
            zone.stat_threshold = watermark::counter_threshold(page_size, self.online_cpus, zone.managed);
            let ratio = settings.lowmem_reserve_ratio[zone.kind as usize];
            for (class, reserve) in ZoneType::ALL.iter().zip(&mut zone.lowmem_reserve) {
                let above = |&&(node, kind, _): &&(Node, ZoneType, u64)| {
                    node == zone.node && kind > zone.kind && kind <= *class
                };
                let protected: u64 = managed.iter().filter(above).map(|&(_, _, pages)| pages).sum();
                *reserve = protected.checked_div(ratio).unwrap_or(0);
            }
            let local = self.local_cpus[zone.node.index()];
            zone.configure_pagesets(features, &decisions.pcp, settings, local, self.online_cpus);
        }
    }

    /// The watermarks of all zones, `lowmem` being the managed pages of all but movable ones.
    fn marks(&self, decisions: &Decisions, lowmem: u64, scale_factor: u64) -> Vec<[u64; 4]> {
        let Rule::Tree(setup) = decisions.watermarks else {
            let min_free = self.min_free_kbytes / self.geometry.page_size.kib();
            let of = |z: &Zone| watermark::marks(z.kind, z.managed, min_free, lowmem, scale_factor);
            return self.zones.iter().map(of).collect();
        };
        let mut state = WatermarkState {
            min_free_kbytes: self.min_free_kbytes.min(i32::MAX as u64) as i32,
            watermark_scale_factor: scale_factor.min(i32::MAX as u64) as i32,
            page_shift: self.geometry.page_size.shift() as i32,
            nr_zones: self.zones.len() as i32,
            ..WatermarkState::default()
        };
        for (z, zone) in self.zones.iter().enumerate().take(MOST_ZONES) {
            (state.kind[z], state.managed[z]) = (zone.kind as i32, zone.managed);
        }
        let asked = state;
        setup(&mut state);
        let of = |z: usize| [state.min[z], state.low[z], state.high[z], state.promo[z]];
        let are_ordered = |z: usize| of(z).is_sorted() && of(z)[3] < 1 << 62;
        if self.zones.len() > MOST_ZONES || !(0..self.zones.len()).all(are_ordered) {
            nonsense("__setup_per_zone_wmarks", &asked, &state, "marks are in no order, or zones too many");
        }
        (0..self.zones.len()).map(of).collect()
    }

    /// Sets `PCPF_FREE_HIGH_BATCH` of the pagesets whose CPU's cache share holds several batches. The kernel
    /// evaluates this when CPUs come up, with the batch of that time.
    pub(crate) fn set_free_high_batch(
        &mut self,
        features: &Features,
        decisions: &PcpDecisions,
        topology: &Topology,
    ) {
        let bytes = pcp::policy::cache_share(features, topology);
        let page_size = self.geometry.page_size;
        for zone in &mut self.zones {
            let batch = decisions.zone_batchsize(page_size, zone.managed);
            for pageset in &mut zone.pagesets {
                pageset.tuning.free_high_batch =
                    pcp::policy::is_cache_large(features, page_size, bytes, batch);
            }
        }
    }
}
