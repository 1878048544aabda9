//! How far the twin's counters of a mechanism may be off.
//!
//! ```text
//!   entry ─► of ─► None: the counter only explains others
//!               └► 0.03: within 3 % of the kernel's value       in words: "3 %"
//! ```

use super::Entry;

/// The bound of a mechanism.
#[derive(Clone, Copy)]
pub struct Bound {
    /// The allowed relative error of a counter; `None` for a counter that only explains others.
    pub of: fn(&Entry) -> Option<f64>,
    /// The bound in words; `None` if all counters must be equal.
    pub words: fn() -> Option<String>,
}

impl Bound {
    /// All counters must be equal.
    pub const EXACT: Bound = Bound { of: |_| Some(0.0), words: || None };
}

/// A fraction in percent without decimals.
pub(super) fn whole_percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}
