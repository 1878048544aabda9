//! Success rates of the preferred order, window by window.
//!
//! ```text
//!   rate   100 ┐
//!              │╲        ___________ final: the mean of the last fifth, +- EPSILON
//!              │ ╲_    _╱
//!            0 │   ╲__╱
//!              └──────────┬────────────► memory turned over
//!                early    time to equilibrium: from here on means of AVERAGED windows stay within the band
//! ```
//!
//! A window is a number of faults that had room for the preferred order, not a length of time: such faults
//! are rare, and the rate of a handful is noise. A rate may pass its final value on the way down and return
//! to it much later, so equilibrium begins where the rate enters the band for good.

use machine::Time;

/// Faults with room for the preferred order per window.
pub(super) const ATTEMPTS: i64 = 500;

/// How far success rates in equilibrium may be from the final one.
const EPSILON: f64 = 0.02;

/// Windows averaged to compare with the final rate: 20,000 faults, so that the mean does not leave the band
/// by chance.
const AVERAGED: usize = 40;

/// The range of turnovers that counts as early.
const EARLY: std::ops::RangeInclusive<f64> = 10.0..=20.0;

/// One window. Values other than counts are those at its end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    /// When it ended.
    pub time: Time,
    /// Turnovers of memory since the start.
    pub end: f64,
    /// Faults that had room for the preferred order.
    pub attempts: i64,
    /// Attempts that got the preferred order.
    pub successes: i64,
    /// Percentage of free memory in smaller blocks (`unusable_index` of debugfs).
    pub unusable: f64,
    /// Folios of the preferred order.
    pub folios: f64,
    /// Pages that processes have in memory (RSS).
    pub rss: f64,
    /// Those of them that were never touched.
    pub untouched: f64,
}

/// All windows of a run.
#[derive(Debug)]
pub(super) struct Windows {
    all: Vec<Window>,
    /// Turnovers at the end of the run.
    end: f64,
}

/// Successes among attempts; `None` without attempts.
fn rate(windows: &[Window]) -> Option<f64> {
    let attempts: i64 = windows.iter().map(|window| window.attempts).sum();
    let successes: i64 = windows.iter().map(|window| window.successes).sum();
    (attempts > 0).then(|| successes as f64 / attempts as f64)
}

impl Window {
    pub fn rate(&self) -> Option<f64> {
        rate(std::slice::from_ref(self))
    }
}

impl Windows {
    /// Takes the windows in order; the last one ends the run.
    pub fn new(all: Vec<Window>) -> Windows {
        let end = all.last().map_or(0.0, |window| window.end);
        Windows { all, end }
    }

    pub fn all(&self) -> &[Window] {
        &self.all
    }

    /// The windows that end in the given fifth of the run, from 0.
    fn fifth(&self, number: usize) -> &[Window] {
        let first =
            |fifths: usize| self.all.partition_point(|window| window.end <= self.end * fifths as f64 / 5.0);
        &self.all[first(number)..first(number + 1)]
    }

    fn last(&self) -> &[Window] {
        self.fifth(4)
    }

    /// The success rate of the last fifth of the run.
    pub fn settled(&self) -> Option<f64> {
        rate(self.last())
    }

    /// The success rate from the 10th to the 20th turnover; `None` if the run is shorter.
    pub fn early(&self) -> Option<f64> {
        let of = |window: &&Window| EARLY.contains(&window.end);
        let windows: Vec<Window> = self.all.iter().filter(of).copied().collect();
        if self.end >= *EARLY.end() { rate(&windows) } else { None }
    }

    /// By how much the success rate of the last fifth exceeds that of the fifth before.
    pub fn drift(&self) -> Option<f64> {
        Some(self.settled()? - rate(self.fifth(3))?)
    }

    /// The mean of a value over the windows of the last fifth.
    pub fn mean(&self, of: fn(&Window) -> f64) -> f64 {
        let last = self.last();
        last.iter().map(of).sum::<f64>() / last.len().max(1) as f64
    }

    /// Turnovers until means of [`AVERAGED`] windows stay within [`EPSILON`] of the final rate: the whole run
    /// if even the last mean does not. `None` if the run is too short for two such means.
    pub fn equilibrium_time(&self) -> Option<f64> {
        if self.all.len() < 2 * AVERAGED {
            return None;
        }
        let settled = self.settled()?;
        let is_off = |windows: &[Window]| rate(windows).is_some_and(|rate| (rate - settled).abs() > EPSILON);
        let last_off = self.all.windows(AVERAGED).rposition(is_off);
        Some(match last_off {
            None => 0.0,
            Some(first) if first + AVERAGED == self.all.len() => self.end,
            Some(first) => self.all[first].end,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One window per turnover, with these rates in percent.
    fn windows(rates: impl IntoIterator<Item = i64>) -> Windows {
        let window = |(number, rate)| Window {
            end: (number + 1) as f64,
            attempts: 1000,
            successes: 10 * rate,
            folios: rate as f64,
            ..Window::default()
        };
        Windows::new(rates.into_iter().enumerate().map(window).collect())
    }

    #[test]
    fn a_rate_that_comes_back_has_not_settled_when_it_first_passed() {
        let falls_and_rises = (0..60).map(|n| if n < 20 { 100 - 4 * n } else { (20 + 3 * (n - 20)).min(60) });
        let windows = windows(falls_and_rises.chain([60; 140]));
        assert_eq!(windows.settled(), Some(0.6));
        // It passes 60 after 11 turnovers, on its way down. The last mean of 40 windows that is off by more
        // than 2 points begins with the window of 38, which ends at 27: (38 + 41 + 44 + 47 + 50 + 53 + 56 +
        // 59 + 32 * 60) / 40 = 57.7.
        assert_eq!(windows.equilibrium_time(), Some(27.0));
        assert_eq!(windows.drift(), Some(0.0));
        assert_eq!(windows.mean(|window| window.folios), 60.0);
    }

    #[test]
    fn what_never_moves_is_in_equilibrium_and_what_never_stops_is_not() {
        assert_eq!(windows([30; 100]).equilibrium_time(), Some(0.0));
        let rises = windows(0..100);
        assert_eq!(rises.equilibrium_time(), Some(100.0));
        assert!((rises.drift().unwrap() - 0.2).abs() < 1e-9);
        assert_eq!(windows([30; 79]).equilibrium_time(), None, "too short");
    }

    #[test]
    fn early_is_from_the_tenth_turnover_to_the_twentieth() {
        let rates = (1..=30).map(|turnover| if (10..=20).contains(&turnover) { 7 } else { 90 });
        assert_eq!(windows(rates).early(), Some(0.07));
        assert_eq!(windows([7; 19]).early(), None);
    }

    #[test]
    fn few_attempts_weigh_little_and_none_are_no_rate() {
        let window = |attempts, successes| Window { end: 1.0, attempts, successes, ..Window::default() };
        assert_eq!(Windows::new(vec![window(900, 90), window(100, 100)]).settled(), Some(0.19));
        assert_eq!(window(0, 0).rate(), None);
        let nothing = Windows::new(Vec::new());
        assert_eq!((nothing.settled(), nothing.drift(), nothing.equilibrium_time()), (None, None, None));
    }
}
