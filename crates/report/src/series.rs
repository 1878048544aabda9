//! Series over virtual time on pages: what they are called, and what their axes are.

use crate::chart::Measure;
use sim::series::{Unit, of};

/// The unit of a series; one that is not known here, of a document of another version, is a count.
pub fn unit_of(name: &str) -> Unit {
    of(name).map_or(Unit::Count, |series| series.unit)
}

/// What a series is called: what it is, and the name that it has in documents.
pub fn title_of(name: &str) -> String {
    match of(name) {
        None => name.into(),
        Some(series) => format!("{} ({name})", series.title),
    }
}

/// What is on the axis of samples in a unit, and what they are multiplied with.
pub fn measure(unit: Unit, page_bytes: u64) -> (Measure, f64) {
    match unit {
        Unit::Pages => (Measure::Bytes, page_bytes as f64),
        Unit::Mebibytes => (Measure::Bytes, 1048576.0),
        Unit::Percent => (Measure::Percent, 1.0),
        Unit::Count => (Measure::Number, 1.0),
    }
}
