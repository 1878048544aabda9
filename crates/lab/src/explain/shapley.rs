//! Shapley values: what each player of a game has of what all of them come to together.
//!
//! ```text
//!   nobody ── a ──► {a} ── b ──► {a, b} ── c ──► all        one order of three players: each step is what the player adds there
//!   nobody ── c ──► {c} ── b ──► {b, c} ── a ──► all        the same order backwards
//! ```
//!
//! A player's value is what it adds, averaged over all orders in which players can join (Shapley, 1953). No other way to share has
//! all of these: the shares add up to the whole, players that always add the same have the same share, who never adds anything has
//! none, and the share of a sum of games is the sum of the shares. The last one is why shares of each seed may be averaged.
//!
//! With few players all orders are taken together: [`exact`] weighs every set of players once. With many, [`orders`] draws some, and
//! each order comes with its reverse (an antithetic pair): who joins late in one joins early in the other, which cancels most of what
//! is due to the place. Shares add up to the whole in every order, so they do for any number of them (Castro, Gómez and Tejada, 2009).

use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeSet;

/// More players than this have no set.
pub const MOST_PLAYERS: usize = 2 * WORD;
/// Players in a word of a set.
const WORD: usize = u128::BITS as usize;

/// What orders are drawn from, besides the seed.
const ORDERS: u128 = 0x006f_7264_6572_7300_0000_0000_0000_0000;

/// A set of players.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Players([u128; 2]);

impl Players {
    /// Nobody.
    pub const NONE: Players = Players([0; 2]);

    fn each(self, other: Players, of: impl Fn(u128, u128) -> u128) -> Players {
        let (Players([a, b]), Players([c, d])) = (self, other);
        Players([of(a, c), of(b, d)])
    }

    /// The first `count` players.
    pub fn all(count: usize) -> Players {
        (0..count).collect()
    }

    /// Whether a player is one of them.
    pub fn has(self, player: usize) -> bool {
        self.0[player / WORD] >> (player % WORD) & 1 == 1
    }

    /// These and one more.
    #[must_use]
    pub fn with(mut self, player: usize) -> Players {
        self.0[player / WORD] |= 1 << (player % WORD);
        self
    }

    /// These without one.
    #[must_use]
    pub fn without(mut self, player: usize) -> Players {
        self.0[player / WORD] &= !(1 << (player % WORD));
        self
    }

    /// Those of either set.
    #[must_use]
    pub fn or(self, others: Players) -> Players {
        self.each(others, |these, others| these | others)
    }

    /// These without those of the other set.
    #[must_use]
    pub fn but(self, others: Players) -> Players {
        self.each(others, |these, others| these & !others)
    }

    /// How many they are.
    pub fn count(self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The players in order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..MOST_PLAYERS).filter(move |&player| self.has(player))
    }

    /// Every set of some of them.
    pub fn subsets(self) -> impl Iterator<Item = Players> {
        let players: Vec<usize> = self.iter().collect();
        (0..1_u128 << players.len()).map(move |chosen| {
            players
                .iter()
                .enumerate()
                .filter(|(at, _)| chosen >> at & 1 == 1)
                .map(|(_, &player)| player)
                .collect()
        })
    }
}

impl FromIterator<usize> for Players {
    fn from_iter<I: IntoIterator<Item = usize>>(players: I) -> Players {
        players.into_iter().fold(Players::NONE, Players::with)
    }
}

/// The share of each of `players`, in their order, from the worth of every set of them.
pub fn exact(players: Players, worth: &dyn Fn(Players) -> f64) -> Vec<f64> {
    let count = players.count();
    // In this part of all orders a player joins when exactly these `before` are there: before! (count - 1 - before)! / count!.
    let part = |before: usize| {
        let choices = (0..before).map(|k| (count - 1 - k) as f64 / (k + 1) as f64);
        1.0 / (count as f64 * choices.product::<f64>())
    };
    let share = |player: usize| {
        let others = players.without(player);
        others.subsets().map(|set| part(set.count()) * (worth(set.with(player)) - worth(set))).sum()
    };
    players.iter().map(share).collect()
}

/// Orders in which `players` join, drawn with a seed: pairs of an order and its reverse, the last one alone if `count` is odd.
pub fn orders(players: Players, count: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut generator = Pcg64Mcg::new(ORDERS | u128::from(seed));
    let mut orders: Vec<Vec<usize>> = Vec::with_capacity(count);
    while orders.len() < count {
        let mut order: Vec<usize> = players.iter().collect();
        order.shuffle(&mut generator);
        let reverse = order.iter().rev().copied().collect();
        orders.extend([order, reverse]);
    }
    orders.truncate(count);
    orders
}

/// The sets that players who join in this order make, nobody and all of them included.
fn sets_of(order: &[usize]) -> impl Iterator<Item = Players> {
    (0..=order.len()).map(|joined| order[..joined].iter().copied().collect())
}

/// Every set that comes up in some orders.
pub fn sets(orders: &[Vec<usize>]) -> BTreeSet<Players> {
    orders.iter().flat_map(|order| sets_of(order)).collect()
}

/// The share of each of `players`, in their order, over some orders.
pub fn sampled(players: Players, orders: &[Vec<usize>], worth: &dyn Fn(Players) -> f64) -> Vec<f64> {
    let mut added = [0.0; MOST_PLAYERS];
    for order in orders {
        let worths: Vec<f64> = sets_of(order).map(worth).collect();
        for (&player, worths) in order.iter().zip(worths.windows(2)) {
            added[player] += worths[1] - worths[0];
        }
    }
    players.iter().map(|player| added[player] / orders.len() as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A game of five players by the worth of each of its 32 sets.
    fn games() -> impl Strategy<Value = Vec<f64>> {
        proptest::collection::vec(-100.0..100.0, 32)
    }

    fn worth(game: &[f64]) -> impl Fn(Players) -> f64 {
        move |set: Players| game[set.0[0] as usize]
    }

    fn are_close(a: &[f64], b: &[f64], by: f64) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= by)
    }

    #[test]
    fn players_that_only_add_have_what_they_add() {
        let adds = [3.0, -1.0, 0.0, 0.5];
        let worth = |set: Players| set.iter().map(|player| adds[player]).sum();
        let players = Players::all(4);
        assert!(are_close(&exact(players, &worth), &adds, 1e-12));
        assert!(are_close(&sampled(players, &orders(players, 3, 1), &worth), &adds, 1e-12));
    }

    #[test]
    fn two_that_need_each_other_share_and_a_third_has_nothing() {
        let worth = |set: Players| if set.has(0) && set.has(2) { 10.0 } else { 0.0 };
        assert!(are_close(&exact(Players::all(3), &worth), &[5.0, 0.0, 5.0], 1e-12));
        // An order and its reverse are enough for that.
        assert!(are_close(
            &sampled(Players::all(3), &orders(Players::all(3), 2, 5), &worth),
            &[5.0, 0.0, 5.0],
            1e-12
        ));
    }

    #[test]
    fn gloves_are_worth_a_pair() {
        // Two with a left glove, one with a right one: the known answer is 1/6, 1/6, 4/6.
        let worth = |set: Players| f64::from(set.has(2) && (set.has(0) || set.has(1)));
        assert!(are_close(&exact(Players::all(3), &worth), &[1.0 / 6.0, 1.0 / 6.0, 4.0 / 6.0], 1e-12));
    }

    #[test]
    fn some_of_the_players_are_a_game_too() {
        let players: Players = [1, 4].into_iter().collect();
        let worth = |set: Players| if set.has(1) { 2.0 } else { 0.0 } + if set.has(4) { 1.0 } else { 0.0 };
        assert_eq!(exact(players, &worth), [2.0, 1.0]);
        assert_eq!(players.subsets().count(), 4);
        assert!(exact(Players::NONE, &worth).is_empty());
    }

    #[test]
    fn orders_come_in_pairs_and_again() {
        let players = Players::all(6);
        let drawn = orders(players, 5, 3);
        assert_eq!(drawn.len(), 5);
        assert_eq!(drawn, orders(players, 5, 3));
        assert_ne!(drawn, orders(players, 5, 4));
        let mut reverse = drawn[1].clone();
        reverse.reverse();
        assert_eq!(drawn[0], reverse);
        assert_eq!(sets(&drawn[..1]).len(), 7);
    }

    #[test]
    fn many_orders_come_close_to_all() {
        let game: Vec<f64> = (0..32_u64).map(|set| (set * set * 37 % 101) as f64).collect();
        let players = Players::all(5);
        let (all, some) = (exact(players, &worth(&game)), |count| {
            sampled(players, &orders(players, count, 1), &worth(&game))
        });
        assert!(are_close(&some(20_000), &all, 0.5), "{all:?} {:?}", some(20_000));
        assert!(!are_close(&some(2), &all, 0.5));
    }

    proptest! {
        #[test]
        fn shares_add_up_to_the_whole(game in games(), count in 1_usize..20, seed in 0_u64..1000) {
            let players = Players::all(5);
            let whole = game[31] - game[0];
            let orders = orders(players, count, seed);
            for shares in [exact(players, &worth(&game)), sampled(players, &orders, &worth(&game))] {
                prop_assert!((shares.iter().sum::<f64>() - whole).abs() < 1e-9);
            }
        }

        /// Who adds nothing to any set has nothing, whatever the others do.
        #[test]
        fn a_dummy_has_nothing(mut game in games(), dummy in 0_usize..5, seed in 0_u64..1000) {
            for set in Players::all(5).without(dummy).subsets() {
                game[set.with(dummy).0[0] as usize] = game[set.0[0] as usize];
            }
            let players = Players::all(5);
            prop_assert!(exact(players, &worth(&game))[dummy].abs() < 1e-9);
            let orders = orders(players, 4, seed);
            prop_assert!(sampled(players, &orders, &worth(&game))[dummy].abs() < 1e-9);
        }

        /// Players that are worth the same to every set have the same.
        #[test]
        fn equals_have_the_same(mut game in games()) {
            for set in Players::all(5).without(0).without(1).subsets() {
                game[set.with(1).0[0] as usize] = game[set.with(0).0[0] as usize];
            }
            let shares = exact(Players::all(5), &worth(&game));
            prop_assert!((shares[0] - shares[1]).abs() < 1e-9);
        }
    }
}
