//! Defers signals that would end this process while it has state to restore first.
//!
//! ```text
//!   watch ── a signal: noted ── asked() is true ── the caller finishes in good order ── stop
//!     │
//!     └───── a signal: noted ── asked() is not called again ─────────────────────────── stop: the signal takes effect
//! ```
//!
//! No signal is lost: outside of watching it ends the process as usual, and a signal that arrived after the
//! last call of `asked` takes effect when watching stops.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::{emulate_default_handler, unregister};

const SIGNALS: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// Whether a signal has its default effect. One flag for the process, created by the first recording: a
/// handler cannot be removed once it is set, so outside of recordings it has to implement the default itself.
static ENDS_PROCESS: Mutex<Option<Arc<AtomicBool>>> = Mutex::new(None);

/// Catches the signals that would end this process.
pub struct Interruption {
    /// The last signal that arrived; 0 means none.
    noted: Arc<AtomicUsize>,
    /// Whether the caller of `asked` was told about the signal.
    told: Cell<bool>,
    ends_process: Arc<AtomicBool>,
    registrations: Vec<SigId>,
}

impl Interruption {
    /// Starts to catch signals.
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

    /// Whether a signal has arrived. The caller then has to end what it is doing.
    pub fn asked(&self) -> bool {
        let asked = self.noted.load(Ordering::SeqCst) != 0;
        self.told.set(self.told.get() || asked);
        asked
    }

    /// Stops catching signals; one that arrived without `asked` returning it takes effect now.
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
