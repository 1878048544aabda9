//! NUMA scanning of address spaces: the scheduler tick, scan passes, and the PTEs that become PROT_NONE.

use super::policy::{self, MappedFolio, PAGE_SHIFT, Scanner, SkipReason, VmaTraits};
use super::{NumabState, Vmas, pass};
use crate::account::Category;
use crate::address_space::{Backing, MmId, Pte, VmFlags, Vma, Vpn};
use crate::counters::Event;
use crate::jiffies::{HZ, TICK_NS, jiffies, jiffies_at};
use crate::kernel::{Kernel, Parts};
use crate::lru::folio::{FolioFlags, FolioId};
use crate::numa::NumaBalancing;
use crate::numa::migrate::policy::Nodes;
use crate::numa::migrate::promotion::stored_time;
use crate::numa::placement::{TaskId, TaskNuma};
use crate::numa::{Rules, nanoseconds};
use machine::{Cpu, Flush, Node, Time};
use std::ops::Range;

/// Factor by which the CPU time of a pass delays the thread's next one, so that scanning takes 3 % of its
/// time at most. The thread's run time is known as of the last tick, and a pass begins with a tick: one that
/// ends before the next tick is not charged.
const SCAN_TIME_WEIGHT: u64 = 32;

impl Kernel<'_> {
    /// The scheduler tick of the CPU: its thread scans if it is due (`task_tick_numa`, `task_numa_work`).
    pub fn numa_tick(&mut self) {
        let settings = self.on.settings.numa;
        let Some(task) =
            self.parts.numa.running(self.on.cpu).filter(|_| settings.balancing || settings.tiering)
        else {
            return;
        };
        let now = self.on.machine.now(self.on.cpu);
        let mm = self.parts.numa.mm_of(task);
        let own = self.parts.numa.tasks.get(task);
        let next_scan = self.parts.address_spaces.mms[mm].numa_scan.next_scan;
        let runtime = self.parts.numa.runtime(task, self.on.cpu, now);
        let Some(tick) = policy::tick(own.node_stamp, own.scan_period, runtime, jiffies_at(now), next_scan)
        else {
            return;
        };
        let start = tick.restarts_period.then(|| {
            let rss = self.parts.address_spaces.mms[mm].rss();
            self.parts.numa.tasks.scan_periods(Rules::of(&self.on), task, rss).start
        });
        let own = self.parts.numa.tasks.get_mut(task);
        own.node_stamp = tick.node_stamp;
        own.scan_period = start.unwrap_or(own.scan_period);
        if tick.queues_work {
            self.task_numa_work(task, mm);
        }
    }

    fn task_numa_work(&mut self, task: TaskId, mm: MmId) {
        let rules = Rules::of(&self.on);
        if !policy::scans(rules.features, self.parts.numa.tasks.get(task).mems_allowed) {
            self.on.counters.add(Event::NumaSkipCpuset, 1);
            return;
        }
        let began = self.on.machine.now(self.on.cpu);
        let now = jiffies_at(began);
        let mut scan = self.parts.address_spaces.mms[mm].numa_scan;
        let is_due = policy::is_due(&mut scan, rules.settings, now);
        self.parts.address_spaces.mms[mm].numa_scan = scan;
        if !is_due {
            return;
        }
        if self.parts.numa.tasks.get(task).scan_period == 0 {
            let rss = self.parts.address_spaces.mms[mm].rss();
            let bounds = self.parts.numa.tasks.scan_periods(rules, task, rss);
            let own = self.parts.numa.tasks.get_mut(task);
            (own.scan_period_max, own.scan_period) = (bounds.max, bounds.start);
        }
        let own = self.parts.numa.tasks.get_mut(task);
        policy::claim(&mut scan, own.scan_period, now);
        self.parts.address_spaces.mms[mm].numa_scan = scan;
        own.node_stamp += 2 * TICK_NS;
        let scanner = Scanner {
            pid: own.pid,
            nr_threads: self.parts.address_spaces.mms[mm].threads as i32,
            started: now,
            forced: false,
        };
        self.on.counters.add(Event::NumaScanPasses, 1);
        let mut walk = Walk { kernel: self, task, mm };
        pass(rules, &mut scan, scanner, &mut walk);
        let next_scan = self.parts.address_spaces.mms[mm].numa_scan.next_scan;
        self.parts.address_spaces.mms[mm].numa_scan = super::MmScan { next_scan, ..scan };
        let ticks = nanoseconds(self.on.machine.now(self.on.cpu) - began) / TICK_NS;
        self.parts.numa.tasks.get_mut(task).node_stamp += SCAN_TIME_WEIGHT * ticks * TICK_NS;
    }

    /// Adds a thread with this PID to `mm`, the first or a further one (`init_numa_balancing`). As with fork,
    /// scanning of a process that had a single thread restarts.
    pub fn add_task(&mut self, now: Time, mm: MmId, pid: u32, creator: Option<TaskId>) -> TaskId {
        let settings = self.on.settings.numa;
        let mut task = match creator {
            Some(creator) if self.parts.numa.mm_of(creator) == mm => {
                self.restart_scanning(now, mm);
                let space = &mut self.parts.address_spaces.mms[mm];
                let bounds = self.parts.numa.tasks.scan_periods(Rules::of(&self.on), creator, space.rss());
                let users = u64::from(space.users());
                space.threads += 1;
                TaskNuma::new_thread(pid, &settings, self.parts.numa.tasks.get(creator), bounds, users)
            }
            _ => TaskNuma::new(pid, &settings),
        };
        task.scan_seq = self.parts.address_spaces.mms[mm].numa_scan.scan_seq;
        self.parts.numa.add(task, mm)
    }

    /// Restarts scanning of a process with a single thread that creates a thread or forks: from the first
    /// sequence, after a delay.
    fn restart_scanning(&mut self, now: Time, mm: MmId) {
        let space = &mut self.parts.address_spaces.mms[mm];
        if space.users() == 1 {
            space.numa_scan.next_scan = jiffies_at(now) + jiffies(self.on.settings.numa.scan_delay_ms);
            space.numa_scan.scan_seq = 0;
        }
    }

    /// Sets up scanning after a fork. A parent with a single thread restarts, after a delay; the child
    /// continues with the same state, from where the last pass stopped (`dup_mm` copies the whole struct).
    pub(crate) fn numa_fork(&mut self, now: Time, parent: MmId, child: MmId) {
        self.restart_scanning(now, parent);
        self.parts.address_spaces.mms[child].numa_scan = self.parts.address_spaces.mms[parent].numa_scan;
    }

    /// Switches the CPU to `task`, or to idle.
    pub fn switch_task(&mut self, task: Option<TaskId>) {
        let (machine, cpu) = (&*self.on.machine, self.on.cpu);
        let now = machine.now(cpu);
        self.parts.numa.stop(cpu, now, &mut self.parts.lrus.memcgs);
        let Some(task) = task else { return };
        if let Some(from) = self.parts.numa.run(cpu, task, now, &mut self.parts.lrus.memcgs)
            && let (from, to) = (machine.node(from), machine.node(cpu))
            && from != to
        {
            let rss = self.parts.address_spaces.mms[self.parts.numa.mm_of(task)].rss();
            let start = self.parts.numa.tasks.scan_periods(Rules::of(&self.on), task, rss).start;
            let own = self.parts.numa.tasks.get_mut(task);
            let is_home = |node: Node| own.preferred == Some(node);
            let (to, home, from) = (is_home(to), own.preferred.is_some(), is_home(from));
            if own.faults.is_some() && policy::restarts_period_on_move(own.scan_seq, to, home, from) {
                own.scan_period = start;
            }
        }
    }
}

impl NumaBalancing {
    /// Sets the nodes that a task's cpuset allows (`cpuset.mems`), `None` without a cpuset. Threads it
    /// creates later inherit them. Only NUMA balancing uses this; allocations do not.
    pub fn set_mems_allowed(&mut self, task: TaskId, nodes: Option<Nodes>) {
        self.tasks.get_mut(task).mems_allowed = nodes;
    }
}

impl Parts {
    /// Removes a thread that ends.
    pub fn exit_task(&mut self, task: TaskId) {
        self.numa.tasks.exit(task);
        let mm = self.numa.mm_of(task);
        self.address_spaces.mms[mm].threads = self.address_spaces.mms[mm].threads.saturating_sub(1);
    }
}

/// A scan pass over an address space.
struct Walk<'a, 'k> {
    kernel: &'a mut Kernel<'k>,
    task: TaskId,
    mm: MmId,
}

impl Walk<'_, '_> {
    fn vma(&self, start: u64) -> &Vma {
        let vma = self.kernel.parts.address_spaces.mms[self.mm].vmas.find(start >> PAGE_SHIFT);
        vma.expect("the pass found it")
    }
}

impl Vmas for Walk<'_, '_> {
    fn first_ending_after(&self, address: u64) -> Option<(Range<u64>, VmaTraits)> {
        let vma = self.kernel.parts.address_spaces.mms[self.mm].vmas.from(address >> PAGE_SHIFT).next()?;
        let policy = self.kernel.parts.numa.get_vma_policy(self.kernel.on.cpu, vma);
        let rights = VmFlags::READ.or(VmFlags::WRITE).or(VmFlags::EXEC);
        let is_file = matches!(vma.backing, Backing::File(..));
        let traits = VmaTraits {
            suitable: policy.is_none_or(|policy| policy.migrate_on_fault),
            read_only_file: is_file && vma.flags.has(VmFlags::READ) && !vma.flags.has(VmFlags::WRITE),
            accessible: vma.flags.any(rights),
        };
        Some((vma.start << PAGE_SHIFT..vma.end << PAGE_SHIFT, traits))
    }

    fn record(&mut self, start: u64) -> &mut Option<NumabState> {
        let vmas = &mut self.kernel.parts.address_spaces.mms[self.mm].vmas;
        let vma = vmas.find_id(start >> PAGE_SHIFT).expect("the pass found it");
        vmas.numab_mut(vma)
    }

    fn can_allocate_record(&mut self) -> bool {
        !self.kernel.parts.allocator.should_failslab(self.kernel.on.settings)
    }

    fn change_prot(&mut self, start: u64, range: Range<u64>) -> u64 {
        let vma = self.vma(start);
        let (is_private, of) = (vma.is_private(), vma.pages());
        let pages = range.start >> PAGE_SHIFT..range.end >> PAGE_SHIFT;
        let alone = self.kernel.parts.address_spaces.mms[self.mm].users() == 1;
        let here = self.kernel.on.machine.node(self.kernel.on.cpu);
        let now_ms = (nanoseconds(self.kernel.on.machine.now(self.kernel.on.cpu)) / 1_000_000) as u32;
        let (mut changed, mut entries, mut huge) = (0, 0, 0);
        let mut rest = pages;
        while let Some((table, places)) = self.kernel.parts.next_table(self.mm, &mut rest) {
            let of_entry = self.kernel.parts.address_spaces.page_tables[table].pages_of_entry();
            for place in self.kernel.parts.address_spaces.page_tables[table].places(places) {
                let number = table.entry(place);
                let entry = self.kernel.parts.address_spaces.page_tables[number];
                let Some(id) = entry.folio().filter(|_| !entry.has(Pte::PROT_NONE)) else { continue };
                if !self.kernel.takes_hint(id, entry, of_entry > 1, is_private, alone.then_some(here)) {
                    continue;
                }
                if self.kernel.on.settings.numa.tiering
                    && self.kernel.parts.numa.is_slow(self.kernel.parts.folio_node(id))
                {
                    self.kernel.parts.numa.set_scanned(id, stored_time(now_ms));
                }
                self.kernel.parts.address_spaces.page_tables[number].set(Pte::PROT_NONE);
                entries += 1;
                changed += of_entry;
                huge += u64::from(of_entry > 1);
            }
        }
        self.kernel.on.counters.add(Event::NumaPteUpdates, changed);
        self.kernel.on.counters.add(Event::NumaHugePteUpdates, huge);
        self.kernel.parts.numa.note_scanned(self.mm, &of, self.task, changed);
        let costs = self.kernel.on.machine.costs.numa();
        self.kernel.on.machine.charge(self.kernel.on.cpu, Category::NumaScan, costs.pte_protect * entries);
        if changed > 0 {
            self.kernel.flush_tlb_range(self.mm, changed);
        }
        changed
    }

    fn now(&self) -> u64 {
        jiffies_at(self.kernel.on.machine.now(self.kernel.on.cpu))
    }

    fn traced(&mut self, start: u64, reason: SkipReason) {
        self.kernel.on.counters.add(reason.event(), 1);
        let of = self.vma(start).pages();
        self.kernel.parts.numa.note_skipped(self.mm, &of, reason);
    }
}

impl Kernel<'_> {
    /// Flushes changed PTEs from the TLBs of all CPUs that run threads of `mm`.
    pub(crate) fn flush_tlb_range(&mut self, mm: MmId, pages: u64) {
        let ceiling = self.on.settings.tlb_single_page_flush_ceiling;
        let flush = if pages > ceiling { Flush::All } else { Flush::Range { pages } };
        let numa = &self.parts.numa;
        let runs = |target: Cpu| numa.running(target).is_some_and(|task| numa.mm_of(task) == mm);
        self.on.machine.flush_tlb_of(self.on.cpu, runs, flush, Category::TlbShootdown, Category::IpiHandler);
    }

    /// Whether a PTE that maps a folio becomes PROT_NONE (`change_pte_range`, `change_huge_pmd`). `alone` is
    /// the node of the address space's only thread, if it has just one.
    fn takes_hint(&self, id: FolioId, entry: Pte, huge: bool, private: bool, alone: Option<Node>) -> bool {
        let (flags, node) = (self.parts.lrus.folios.flags[id], self.parts.folio_node(id));
        if !self.on.settings.numa.balancing && !self.parts.numa.is_slow(node) {
            return false;
        }
        let mapped = MappedFolio {
            huge_entry: huge,
            private_mapping: private,
            shared: !entry.has(Pte::EXCLUSIVE) && self.parts.lrus.folios[id].mapcount > 1,
            in_batch: !flags.has(FolioFlags::LRU),
            is_file: !flags.has(FolioFlags::SWAPBACKED),
            in_swap_cache: flags.has(FolioFlags::SWAPCACHE),
            is_large: flags.order() > 0,
            dirty: flags.has(FolioFlags::DIRTY),
            with_its_thread: alone == Some(node),
        };
        policy::takes_hint(&self.on.features.numa, &mapped)
    }
}

impl Parts {
    #[inline]
    pub(crate) fn folio_node(&self, id: FolioId) -> Node {
        Node((usize::from(self.lrus.folios[id].lruvec.0) % self.allocator.nodes()) as u8)
    }

    /// Number of pages in `pages` that are on each node (/proc/PID/numa_maps).
    pub fn pages_by_node(&self, mm: MmId, pages: Range<Vpn>) -> Vec<u64> {
        let mut sums = vec![0; self.allocator.nodes()];
        for (table, places) in self.address_spaces.mms[mm].directory.tables(pages) {
            let of_entry = self.address_spaces.page_tables[table].pages_of_entry();
            for place in self.address_spaces.page_tables[table].places(places) {
                if let Some(id) = self.address_spaces.page_tables[table.entry(place)].folio() {
                    sums[self.folio_node(id).index()] += of_entry;
                }
            }
        }
        sums
    }
}

const _: () = assert!(HZ * TICK_NS == 1_000_000_000);
