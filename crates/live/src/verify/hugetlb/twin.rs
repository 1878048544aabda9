//! Makes the writes of a case in the twin.
//!
//! ```text
//!   zones of the recorded machine   DMA │ DMA32 │ hole │ Normal ........ │ memmap │
//!                                   free, managed by the allocator        boot-time frames that hold the struct pages
//! ```
//!
//! In the twin, all PMDs of the vmemmap are split from the start, because it is not known how many the kernel
//! had split: the number of page tables is taken from the trace. All memory is free, which does not affect
//! the counts as long as there is enough of it.

use std::io;

use machine::memblock::ZoneSpan;
use machine::{Costs, Cpu, Machine, Node};
use mm::memory_map::{MemoryRange, recorded_memory};
use mm::{Event, Features, MemoryManager, Settings};
use rand_pcg::Pcg64Mcg;

use super::case::{HUGE_PAGE_KIB, Write};
use super::counts::{KernelCounts, Pool};
use super::recording::RecordedCase;
use crate::recordings::{Description, ZoneDescription};
use crate::verify::VerifyError;
use crate::verify::failed;
use crate::verify::pcp::open_loop::kind;
use crate::verify::pcp::replay::topology;

/// Number of 4 KiB pages in a huge page.
const HUGE_PAGE: u64 = HUGE_PAGE_KIB / 4;

/// What each write of a case makes the twin do, booted on the recorded machine.
pub fn twin_counts(
    description: &Description,
    features: &Features,
    recorded: &RecordedCase,
) -> Result<Vec<KernelCounts>, VerifyError> {
    let topology = topology(description.cpus, 1);
    let memory = memory(&description.zones);
    let mut mm = MemoryManager::new(&topology, &memory, *features, Settings::default(), Pcg64Mcg::new(1));
    mm.parts.hugetlb.assume_split_vmemmap();
    // Counts are compared, not times.
    let mut machine = Machine::new(topology, Costs::FREE);
    let mut counts = Vec::new();
    for step in &recorded.steps {
        let before = State::of(&mm);
        for (file, value) in settings_of(&step.write) {
            let write =
                mm.begin_write(&file, &value).map_err(|error| failed("the twin", io::Error::other(error)))?;
            mm.enter(&mut machine, Cpu(0)).finish_write(write);
        }
        let mut counted = State::of(&mm).since(&before);
        counted.page_tables = step.counts.as_ref().map_or(0, |kernel| kernel.page_tables);
        counts.push(counted);
    }
    Ok(counts)
}

/// The settings of a write, by the names of the twin's files.
fn settings_of(write: &Write) -> [(String, String); 2] {
    let pool = match write.node {
        None => "vm.nr_hugepages".into(),
        Some(node) => format!("node{node}/hugepages-{HUGE_PAGE_KIB}kB/nr_hugepages"),
    };
    let hvo = u8::from(write.hvo).to_string();
    [("vm.hugetlb_optimize_vmemmap".into(), hvo), (pool, write.pages.to_string())]
}

/// The twin's memory for these zones. Which frames of a zone exist is not recorded: the last zone is assumed
/// to have no holes, and the others to have only the frames that are managed.
fn memory(zones: &[ZoneDescription]) -> Vec<MemoryRange> {
    let spans = zones.iter().enumerate().map(|(at, zone)| {
        let spanned = zone.pages.1.saturating_sub(zone.pages.0);
        let managed = zone.managed.min(spanned);
        let present = if at + 1 == zones.len() { spanned } else { managed };
        ZoneSpan { node: Node(0), zone: kind(&zone.name), start_pfn: zone.pages.0, spanned, present, managed }
    });
    recorded_memory(&spans.collect::<Vec<_>>())
}

/// The twin's counters at some time.
struct State {
    counters: mm::Counters,
    nr_memmap_pages: i64,
    nr_memmap_boot_pages: i64,
    pool: Pool,
}

impl State {
    fn of(mm: &MemoryManager) -> State {
        let vmemmap = &mm.parts.hugetlb.vmemmap;
        let pool = mm.parts.hugetlb.hstates().iter().find(|hstate| hstate.kib() == HUGE_PAGE_KIB);
        let pool = pool.map(|hstate| hstate.counters()).unwrap_or_default();
        State {
            counters: mm.counters().clone(),
            nr_memmap_pages: vmemmap.nr_memmap_pages(),
            nr_memmap_boot_pages: vmemmap.nr_memmap_boot_pages(),
            pool: Pool { total: pool.nr, free: Some(pool.free), surplus: Some(pool.surplus) },
        }
    }

    fn since(&self, before: &State) -> KernelCounts {
        let counters = self.counters.since(&before.counters);
        let get = |event: Event| counters.get(event);
        let [allocated, freed] = [Event::VmemmapPagesAllocated, Event::VmemmapPagesFreed].map(get);
        let pages: u64 = [Event::PgallocDma, Event::PgallocDma32, Event::PgallocNormal].map(get).iter().sum();
        // Pages for `struct page`s are copies of the first vmemmap page when a pool grows, and restored ones
        // when it shrinks.
        let grows = self.pool.total > before.pool.total;
        let (head_copies, restored_vmemmap_pages) = if grows { (allocated, 0) } else { (0, allocated) };
        KernelCounts {
            flush_tlb_all: get(Event::TlbFlushAll),
            kernel_range_flush: get(Event::TlbFlushKernelRange),
            sync_core: get(Event::CodePatchBroadcasts),
            huge_page_allocs: pages.saturating_sub(allocated) / HUGE_PAGE,
            huge_page_frees: get(Event::Pgfree).saturating_sub(freed) / HUGE_PAGE,
            head_copies,
            restored_vmemmap_pages,
            page_frees: Some(freed),
            nr_memmap_pages: Some(self.nr_memmap_pages - before.nr_memmap_pages),
            nr_memmap_boot_pages: Some(self.nr_memmap_boot_pages - before.nr_memmap_boot_pages),
            htlb_buddy_alloc_success: Some(get(Event::HtlbBuddyAllocSuccess) as i64),
            htlb_buddy_alloc_fail: Some(get(Event::HtlbBuddyAllocFail) as i64),
            pool: self.pool,
            ..KernelCounts::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str, pages: (u32, u32), managed: u32) -> ZoneDescription {
        ZoneDescription { name: name.into(), pages, managed, batch: 63, high_min: 0, high_max: 0 }
    }

    /// 24 GiB in 192 sections, for which the kernel's nr_memmap_boot_pages is 98304.
    #[test]
    fn the_map_has_the_frames_of_the_recorded_machine() {
        let zones = [
            zone("DMA", (1, 4096), 3840),
            zone("DMA32", (4096, 1 << 20), 772_917),
            zone("Normal", (1 << 20, 6_553_600), 5_394_266),
        ];
        let memory = memory(&zones);
        assert_eq!(memory[2].memmap, 6_455_296..6_553_600);
        assert_eq!(memory[2].free, 1 << 20..6_442_842);
        let features = mm::Variant::of_release("6.18").unwrap().features;
        let settings = Settings::default();
        let mm = MemoryManager::new(&topology(2, 1), &memory, features, settings, Pcg64Mcg::new(1));
        assert_eq!(mm.parts.hugetlb.vmemmap.nr_memmap_boot_pages(), 98_304);
    }

    #[test]
    fn a_machine_too_small_for_a_map_has_none() {
        assert!(memory(&[zone("Normal", (0, 100), 100)])[0].memmap.is_empty());
        assert!(memory(&[]).is_empty());
    }
}
