//! Two sides that are asked about the same states: how often they differ, and the smallest states in which they do.
//!
//! ```text
//!   a state ─┬─► old: the twin's rule, or a tree's function ─┐
//!            └─► new: a tree's function ─────────────────────┴─ equal? else which fields, and which is larger: the kind of difference
//!
//!   of each kind some states ─► made as small as they can be, while they show it ─► the smallest ones are examples
//! ```

use super::case::{Both, Decider, Known};
use super::draw::{Draw, shrink};
use mm::Features;
use mm::decisions::{Decisions, Flat};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Who decides.
pub enum Side<'a> {
    /// The twin's own rules, of a kernel with these features.
    Twin(&'a Features),
    /// Functions of a tree.
    Tree(&'a Decisions),
}

/// What is asked of two sides.
pub struct Comparison<'a> {
    pub old: Side<'a>,
    pub new: Side<'a>,
    /// The release whose known differences between the twin and a tree count.
    pub release: &'a str,
    /// How many states are drawn.
    pub states: u64,
    /// How many examples are wanted of states in which both differ.
    pub examples: usize,
}

/// How two sides differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differences {
    /// How many states both were asked about.
    pub states: u64,
    /// In how many of them they differ without a known reason.
    pub differing: u64,
    /// Reasons that are known, each with the number of states in which both differ for it.
    pub known: Vec<(&'static str, u64)>,
    /// Small states in which they differ, those without a known reason first.
    pub examples: Vec<Example>,
}

/// A state in which two sides differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// What both were asked: all numbers that are not 0.
    pub asked: Vec<Named>,
    /// What came out differently, as the old side has it.
    pub old: Vec<Named>,
    /// The same as the new side has it.
    pub new: Vec<Named>,
    /// Why, if that is known.
    pub known: Option<&'static str>,
}

/// A number of a record with its name, such as `nr_pages[3]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub name: String,
    pub number: i128,
}

/// In what two sides differ: a known reason, and which fields are smaller or larger on the new side.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    known: Option<usize>,
    fields: BTreeSet<(usize, Ordering)>,
}

/// Of so many states that differ the kind is looked at; by then each kind that is not rare was met.
const LOOKED_AT: u64 = 2000;
/// So many states of each kind are made smaller.
const OF_A_KIND: usize = 4;
/// So many kinds are told apart.
const KINDS: usize = 16;

/// Asks both sides about states that are drawn the same way each time.
pub fn compare<S: Flat>(both: &Both<S>, comparison: &Comparison) -> Option<Differences> {
    let is_known = |known: &&Known<S>| known.releases.has(comparison.release);
    let against_twin = matches!(comparison.old, Side::Twin(_)) || matches!(comparison.new, Side::Twin(_));
    let sides = Sides {
        old: both.decider(&comparison.old)?,
        new: both.decider(&comparison.new)?,
        known: both.known.iter().filter(|_| against_twin).filter(is_known).collect(),
    };
    let mut draw = Draw::random();
    let mut met = vec![0; sides.known.len()];
    let mut differing = 0;
    let mut kinds: BTreeMap<Kind, Vec<Vec<i64>>> = BTreeMap::new();
    for _ in 0..comparison.states {
        let asked = draw.next(both.draw);
        let Some((old, new)) = sides.differ(&asked) else { continue };
        match sides.reason(&asked) {
            Some(reason) => met[reason] += 1,
            None => differing += 1,
        }
        if comparison.examples > 0 && differing + met.iter().sum::<u64>() <= LOOKED_AT {
            let kind = sides.kind(&asked, &old, &new);
            if kinds.len() < KINDS || kinds.contains_key(&kind) {
                let of_kind = kinds.entry(kind).or_default();
                of_kind.extend((of_kind.len() < OF_A_KIND).then(|| draw.chosen()));
            }
        }
    }
    let known = sides.known.iter().map(|known| known.why).zip(met).filter(|(_, met)| *met > 0).collect();
    let examples = sides.examples(both.draw, kinds, comparison.examples);
    Some(Differences { states: comparison.states, differing, known, examples })
}

struct Sides<'a, S: 'static> {
    old: Decider<'a, S>,
    new: Decider<'a, S>,
    known: Vec<&'static Known<S>>,
}

impl<S: Flat> Sides<'_, S> {
    /// What both make of a state, if that is not the same.
    fn differ(&self, asked: &S) -> Option<(S, S)> {
        let (mut old, mut new) = (*asked, *asked);
        self.old.decide(&mut old);
        self.new.decide(&mut new);
        (old != new).then_some((old, new))
    }

    /// The known reason for which both may differ about a state, as a position in `known`.
    fn reason(&self, asked: &S) -> Option<usize> {
        self.known.iter().position(|known| (known.when)(asked))
    }

    fn kind(&self, asked: &S, old: &S, new: &S) -> Kind {
        let (old, new) = (old.numbers(), new.numbers());
        let of_fields = S::FIELDS.iter().enumerate();
        let field_of = of_fields.flat_map(|(number, field)| std::iter::repeat_n(number, field.numbers()));
        let fields = field_of.zip(old.iter().zip(&new)).filter(|(_, (old, new))| old != new);
        Kind {
            known: self.reason(asked),
            fields: fields.map(|(field, (old, new))| (field, new.cmp(old))).collect(),
        }
    }

    /// The smallest states, one of each kind first, those without a reason before those with one.
    fn examples(
        &self,
        draw: fn(&mut Draw) -> S,
        kinds: BTreeMap<Kind, Vec<Vec<i64>>>,
        most: usize,
    ) -> Vec<Example> {
        let mut found = Vec::new();
        for (kind, of_kind) in kinds {
            let mut shows =
                |state: &S| self.differ(state).is_some_and(|(old, new)| self.kind(state, &old, &new) == kind);
            let small = of_kind.into_iter().map(|numbers| shrink(draw, numbers, &mut shows));
            let mut small: Vec<_> = small.collect();
            small.sort_by_key(|small| small.size);
            let reason = kind.known;
            found.extend(small.into_iter().enumerate().map(|(rank, small)| (rank, reason, small)));
        }
        found.sort_by_key(|(rank, reason, small)| (*rank, reason.is_some(), small.size));
        let mut examples: Vec<Example> = Vec::new();
        for (_, reason, small) in found {
            let example = self.example(&small.state, reason);
            let is_new = !examples.contains(&example);
            examples.extend((is_new && examples.len() < most).then_some(example));
        }
        examples.sort_by_key(|example| example.known.is_some());
        examples
    }

    fn example(&self, asked: &S, reason: Option<usize>) -> Example {
        let (mut old, mut new) = (*asked, *asked);
        self.old.decide(&mut old);
        self.new.decide(&mut new);
        let (asked, old, new) = (asked.numbers(), old.numbers(), new.numbers());
        let names = names::<S>();
        let named = |numbers: &[i128], is_told: &dyn Fn(usize) -> bool| {
            let told = (0..numbers.len()).filter(|at| is_told(*at));
            told.map(|at| Named { name: names[at].clone(), number: numbers[at] }).collect()
        };
        let differs = |at: usize| old[at] != new[at];
        Example {
            asked: named(&asked, &|at| asked[at] != 0),
            old: named(&old, &differs),
            new: named(&new, &differs),
            known: reason.map(|reason| self.known[reason].why),
        }
    }
}

/// The names of all numbers of a record.
fn names<S: Flat>() -> Vec<String> {
    let of_field = |field: &mm::decisions::Field| match field.elements {
        None => vec![field.name.to_string()],
        Some(elements) => (0..elements).map(|at| format!("{}[{at}]", field.name)).collect(),
    };
    S::FIELDS.iter().flat_map(of_field).collect()
}
