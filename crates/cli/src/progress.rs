//! Progress output where stderr is not a terminal (a log, a pipe, CI). indicatif draws no progress bar there,
//! so a line every ten seconds says how far a command has got. Commands that take less print nothing.

use crate::terminal;
use indicatif::ProgressBar;
use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(10);

/// Prints progress lines in place of a bar until it is dropped.
pub struct Lines(Option<(Sender<()>, JoinHandle<()>)>);

impl Lines {
    /// Prints the text that `say` makes of `bar` every ten seconds, unless stderr is a terminal.
    pub fn of(bar: &ProgressBar, say: impl Fn(&ProgressBar) -> String + Send + 'static) -> Lines {
        if stderr().is_terminal() {
            return Lines(None);
        }
        let bar = bar.clone();
        let (until, ended) = channel();
        let thread = std::thread::spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(EVERY) {
                terminal::say(format_args!("{}, real {} s", say(&bar), bar.elapsed().as_secs()));
            }
        });
        Lines(Some((until, thread)))
    }
}

impl Drop for Lines {
    /// Waits for the thread, so that no line is printed later.
    fn drop(&mut self) {
        if let Some((until, thread)) = self.0.take() {
            drop(until);
            let _ = thread.join();
        }
    }
}

/// The number of finished runs of `bar`.
pub fn runs(bar: &ProgressBar) -> String {
    format!("{}/{} runs", bar.position(), bar.length().unwrap_or_default())
}

/// The time that a sweep still takes if the runs to come are like those that it has made; those that were `known` took none.
pub fn left(elapsed: Duration, known: usize, ended: u64, runs: u64) -> String {
    match ended.saturating_sub(known as u64) {
        0 => "?".into(),
        made => format!("{:.0} s", elapsed.as_secs_f64() * runs.saturating_sub(ended) as f64 / made as f64),
    }
}
