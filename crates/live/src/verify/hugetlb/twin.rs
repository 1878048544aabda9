//! The same writes in the twin.
//!
//! ```text
//!   zones of the recorded machine   DMA │ DMA32 │ hole │ Normal ........ │ memmap │
//!                                   free, managed by the allocator        frames of boot that hold the struct pages
//! ```
//!
//! The twin's vmemmap is split from the beginning, because how much of the kernel's was cannot be known: the number of
//! page tables is that of the trace. The memory is all free, which makes no difference to what is counted as long as
//! there is enough of it.

use std::io;

use machine::{Costs, Cpu, Machine, Node};
use mm::memory_map::{MemoryRange, PAGES_PER_SECTION, SECTION_MEMMAP_PAGES};
use mm::{Event, Features, MemoryManager, Settings};
use rand_pcg::Pcg64Mcg;

use super::case::{HUGE_PAGE_KIB, Write};
use super::counts::{KernelCounts, Pool};
use super::recording::RecordedCase;
use crate::recordings::{Description, ZoneDescription};
use crate::verify::VerifyError;
use crate::verify::open_loop::kind;
use crate::verify::replay::topology;
use crate::verify::running_kernel::failed;

/// Base pages of a huge page.
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
    mm.assume_split_vmemmap();
    // What is done is compared, not how long it takes.
    let mut machine = Machine::new(topology, Costs::FREE);
    let mut counts = Vec::new();
    for step in &recorded.steps {
        let before = State::of(&mm);
        for (file, value) in settings_of(&step.write) {
            mm.write(&mut machine, Cpu(0), &file, &value)
                .map_err(|error| failed("the twin", io::Error::other(error)))?;
        }
        let mut counted = State::of(&mm).since(&before);
        counted.page_tables = step.counts.as_ref().map_or(0, |kernel| kernel.page_tables);
        counts.push(counted);
    }
    Ok(counts)
}

/// What is written in the twin, as its files are called.
fn settings_of(write: &Write) -> [(String, String); 2] {
    let pool = match write.node {
        None => "vm.nr_hugepages".into(),
        Some(node) => format!("node{node}/hugepages-{HUGE_PAGE_KIB}kB/nr_hugepages"),
    };
    let hvo = u8::from(write.hvo).to_string();
    [("vm.hugetlb_optimize_vmemmap".into(), hvo), (pool, write.pages.to_string())]
}

/// The twin's memory for these zones: what is managed, and the frames of all struct pages at the end of the last zone.
fn memory(zones: &[ZoneDescription]) -> Vec<MemoryRange> {
    let managed =
        |zone: &ZoneDescription| zone.pages.0..zone.pages.0.saturating_add(zone.managed).min(zone.pages.1);
    let mut ranges: Vec<MemoryRange> = zones
        .iter()
        .map(|zone| MemoryRange { node: Node(0), kind: kind(&zone.name), span: managed(zone), memmap: 0..0 })
        .collect();
    let Some((last, end)) = ranges.last_mut().zip(zones.last().map(|zone| zone.pages.1)) else {
        return ranges;
    };
    let last_start = last.span.start;
    // Only the last zone is taken for full up to its end: others may end in a hole.
    let (mut sections, mut mapped) = (0, 0);
    for zone in zones {
        let beyond = if zone.pages.0 == last_start { end } else { managed(zone).end };
        let first = (zone.pages.0 / PAGES_PER_SECTION).max(mapped);
        let next = beyond.div_ceil(PAGES_PER_SECTION).max(first);
        sections += next - first;
        mapped = next;
    }
    let map = sections * SECTION_MEMMAP_PAGES;
    let start = end.saturating_sub(map) / SECTION_MEMMAP_PAGES * SECTION_MEMMAP_PAGES;
    if start > last_start {
        last.memmap = start..start + map;
        last.span.end = last.span.end.min(start);
    }
    ranges
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
        let vmemmap = &mm.hugetlb().vmemmap;
        let pool = mm.hugetlb().hstates().iter().find(|hstate| hstate.kib() == HUGE_PAGE_KIB);
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
        // Pages for struct pages are copies of heads where a pool grows, and restored ones where it shrinks.
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

    /// 24 GiB in 192 sections, of which the kernel says nr_memmap_boot_pages 98304.
    #[test]
    fn the_map_has_the_frames_of_the_recorded_machine() {
        let zones = [
            zone("DMA", (1, 4096), 3840),
            zone("DMA32", (4096, 1 << 20), 772_917),
            zone("Normal", (1 << 20, 6_553_600), 5_394_266),
        ];
        let memory = memory(&zones);
        assert_eq!(memory[2].memmap, 6_455_296..6_553_600);
        assert_eq!(memory[2].span, 1 << 20..6_442_842);
        let features = mm::Variant::of_release("6.18").unwrap().features;
        let settings = Settings::default();
        let mm = MemoryManager::new(&topology(2, 1), &memory, features, settings, Pcg64Mcg::new(1));
        assert_eq!(mm.hugetlb().vmemmap.nr_memmap_boot_pages(), 98_304);
    }

    #[test]
    fn a_machine_too_small_for_a_map_has_none() {
        assert!(memory(&[zone("Normal", (0, 100), 100)])[0].memmap.is_empty());
        assert!(memory(&[]).is_empty());
    }
}
