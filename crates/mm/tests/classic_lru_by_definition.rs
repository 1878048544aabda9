//! The classic LRU against a slow, obviously right model: one task of one memory cgroup reads pages of a
//! file, the two lists are vectors, and every read hits or misses, and evicts, as the model says.

use machine::{Costs, Cpu, Machine, Node, Topology};
use mm::filemap::{Access, Read};
use mm::memcontrol::Memcg;
use mm::memory_map::MemoryRange;
use mm::vmscan::features::DistanceRule;
use mm::{Category, Features, MemoryManager, Series, Settings, ZoneType};
use proptest::prelude::*;
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;

/// So many CPUs that reclaim never finds enough changes to flush statistics; the test flushes them before
/// each read.
const CPUS: u16 = 64;
const CPU: Cpu = Cpu(0);
const FILE_PAGES: u32 = 2000;
/// Pages that a memcg may be charged for without having them on its lists: charged in advance, in a batch, or
/// just reclaimed.
const NOT_ON_LISTS: u64 = 63 + 31 + 33;

#[derive(Clone, Copy, Debug, Default)]
struct Page {
    referenced: bool,
    active: bool,
    workingset: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Statistics {
    active: usize,
    inactive: usize,
    activations: u64,
}

/// The model. The tail of a list is at its front.
#[derive(Default)]
struct Model {
    max: u64,
    batch: usize,
    /// Whether distances are judged by the rule of the series' first patch.
    throttled: bool,
    resident: BTreeMap<u32, Page>,
    inactive: Vec<u32>,
    active: Vec<u32>,
    being_added: Vec<u32>,
    being_activated: Vec<u32>,
    /// The shadows of evicted pages: the age at eviction, and whether the page had been in the working set.
    shadows: BTreeMap<u32, (u64, bool)>,
    age: u64,
    activations: u64,
    restores: u64,
    /// The statistics as of the last flush.
    seen: Statistics,
    activations_at_last_reclaim: u64,
    charged: u64,
    stock: u64,
    evicted: Vec<u32>,
}

impl Model {
    fn read(&mut self, page: u32) -> bool {
        self.seen = Statistics {
            active: self.active.len(),
            inactive: self.inactive.len(),
            activations: self.activations,
        };
        let hit = self.resident.contains_key(&page);
        if !hit {
            self.charge();
            let mut new = Page::default();
            if let Some((age, workingset)) = self.shadows.remove(&page)
                && self.would_have_stayed(self.age - age)
            {
                new.active = true;
                new.workingset = workingset;
                self.activations += 1;
                self.restores += u64::from(workingset);
                self.note_activation();
            }
            self.resident.insert(page, new);
            self.being_added.push(page);
            if self.being_added.len() == self.batch {
                self.add();
            }
        }
        self.mark_accessed(page);
        hit
    }

    fn would_have_stayed(&self, distance: u64) -> bool {
        let (active, inactive) = (self.seen.active as u64, self.seen.inactive as u64);
        match self.throttled {
            true => distance < if active >= inactive { inactive } else { active },
            false => distance <= active,
        }
    }

    fn note_activation(&mut self) {
        if !self.throttled {
            self.age += 1;
        }
    }

    fn mark_accessed(&mut self, number: u32) {
        let page = self.resident.get_mut(&number).unwrap();
        if !page.referenced {
            page.referenced = true;
        } else if !page.active {
            page.referenced = false;
            if self.being_added.contains(&number) {
                page.active = true;
            } else if !self.being_activated.contains(&number) {
                self.being_activated.push(number);
                if self.being_activated.len() == self.batch {
                    self.activate();
                }
            }
            self.note_activation();
        }
    }

    fn add(&mut self) {
        for page in self.being_added.drain(..) {
            if self.resident[&page].active { &mut self.active } else { &mut self.inactive }.push(page);
        }
    }

    fn activate(&mut self) {
        for page in self.being_activated.drain(..) {
            self.inactive.retain(|&other| other != page);
            self.resident.get_mut(&page).unwrap().active = true;
            self.active.push(page);
        }
    }

    fn charge(&mut self) {
        if self.stock > 0 {
            self.stock -= 1;
        } else if self.charged + 64 <= self.max {
            self.charged += 64;
            self.stock = 63;
        } else {
            while self.charged + 1 > self.max {
                self.reclaim();
            }
            self.charged += 1;
        }
    }

    fn reclaim(&mut self) {
        let mut reclaimed = 0;
        let mut forced = false;
        while reclaimed == 0 {
            let mut skipped = false;
            for priority in (0..=12).rev() {
                let low = self.seen.inactive < self.seen.active;
                let refaulting = self.seen.activations != self.activations_at_last_reclaim;
                let may_deactivate = forced || refaulting || low;
                let mut inactive = self.inactive.len() >> priority;
                let mut active = self.active.len() >> priority;
                let mut here = 0;
                while (inactive > 0 || active > 0) && here < 32 {
                    here += self.shrink_inactive(inactive.min(32));
                    inactive = inactive.saturating_sub(32);
                    if may_deactivate {
                        self.shrink_active(active.min(32));
                    } else {
                        skipped |= active > 0;
                    }
                    active = active.saturating_sub(32);
                }
                reclaimed += here;
                if reclaimed >= 32 {
                    break;
                }
            }
            self.activations_at_last_reclaim = self.seen.activations;
            if forced || !skipped {
                break;
            }
            forced = true;
        }
    }

    fn shrink_inactive(&mut self, pages: usize) -> usize {
        if pages == 0 {
            return 0;
        }
        self.add();
        self.activate();
        let pages = pages.min(self.inactive.len());
        for page in self.inactive.drain(..pages) {
            let was = self.resident.remove(&page).unwrap();
            self.shadows.insert(page, (self.age, was.workingset));
            self.age += 1;
            self.charged -= 1;
            self.evicted.push(page);
        }
        pages
    }

    fn shrink_active(&mut self, pages: usize) {
        if pages == 0 {
            return;
        }
        self.add();
        self.activate();
        let pages = pages.min(self.active.len());
        for page in self.active.drain(..pages) {
            let state = self.resident.get_mut(&page).unwrap();
            state.active = false;
            state.workingset = true;
            self.inactive.push(page);
        }
    }
}

fn boot(features: Features, max: u64) -> (Machine<Category>, MemoryManager, Memcg) {
    let topology = Topology::of_nodes(1, CPUS);
    let span = 1 << 20..(1 << 20) + 60_000;
    let memory = [MemoryRange::all_free(Node(0), ZoneType::Normal, span)];
    let mut settings = Settings::default();
    settings.set("lru_gen/enabled", "0").unwrap();
    let mut mm = MemoryManager::new(&topology, &memory, features, settings, Pcg64Mcg::new(1));
    let memcg = mm.parts.lrus.create_memcg(Memcg::ROOT);
    mm.parts.lrus.memcg_mut(memcg).max = max;
    mm.parts.page_cache.watch_removals();
    (Machine::new(topology, Costs::FREE), mm, memcg)
}

/// Reads in sequence, or at random from a part of the file.
fn sequence() -> impl Strategy<Value = Vec<u32>> {
    let scan = (0..FILE_PAGES, 1..1000u32).prop_map(|(from, pages)| (from..from + pages).collect());
    let pages = prop_oneof![1..50u32, 1..FILE_PAGES];
    let random = (0..FILE_PAGES, pages, proptest::collection::vec(any::<u32>(), 1..1000))
        .prop_map(|(from, pages, random)| random.into_iter().map(|number| from + number % pages).collect());
    let part = prop_oneof![scan, random];
    proptest::collection::vec(part, 1..20)
        .prop_map(|parts: Vec<Vec<u32>>| parts.into_iter().flatten().map(|page| page % FILE_PAGES).collect())
}

fn features() -> impl Strategy<Value = Features> {
    let all: Vec<Features> = Series::RECLAIM.variants().map(|variant| variant.features).collect();
    proptest::sample::select(all)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hits_and_evictions_are_those_of_the_model(features in features(), max in 180..1200u64, reads in sequence()) {
        // The model keeps all shadows. So does the kernel, as long as there are no more nodes than an eighth
        // of the pages.
        let nodes = ((max - NOT_ON_LISTS) / 8 - 1) as u32;
        let reads: Vec<u32> = reads.into_iter().map(|page| page % (64 * nodes)).collect();
        let (mut machine, mut mm, memcg) = boot(features, max);
        let file = mm.parts.page_cache.open_file();
        let mut model = Model {
            max,
            batch: features.folio_batch.into(),
            throttled: features.reclaim.distance_rule == DistanceRule::Throttled,
            ..Model::default()
        };
        for (number, &page) in reads.iter().enumerate() {
            mm.parts.lrus.flush_stats(machine.now(CPU));
            let read = mm.enter(&mut machine, CPU).read_page(memcg, file, page, Access::New).unwrap();
            if let Read::Miss(id) = read {
                mm.parts.lrus.end_read(id);
            }
            let hit = matches!(read, Read::Hit(_));
            prop_assert_eq!(hit, model.read(page), "read {} of page {}", number, page);
            let evicted: Vec<u32> = mm.parts.page_cache.take_removals().into_iter().map(|(_, page)| page).collect();
            prop_assert_eq!(evicted, std::mem::take(&mut model.evicted), "read {} of page {}", number, page);
            prop_assert_eq!(mm.parts.lrus.memcg(memcg).current, model.charged);
        }
        let lruvec = mm.parts.lrus.lruvec(memcg, Node(0));
        let lists = [0, 0, model.inactive.len() as u64, model.active.len() as u64, 0];
        prop_assert_eq!(lruvec.stat.nr_lru, lists);
        let stat = (lruvec.nonresident_age, lruvec.stat.activate[1], lruvec.stat.restore[1]);
        prop_assert_eq!(stat, (model.age, model.activations, model.restores));
        mm.validate(0);
    }
}
