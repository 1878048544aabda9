//! Ctrl-C and SIGTERM while a recording is going on.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Whether a signal does what it does by default. One for the process, made by the first recording: a handler, once
/// set, stays, so outside recordings it has to do the default itself.
static ENDS_PROCESS: Mutex<Option<Arc<AtomicBool>>> = Mutex::new(None);

/// Notes the signals that would end this process, instead of being ended by them, until tracing is taken down.
pub struct Interruption {
    asked: Arc<AtomicBool>,
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
        let asked = Arc::new(AtomicBool::new(false));
        let registrations = SIGNALS
            .into_iter()
            .map(|signal| flag::register(signal, asked.clone()))
            .collect::<io::Result<Vec<_>>>()?;
        ends_process.store(false, Ordering::Relaxed);
        Ok(Interruption { asked, ends_process, registrations })
    }

    /// One of them came.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// From now on they end this process again.
    pub fn stop_watching(&mut self) {
        self.ends_process.store(true, Ordering::Relaxed);
        for registration in self.registrations.drain(..) {
            signal_hook::low_level::unregister(registration);
        }
    }
}

impl Drop for Interruption {
    fn drop(&mut self) {
        self.stop_watching();
    }
}
