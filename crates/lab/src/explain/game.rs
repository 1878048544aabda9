//! The game: what each player that is not idle does to a metric, alone, taken away, and on average over orders.

use super::measurements::{Measurements, moved_by};
use super::players::Sides;
use super::shapley::{self, Players};
use super::{Effect, ExplainError, Question, Sharing};
use crate::statistics::{holm, mean};
use sim::metric::Metric;

/// The game of the players that are not idle.
pub(super) struct Game<'a> {
    question: &'a Question,
    sides: &'a Sides,
    idle: Players,
    active: Players,
    /// By seed; none if all sets are taken.
    orders: Option<Vec<Vec<Vec<usize>>>>,
}

impl<'a> Game<'a> {
    /// All sets are taken where that is no more than what drawn orders would come to: nobody and all, each player alone and taken
    /// away, which are run in any case, and for each order its sets of other sizes.
    pub fn new(question: &'a Question, sides: &'a Sides, idle: Players) -> Game<'a> {
        let active = sides.all().but(idle);
        let count = active.count();
        let of_orders = question.orders.saturating_mul(count.saturating_sub(3)).saturating_add(2 + 2 * count);
        let are_few = count < usize::BITS as usize && 1 << count <= of_orders;
        let draw = |&seed: &u64| shapley::orders(active, question.orders, seed);
        let orders = (!are_few).then(|| question.seeds.iter().map(draw).collect());
        Game { question, sides, idle, active, orders }
    }

    pub fn sharing(&self) -> Sharing {
        match self.orders {
            Some(_) => Sharing::Sampled { orders: self.question.orders },
            None => Sharing::Exact,
        }
    }

    /// The kernel of a set of players. Idle ones go with the majority, which makes its name shorter.
    fn kernel(&self, set: Players) -> String {
        let with_idle = 2 * set.count() > self.active.count() || set == self.active;
        self.sides.kernel(if with_idle { set.or(self.idle) } else { set })
    }

    /// All runs that the effects of players need.
    pub fn runs(&self) -> Vec<(String, u64)> {
        let ends =
            self.active.iter().flat_map(|player| [Players::NONE.with(player), self.active.without(player)]);
        let ends: Vec<Players> = ends.collect();
        let of_seed = |(at, &seed): (usize, &u64)| {
            let mut sets: Vec<Players> = ends.clone();
            match &self.orders {
                Some(orders) => sets.extend(shapley::sets(&orders[at])),
                None => sets.extend(self.active.subsets()),
            }
            sets.into_iter().map(|set| (self.kernel(set), seed)).collect::<Vec<_>>()
        };
        self.question.seeds.iter().enumerate().flat_map(of_seed).collect()
    }

    /// What each player does to a metric, the largest share first.
    pub fn effects<E: From<ExplainError>>(
        &self,
        metric: &Metric,
        measurements: &Measurements<E>,
    ) -> Vec<Effect> {
        let (from, to) = (&self.sides.from.name, &self.sides.to.name);
        let base = measurements.values(metric, from);
        let whole = measurements.mean(metric, to) - mean(&base);
        let shares = self.shares(metric, measurements);
        let mut effects: Vec<Effect> = self
            .active
            .iter()
            .enumerate()
            .map(|(at, player)| {
                let of_player: Vec<f64> = shares.iter().map(|of_seed| of_seed[at]).collect();
                let share = moved_by(&base, &of_player);
                let alone = self.kernel(Players::NONE.with(player));
                let without = self.kernel(self.active.without(player));
                Effect {
                    player: self.sides.players[player].clone(),
                    alone: measurements.moved(metric, from, [from, &alone]),
                    taken_away: measurements.moved(metric, from, [to, &without]),
                    share,
                    part: (whole != 0.0).then(|| share.difference / whole),
                    adjusted_p_value: None,
                }
            })
            .collect();
        let p_values: Option<Vec<f64>> = effects.iter().map(|effect| effect.share.p_value).collect();
        for (effect, adjusted) in effects.iter_mut().zip(p_values.iter().flat_map(|p_values| holm(p_values)))
        {
            effect.adjusted_p_value = Some(adjusted);
        }
        let size = |effect: &Effect| effect.share.difference.abs();
        effects.sort_by(|a, b| size(b).total_cmp(&size(a)));
        effects
    }

    /// The shares of all players, by seed.
    fn shares<E: From<ExplainError>>(
        &self,
        metric: &Metric,
        measurements: &Measurements<E>,
    ) -> Vec<Vec<f64>> {
        let of_seed = |(at, &seed): (usize, &u64)| {
            let worth = |set: Players| measurements.value(metric, &self.kernel(set), seed);
            match &self.orders {
                Some(orders) => shapley::sampled(self.active, &orders[at], &worth),
                None => shapley::exact(self.active, &worth),
            }
        };
        self.question.seeds.iter().enumerate().map(of_seed).collect()
    }
}
