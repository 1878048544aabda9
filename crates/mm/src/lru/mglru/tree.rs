//! Who decides which type and tiers go, and when a new generation is due: [`policy`], or where a kernel tree has the function, that.
//!
//! ```text
//!   counts of each tier ─► LruGenState ─► get_type_to_scan, compiled from a tree ─► type, last tier
//!                     └──► policy::compared_types ──────────────────────────────────────►┘
//!   pages of each generation ─► LruGenState ─► should_run_aging ─► a generation is due, pages to evict
//! ```
//!
//! The twin's counts of a tier are sums already; a tree's function adds up averages and what came since, so it gets them as averages.

use super::policy::{self, Due, Evictable};
use crate::decisions::{LruGenDecisions, LruGenState, Rule, nonsense};
use crate::lru::lruvec::{Generations, TIERS, generation};
use crate::lru::mmzone::LruType;
use crate::lru::vmscan::features::GenFeatures;
use crate::lru::workingset::policy::TierCounts;

impl LruGenDecisions {
    /// The last tier that may be evicted of a type.
    pub(crate) fn last_tier(
        &self,
        f: &GenFeatures,
        lru_type: LruType,
        tiers: &[[TierCounts; TIERS]; 2],
    ) -> u8 {
        let Rule::Tree(decide) = self.get_tier_idx else {
            return policy::last_tier(f, &tiers[lru_type as usize]);
        };
        let asked = LruGenState { lru_type: lru_type as i32, ..state_of(tiers) };
        let mut answered = asked;
        decide(&mut answered);
        tier("get_tier_idx", &asked, &answered, answered.answer)
    }

    /// Which type to evict from, and its last tier if that came out of the comparison.
    pub(crate) fn type_to_scan(
        &self,
        f: &GenFeatures,
        swappiness: u64,
        min_seq: [u64; 2],
        tiers: &[[TierCounts; TIERS]; 2],
    ) -> (LruType, Option<u8>) {
        let Rule::Tree(decide) = self.get_type_to_scan else {
            return policy::type_to_scan(f, swappiness, min_seq, tiers);
        };
        if let Some(settled) = policy::settled_type(f, swappiness, min_seq) {
            return (settled, None);
        }
        let asked = LruGenState { swappiness: swappiness as i32, min_seq, ..state_of(tiers) };
        let mut answered = asked;
        decide(&mut answered);
        let lru_type = match answered.answer {
            0 => LruType::Anon,
            1 => LruType::File,
            _ => nonsense("get_type_to_scan", &asked, &answered, "there is no such type"),
        };
        // A tree in which types are compared apart from tiers says nothing of a tier.
        let last =
            (answered.tier_idx >= 0).then(|| tier("get_type_to_scan", &asked, &answered, answered.tier_idx));
        (lru_type, last)
    }
}

impl LruGenDecisions {
    /// What the generations of a lruvec call for. A tree of 6.1 divides pages by the priority, which is done afterwards here.
    pub(crate) fn due(
        &self,
        f: &GenFeatures,
        evictable: &Evictable,
        generations: &Generations,
        swappiness: u64,
    ) -> Due {
        let Rule::Tree(decide) = self.should_run_aging else { return policy::due(f, evictable) };
        let Generations { max_seq, min_seq, .. } = *generations;
        let mut asked =
            LruGenState { max_seq, min_seq, can_swap: (swappiness > 0).into(), ..LruGenState::default() };
        for lru_type in LruType::ALL {
            for seq in min_seq[lru_type as usize]..=max_seq {
                asked.nr_pages[generation(seq) * 2 + lru_type as usize] = generations.size(seq, lru_type);
            }
        }
        let mut answered = asked;
        decide(&mut answered);
        if answered.nr_to_scan > evictable.total {
            nonsense("should_run_aging", &asked, &answered, "there are not so many pages");
        }
        Due { aging: answered.answer != 0, pages: answered.nr_to_scan }
    }
}

fn tier(function: &str, asked: &LruGenState, answered: &LruGenState, number: i32) -> u8 {
    if !(0..TIERS as i32).contains(&number) {
        nonsense(function, asked, answered, "there is no such tier");
    }
    number as u8
}

fn state_of(tiers: &[[TierCounts; TIERS]; 2]) -> LruGenState {
    let mut state = LruGenState { tier_idx: -1, ..LruGenState::default() };
    for (at, counts) in tiers.iter().flatten().enumerate() {
        (state.avg_refaulted[at], state.avg_total[at]) = (counts.refaulted, counts.total);
    }
    state
}
