//! Tests with random cases that are reproducible by seed.
//!
//! ```text
//!   cargo test                fixed seeds, the same each time     ─┐
//!   SOAK_SECONDS=600          new seeds for ten minutes            ├─► check(seed) ─► failures, each with its seed
//!   SOAK_SEED=7239184         this seed, which failed before      ─┘
//! ```
//!
//! A seed determines the whole case, so anybody can reproduce a failure from its seed. New seeds are printed
//! before they are tried: if the process dies, the last line has the seed. Failures whose messages begin
//! alike are reported once. `make soak` runs all these tests with new seeds.

// The last seed must be visible even if the process dies; this code runs only in tests.
#![allow(clippy::print_stderr)]

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::time::{Duration, Instant};

/// How many seconds to go on with new seeds.
pub const SECONDS: &str = "SOAK_SECONDS";
/// The only seed to try.
pub const SEED: &str = "SOAK_SEED";

thread_local! {
    /// File and line of the last panic.
    static PANICKED_AT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Tries the `fixed` seeds, or those that the environment asks for, and panics with all failures at the end.
/// `check` returns the error in the case of a seed, or panics with it.
pub fn seeds(
    name: &str,
    fixed: impl IntoIterator<Item = u64>,
    mut check: impl FnMut(u64) -> Result<(), String>,
) {
    // Panics are results here, and there are many of them while a case is shrunk.
    let hook = take_hook();
    set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        PANICKED_AT.set(place.unwrap_or_default());
    }));
    let mut failures: BTreeMap<String, (u64, String)> = BTreeMap::new();
    let mut tried = 0;
    let mut attempt = |seed: u64| {
        tried += 1;
        let Err(message) = outcome(seed, &mut check) else { return };
        let kind = message.lines().next().unwrap_or_default().to_string();
        failures.entry(kind).or_insert_with(|| {
            eprintln!("{name}: seed {seed} fails: {message}");
            (seed, message)
        });
    };
    if let Some(seed) = asked(SEED) {
        attempt(seed);
    } else if let Some(seconds) = asked(SECONDS) {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(seconds) {
            let seed = RandomState::new().build_hasher().finish();
            eprintln!("{name}: seed {seed}");
            attempt(seed);
        }
    } else {
        fixed.into_iter().for_each(attempt);
    }
    set_hook(hook);
    eprintln!("{name}: {tried} seeds, {} kinds of failures", failures.len());
    let report =
        |(seed, message): &(u64, String)| format!("\nseed {seed}; {SEED}={seed} tries it again: {message}");
    assert!(failures.is_empty(), "{name}:{}", failures.values().map(report).collect::<String>());
}

/// Draws the case of a seed and checks it. A failure is described by the smallest case that still fails, found with at most `shrinks`
/// further tries.
pub fn drawn<S: Strategy>(
    seed: u64,
    strategy: &S,
    shrinks: u32,
    check: impl Fn(S::Value) -> Result<(), TestCaseError>,
    describe: impl FnOnce(&S::Value) -> String,
) -> Result<(), String> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: 1,
        failure_persistence: None,
        max_shrink_iters: shrinks,
        source_file: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    match runner.run(strategy, check) {
        Ok(()) => Ok(()),
        Err(TestError::Fail(reason, case)) => Err(format!("{reason}\n{}", describe(&case))),
        Err(TestError::Abort(reason)) => Err(reason.to_string()),
    }
}

/// Prints a remark on a seed that is not a failure.
pub fn note(name: &str, seed: u64, text: &str) {
    eprintln!("{name}: seed {seed} {text}");
}

/// Whether the seeds are the fixed ones.
pub fn are_fixed() -> bool {
    [SECONDS, SEED].iter().all(|variable| std::env::var(variable).is_err())
}

/// The error in the case of a seed, where a panic counts as an error; with the place of the last panic, even
/// if the check has caught it.
fn outcome(seed: u64, check: &mut impl FnMut(u64) -> Result<(), String>) -> Result<(), String> {
    PANICKED_AT.take();
    let outcome = catch_unwind(AssertUnwindSafe(|| check(seed))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        Err(text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default())
    });
    outcome.map_err(|message| match PANICKED_AT.take() {
        place if place.is_empty() => message,
        place => {
            let (first, rest) = message.split_once('\n').unwrap_or((&message, ""));
            format!("{first} ({place})\n{rest}")
        }
    })
}

/// A number in an environment variable.
fn asked(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text}: expected a whole number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_one_kind_are_told_once_and_panics_are_failures() {
        let check = |seed: u64| match seed {
            3 | 5 => Err(format!("odd\n{seed}")),
            4 => panic!("even {seed}"),
            _ => Ok(()),
        };
        let failed = catch_unwind(|| seeds("numbers", 1..=6, check)).unwrap_err();
        let text = failed.downcast_ref::<String>().unwrap();
        assert!(text.contains("SOAK_SEED=3") && text.contains("SOAK_SEED=4"), "{text}");
        assert!(!text.contains("SOAK_SEED=5"), "{text}");
        seeds("numbers", 1..=2, check);
    }
}
