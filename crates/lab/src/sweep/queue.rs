//! In which order runs are made: long ones first, so that no processor waits for a long run that was begun last.
//!
//! ```text
//!   kind of run        left   took       next
//!   kbuild              12    41 s       ◄── the kind whose runs took longest
//!   redis               12     3 s
//!   redis, a quarter     8     ?         ◄── before that, one of each kind of which nobody knows yet
//! ```
//!
//! How long a run takes is known from those that were made: runs of a member over the same part of its time are of one kind. The order
//! changes no result.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Runs that are left, by kind.
#[derive(Debug)]
struct Kind {
    left: VecDeque<usize>,
    /// Whether one of them is under way or was made.
    is_begun: bool,
    made: usize,
    seconds: f64,
}

impl Kind {
    fn mean(&self) -> f64 {
        if self.made == 0 { 0.0 } else { self.seconds / self.made as f64 }
    }
}

/// The runs of a stage.
#[derive(Debug)]
pub struct Queue(Mutex<Vec<Kind>>);

impl Queue {
    /// Runs by kind: that at a position is of the kind of this number.
    pub fn new(kinds: &[usize]) -> Queue {
        let count = kinds.iter().max().map_or(0, |most| most + 1);
        let none = || Kind { left: VecDeque::new(), is_begun: false, made: 0, seconds: 0.0 };
        let mut all: Vec<Kind> = (0..count).map(|_| none()).collect();
        for (at, &kind) in kinds.iter().enumerate() {
            all[kind].left.push_back(at);
        }
        Queue(Mutex::new(all))
    }

    /// The position of the run that is to be made next.
    pub fn take(&self) -> Option<usize> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = kinds.iter_mut().filter(|kind| !kind.left.is_empty());
        let unknown_first = |kind: &&mut Kind| if kind.is_begun { kind.mean() } else { f64::INFINITY };
        // Of equal kinds the first, so that all runs of one are complete before those of the next.
        let next = left.rev().max_by(|a, b| unknown_first(a).total_cmp(&unknown_first(b)))?;
        next.is_begun = true;
        next.left.pop_front()
    }

    /// Notes how long a run of a kind took.
    pub fn note(&self, kind: usize, seconds: f64) {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kind) = kinds.get_mut(kind) {
            kind.made += 1;
            kind.seconds += seconds;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_each_kind_comes_first_and_then_the_longest() {
        let kinds = [0, 0, 0, 1, 1, 1];
        let queue = Queue::new(&kinds);
        let take = |seconds: [f64; 2]| {
            let at = queue.take()?;
            queue.note(kinds[at], seconds[kinds[at]]);
            Some(at)
        };
        let order: Vec<usize> = std::iter::from_fn(|| take([1.0, 5.0])).collect();
        assert_eq!(order, [0, 3, 4, 5, 1, 2]);
    }
}
