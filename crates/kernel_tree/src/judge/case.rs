//! One function of the kernel: how a state of it is drawn, what the twin makes of that, and which differences are known.

use super::compare::{Comparison, Differences, Side, compare};
use super::draw::Draw;
use mm::Features;
use mm::decisions::{Decisions, Flat, Rule};
use std::rc::Rc;

/// A difference between the twin and a kernel's function that has a reason.
pub struct Known<S> {
    /// Releases in which the function differs.
    pub releases: Span,
    /// Whether the functions may differ about a state.
    pub when: fn(&S) -> bool,
    /// The reason.
    pub why: &'static str,
}

/// Releases, by major and minor number.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    first: (u32, u32),
    last: (u32, u32),
}

const LATEST: (u32, u32) = (u32::MAX, 0);

impl Span {
    /// All releases that are modelled.
    pub const ALL: Span = Span { first: (0, 0), last: LATEST };

    /// One release, with the stable ones that follow it.
    pub const fn only(major: u32, minor: u32) -> Span {
        Span { first: (major, minor), last: (major, minor) }
    }

    /// A release and all after it.
    pub const fn since(major: u32, minor: u32) -> Span {
        Span { first: (major, minor), last: LATEST }
    }

    /// All releases up to one.
    pub const fn until(major: u32, minor: u32) -> Span {
        Span { first: (0, 0), last: (major, minor) }
    }

    /// Whether a release is one of them.
    pub fn has(self, release: &str) -> bool {
        let mut numbers = release.split('.').map(|number| number.parse::<u32>().unwrap_or_default());
        let release = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        self.first <= release && release <= self.last
    }
}

/// A function of the kernel and the twin's rule.
pub struct Both<S: 'static> {
    /// The function in the kernel.
    pub name: &'static str,
    /// Releases that have the function in this form.
    pub releases: Span,
    /// Where a tree's function is once it is loaded.
    pub rule: fn(&Decisions) -> Rule<S>,
    /// Draws a state as the kernel may be in.
    pub draw: fn(&mut Draw) -> S,
    /// Changes a state as the kernel's function is to.
    pub own: fn(&Features, &mut S),
    /// Differences that have a reason.
    pub known: &'static [Known<S>],
}

type Compare = dyn Fn(&Comparison) -> Option<Differences>;

/// A function of the kernel and the twin's rule, whatever record both are asked with.
#[derive(Clone)]
pub struct Case {
    /// The function in the kernel.
    pub name: &'static str,
    releases: Span,
    compare: Rc<Compare>,
}

impl Case {
    /// Whether a release has the function in this form.
    pub fn is_in(&self, release: &str) -> bool {
        self.releases.has(release)
    }

    /// Asks two sides about the same states; nothing if a tree that is a side has no such function loaded.
    pub fn compare(&self, comparison: &Comparison) -> Option<Differences> {
        (self.compare)(comparison)
    }
}

impl<S: Flat> From<Both<S>> for Case {
    fn from(both: Both<S>) -> Case {
        let (name, releases) = (both.name, both.releases);
        Case { name, releases, compare: Rc::new(move |comparison| compare(&both, comparison)) }
    }
}

/// Who decides on a side, as it is asked for each state.
pub(super) enum Decider<'a, S: 'static> {
    Own(&'a Features, fn(&Features, &mut S)),
    Tree(extern "C" fn(&mut S)),
}

impl<S> Decider<'_, S> {
    pub(super) fn decide(&self, state: &mut S) {
        match self {
            Decider::Own(features, own) => own(features, state),
            Decider::Tree(function) => function(state),
        }
    }
}

impl<S: Flat> Both<S> {
    pub(super) fn decider<'a>(&self, side: &Side<'a>) -> Option<Decider<'a, S>> {
        match side {
            Side::Twin(features) => Some(Decider::Own(features, self.own)),
            Side::Tree(decisions) => match (self.rule)(decisions) {
                Rule::Tree(function) => Some(Decider::Tree(function)),
                Rule::Own => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_as_numbers() {
        assert!(Span::since(6, 7).has("6.12") && !Span::since(6, 7).has("6.6"));
        assert!(Span::until(6, 6).has("6.1") && !Span::until(6, 6).has("6.12"));
        assert!(Span::ALL.has("7.2") && Span::since(6, 12).has("7.0"));
    }
}
