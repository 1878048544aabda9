//! The players: what differs between two kernels, in pieces that one kernel can have and the other not.
//!
//! ```text
//!   6.6 ──┬─ pcp.auto_tuning   off -> eighth ─┬─ one player: no kernel has the first without the second
//!         ├─ pcp.high_bounds   off -> on     ─┘
//!         ├─ pcp.scale_refills off -> on     ─── a player                        (by change)
//!         ├─ mglru.placement   ...           ─── all of mglru is a player        (by mechanism)
//!         └─ functions of a kernel tree      ─── a player                        (either)
//!   6.12
//! ```
//!
//! A set of players is a kernel: the old one with what they change, by the names that `--variants` takes. Of the two ways to write
//! it down, the old kernel with some changes or the new one without some, the shorter one is taken, so that a run that `compare` has
//! made is found in the results.
//!
//! **Kernels that cannot be.** A feature that needs another one ([`mm::features::by_name::Feature::pairs_of_need`]) is one player
//! with it if both differ and a kernel with one of the changes alone would be refused. So every set of players is a kernel that could
//! be, each player has an effect alone and one when it is taken away, and shares are those of an ordinary game.
//!
//! What no feature says is one more player: the functions of a kernel tree, the settings of a variant, a debugging kernel's batch, and
//! whether there is a multi-gen LRU at all, with all its features.

use super::shapley::Players;
use crate::experiment::varied::with_features;
use crate::scenario::{Scenario, ScenarioError};
use mm::Features;
use mm::features::by_name::Feature;
use schemars::JsonSchema;
use serde::Serialize;
use sim::{KernelChoice, TreeKernel, name_and_features};
use std::collections::BTreeMap;

/// What a player is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grain {
    /// All changes of a mechanism.
    Mechanism,
    /// A change of a feature.
    Change,
}

/// A feature that two kernels have different values of.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct FeatureChange {
    /// `MECHANISM.FEATURE`.
    pub feature: String,
    /// Its value in the old kernel.
    pub from: String,
    /// Its value in the new kernel.
    pub to: String,
}

impl FeatureChange {
    fn mechanism(&self) -> &str {
        mechanism(&self.feature)
    }
}

/// The mechanism that a feature is of.
pub(super) fn mechanism(feature: &str) -> &str {
    feature.split_once('.').map_or("", |(mechanism, _)| mechanism)
}

/// A piece of what differs.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Player {
    /// A mechanism, one or several features, or what there is besides features.
    pub name: String,
    /// What it changes.
    pub changes: Vec<FeatureChange>,
    /// Whether it stands for what no feature says.
    #[serde(skip)]
    is_beside_features: bool,
}

impl Player {
    /// Whether features say all that it changes.
    pub(super) fn is_of_features(&self) -> bool {
        !self.is_beside_features
    }
}

/// A kernel of which every player has its own part.
#[derive(Clone, Debug)]
pub struct Side {
    /// The name that `--variants` takes.
    pub name: String,
    pub(super) features: Features,
    beside: BesideFeatures,
}

/// What of a kernel no feature says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BesideFeatures {
    /// The functions of a kernel tree.
    tree: Option<String>,
    /// The settings that belong to a variant.
    settings: &'static [(&'static str, &'static str)],
    /// The batch of a debugging kernel.
    batch: Option<i32>,
    /// Whether its LRU has features.
    is_multi_gen: bool,
}

impl Side {
    /// The kernel that a scenario knows by this name.
    pub fn of(
        scenario: &Scenario,
        trees: &BTreeMap<String, TreeKernel>,
        name: &str,
    ) -> Result<Side, ScenarioError> {
        let tree = trees.get(name_and_features(name).0);
        let of_base = tree.map(|tree| tree.of_base(name));
        let choice = KernelChoice::parse(&scenario.series, of_base.as_deref().unwrap_or(name))?;
        let mut all = Feature::all().into_iter();
        Ok(Side {
            name: scenario.present_name(name).into(),
            features: choice.features,
            beside: BesideFeatures {
                tree: tree.map(|tree| tree.content_hash.clone()),
                settings: choice.variant.settings,
                batch: choice.batch,
                is_multi_gen: all.all(|feature| choice.features.word(&feature.path).is_some()),
            },
        })
    }

    /// Whether both are one kernel by two names.
    pub fn is_the_same(&self, other: &Side) -> bool {
        self.features == other.features && self.beside == other.beside
    }
}

/// Two kernels and what differs between them.
#[derive(Clone, Debug)]
pub struct Sides {
    pub from: Side,
    pub to: Side,
    pub players: Vec<Player>,
}

impl Sides {
    /// Takes apart what differs.
    pub fn new(from: Side, to: Side, grain: Grain) -> Sides {
        let mut players = match grain {
            Grain::Mechanism => by_mechanism(changes(&from.features, &to.features)),
            Grain::Change => by_change(changes(&from.features, &to.features)),
        };
        for (feature, needed) in Feature::pairs_of_need() {
            unite_if_needed(&mut players, &from.features, feature, needed);
        }
        if from.beside != to.beside {
            let name = beside_features(&from, &to);
            players.push(Player { name, changes: Vec::new(), is_beside_features: true });
        }
        Sides { from, to, players }
    }

    /// All players.
    pub fn all(&self) -> Players {
        Players::all(self.players.len())
    }

    /// The name of the kernel that has the new part of some players, and the old part of all others.
    pub fn kernel(&self, new: Players) -> String {
        let of_old = self.named_after(&self.from, new, |change| &change.to);
        let of_new = self.named_after(&self.to, self.all().but(new), |change| &change.from);
        match (of_old, of_new) {
            (Some((old, by_old)), Some((_, by_new))) if by_old <= by_new => old,
            (Some((old, _)), None) => old,
            (_, Some((new, _))) => new,
            (None, None) => unreachable!("what no feature says is the old kernel's or the new one's"),
        }
    }

    /// A side with other players' parts, and how many features that takes; none if they are not all features.
    fn named_after(
        &self,
        side: &Side,
        others: Players,
        word: fn(&FeatureChange) -> &String,
    ) -> Option<(String, usize)> {
        let players: Vec<&Player> = others.iter().map(|player| &self.players[player]).collect();
        if players.iter().any(|player| player.is_beside_features) {
            return None;
        }
        let changes: Vec<&FeatureChange> = players.iter().flat_map(|player| &player.changes).collect();
        let with = |name: String, change: &&FeatureChange| {
            with_features(&name, &format!("{}={}", change.feature, word(change)))
        };
        Some((changes.iter().fold(side.name.clone(), with), changes.len()))
    }
}

/// The features that both kernels have, with different values.
fn changes(from: &Features, to: &Features) -> Vec<FeatureChange> {
    let change = |Feature { path: feature, .. }: Feature| {
        let (from, to) = (from.word(&feature)?, to.word(&feature)?);
        (from != to).then_some(FeatureChange { feature, from, to })
    };
    Feature::all().into_iter().filter_map(change).collect()
}

fn by_mechanism(changes: Vec<FeatureChange>) -> Vec<Player> {
    let mut players: Vec<Player> = Vec::new();
    for change in changes {
        match players.iter_mut().find(|player| player.name == change.mechanism()) {
            Some(player) => player.changes.push(change),
            None => players.push(Player {
                name: change.mechanism().into(),
                changes: vec![change],
                is_beside_features: false,
            }),
        }
    }
    players
}

fn by_change(changes: Vec<FeatureChange>) -> Vec<Player> {
    let player = |change: FeatureChange| Player {
        name: change.feature.clone(),
        changes: vec![change],
        is_beside_features: false,
    };
    changes.into_iter().map(player).collect()
}

/// Makes one player of two if a feature of one needs a feature of the other, and no kernel could have only one of the changes.
fn unite_if_needed(players: &mut Vec<Player>, from: &Features, feature: &str, needed: &str) {
    let find = |path: &str| {
        let has = |player: &Player| player.changes.iter().any(|change| change.feature == path);
        players.iter().position(has)
    };
    let (Some(one), Some(other)) = (find(feature), find(needed)) else { return };
    let is_refused_alone = |path: &str| {
        let change = players.iter().flat_map(|player| &player.changes).find(|change| change.feature == path);
        let mut alone = *from;
        change.is_some_and(|change| alone.set(path, &change.to).is_err() || alone.check().is_err())
    };
    if one == other || !(is_refused_alone(feature) || is_refused_alone(needed)) {
        return;
    }
    let joined = players.remove(one.max(other));
    let stays = &mut players[one.min(other)];
    stays.name = format!("{} + {}", stays.name, joined.name);
    stays.changes.extend(joined.changes);
}

/// What the player is called that stands for what no feature says.
fn beside_features(from: &Side, to: &Side) -> String {
    let (old, new) = (&from.beside, &to.beside);
    let mut names = Vec::new();
    if old.tree != new.tree {
        let (verb, side) = if new.tree.is_some() { ("of", to) } else { ("without those of", from) };
        names.push(format!("functions {verb} {}", name_and_features(&side.name).0));
    }
    if old.settings != new.settings {
        names.push("settings of the variant".into());
    }
    if old.batch != new.batch {
        names.push("pcp->batch".into());
    }
    if old.is_multi_gen != new.is_multi_gen {
        names.push(if new.is_multi_gen { "multi-gen LRU".into() } else { "classic LRU".into() });
    }
    names.join(" + ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::shapley::MOST_PLAYERS;
    use mm::Series;
    use mm::series::RELEASES;
    use proptest::prelude::*;

    fn sides(scenario: &str, from: &str, to: &str, grain: Grain) -> Sides {
        let scenario = Scenario::load(scenario).unwrap();
        let side = |name| Side::of(&scenario, &BTreeMap::new(), name).unwrap();
        Sides::new(side(from), side(to), grain)
    }

    fn names(sides: &Sides) -> Vec<&str> {
        sides.players.iter().map(|player| player.name.as_str()).collect()
    }

    #[test]
    fn there_are_more_sets_than_players() {
        assert!(Feature::all().len() < MOST_PLAYERS);
    }

    #[test]
    fn players_of_two_releases_are_what_changed() {
        let by_mechanism = sides("kbuild", "6.15", "6.16", Grain::Mechanism);
        assert_eq!(names(&by_mechanism), ["pcp", "numa"]);
        let by_change = sides("kbuild", "6.18", "6.19", Grain::Change);
        let both = sides("kbuild", "6.19", "6.18", Grain::Change);
        assert_eq!(names(&by_change), names(&both));
        let chunked = &by_change.players[1];
        assert_eq!(chunked.name, "pcp.chunked_bulk_free");
        assert_eq!((chunked.changes[0].from.as_str(), chunked.changes[0].to.as_str()), ("off", "on"));
        assert!(sides("kbuild", "patch1", "patch2", Grain::Change).players.is_empty());
    }

    #[test]
    fn features_that_need_each_other_are_one_player() {
        let united = "pcp.high_bounds + pcp.auto_tuning";
        assert!(names(&sides("kbuild", "6.6", "6.12", Grain::Change)).contains(&united));
        assert!(names(&sides("kbuild", "6.12", "6.6", Grain::Change)).contains(&united));
        // Both can be there already.
        assert!(
            !names(&sides("kbuild", "6.10", "6.16", Grain::Change)).iter().any(|name| name.contains('+'))
        );
        let freelists = "pcp.strict_freelists + pcp.pageblock_type_on_bulk_free";
        assert!(names(&sides("kbuild", "6.9", "6.10", Grain::Change)).contains(&freelists));
    }

    #[test]
    fn kernels_have_the_shorter_name() {
        let sides = sides("kbuild", "6.18", "6.19", Grain::Change);
        let all = sides.all();
        assert_eq!((sides.kernel(Players::NONE), sides.kernel(all)), ("6.18".into(), "6.19".into()));
        assert_eq!(sides.kernel(Players::NONE.with(1)), "6.18:pcp.chunked_bulk_free=on");
        assert_eq!(sides.kernel(all.without(1)), "6.19:pcp.chunked_bulk_free=off");
    }

    #[test]
    fn what_no_feature_says_is_a_player() {
        let lru = sides("fio-zipf", "classic", "mglru-6.5", Grain::Mechanism);
        assert_eq!(names(&lru), ["settings of the variant"]);
        let settings = sides("speedometer", "folios-v9", "folios-v9-64k", Grain::Change);
        assert_eq!(names(&settings), ["settings of the variant"]);
        let batch = sides("kbuild", "batch-63", "patch1", Grain::Change);
        assert_eq!(names(&batch), ["pcp.consecutive_high_order_frees", "pcp->batch"]);
        assert_eq!(
            [[0].as_slice(), &[1], &[0, 1]].map(|new| batch.kernel(new.iter().copied().collect())),
            [
                "batch-63:pcp.consecutive_high_order_frees=on",
                "patch1:pcp.consecutive_high_order_frees=off",
                "patch1"
            ]
        );
    }

    #[test]
    fn functions_of_a_tree_are_a_player() {
        let scenario = Scenario::load("kbuild").unwrap();
        let tree = TreeKernel { base: "6.12".into(), content_hash: "1".into() };
        let trees = BTreeMap::from([("mine".to_string(), tree)]);
        let side = |name| Side::of(&scenario, &trees, name).unwrap();
        let sides = Sides::new(side("6.12"), side("mine:pcp.scale_refills=off"), Grain::Mechanism);
        assert_eq!(names(&sides), ["pcp", "functions of mine"]);
        assert_eq!(sides.kernel(Players::NONE.with(0)), "6.12:pcp.scale_refills=off");
        assert_eq!(sides.kernel(Players::NONE.with(1)), "mine:pcp.scale_refills=off+pcp.scale_refills=on");
    }

    /// All changes together make one kernel of the other, so that no difference is left out.
    #[test]
    fn features_that_differ_are_all_that_differs() {
        for series in Series::ALL {
            let variants: Vec<_> = series.variants().collect();
            for (at, from) in variants.iter().enumerate() {
                let others = [at.checked_sub(1).map(|before| variants[before]), variants.last().copied()];
                for to in others.into_iter().flatten() {
                    let mut features = from.features;
                    for change in changes(&from.features, &to.features) {
                        features.set(&change.feature, &change.to).unwrap();
                    }
                    if features != to.features {
                        assert_ne!(
                            features.word("mglru.tiers").is_some(),
                            to.features.word("mglru.tiers").is_some()
                        );
                    }
                }
            }
        }
    }

    proptest! {
        /// Whatever set of players, it is a kernel that could be, and it has what they change and nothing else.
        #[test]
        fn every_set_of_players_is_a_kernel(
            from in 0..RELEASES.len(),
            to in 0..RELEASES.len(),
            chosen: u128,
            by_change: bool,
        ) {
            let grain = if by_change { Grain::Change } else { Grain::Mechanism };
            let sides = sides("kbuild", RELEASES[from].0, RELEASES[to].0, grain);
            let new: Players = sides.all().iter().filter(|player| chosen >> player & 1 == 1).collect();
            let kernel = KernelChoice::parse("pcp", &sides.kernel(new)).unwrap();
            for (at, player) in sides.players.iter().enumerate() {
                for change in &player.changes {
                    let word = if new.has(at) { &change.to } else { &change.from };
                    prop_assert_eq!(&kernel.features.word(&change.feature).unwrap(), word);
                }
            }
        }
    }
}
