//! How a state is drawn at random, drawn again from what was chosen, and made as small as it can be.
//!
//! ```text
//!   random ─► choices 63, 0, 3969, ... ─► a state that the kernel may be in ─► it shows a difference
//!                 │
//!                 └─ each made smaller ─► the same generator with these choices ─► does it still?
//! ```
//!
//! Not the fields of a state are made smaller but the choices that the generator made. It keeps the bounds that the kernel keeps
//! (`high_min` is no more than `high_max`), so every state on the way is one that a function of a tree may be asked about.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// Choices, with more of those numbers at which decisions turn.
pub struct Draw {
    source: Source,
    choices: Vec<Choice>,
}

enum Source {
    Random(Pcg64Mcg),
    Chosen(Vec<i64>),
}

/// A number that was chosen, and the smallest one that could have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice {
    least: i64,
    number: i64,
}

/// How often all choices are gone through. The second time finds little, the third nearly nothing.
const PASSES: usize = 4;

impl Draw {
    /// Random choices, the same ones each time.
    pub(super) fn random() -> Draw {
        Draw { source: Source::Random(Pcg64Mcg::new(1)), choices: Vec::new() }
    }

    /// The next state of random choices.
    pub(super) fn next<S>(&mut self, generator: fn(&mut Draw) -> S) -> S {
        self.choices.clear();
        generator(self)
    }

    /// The numbers that the last state was made of.
    pub(super) fn chosen(&self) -> Vec<i64> {
        self.choices.iter().map(|choice| choice.number).collect()
    }

    /// Yes or no.
    pub(super) fn flag(&mut self) -> bool {
        self.choose(0, 1, |random| random.random_range(0..2)) == 1
    }

    /// One of some values.
    pub(super) fn one_of<T: Copy, const N: usize>(&mut self, values: [T; N]) -> T {
        values[self.choose(0, N as i64 - 1, |random| random.random_range(0..N as i64)) as usize]
    }

    /// A number in `least..=most`; one in three is at or beside one of `edges`, one in three is small.
    pub(super) fn number(&mut self, least: i64, most: i64, edges: &[i64]) -> i64 {
        self.choose(least, most, |random| match random.random_range(0..3) {
            0 if !edges.is_empty() => {
                edges[random.random_range(0..edges.len())] + random.random_range(-1..=1)
            }
            1 => least + random.random_range(0..=64),
            _ => {
                // As many numbers of each length.
                let bits = random.random_range(0..=(most - least).max(1).ilog2());
                least.saturating_add(random.random_range(0..=i64::MAX >> (62 - bits)))
            }
        })
    }

    fn choose(&mut self, least: i64, most: i64, by_chance: impl FnOnce(&mut Pcg64Mcg) -> i64) -> i64 {
        let number = match &mut self.source {
            Source::Random(random) => by_chance(random),
            // Other choices before may ask for more of them.
            Source::Chosen(numbers) => numbers.get(self.choices.len()).copied().unwrap_or(least),
        };
        let number = number.clamp(least, most.max(least));
        self.choices.push(Choice { least, number });
        number
    }
}

/// A state, and how large the choices are that it was made of.
pub struct Small<S> {
    /// The state.
    pub state: S,
    /// Bits of all choices above the least possible ones.
    pub size: u32,
}

/// Makes the choices of a state smaller as long as `holds` is true of it, which it is of the state that they make.
pub fn shrink<S>(
    generator: fn(&mut Draw) -> S,
    numbers: Vec<i64>,
    holds: &mut dyn FnMut(&S) -> bool,
) -> Small<S> {
    let make = |numbers: Vec<i64>| {
        let mut draw = Draw { source: Source::Chosen(numbers), choices: Vec::new() };
        (generator(&mut draw), draw.choices)
    };
    let (mut state, mut choices) = make(numbers);
    for _ in 0..PASSES {
        let before = choices.clone();
        let mut at = 0;
        while at < choices.len() {
            // What is below fails, the present number holds.
            let mut fails = choices[at].least - 1;
            let mut first = true;
            while choices[at].number - fails > 1 {
                let least = choices[at].least;
                let middle = fails + (choices[at].number - fails) / 2;
                let asked = if first { least } else { middle.max(least) };
                first = false;
                let mut numbers: Vec<i64> = choices.iter().map(|choice| choice.number).collect();
                numbers[at] = asked;
                let (smaller, its_choices) = make(numbers);
                let is_smaller = its_choices.get(at).is_some_and(|choice| choice.number == asked);
                if is_smaller && holds(&smaller) {
                    (state, choices) = (smaller, its_choices);
                } else {
                    fails = asked;
                }
            }
            at += 1;
        }
        if choices == before {
            break;
        }
    }
    let bits = |choice: &Choice| u64::BITS - choice.number.abs_diff(choice.least).leading_zeros();
    Small { state, size: choices.iter().map(bits).sum() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(draw: &mut Draw) -> (i64, i64) {
        let low = draw.number(3, 1 << 40, &[]);
        (low, draw.number(low, 1 << 41, &[]))
    }

    #[test]
    fn a_state_is_made_as_small_as_it_can_be_within_the_bounds_of_its_generator() {
        let shrunk = |holds: fn(&(i64, i64)) -> bool| {
            let mut draw = Draw::random();
            let numbers = loop {
                if holds(&draw.next(pair)) {
                    break draw.chosen();
                }
            };
            shrink(pair, numbers, &mut |pair| holds(pair)).state
        };
        assert_eq!(shrunk(|_| true), (3, 3));
        assert_eq!(shrunk(|pair| pair.1 > 1000), (3, 1001));
        assert_eq!(shrunk(|pair| pair.0 >= 70 && pair.1 > pair.0), (70, 71));
    }

    #[test]
    fn the_same_choices_make_the_same_state() {
        let mut draw = Draw::random();
        let state = draw.next(pair);
        let numbers = draw.chosen();
        assert!(shrink(pair, numbers, &mut |other| *other == state).state == state);
        assert!(Draw::random().next(pair) == state);
    }
}
