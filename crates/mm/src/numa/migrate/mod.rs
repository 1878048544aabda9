//! NUMA hint faults, and the migration of the page.
//!
//! ```text
//!   PTE PROT_NONE   ─► who, on which node? ► misplaced? ─ no ────────────► PTE restored    ─► counted
//!                        (cpupid)              │ yes                            ▲
//!                                              ▼                                │
//!                                        room there? on a list? ─ no ───────────┤
//!                                              │ yes                            │
//!                                              ▼                                │
//!                                        other memory, copied, same folio ──────┘
//! ```
//!
//! A folio keeps its id when it migrates: it gets other pages and moves to the LRU lists of another node, and
//! PTEs that map it stay valid. The kernel migrates to another `struct folio`. While a hint fault is in
//! progress, other threads that touch the page fault too, find the PTE changed, and retry:
//! [`Kernel::wait_for_hint_fault`]. In the kernel: `do_numa_page`, `numa_migrate_prep` in mm/memory.c,
//! `migrate_misplaced_folio` in mm/migrate.c.

pub mod policy;
pub mod promotion;

use super::cpupid::Cpupid;
use super::placement::policy::LOAD_AVG_MAX;
use super::placement::{CountedFault, FaultedMm, TaskClock, TaskId};
use super::scan::policy::note_access;
use super::{InProgress, NumaBalancing, Rules, nanoseconds};
use crate::ZoneType;
use crate::account::Category;
use crate::address_space::huge_memory::policy::window;
use crate::address_space::mmap::can_change_pte_writable;
use crate::address_space::{MmId, Pte, PteNumber, VmFlags, Vpn};
use crate::allocator::page::MigrateType;
use crate::allocator::request::{Effort, Placement, Request};
use crate::allocator::watermark::Mark;
use crate::counters::Event;
use crate::jiffies::jiffies_at;
use crate::kernel::{Kernel, Parts};
use crate::lru::folio::{FolioFlags, FolioId};
use crate::numa::mempolicy::interleave_index;
use machine::{Cpu, Machine, Node, SpinLock, Time};
use policy::{Fault, FaultFlags, Mempolicy};

/// What a hint fault is about.
struct Touched {
    /// The thread that touches the folio.
    task: TaskId,
    /// The VMA is executable.
    may_execute: bool,
    /// The memory policy and its interleave index; `None` for the default policy.
    policy: Option<(Mempolicy, u64)>,
    /// The folio's last cpupid.
    last: Cpupid,
    pages: u64,
    /// The flags that are known before the folio migrates.
    flags: FaultFlags,
}

impl Kernel<'_> {
    /// Handles a hint fault (`do_numa_page`).
    pub(crate) fn do_numa_page(&mut self, mm: MmId, page: Vpn, entry: PteNumber) {
        // Half the cost is for the exception, the VMA and the PTE; the statistics follow when the page has
        // migrated or stays.
        let half = self.on.machine.costs.numa().hint_fault.fraction(1, 2);
        let mut lock = SpinLock::default();
        lock.acquire(self.on.machine, self.on.cpu, Category::NumaHintFault);
        lock.hold(self.on.machine, self.on.cpu, half, [Category::NumaHintFault; 2]);
        let looked = self.on.machine.now(self.on.cpu);
        let Some(id) = self.parts.address_spaces.page_tables[entry].folio() else { return };
        self.parts.make_accessible(entry, id);
        let source = self.parts.folio_node(id);
        let Some(Touched { task, may_execute, policy, last, pages, flags }) =
            self.note_hint_fault(mm, page, entry, source)
        else {
            return;
        };
        let (f, settings) = (self.on.features.numa, self.on.settings.numa);
        let timed = self.is_timed(source);
        let here = self.on.machine.node(self.on.cpu);
        let target = self.misplaced(task, id, source, policy);
        let moved = target.map(|target| {
            let folio = self.parts.lrus.folios.flags[id];
            let is_file = !folio.has(FolioFlags::SWAPBACKED);
            let is_library = may_execute && self.parts.lrus.folios[id].mapcount > 1;
            let stays = is_file && (is_library || folio.has(FolioFlags::DIRTY));
            !stays && self.migrate_misplaced_folio(id, target)
        });
        // A folio that was split for migration may no longer exist.
        let migrates = moved == Some(true);
        let node = if migrates { self.parts.folio_node(id) } else { source };
        if migrates {
            // Slow memory stores a time instead.
            let changes_tier = self.parts.numa.is_slow(source) != self.parts.numa.is_slow(node);
            if settings.tiering && changes_tier {
                self.parts.numa.set_last(id, Cpupid::UNSET);
            }
            if policy::loses_write_permission(&f) {
                self.parts.write_protect(entry, id);
            }
            if timed && !self.parts.numa.is_slow(node) {
                self.on.counters.add(Event::PgpromoteSuccess, pages);
            }
        }
        if let Some((unmapped, until)) = self.seen_in_progress(looked, migrates) {
            self.parts.numa.note_in_progress(InProgress {
                entry,
                unmapped,
                restored: Time::NEVER,
                until,
                migrates,
                source,
                by: self.parts.numa.cpupid_of(task, self.on.cpu),
                lock,
            });
        }
        self.on.machine.charge(self.on.cpu, Category::NumaHintFault, half);
        let flags =
            flags.with(FaultFlags::MIGRATED, migrates).with(FaultFlags::MIGRATE_FAIL, moved == Some(false));
        self.count_hint_fault(task, mm, CountedFault { last, node, cpu_node: here, pages, flags });
    }

    /// Migrates a folio to another node if that has enough free pages (`migrate_misplaced_folio`). Returns
    /// whether it did. A partially mapped folio is split first: its pages migrate, and the kernel counts that
    /// as a failure.
    fn migrate_misplaced_folio(&mut self, id: FolioId, target: Node) -> bool {
        let pages = self.parts.lrus.folios.flags[id].nr_pages();
        if !self
            .parts
            .allocator
            .zones_of(target)
            .any(|zone| zone.has_room(self.on.features, Mark::High, pages))
        {
            if self.on.settings.numa.tiering {
                let order = self.parts.lrus.folios.flags[id].order();
                self.wake_kswapd(target, order, ZoneType::Movable, Effort::LIGHT.direct);
            }
            return false;
        }
        // A folio in a folio batch cannot be isolated, and a folio under writeback stays.
        if !self.parts.lrus.is_migratable(id) {
            return false;
        }
        if self.is_split_to_migrate(id)
            && let Ok(pages) = self.split_folio(id)
        {
            for page in pages {
                self.move_misplaced_folio(page, target);
            }
            return false;
        }
        self.move_misplaced_folio(id, target)
    }

    /// Migrates a folio that is migratable, if memory is available on the target node. Returns whether it
    /// did.
    fn move_misplaced_folio(&mut self, id: FolioId, target: Node) -> bool {
        let (order, pages) =
            (self.parts.lrus.folios.flags[id].order(), self.parts.lrus.folios.flags[id].nr_pages());
        let request = Request::new(order, MigrateType::Movable, Placement::Bind(target));
        let request = Request { effort: Effort::LIGHT, ..request };
        let Some(pfn) = self.alloc(&request) else {
            self.on.counters.add(Event::PgmigrateFail, pages);
            return false;
        };
        // No TLB has the old translation: it was flushed when the PTE became PROT_NONE (`ptep_clear_flush`
        // tests `pte_accessible`).
        let lruvec = self.parts.lrus.folios[id].lruvec;
        self.parts.lrus.lruvecs[lruvec].remove(&mut self.parts.lrus.folios, id, false);
        self.parts.lrus.folios.flags[id].clear(FolioFlags::LRU);
        self.move_to_node(id, pfn, target);
        self.on.counters.add(Event::PgmigrateSuccess, pages);
        self.on.counters.add(Event::NumaPagesMigrated, pages);
        true
    }

    /// Handles an access to a page on which another thread is taking a hint fault. This thread faults too and
    /// waits for the page-table lock; several such threads take the lock one after the other. Until the page
    /// is unmapped, each finds the PTE unchanged and takes a hint fault of its own, so threads are seen to
    /// share pages that migrate each time. The first of them that does not ask for migration makes the page
    /// accessible again; one that asks does so a little later, when it finds the page already isolated.
    /// Threads that take the lock after that find the PTE changed. Once the page is unmapped, threads sleep
    /// until it has migrated. Charges the cost of all that. Returns whether there was such a fault.
    pub fn wait_for_hint_fault(&mut self, mm: MmId, page: Vpn) -> bool {
        let Some(entry) = self.parts.address_spaces.entry(mm, page) else { return false };
        let now = self.on.machine.now(self.on.cpu);
        let Some(fault) =
            self.parts.numa.in_progress_mut(entry).filter(|fault| fault.stops(self.on.cpu, now))
        else {
            return false;
        };
        let hint_fault = self.on.machine.costs.numa().hint_fault;
        // The exception and the VMA look-up.
        self.on.machine.charge(self.on.cpu, Category::NumaHintFault, hint_fault.fraction(1, 2));
        fault.lock.acquire(self.on.machine, self.on.cpu, Category::NumaHintFault);
        let locked = self.on.machine.now(self.on.cpu);
        let is_unchanged = fault.migrates && locked < fault.unmapped.min(fault.restored);
        let hold = if is_unchanged { hint_fault.fraction(1, 4) } else { Time::ZERO };
        fault.lock.hold(self.on.machine, self.on.cpu, hold, [Category::NumaHintFault; 2]);
        let (migrates, unmapped, source, by) = (fault.migrates, fault.unmapped, fault.source, fault.by);
        if is_unchanged {
            let counted = self.fault_as_well(mm, page, source, by);
            self.on.machine.charge(self.on.cpu, Category::NumaHintFault, hint_fault.fraction(1, 4));
            let tried = counted.is_some_and(|(_, fault)| fault.flags.has(FaultFlags::MIGRATE_FAIL));
            let relocks = policy::lets_lock_go(&self.on.features.numa, tried);
            let looked = if relocks { self.on.machine.now(self.on.cpu) } else { locked + hold };
            let fault = self.parts.numa.in_progress_mut(entry).expect("it was found above");
            // A thread that released the lock to try a migration checks the PTE again, and ignores the fault
            // if it has changed.
            let is_restored = looked < fault.unmapped.min(fault.restored) || !relocks;
            if is_restored {
                fault.restored = fault.restored.min(looked);
                if let Some((task, counted)) = counted {
                    self.count_hint_fault(task, mm, counted);
                }
            }
        } else if migrates && locked >= unmapped {
            self.sleep_until_woken(by.cpu());
        }
        true
    }

    /// Sleeps until `waker`, which migrates a page, has woken the waiting threads. Its clock is at the end of
    /// the migration.
    fn sleep_until_woken(&mut self, waker: Cpu) {
        let wake = self.on.machine.line_transfer(waker, self.on.cpu) * 2 + self.on.machine.costs.ipi_send;
        self.on.machine.charge(waker, Category::NumaHintFault, wake);
        let awake =
            self.on.machine.now(waker) + self.on.machine.costs.ipi_deliver + self.on.machine.costs.ipi_wake;
        self.on.machine.wait_until(self.on.cpu, Category::Idle, awake);
    }

    /// Collects what a hint fault on a folio of node `source` is about, records the access in the VMA, and
    /// counts the fault. `None` if the kernel ignores hint faults on such folios.
    fn note_hint_fault(&mut self, mm: MmId, page: Vpn, entry: PteNumber, source: Node) -> Option<Touched> {
        let id = self.parts.address_spaces.page_tables[entry].folio()?;
        let task = self.parts.numa.running(self.on.cpu)?;
        let f = self.on.features.numa;
        let pages = self.parts.lrus.folios.flags[id].nr_pages();
        let is_huge = self.parts.address_spaces.page_tables[entry.table()].is_huge();
        if !policy::is_looked_at(&f, pages, is_huge) {
            return None;
        }
        let pid = self.parts.numa.tasks.get(task).pid;
        let vmas = &mut self.parts.address_spaces.mms[mm].vmas;
        let number = vmas.find_id(page).expect("the page is in a VMA");
        note_access(&f, vmas.numab_mut(number), pid);
        let vma = &self.parts.address_spaces.mms[mm].vmas[number];
        let pte = &mut self.parts.address_spaces.page_tables[entry];
        if policy::loses_write_permission(&f)
            && vma.flags.has(VmFlags::WRITE)
            && vma.is_private()
            && can_change_pte_writable(*pte, &self.parts.lrus.folios)
        {
            // Of a large folio this one alone: the others take a fault each.
            pte.set(Pte::WRITE);
        }
        let may_write = vma.flags.has(VmFlags::WRITE) && pte.has(Pte::WRITE);
        let shares = self.parts.lrus.folios[id].mapcount > 1 && vma.flags.has(VmFlags::SHARED);
        let may_execute = vma.flags.has(VmFlags::EXEC);
        let order = policy::turn_order(&f, self.parts.lrus.folios.flags[id].order());
        // For a PMD mapping the policy is asked for its first page, for a PTE for the page itself.
        let asked =
            if is_huge { window(page, self.parts.allocator.geometry().pmd_order).start } else { page };
        let policy = self.parts.numa.get_vma_policy(self.on.cpu, vma);
        let policy = policy.map(|policy| (policy, interleave_index(vma, asked, order)));
        let of = vma.pages();
        let local = self.on.machine.node(self.on.cpu) == source;
        self.on.counters.add(Event::NumaHintFaults, 1);
        self.on.counters.add(Event::NumaHintFaultsLocal, u64::from(local));
        self.parts.numa.note_fault(mm, &of, task, local);
        let timed = self.is_timed(source);
        let last = if timed { Cpupid::UNSET } else { self.parts.numa.last(id) };
        let flags = FaultFlags::default()
            .with(FaultFlags::NO_GROUP, !may_write)
            .with(FaultFlags::SHARED, shares)
            .with(FaultFlags::FAULT_LOCAL, local);
        Some(Touched { task, may_execute, policy, last, pages, flags })
    }

    /// The node that a folio touched by `task` should be on (`mpol_misplaced`), given the VMA's policy and
    /// interleave index; `None` if it stays.
    fn misplaced(
        &mut self,
        task: TaskId,
        id: FolioId,
        source: Node,
        policy: Option<(Mempolicy, u64)>,
    ) -> Option<Node> {
        let here = self.on.machine.node(self.on.cpu);
        if policy.is_none() && source == here {
            // Under the default policy a local fault ends here.
            return None;
        }
        let (policy, turn) = policy.unwrap_or((Mempolicy::default_on(here), 0));
        let distances = &self.on.machine.topology.node_distances;
        let mut asked = false;
        let target = policy::misplaced(&policy, here, source, turn, distances, |_| {
            asked = true;
            true
        });
        if asked && !self.may_migrate(task, id, source, here) {
            return None;
        }
        target
    }

    fn may_migrate(&mut self, task: TaskId, id: FolioId, source: Node, destination: Node) -> bool {
        if self.parts.allocator.zones_of(destination).next().is_none() {
            return false;
        }
        if self.is_timed(source) {
            return self.may_promote(self.on.machine.now(self.on.cpu), id, destination);
        }
        let last = self.parts.numa.exchange_last(id, self.parts.numa.cpupid_of(task, self.on.cpu));
        self.parts.numa.passes_filter(self.on.machine, task, last, source, destination)
    }

    /// When the page of the hint fault just taken is unmapped, and when the fault ends, if other threads may
    /// see it in progress. A page that migrates is isolated before it is unmapped.
    fn seen_in_progress(&self, looked: Time, migrates: bool) -> Option<(Time, Time)> {
        let now = self.on.machine.now(self.on.cpu);
        if !self.on.machine.takes_turns() {
            let isolated = self.on.machine.costs.numa().page_migrate.fraction(u64::from(migrates), 2);
            return Some((looked + isolated, now));
        }
        // Other CPUs run only if this one loses its turn, and all of them do before it continues.
        let turns = self.on.machine.turn_lost(self.on.cpu, looked, now).filter(|_| migrates)?;
        let unmapped = looked + (now - looked).fraction(1, 2);
        let lost_before = self.on.machine.turn_lost(self.on.cpu, looked, unmapped).is_some();
        Some((if lost_before { unmapped + turns } else { unmapped }, now + turns))
    }

    fn count_hint_fault(&mut self, task: TaskId, mm: MmId, fault: CountedFault) {
        let settings = self.on.settings.numa;
        if !settings.balancing && !settings.tiering {
            return;
        }
        if self.parts.numa.is_slow(fault.node)
            && (settings.tiering || !fault.last.is_valid(self.on.machine.topology.cpus()))
        {
            return;
        }
        let now = self.on.machine.now(self.on.cpu);
        let clock = TaskClock {
            now: jiffies_at(now),
            now_ns: nanoseconds(now),
            runtime_ns: self.parts.numa.runtime(task, self.on.cpu, now),
            load_sum: LOAD_AVG_MAX,
        };
        let other = Some(fault.last.cpu())
            .filter(|_| fault.last.is_valid(self.on.machine.topology.cpus()))
            .and_then(|cpu| self.parts.numa.running(cpu))
            .map(|other| (other, self.parts.numa.mm_of(other) == mm));
        let space = &mut self.parts.address_spaces.mms[mm];
        let rss = space.rss();
        let rules = Rules::of(&self.on);
        let faulted = FaultedMm { scan: &mut space.numa_scan, rss };
        let outcome = self.parts.numa.tasks.fault(rules, task, clock, &fault, other, faulted);
        if outcome.wants_to_move {
            self.parts.numa.note_wants_to_move(task);
        }
    }

    /// A hint fault on a page that another thread (`by`) is about to migrate away from `source`: it makes the
    /// threads known to each other. Returns the task and the fault to be counted; `None` if the kernel
    /// ignores such faults. A request for migration fails, as the page is isolated.
    fn fault_as_well(
        &mut self,
        mm: MmId,
        page: Vpn,
        source: Node,
        by: Cpupid,
    ) -> Option<(TaskId, CountedFault)> {
        let entry = self.parts.address_spaces.entry(mm, page)?;
        let id = self.parts.address_spaces.page_tables[entry].folio()?;
        // Both accesses reach the cpupid before the folio migrates; in its new pages the folio remembers the
        // first thread or nobody, as already stored.
        let after = self.parts.numa.last(id);
        let timed = self.is_timed(source);
        if !timed {
            self.parts.numa.set_last(id, by);
        }
        let touched = self.note_hint_fault(mm, page, entry, source);
        let asks = touched
            .as_ref()
            .is_some_and(|touched| self.misplaced(touched.task, id, source, touched.policy).is_some());
        if timed || policy::loses_write_permission(&self.on.features.numa) {
            self.parts.numa.set_last(id, after);
        }
        let Touched { task, last, pages, flags, .. } = touched?;
        let flags = flags.with(FaultFlags::MIGRATE_FAIL, asks);
        Some((
            task,
            CountedFault { last, node: source, cpu_node: self.on.machine.node(self.on.cpu), pages, flags },
        ))
    }

    /// Whether folios of `source` store the time of their last scan instead of a cpupid.
    fn is_timed(&self, source: Node) -> bool {
        self.on.settings.numa.tiering && self.parts.numa.is_slow(source)
    }

    /// Whether a folio in slow memory is promoted (`should_numa_migrate_memory` with tiering).
    fn may_promote(&mut self, now: Time, id: FolioId, destination: Node) -> bool {
        let settings = self.on.settings.numa;
        let pages = self.parts.lrus.folios.flags[id].nr_pages();
        let present = self.parts.allocator.zones_of(destination).map(|zone| zone.present).sum();
        let spare = promotion::spare_pages(present);
        if self
            .parts
            .allocator
            .zones_of(destination)
            .any(|zone| zone.has_room(self.on.features, Mark::Promo, spare))
        {
            self.parts.numa.promotion(destination).unlimited();
            if let Some(event) = policy::unlimited_candidates(&self.on.features.numa) {
                self.on.counters.add(event, pages);
            }
            return true;
        }
        let now_ms = (nanoseconds(now) / 1_000_000) as u32;
        let scanned = self.parts.numa.exchange_last(id, Cpupid::from_bits(promotion::stored_time(now_ms)));
        let latency = promotion::latency(now_ms, scanned.bits());
        let node = self.parts.numa.promotion(destination);
        let before = node.candidates;
        let may = node.may_promote(&settings, now_ms, latency, pages);
        let candidates = node.candidates - before;
        self.on.counters.add(Event::PgpromoteCandidate, candidates);
        may
    }

    /// Counts a task that moved for its memory, or swapped places with another.
    pub fn count_task_move(&mut self, swapped: bool) {
        let event = if swapped { Event::NumaTaskSwapped } else { Event::NumaTaskMigrated };
        self.on.counters.add(event, 1);
    }
}

impl NumaBalancing {
    fn cpupid_of(&self, task: TaskId, cpu: Cpu) -> Cpupid {
        Cpupid::new(cpu, self.tasks.get(task).pid)
    }

    /// Whether a folio last touched by `last` may migrate to `task` (`should_numa_migrate_memory`).
    fn passes_filter(
        &self,
        machine: &Machine<Category>,
        task: TaskId,
        last: Cpupid,
        source: Node,
        destination: Node,
    ) -> bool {
        let own = self.tasks.get(task);
        let (pid, preferred, task_scan_seq) = (own.pid, own.preferred, own.scan_seq);
        let group = self.tasks.group_use(task, source, destination);
        let is_valid = last.is_valid(machine.topology.cpus());
        policy::may_migrate(&Fault {
            pid,
            last,
            last_node: is_valid.then(|| machine.node(last.cpu())),
            destination,
            preferred,
            task_scan_seq,
            group,
            from_slow_memory: self.is_slow(source),
        })
    }

    /// Notes that the scheduler placed `task` on `node`. For a task in a group this becomes its preferred
    /// node (`task_numa_migrate`).
    pub fn settle_preferred(&mut self, task: TaskId, node: Node) {
        if self.tasks.group(task).is_some() {
            self.tasks.set_preferred(task, node);
        }
    }
}

impl Parts {
    /// Clears PROT_NONE of the PTE, and of the other PTEs of a large folio in its table.
    fn make_accessible(&mut self, entry: PteNumber, id: FolioId) {
        self.each_entry_beside(entry, id, |pte| {
            if pte.take(Pte::PROT_NONE) {
                pte.set(Pte::YOUNG);
            }
        });
    }

    /// Takes the write permission from the entry and those beside it that map the same folio.
    fn write_protect(&mut self, entry: PteNumber, id: FolioId) {
        self.each_entry_beside(entry, id, |pte| {
            pte.take(Pte::WRITE);
        });
    }

    /// Calls `change` for the entries of the folio around `entry`, in its page table.
    fn each_entry_beside(&mut self, entry: PteNumber, id: FolioId, change: impl Fn(&mut Pte)) {
        let table = entry.table();
        let pages = self.lrus.folios.flags[id].nr_pages();
        let first = entry.place() & !(pages as usize - 1);
        for place in self.address_spaces.page_tables[table].places(first..first + pages as usize) {
            let pte = &mut self.address_spaces.page_tables[table.entry(place)];
            if pte.folio() == Some(id) {
                change(pte);
            }
        }
    }
}
