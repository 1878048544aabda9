//! Who uses which memory, and who scans it: threads that touched, scanned and faulted in VMAs.

use crate::System;
use crate::outcome::{AreaHeat, ThreadHeat};
use mm::address_space::MmId;
use mm::numa::heat::VmaHeat;
use mm::numa::placement::TaskId;
use mm::numa::scan::policy::SkipReason;

/// Number of VMAs reported in the heat map.
const AREAS: usize = 8;

/// The VMAs with most touches.
pub(super) fn heat_map(system: &System) -> Vec<AreaHeat> {
    let area = |(mm, address, heat): (MmId, u64, &VmaHeat)| {
        let skipped = SkipReason::ALL.into_iter().zip(heat.skipped).filter(|(_, times)| *times > 0);
        let thread = |(task, heat): (TaskId, mm::numa::heat::ThreadHeat)| ThreadHeat {
            thread: task.0,
            touched: heat.touched,
            scanned: heat.scanned,
            local_faults: heat.faults[1],
            remote_faults: heat.faults[0],
        };
        AreaHeat {
            process: mm.index() as u32,
            address,
            pages: heat.pages,
            skipped: skipped.map(|(reason, times)| (reason.name().into(), times)).collect(),
            threads: heat.threads().map(thread).collect(),
        }
    };
    let order = [AreaHeat::touched, AreaHeat::faults, AreaHeat::scanned];
    let mut areas: Vec<AreaHeat> = system.mm.parts.numa.heat().iter().map(area).collect();
    areas.retain(|area| order.iter().any(|of| of(area) > 0));
    areas.sort_by_key(|area| std::cmp::Reverse(order.map(|of| of(area))));
    areas.truncate(AREAS);
    areas
}
