//! Signals that would end this process while it has something to put right first.
//!
//! ```text
//!   watch ── a signal: noted ── asked: yes ── what was done ends in good order ── stop
//!     │
//!     └───── a signal: noted ── nobody asks any more ───────────────────────────── stop: it ends the process now
//! ```
//!
//! No signal is lost: before and after it ends the process as always, and one that came too late to be asked for does so when
//! watching stops.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::{emulate_default_handler, unregister};

const SIGNALS: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// Whether a signal does what it does by default. One for the process, made by the first recording: a handler, once
/// set, stays, so outside recordings it has to do the default itself.
static ENDS_PROCESS: Mutex<Option<Arc<AtomicBool>>> = Mutex::new(None);

/// Notes the signals that would end this process, instead of being ended by them.
pub struct Interruption {
    /// The last that came; 0 is none.
    noted: Arc<AtomicUsize>,
    /// Who asked was told.
    told: Cell<bool>,
    ends_process: Arc<AtomicBool>,
    registrations: Vec<SigId>,
}

impl Interruption {
    /// From now on the signals are noted.
    pub fn watch() -> io::Result<Interruption> {
        let ends_process = {
            let mut shared = ENDS_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
            match &*shared {
                Some(flag) => flag.clone(),
                None => {
                    let flag = Arc::new(AtomicBool::new(true));
                    for signal in SIGNALS {
                        flag::register_conditional_default(signal, flag.clone())?;
                    }
                    shared.insert(flag).clone()
                }
            }
        };
        let noted = Arc::new(AtomicUsize::new(0));
        let registrations = SIGNALS
            .into_iter()
            .map(|signal| flag::register_usize(signal, noted.clone(), signal as usize))
            .collect::<io::Result<Vec<_>>>()?;
        ends_process.store(false, Ordering::SeqCst);
        Ok(Interruption { noted, told: Cell::new(false), ends_process, registrations })
    }

    /// One of them came. Who is told so ends what is being done.
    pub fn asked(&self) -> bool {
        let asked = self.noted.load(Ordering::SeqCst) != 0;
        self.told.set(self.told.get() || asked);
        asked
    }

    /// From now on they end this process again, and one does so now that came and that nobody was told of.
    pub fn stop_watching(&mut self) {
        self.ends_process.store(true, Ordering::SeqCst);
        for registration in self.registrations.drain(..) {
            unregister(registration);
        }
        let signal = self.noted.swap(0, Ordering::SeqCst) as i32;
        if signal != 0 && !self.told.get() {
            let _ = emulate_default_handler(signal);
        }
    }
}

impl Drop for Interruption {
    fn drop(&mut self) {
        self.stop_watching();
    }
}
