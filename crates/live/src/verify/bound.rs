//! How far the twin's numbers of a mechanism may be off.
//!
//! ```text
//!   entry ─► of ─► none: it only explains others
//!               └► 0.03: within 3 % of the kernel's number      in words: "3 %"
//! ```

use super::Entry;

/// What a mechanism allows.
#[derive(Clone, Copy)]
pub struct Bound {
    /// As a part of the kernel's number; none for one that only explains others.
    pub of: fn(&Entry) -> Option<f64>,
    /// The same in words; none where all must be exact.
    pub words: fn() -> Option<String>,
}

impl Bound {
    /// Nothing may differ.
    pub const EXACT: Bound = Bound { of: |_| Some(0.0), words: || None };
}

/// A part in per cent.
pub(super) fn whole_percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}
