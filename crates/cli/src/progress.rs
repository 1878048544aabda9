//! Progress where stderr is no terminal: a log, a pipe, CI. A bar that is drawn over itself would be of no
//! use there, so indicatif draws none; a line every ten seconds says that something goes on, and how far it
//! is. What is done sooner says nothing.

use crate::terminal;
use indicatif::ProgressBar;
use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(10);

/// Lines in place of a bar, until this is dropped.
pub struct Lines(Option<(Sender<()>, JoinHandle<()>)>);

impl Lines {
    /// Prints what `say` makes of `bar`, unless there is a terminal that shows it.
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
    /// No line comes later than this.
    fn drop(&mut self) {
        if let Some((until, thread)) = self.0.take() {
            drop(until);
            let _ = thread.join();
        }
    }
}

/// How many of the bar's runs are made.
pub fn runs(bar: &ProgressBar) -> String {
    format!("{}/{} runs", bar.position(), bar.length().unwrap_or_default())
}
