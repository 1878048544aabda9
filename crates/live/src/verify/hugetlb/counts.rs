//! What the kernel did during one write to the pool.

use serde::{Deserialize, Serialize};

use crate::tracefs::TextEvent;

/// Order of a huge page, as `trace` prints it.
const HUGE_PAGE_ORDER: &str = "9";

/// Huge pages of one size on all nodes. The files in `/sys/kernel/mm/hugepages/hugepages-2048kB/` are named
/// like the fields' descriptions, with the suffix `_hugepages`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// `nr`: all huge pages.
    pub total: u64,
    /// `free`: unused ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<u64>,
    /// `surplus`: those beyond the persistent pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surplus: Option<u64>,
}

/// What the kernel did during one write of a count. Numbers of events are those of the writer thread, without
/// the interrupts that it took. `None`: not recorded, or the kernel does not have the counter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KernelCounts {
    /// Calls of `do_flush_tlb_all` on all other CPUs; unit: broadcasts, whatever the number of CPUs.
    pub flush_tlb_all: u64,
    /// Calls of `do_kernel_range_flush`, which flushes a range of kernel addresses, on all other CPUs; unit:
    /// broadcasts.
    pub kernel_range_flush: u64,
    /// Calls of `do_sync_core` on all other CPUs, after a static key has patched code; unit: broadcasts.
    pub sync_core: u64,
    /// Interrupts sent for calls, to one CPU or several (`ipi_send_cpu`, `ipi_send_cpumask`). Fewer than
    /// calls if another CPU polls, and more if the task also made other calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_interrupts: Option<u64>,
    /// Blocks of the order of a huge page that were allocated.
    pub huge_page_allocs: u64,
    /// Blocks of the order of a huge page that were freed.
    pub huge_page_frees: u64,
    /// Pages allocated for the copy of the first vmemmap page, which HVO makes.
    pub head_copies: u64,
    /// Pages allocated to restore the vmemmap of huge pages.
    pub restored_vmemmap_pages: u64,
    /// Pages allocated for page tables: one for each range of 128 MiB whose `struct page`s were mapped by a
    /// PMD until then.
    pub page_tables: u64,
    /// Other pages allocated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_page_allocs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_frees: Option<u64>,
    /// Blocks of the order of a huge page that were moved from the zone to the per-CPU lists or to the caller
    /// (`mm_page_alloc_zone_locked`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub huge_page_refills: Option<u64>,
    /// Blocks of the order of a huge page that were moved from the per-CPU lists to the zone
    /// (`mm_page_pcpu_drain`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub huge_page_drains: Option<u64>,
    /// Pages moved from the zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_refills: Option<u64>,
    /// Pages moved to the zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_drains: Option<u64>,
    /// Events in interrupts, which are not part of any other number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_interrupt: Option<u64>,
    /// Change of `nr_memmap_pages` in /proc/vmstat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nr_memmap_pages: Option<i64>,
    /// Change of `nr_memmap_boot_pages`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nr_memmap_boot_pages: Option<i64>,
    /// Change of `htlb_buddy_alloc_success`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub htlb_buddy_alloc_success: Option<i64>,
    /// Change of `htlb_buddy_alloc_fail`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub htlb_buddy_alloc_fail: Option<i64>,
    /// Change of `managed` of all zones in /proc/zoneinfo, in pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed: Option<i64>,
    /// Duration of the write in microseconds, with tracing, which takes a fraction of a microsecond per
    /// event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traced_us: Option<u64>,
    /// The pool after the write.
    pub pool: Pool,
}

impl KernelCounts {
    /// Counts the lines of `trace`, on a machine with `remote_cpus` CPUs besides the writer's.
    ///
    /// # Errors
    ///
    /// The line that cannot be parsed.
    pub fn of_trace(text: &str, remote_cpus: u64) -> Result<KernelCounts, String> {
        let mut counts = KernelCounts::default();
        let mut calls = [0u64; 3];
        let [mut interrupts, mut other_allocs, mut frees, mut in_interrupt] = [0; 4];
        let [mut refills, mut drains] = [[0; 2]; 2];
        for (index, line) in text.lines().enumerate() {
            let event = TextEvent::parse(line).map_err(|problem| format!("line {}: {problem}", index + 1))?;
            let Some(event) = event else { continue };
            if event.in_interrupt {
                in_interrupt += 1;
                continue;
            }
            let huge = event.field("order") == Some(HUGE_PAGE_ORDER);
            match event.name {
                "csd_queue_cpu" => match event.field("func") {
                    Some("do_flush_tlb_all") => calls[0] += 1,
                    Some("do_kernel_range_flush") => calls[1] += 1,
                    Some("do_sync_core") => calls[2] += 1,
                    _ => {}
                },
                // The other callback is the scheduler's.
                "ipi_send_cpu" | "ipi_send_cpumask" => {
                    let callback = event.field("callback").unwrap_or_default();
                    interrupts += u64::from(callback.starts_with("generic_smp_call_function"));
                }
                "mm_page_alloc" if huge => counts.huge_page_allocs += 1,
                "mm_page_alloc" => match PageUse::of(event.field("gfp_flags").unwrap_or_default()) {
                    PageUse::HeadCopy => counts.head_copies += 1,
                    PageUse::Restore => counts.restored_vmemmap_pages += 1,
                    PageUse::PageTable => counts.page_tables += 1,
                    PageUse::Other => other_allocs += 1,
                },
                "mm_page_free" if huge => counts.huge_page_frees += 1,
                "mm_page_free" => frees += 1,
                "mm_page_alloc_zone_locked" => refills[usize::from(huge)] += 1,
                "mm_page_pcpu_drain" => drains[usize::from(huge)] += 1,
                _ => {}
            }
        }
        let broadcasts = |calls: u64| calls.div_ceil(remote_cpus.max(1));
        counts.flush_tlb_all = broadcasts(calls[0]);
        counts.kernel_range_flush = broadcasts(calls[1]);
        counts.sync_core = broadcasts(calls[2]);
        counts.call_interrupts = Some(interrupts);
        counts.other_page_allocs = Some(other_allocs);
        counts.page_frees = Some(frees);
        counts.in_interrupt = Some(in_interrupt);
        [counts.page_refills, counts.huge_page_refills] = refills.map(Some);
        [counts.page_drains, counts.huge_page_drains] = drains.map(Some);
        Ok(counts)
    }
}

/// A counter that the twin has too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counter {
    /// Name in the report.
    pub name: &'static str,
    /// The value, if it is known.
    pub value: Option<u64>,
}

impl KernelCounts {
    /// The counters that are compared. Refills and drains are not, because they depend on the previous
    /// contents of the per-CPU lists.
    pub(super) fn compared(&self) -> Vec<Counter> {
        let counter = |name, value| Counter { name, value };
        // `struct page`s allocated at boot and later are added up here: which of them a huge page has depends
        // on what was written to the pool since boot.
        let memmap = self.nr_memmap_pages.zip(self.nr_memmap_boot_pages).map(|(later, boot)| later + boot);
        let unsigned = |number: Option<i64>| number.map(|number| number.max(0) as u64);
        vec![
            counter("do_flush_tlb_all", Some(self.flush_tlb_all)),
            counter("do_kernel_range_flush", Some(self.kernel_range_flush)),
            counter("do_sync_core", Some(self.sync_core)),
            counter("huge pages allocated", Some(self.huge_page_allocs)),
            counter("huge pages freed", Some(self.huge_page_frees)),
            counter("pages for copies of heads", Some(self.head_copies)),
            counter("pages to restore vmemmap", Some(self.restored_vmemmap_pages)),
            counter("pages freed", self.page_frees),
            counter("memmap pages given back", unsigned(memmap.map(|change| -change))),
            counter("memmap pages taken", unsigned(memmap)),
            counter("htlb_buddy_alloc_success", unsigned(self.htlb_buddy_alloc_success)),
            counter("htlb_buddy_alloc_fail", unsigned(self.htlb_buddy_alloc_fail)),
            counter("nr_hugepages", Some(self.pool.total)),
            counter("free_hugepages", self.pool.free),
            counter("surplus_hugepages", self.pool.surplus),
        ]
    }
}

/// The purpose of a page, inferred from its gfp flags.
enum PageUse {
    HeadCopy,
    Restore,
    PageTable,
    Other,
}

impl PageUse {
    /// In the kernel: `vmemmap_remap_free`, `alloc_vmemmap_page_list` (mm/hugetlb_vmemmap.c), `GFP_PGTABLE_KERNEL`
    /// (include/asm-generic/pgalloc.h).
    fn of(gfp_flags: &str) -> PageUse {
        // A page table is one page, with or without __GFP_COMP; on some kernels a restore passes its node.
        let mut flags: Vec<&str> =
            gfp_flags.split('|').filter(|flag| !matches!(*flag, "__GFP_COMP" | "__GFP_THISNODE")).collect();
        flags.sort_unstable();
        match flags[..] {
            ["GFP_KERNEL", "__GFP_NORETRY", "__GFP_NOWARN"] => PageUse::HeadCopy,
            ["GFP_KERNEL", "__GFP_RETRY_MAYFAIL"] => PageUse::Restore,
            ["GFP_KERNEL", "__GFP_ZERO"] => PageUse::PageTable,
            _ => PageUse::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\
# tracer: nop
 mmtwin-write-7 [000] ...1. 5.1: csd_queue_cpu: cpu=1 callsite=f+0x2/0x6 func=do_flush_tlb_all csd=1
 mmtwin-write-7 [000] ...1. 5.1: ipi_send_cpu: cpu=1 callsite=f+0x2/0x6 callback=generic_smp_call_function_single_interrupt+0x0/0x10
 mmtwin-write-7 [000] ...1. 5.1: ipi_send_cpu: cpu=1 callsite=wakeup_preempt+0x9/0xa callback=0x0
 mmtwin-write-7 [000] ...1. 5.1: csd_queue_cpu: cpu=2 callsite=f+0x2/0x6 func=do_flush_tlb_all csd=1
 mmtwin-write-7 [000] ...1. 5.1: csd_queue_cpu: cpu=1 callsite=f+0x2/0x6 func=flush_tlb_func csd=1
 mmtwin-write-7 [000] ..... 5.2: mm_page_alloc: page=1 pfn=0x1 order=9 migratetype=1 gfp_flags=GFP_HIGHUSER_MOVABLE|__GFP_COMP
 mmtwin-write-7 [000] ..... 5.2: mm_page_alloc: page=1 pfn=0x1 order=0 migratetype=0 gfp_flags=GFP_KERNEL|__GFP_NOWARN|__GFP_NORETRY
 mmtwin-write-7 [000] ..... 5.2: mm_page_alloc: page=1 pfn=0x1 order=0 migratetype=0 gfp_flags=GFP_KERNEL|__GFP_RETRY_MAYFAIL
 mmtwin-write-7 [000] ..... 5.2: mm_page_alloc: page=1 pfn=0x1 order=0 migratetype=0 gfp_flags=GFP_KERNEL|__GFP_ZERO|__GFP_COMP
 mmtwin-write-7 [000] ..... 5.2: mm_page_alloc: page=1 pfn=0x1 order=0 migratetype=0 gfp_flags=GFP_NOWAIT
 mmtwin-write-7 [000] ..s.. 5.2: mm_page_free: page=1 pfn=0x1 order=0
 mmtwin-write-7 [000] ..... 5.2: mm_page_free: page=1 pfn=0x1 order=0
 mmtwin-write-7 [000] ..... 5.2: mm_page_pcpu_drain: page=1 pfn=0x1 order=9 migratetype=1
";

    #[test]
    fn events_are_counted_by_what_they_are_for() {
        let counts = KernelCounts::of_trace(LINES, 2).unwrap();
        let expected = KernelCounts {
            flush_tlb_all: 1,
            call_interrupts: Some(1),
            huge_page_allocs: 1,
            head_copies: 1,
            restored_vmemmap_pages: 1,
            page_tables: 1,
            other_page_allocs: Some(1),
            page_frees: Some(1),
            huge_page_refills: Some(0),
            huge_page_drains: Some(1),
            page_refills: Some(0),
            page_drains: Some(0),
            in_interrupt: Some(1),
            ..KernelCounts::default()
        };
        assert_eq!(counts, expected);
    }

    #[test]
    fn lost_events_are_an_error() {
        let error = KernelCounts::of_trace("# tracer: nop\nCPU:1 [LOST 5 EVENTS]\n", 1).unwrap_err();
        assert!(error.starts_with("line 2: expected `TASK-PID"), "{error}");
    }
}
