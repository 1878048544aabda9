//! Known sequences of refills and bulk frees: batch 63, high and high_min 361, high_max 4000, all zone flags
//! clear. Each row gives the answers of every variant to the same demand.

use mm::Series;
use mm::decisions::PcpDecisions;
use mm::page::PAGEBLOCK_ORDER;
use mm::pcp::policy::{self, Pageset, ZonePressure};
use mm::pcp::{DrainedBlock, PerCpuPages, list_index};
use mm::{Features, MigrateType};

/// A pageset without a zone: refills always succeed, and every movement is recorded.
struct Lone {
    features: Features,
    pages: PerCpuPages,
    next_pfn: u32,
    /// Sizes of refills, in blocks.
    refills: Vec<i32>,
    /// Sizes of bulk frees in pages, and whether they were high-order drains.
    drains: Vec<(i32, bool)>,
}

impl Lone {
    fn new(variant: &str, free_high_batch: bool) -> Lone {
        let features = Series::PCP.variant(variant).unwrap().features;
        let floating = features.auto_tuning.is_some();
        let tuning = Pageset {
            batch: 63,
            high: if features.high_bounds { 0 } else { 361 },
            high_min: 361,
            high_max: if floating || features.high_bounds { 4000 } else { 361 },
            free_high_batch,
            ..Pageset::default()
        };
        Lone {
            features,
            pages: PerCpuPages::new(tuning, PAGEBLOCK_ORDER),
            next_pfn: 0,
            refills: vec![],
            drains: vec![],
        }
    }

    fn alloc(&mut self, order: u8, times: usize) -> &mut Self {
        let f = self.features;
        let index = list_index(&f, order, MigrateType::Movable);
        for _ in 0..times {
            policy::note_alloc(&mut self.pages.tuning, &f);
            if self.pages.take(&f, index, order).is_some() {
                continue;
            }
            let n = policy::nr_pcp_alloc(&mut self.pages.tuning, &f, ZonePressure::default(), order);
            self.refills.push(n);
            for _ in 0..n {
                self.pages.list_mut(index).push_back(self.next_pfn);
                self.next_pfn += 1 << order;
            }
            self.pages.note_refilled(n as usize, order);
            self.pages.take(&f, index, order).unwrap();
        }
        self
    }

    fn free(&mut self, order: u8, times: usize) -> &mut Self {
        let f = self.features;
        let index = list_index(&f, order, MigrateType::Movable);
        for _ in 0..times {
            let own = PcpDecisions::default();
            let due = self.pages.put(&f, &own, ZonePressure::default(), index, order, self.next_pfn);
            self.next_pfn += 1 << order;
            if let Some(due) = due {
                let freed = self.give_back(due.pages, index);
                self.drains.push((freed, due.free_high));
            }
        }
        self
    }

    fn decay_until_quiet(&mut self) -> Vec<i32> {
        let mut steps = vec![];
        loop {
            let (pages, more) = policy::decay(&mut self.pages.tuning, &self.features);
            let freed = self.give_back(pages, 0);
            policy::note_decayed(&mut self.pages.tuning, &self.features);
            if !more {
                return steps;
            }
            steps.push(freed);
        }
    }

    fn give_back(&mut self, pages: i32, index: usize) -> i32 {
        let mut blocks: Vec<DrainedBlock> = vec![];
        self.pages.take_for_zone(&self.features, pages, index, &mut blocks);
        blocks.iter().map(|block| 1 << block.order).sum()
    }

    fn plain(&self) -> Vec<i32> {
        self.drains.iter().filter(|(_, high)| !high).map(|(n, _)| *n).collect()
    }

    fn high_order(&self) -> Vec<i32> {
        self.drains.iter().filter(|(_, high)| *high).map(|(n, _)| *n).collect()
    }
}

/// `63*3, 5` as such sequences are written in tables.
fn runs(groups: &[(i32, usize)]) -> Vec<i32> {
    groups.iter().flat_map(|&(value, times)| std::iter::repeat_n(value, times)).collect()
}

const BEFORE_P4: &[&str] = &["pcp-base", "patch1", "patch2", "patch3", "patch4"];
const P5_P6: &[&str] = &["patch5", "patch6"];
const P7_P9: &[&str] = &["patch7", "patch8", "patch9"];
const COUNTING: &[&str] = &["patch10", "mainline-6.7", "mainline-6.10", "mainline-6.16", "mainline-6.18"];
const LATE: &[&str] = &["mainline-6.16", "mainline-6.18", "mainline-6.19"];

#[test]
fn allocations_from_empty() {
    for name in BEFORE_P4 {
        let mut lone = Lone::new(name, false);
        lone.alloc(0, 3000);
        assert_eq!(lone.refills, runs(&[(63, 48)]), "{name}");
        assert_eq!(lone.pages.tuning.count, 24, "{name}");
    }
    for name in P5_P6 {
        let mut lone = Lone::new(name, false);
        lone.alloc(0, 3000);
        assert_eq!(lone.refills, runs(&[(63, 1), (126, 1), (252, 1), (298, 9)]), "{name}");
        assert_eq!((lone.pages.tuning.count, lone.pages.tuning.alloc_factor), (123, 3), "{name}");
    }
    for name in P7_P9.iter().chain(COUNTING) {
        let mut lone = Lone::new(name, false);
        lone.alloc(0, 3000);
        assert_eq!(lone.refills, [63, 126, 252, 504, 1008, 2016], "{name}");
        let p = lone.pages.tuning;
        assert_eq!((p.count, p.high, p.alloc_factor), (969, 4000, 5), "{name}");
    }
}

#[test]
fn frees_from_empty() {
    for name in BEFORE_P4.iter().chain(P5_P6) {
        let mut lone = Lone::new(name, false);
        lone.free(0, 3000);
        assert_eq!(lone.plain(), runs(&[(63, 1), (126, 1), (252, 1), (298, 8)]), "{name}");
        assert_eq!(lone.pages.tuning.count, 175, "{name}");
    }
    for name in P7_P9 {
        let mut lone = Lone::new(name, false);
        lone.free(0, 3000);
        assert_eq!(
            lone.plain(),
            runs(&[(63, 1), (126, 1), (252, 1), (298, 1), (504, 2), (1008, 1)]),
            "{name}"
        );
        assert_eq!((lone.pages.tuning.count, lone.pages.tuning.high), (245, 1071), "{name}");
    }
    for name in COUNTING {
        let mut lone = Lone::new(name, false);
        lone.free(0, 3000);
        assert_eq!(lone.plain(), [298, 361, 722, 1444], "{name}");
        let p = lone.pages.tuning;
        assert_eq!((p.count, p.high, p.free_count), (175, 2079, 2016), "{name}");
    }
}

#[test]
fn allocations_then_frees() {
    for name in BEFORE_P4 {
        let mut lone = Lone::new(name, false);
        lone.alloc(0, 3000).free(0, 3000);
        assert_eq!(lone.refills, runs(&[(63, 48)]), "{name}");
        assert_eq!(lone.plain(), runs(&[(63, 1), (126, 1), (252, 1), (298, 8)]), "{name}");
    }
    for name in P5_P6 {
        let mut lone = Lone::new(name, false);
        lone.alloc(0, 3000).free(0, 3000);
        assert_eq!(lone.refills, runs(&[(63, 1), (126, 1), (252, 1), (298, 9)]), "{name}");
        assert_eq!(lone.plain(), runs(&[(63, 1), (126, 1), (252, 1), (298, 8)]), "{name}");
    }
    for name in P7_P9.iter().chain(COUNTING) {
        let mut lone = Lone::new(name, false);
        lone.alloc(0, 3000).free(0, 3000);
        assert_eq!(lone.drains, [], "{name}");
        assert_eq!((lone.pages.tuning.count, lone.pages.tuning.high), (3969, 4000), "{name}");
    }
}

#[test]
fn decay_of_a_grown_pageset() {
    let decays = |name: &str| {
        let mut lone = Lone::new(name, false);
        lone.alloc(0, 3000).free(0, 3000).decay_until_quiet()
    };
    for name in ["patch7", "patch8"] {
        assert_eq!(decays(name), [769, 640, 512, 410, 328, 262, 210, 168, 134, 108, 67], "{name}");
    }
    for name in ["patch9", "patch10"] {
        assert_eq!(decays(name), [0, 769, 640, 512, 409, 327, 262, 210, 168, 134, 107, 70], "{name}");
    }
    let eighths = [469, 437, 382, 335, 293, 256, 224, 196, 172, 150, 131, 115, 101, 88, 77, 67, 59, 52, 4];
    for name in ["mainline-6.7", "mainline-6.18"] {
        assert_eq!(decays(name), eighths, "{name}");
    }
}

#[test]
fn high_order_frees_after_a_burst() {
    let drains = |name: &str, large_cache: bool| {
        let mut lone = Lone::new(name, large_cache);
        lone.free(0, 500).free(1, 3);
        (lone.plain(), lone.high_order())
    };
    assert_eq!(drains("pcp-base", false), (vec![63, 126], vec![313, 2, 2]));
    assert_eq!(drains("patch1", false), (vec![63, 126], vec![315, 2]));
    for name in ["patch3", "patch4", "patch5", "patch6", "patch7", "patch8", "patch9"] {
        assert_eq!(drains(name, true), (vec![63, 126], vec![315]), "{name}");
    }
    for name in COUNTING {
        assert_eq!(drains(name, true), (vec![298], vec![206]), "{name}");
    }
}

#[test]
fn order_3_frees() {
    let drains = |name: &str, large_cache: bool| {
        let mut lone = Lone::new(name, large_cache);
        lone.free(3, 200);
        (lone.plain(), lone.high_order())
    };
    for name in ["pcp-base", "patch1", "patch2"] {
        assert_eq!(drains(name, false), (vec![64], runs(&[(312, 1), (8, 153)])), "{name}");
    }
    for name in ["patch3", "patch4", "patch5", "patch6", "patch7", "patch8", "patch9"] {
        assert_eq!(drains(name, true), (vec![64], runs(&[(312, 1), (64, 19)])), "{name}");
        assert_eq!(drains(name, false), (vec![64], runs(&[(312, 1), (8, 153)])), "{name}");
    }
    for name in ["patch10", "mainline-6.7", "mainline-6.10", "mainline-6.15"] {
        assert_eq!(drains(name, true), (vec![], runs(&[(72, 1), (64, 23)])), "{name}");
        assert_eq!(drains(name, false), (vec![], runs(&[(72, 1), (8, 191)])), "{name}");
    }
    for name in LATE {
        assert_eq!(drains(name, true), (vec![], runs(&[(256, 1), (64, 21)])), "{name}");
        assert_eq!(drains(name, false), (vec![], runs(&[(256, 1), (8, 168)])), "{name}");
    }
}

#[test]
fn order_3_allocations() {
    for variant in Series::PCP.variants() {
        let mut lone = Lone::new(variant.name, false);
        lone.alloc(3, 50);
        assert_eq!(lone.refills, runs(&[(7, 8)]), "{}", variant.name);
        if variant.features.auto_tuning.is_some() {
            assert_eq!(lone.pages.tuning.high, 865, "{}", variant.name);
        }
    }
}
