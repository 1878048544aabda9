//! One function: how a state of it is drawn, what the twin makes of that, and which differences are known.

use crate::kernels::{self, Kernel};
use mm::Features;
use mm::decisions::{Decisions, Flat, Rule};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use std::rc::Rc;

/// A difference that has a reason.
pub struct Known<S> {
    pub releases: &'static [&'static str],
    /// Of which states it is.
    pub when: fn(&S) -> bool,
    pub why: &'static str,
}

/// A function of the kernel, and the twin's.
pub struct Both<S: 'static> {
    pub name: &'static str,
    /// Releases that have it.
    pub releases: &'static [&'static str],
    pub rule: fn(&Decisions) -> Rule<S>,
    /// A state as the kernel may be in.
    pub draw: fn(&mut Draw) -> S,
    /// Changes a state as the kernel's function is to.
    pub own: fn(&Features, &mut S),
    pub known: &'static [Known<S>],
}

type Compare = dyn Fn(&Kernel, &Decisions, u64) -> Option<String>;

/// The same, whatever its record is.
#[derive(Clone)]
pub struct Case {
    pub name: &'static str,
    releases: &'static [&'static str],
    compare: Rc<Compare>,
}

impl Case {
    pub fn is_in(&self, release: &str) -> bool {
        self.releases.contains(&release)
    }

    /// What differs, and how often, in so many states.
    pub fn compare(&self, kernel: &Kernel, decisions: &Decisions, states: u64) -> Option<String> {
        (self.compare)(kernel, decisions, states)
    }
}

impl<S: Flat> From<Both<S>> for Case {
    fn from(both: Both<S>) -> Case {
        let (name, releases) = (both.name, both.releases);
        Case {
            name,
            releases,
            compare: Rc::new(move |kernel, decisions, states| both.compare(kernel, decisions, states)),
        }
    }
}

impl<S: Flat> Both<S> {
    fn compare(&self, kernel: &Kernel, decisions: &Decisions, states: u64) -> Option<String> {
        let Rule::Tree(decide) = (self.rule)(decisions) else { return Some("it is not loaded".to_string()) };
        let mut draw = Draw(Pcg64Mcg::new(1));
        let known: Vec<&Known<S>> =
            self.known.iter().filter(|known| known.releases.contains(&kernel.release)).collect();
        let mut met = vec![0u64; known.len()];
        let mut unknown = 0u64;
        let mut shortest: Option<String> = None;
        for _ in 0..states {
            let asked = (self.draw)(&mut draw);
            let (mut theirs, mut ours) = (asked, asked);
            decide(&mut theirs);
            (self.own)(&kernel.features, &mut ours);
            if theirs == ours {
                continue;
            }
            if let Some(number) = known.iter().position(|known| (known.when)(&asked)) {
                met[number] += 1;
                continue;
            }
            unknown += 1;
            let text = format!(
                "  asked:  {}\n  kernel: {}\n  twin:   {}",
                short(&asked),
                short(&theirs),
                short(&ours)
            );
            if shortest.as_ref().is_none_or(|shortest| text.len() < shortest.len()) {
                shortest = Some(text);
            }
        }
        kernels::say(&format!(
            "{} {}: {states} states, {unknown} unexplained differences",
            kernel.release, self.name
        ));
        for (known, met) in known.iter().zip(&met) {
            kernels::say(&format!("    {met} known: {}", known.why));
        }
        shortest.map(|state| format!("{unknown} of {states} states differ, one of them\n{state}"))
    }
}

/// A record without the zeros at the end of its arrays.
fn short(record: &impl Flat) -> String {
    let mut text = format!("{record:?}");
    while text.contains(", 0]") {
        text = text.replace(", 0]", "]");
    }
    text
}

/// Random numbers, with more of those at which decisions turn.
pub struct Draw(Pcg64Mcg);

impl Draw {
    pub fn flag(&mut self) -> bool {
        self.0.random_range(0..2) == 0
    }

    /// A number in `least..=most`; one in three is at or beside one of `edges`, one in three small.
    pub fn number(&mut self, least: i64, most: i64, edges: &[i64]) -> i64 {
        let number = match self.0.random_range(0..3) {
            0 if !edges.is_empty() => {
                edges[self.0.random_range(0..edges.len())] + self.0.random_range(-1..=1)
            }
            1 => least + self.0.random_range(0..=64),
            _ => {
                // As many of each length.
                let bits = self.0.random_range(0..=(most - least).max(1).ilog2());
                least.saturating_add(self.0.random_range(0..=i64::MAX >> (62 - bits)))
            }
        };
        number.clamp(least, most)
    }
}
