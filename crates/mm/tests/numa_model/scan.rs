//! Ticks and passes: which thread scans when, which areas, and how much of them.
//!
//! ```text
//!   offset ─► area ─ suitable? ─ old enough? ─ windows turn ─ completed? ─ touched? ─► ranges, to the budget
//!             area ...
//!             none left: a second round, in which any area will do (m6);  then scan_seq + 1, and from the start
//! ```

use super::areas::Area;
use super::{Kernel, Model, Settings, TICK_NS, node, ticks};
use std::ops::Range;

/// The scanning state of an address space. The offset is a page number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MmScan {
    pub next_scan: u64,
    pub scan_offset: u64,
    pub scan_seq: i32,
}

/// The record of an area (`numab_state`); each kernel has some of its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub next_scan: u64,
    /// The older window of PID bits, and the one in which bits are set.
    pub words: [u64; 2],
    pub reset_at: u64,
    pub prev_seq: i32,
    pub start_seq: i32,
}

/// What a pass reports of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Unsuitable,
    SharedRo,
    Inaccessible,
    ScanDelay,
    PidInactive,
    /// The area is scanned all the same.
    IgnorePid,
    SeqCompleted,
}

impl Reason {
    pub const COUNT: usize = 7;
}

/// What a pass did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    pub told: Vec<(u64, Reason)>,
    pub ranges: Vec<Range<u64>>,
}

/// The bit of a thread.
pub fn bit(kernel: Kernel, pid: u32) -> u64 {
    if kernel < Kernel::VmaScanning4 {
        return 1 << (pid % 64);
    }
    let product = u64::from(pid) * 0x61C8_8647 % (1 << 32);
    1 << (product / (1 << 26))
}

/// A pass by the thread whose turn it is. `clock` is asked for the time at each area; `change_prot` returns
/// how many PTEs of a range have changed.
#[expect(clippy::too_many_arguments, reason = "all that a pass depends on")]
pub fn pass(
    kernel: Kernel,
    settings: &Settings,
    (pid, threads): (u32, u32),
    began: u64,
    scan: &mut MmScan,
    areas: &mut [Area],
    mut clock: impl FnMut() -> u64,
    mut change_prot: impl FnMut(&Area, Range<u64>) -> u64,
) -> Pass {
    let mut done = Pass::default();
    let mut pages = settings.scan_size_mb as i64 * 256;
    let mut virtual_pages = 8 * pages;
    let window = ticks(4 * settings.scan_delay_ms);
    let mut forced = false;
    loop {
        let mut start = scan.scan_offset;
        if areas.iter().all(|area| area.end <= start) {
            scan.scan_seq += 1;
            scan.scan_offset = 0;
            start = 0;
        }
        let first = start;
        let mut skipped_inactive = false;
        let mut stopped = false;
        for area in areas.iter_mut().filter(|area| area.end > first) {
            let now = clock();
            if area.is_bound {
                done.told.push((area.start, Reason::Unsuitable));
                continue;
            }
            if area.file.is_some() && area.rights.read && !area.rights.write {
                done.told.push((area.start, Reason::SharedRo));
                continue;
            }
            if !area.rights.read && !area.rights.write && !area.rights.exec {
                done.told.push((area.start, Reason::Inaccessible));
                continue;
            }
            if kernel >= Kernel::VmaScanning1 {
                let next_scan = began + ticks(settings.scan_delay_ms);
                let mut record = area.record.unwrap_or(Record {
                    next_scan,
                    words: [0, 0],
                    reset_at: next_scan + window,
                    prev_seq: scan.scan_seq - 1,
                    start_seq: scan.scan_seq,
                });
                area.record = Some(record);
                if scan.scan_seq != 0 && now < record.next_scan {
                    done.told.push((area.start, Reason::ScanDelay));
                    continue;
                }
                let turns = scan.scan_seq != 0 && now > record.reset_at;
                if turns && kernel >= Kernel::PartialVmas4 {
                    record.words = [record.words[1], 0];
                    record.reset_at += window;
                    area.record = Some(record);
                }
                if kernel >= Kernel::PartialVmas6 && record.prev_seq == scan.scan_seq {
                    scan.scan_offset = area.end;
                    done.told.push((area.start, Reason::SeqCompleted));
                    continue;
                }
                if kernel >= Kernel::VmaScanning2 && !forced {
                    let sequences =
                        if kernel >= Kernel::V6_8 { scan.scan_seq - record.start_seq } else { scan.scan_seq };
                    let is_early = sequences < 2;
                    let was_touched = (record.words[0] | record.words[1]) & bit(kernel, pid) != 0;
                    let was_begun = kernel >= Kernel::PartialVmas5 && scan.scan_offset > area.start;
                    let is_old = kernel >= Kernel::V6_12 && scan.scan_seq > record.prev_seq + threads as i32;
                    if is_early || was_touched {
                    } else if was_begun {
                        done.told.push((area.start, Reason::IgnorePid));
                    } else if !is_old {
                        done.told.push((area.start, Reason::PidInactive));
                        skipped_inactive = true;
                        continue;
                    }
                }
                if turns && (kernel == Kernel::VmaScanning3 || kernel == Kernel::VmaScanning4) {
                    record.words = [record.words[1], 0];
                    record.reset_at += window;
                    area.record = Some(record);
                }
            }
            start = start.max(area.start);
            while !stopped && start < area.end {
                let end = ((start + pages as u64).div_ceil(512) * 512).min(area.end);
                let changed = change_prot(area, start..end);
                done.ranges.push(start..end);
                if changed > 0 {
                    pages -= (end - start) as i64;
                }
                virtual_pages -= (end - start) as i64;
                start = end;
                stopped = pages <= 0 || virtual_pages <= 0;
            }
            if stopped {
                break;
            }
            if kernel >= Kernel::PartialVmas6 {
                area.record.as_mut().unwrap().prev_seq = scan.scan_seq;
                stopped = forced;
            }
            if stopped {
                break;
            }
        }
        if stopped {
            scan.scan_offset = start;
            return done;
        }
        if kernel < Kernel::PartialVmas6 || forced || !skipped_inactive {
            scan.scan_seq += 1;
            scan.scan_offset = 0;
            return done;
        }
        forced = true;
    }
}

impl Model {
    /// A tick for the task that runs on a CPU.
    pub fn tick(&mut self, cpu: usize) {
        let Some(task) = self.running[cpu] else { return };
        let process = self.tasks[task].process;
        let runtime = self.runtime(task);
        let start = self.periods(task).start;
        let own = &mut self.tasks[task];
        let period_ns = own.scan_period * 1_000_000;
        if runtime <= own.node_stamp + period_ns {
            return;
        }
        if own.node_stamp == 0 {
            own.scan_period = start;
        }
        own.node_stamp += period_ns;
        if self.now() >= self.processes[process].scan.next_scan {
            self.work(cpu, task, process);
        }
    }

    fn work(&mut self, cpu: usize, task: usize, process: usize) {
        let (kernel, settings, now) = (self.kernel, self.settings, self.now());
        let mut scan = self.processes[process].scan;
        if scan.next_scan == 0 {
            scan.next_scan = now + ticks(settings.scan_delay_ms);
            self.processes[process].scan = scan;
        }
        if now < scan.next_scan {
            return;
        }
        let start = self.periods(task).start;
        let own = &mut self.tasks[task];
        if own.scan_period == 0 {
            own.scan_period = start;
        }
        scan.next_scan = now + ticks(own.scan_period);
        own.node_stamp += 2 * TICK_NS;
        self.passes += 1;
        let (pid, threads) = (own.pid, self.processes[process].threads);
        let mut areas = self.processes[process].areas.clone();
        let change_prot = |_: &Area, range: Range<u64>| self.hide(cpu, process, range);
        let done = pass(kernel, &settings, (pid, threads), now, &mut scan, &mut areas, || now, change_prot);
        let process = &mut self.processes[process];
        (process.areas, process.scan) = (areas, scan);
        for (area, reason) in done.told {
            process.skipped.entry(area).or_default()[reason as usize] += 1;
        }
    }

    /// Makes the PTEs of a range PROT_NONE, except for pages that stay as they are. Returns the number of
    /// PTEs changed.
    fn hide(&mut self, cpu: usize, process: usize, range: Range<u64>) -> u64 {
        let is_alone = self.processes[process].threads + self.processes[process].visitors == 1;
        let mut changed = 0;
        for page in range {
            let Some(&held) = self.processes[process].pages.get(&page) else { continue };
            let is_shared = self.mapcount(held.folio) > 1;
            let is_here = self.folios[held.folio].node == node(cpu);
            if held.is_hidden || is_shared || is_alone && is_here {
                continue;
            }
            self.processes[process].pages.get_mut(&page).unwrap().is_hidden = true;
            changed += 1;
        }
        self.pte_updates += changed;
        changed
    }
}
