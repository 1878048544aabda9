//! What a tree may decide in a scan pass for NUMA balancing: whether it is due, which VMAs it skips and for which reason, and how far it
//! gets.
//!
//! In the kernel: `task_numa_work` in kernel/sched/fair.c. The whole function is asked; making a range PROT_NONE (`change_prot_numa`) is
//! recorded instead of done. Times are in jiffies unless their names end in `_ms`.

use super::rule::flat;

/// As many VMAs as a record has room for.
pub const MOST_VMAS: usize = 6;

flat! {
    /// A thread that may scan, and the VMAs of its address space in the order of addresses.
    pub struct ScanPassState as "mmtwin_scan_pass" {
        /// The present jiffy.
        pub now: u64,
        /// `mm->numa_next_scan`, asked and answered.
        pub next_scan: u64,
        /// `mm->numa_scan_offset`, asked and answered.
        pub scan_offset: u64,
        /// `mm->numa_scan_seq`, asked and answered.
        pub scan_seq: i32,
        /// The number of the thread.
        pub pid: i32,
        /// How many threads the process has.
        pub nr_threads: i32,
        /// `p->numa_scan_period`, asked and answered; 0 if not set yet.
        pub scan_period: u32,
        /// `p->numa_scan_period_max`, asked and answered.
        pub scan_period_max: u32,
        /// `numa_balancing/scan_delay_ms`.
        pub scan_delay_ms: u32,
        /// `numa_balancing/scan_size_mb`.
        pub scan_size_mb: u32,
        /// `numa_balancing/scan_period_min_ms`.
        pub scan_period_min_ms: u32,
        /// `numa_balancing/scan_period_max_ms`.
        pub scan_period_max_ms: u32,
        /// Resident pages of the address space.
        pub rss: u64,
        /// Requests for a VMA's scan state that fail, a bit each from the lowest on.
        pub failing_requests: u32,
        /// How many VMAs there are; of those behind, what follows is 0.
        pub vmas: i32,
        /// `vma->vm_start`.
        pub vm_start: [u64; 6],
        /// `vma->vm_end`.
        pub vm_end: [u64; 6],
        /// `vma->vm_flags`: 1 read, 2 write, 4 execute, 0x400000 hugetlb, 0x10000000 mixed map.
        pub vm_flags: [u64; 6],
        /// `vma_migratable`.
        pub migratable: [i32; 6],
        /// `vma_policy_mof`.
        pub migrates_on_fault: [i32; 6],
        /// Whether the VMA belongs to no address space, as the vDSO's.
        pub special: [i32; 6],
        /// Whether the VMA maps a file.
        pub file: [i32; 6],
        /// The address up to which there are entries that a scan changes.
        pub populated_to: [u64; 6],
        /// Whether the VMA has a scan state (`vma->numab_state`), asked and answered like all of it that follows.
        pub has_state: [i32; 6],
        /// `numab_state->next_scan`.
        pub state_next_scan: [u64; 6],
        /// `numab_state->pids_active_reset`.
        pub pids_active_reset: [u64; 6],
        /// `numab_state->pids_active`: who touched the VMA in the window before.
        pub pids_before: [u64; 6],
        /// Who touched it in this one.
        pub pids_now: [u64; 6],
        /// `numab_state->start_scan_seq`.
        pub start_scan_seq: [i32; 6],
        /// `numab_state->prev_scan_seq`.
        pub prev_scan_seq: [i32; 6],
        /// Answered: reasons that the tracepoint `sched_skip_vma_numa` reports, a bit each (`enum numa_vmaskip_reason`).
        pub skipped: [u32; 6],
        /// Answered: how many ranges of the VMA were scanned.
        pub ranges: [u32; 6],
        /// Answered: bytes of these ranges.
        pub scanned: [u64; 6],
        /// Answered: by how much `p->node_stamp` grew.
        pub node_stamp: u64,
    }
}
