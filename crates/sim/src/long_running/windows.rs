//! What became of requests for the preferred order, window by window.
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
//! A window is so many faults that had room for the preferred order, not so much time: few do, and what a handful of
//! them say is noise. A rate may pass through its final value on its way down and come back to it much later, so
//! equilibrium begins where it enters the band for good.

/// Faults with room for the preferred order in a window.
pub(super) const ATTEMPTS: i64 = 500;

/// Success rates may differ so much from the final one in equilibrium.
const EPSILON: f64 = 0.02;

/// Windows that are averaged for that: 20,000 faults, or the mean would leave the band by chance.
const AVERAGED: usize = 40;

/// Turnovers between which a system is no longer new.
const EARLY: std::ops::RangeInclusive<f64> = 10.0..=20.0;

/// One stretch of the run; what is not a count is as it was in the end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    /// Memory turned over since the beginning.
    pub end: f64,
    /// Faults that had room for the preferred order.
    pub attempts: i64,
    /// Those that got it.
    pub successes: i64,
    /// Part of free memory in smaller blocks, percent.
    pub unusable: f64,
    /// Folios of the preferred order.
    pub folios: f64,
    /// Pages that processes have in memory.
    pub rss: f64,
    /// Those of them that nobody touched.
    pub untouched: f64,
}

/// All of a run.
#[derive(Debug)]
pub(super) struct Windows {
    all: Vec<Window>,
    /// When the run ended.
    end: f64,
}

/// Successes among attempts; none where there were no attempts.
fn rate(windows: &[Window]) -> Option<f64> {
    let attempts: i64 = windows.iter().map(|window| window.attempts).sum();
    let successes: i64 = windows.iter().map(|window| window.successes).sum();
    (attempts > 0).then(|| successes as f64 / attempts as f64)
}

impl Window {
    /// Its success rate.
    pub fn rate(&self) -> Option<f64> {
        rate(std::slice::from_ref(self))
    }
}

impl Windows {
    /// Takes windows in their order; the last ends the run.
    pub fn new(all: Vec<Window>) -> Windows {
        let end = all.last().map_or(0.0, |window| window.end);
        Windows { all, end }
    }

    /// All of them.
    pub fn all(&self) -> &[Window] {
        &self.all
    }

    /// Those that end in a fifth of the run, counted from 0.
    fn fifth(&self, number: usize) -> &[Window] {
        let first =
            |fifths: usize| self.all.partition_point(|window| window.end <= self.end * fifths as f64 / 5.0);
        &self.all[first(number)..first(number + 1)]
    }

    fn last(&self) -> &[Window] {
        self.fifth(4)
    }

    /// The success rate of the last fifth.
    pub fn settled(&self) -> Option<f64> {
        rate(self.last())
    }

    /// The success rate from the 10th to the 20th turnover; none if the run ended before.
    pub fn early(&self) -> Option<f64> {
        let of = |window: &&Window| EARLY.contains(&window.end);
        let windows: Vec<Window> = self.all.iter().filter(of).copied().collect();
        if self.end >= *EARLY.end() { rate(&windows) } else { None }
    }

    /// How much the success rate of the last fifth is above that of the fifth before.
    pub fn drift(&self) -> Option<f64> {
        Some(self.settled()? - rate(self.fifth(3))?)
    }

    /// The mean of something in the last fifth.
    pub fn mean(&self, of: fn(&Window) -> f64) -> f64 {
        let last = self.last();
        last.iter().map(of).sum::<f64>() / last.len().max(1) as f64
    }

    /// Turnovers until means of [`AVERAGED`] windows are within [`EPSILON`] of the final rate for good: the whole run if
    /// the last of them is not. None in runs too short for two such means.
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

    /// A window a turnover, with such rates in percent.
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
        // On its way down it is 60 after 11 turnovers. The last mean of 40 windows that is off by more than 2 points begins
        // with the one of 38, which ends at 27: (38 + 41 + 44 + 47 + 50 + 53 + 56 + 59 + 32 * 60) / 40 = 57.7.
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
