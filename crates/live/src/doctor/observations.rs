//! What can be seen of a machine: every observation with its name, unit, meaning and file, in one list.
//!
//! ```text
//!   OBSERVATIONS ─┬─► observe(&Window)   values, or why there is none
//!                 ├─► rules.toml         conditions name them; units must agree
//!                 └─► mmtwin doctor --all, --json
//! ```
//!
//! Rates and shares are of the window; levels are those at its end, or, of what comes and goes, of all samples.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod allocator;
mod cma;
mod declared;
mod paging;

use super::files::is_matched;
use super::window::{State, Window};

pub use declared::OBSERVATIONS;

/// The part of the memory manager that an observation or rule is about, in the order of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mechanism {
    Machine,
    Pcp,
    Hugetlb,
    Reclaim,
    Numa,
    Folios,
    Swap,
    Writeback,
    Compaction,
    Cma,
    Psi,
    Cgroups,
}

impl Mechanism {
    pub const ALL: [Mechanism; 12] = [
        Mechanism::Machine,
        Mechanism::Pcp,
        Mechanism::Hugetlb,
        Mechanism::Reclaim,
        Mechanism::Numa,
        Mechanism::Folios,
        Mechanism::Swap,
        Mechanism::Writeback,
        Mechanism::Compaction,
        Mechanism::Cma,
        Mechanism::Psi,
        Mechanism::Cgroups,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Machine => "machine",
            Mechanism::Pcp => "pcp",
            Mechanism::Hugetlb => "hugetlb",
            Mechanism::Reclaim => "reclaim",
            Mechanism::Numa => "numa",
            Mechanism::Folios => "folios",
            Mechanism::Swap => "swap",
            Mechanism::Writeback => "writeback",
            Mechanism::Compaction => "compaction",
            Mechanism::Cma => "cma",
            Mechanism::Psi => "psi",
            Mechanism::Cgroups => "cgroups",
        }
    }
}

/// What an observation needs that every kernel has: without it a file is missing, not a kernel's option.
pub const ANY_KERNEL: &str = "any kernel";

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A switch, or the value of a setting without a unit.
    None,
    /// It is a word.
    Word,
    Cpus,
    Nodes,
    Groups,
    Times,
    PerSecond,
    Pages,
    PagesPerSecond,
    KiB,
    MiB,
    MiBPerSecond,
    Percent,
    Seconds,
    Milliseconds,
}

impl Unit {
    pub const ALL: [Unit; 15] = [
        Unit::None,
        Unit::Word,
        Unit::Cpus,
        Unit::Nodes,
        Unit::Groups,
        Unit::Times,
        Unit::PerSecond,
        Unit::Pages,
        Unit::PagesPerSecond,
        Unit::KiB,
        Unit::MiB,
        Unit::MiBPerSecond,
        Unit::Percent,
        Unit::Seconds,
        Unit::Milliseconds,
    ];

    /// How it is written behind a number.
    pub fn name(self) -> &'static str {
        match self {
            Unit::None | Unit::Word => "",
            Unit::Cpus => "CPUs",
            Unit::Nodes => "nodes",
            Unit::Groups => "groups",
            Unit::Times => "times",
            Unit::PerSecond => "/s",
            Unit::Pages => "pages",
            Unit::PagesPerSecond => "pages/s",
            Unit::KiB => "KiB",
            Unit::MiB => "MiB",
            Unit::MiBPerSecond => "MiB/s",
            Unit::Percent => "%",
            Unit::Seconds => "s",
            Unit::Milliseconds => "ms",
        }
    }
}

/// A value that was seen.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Value {
    Number(f64),
    Word(String),
}

/// How an observation is made of a window.
#[derive(Clone, Copy, Debug)]
pub enum Computed {
    Number(fn(&Window) -> Option<f64>),
    Word(fn(&Window) -> Option<String>),
}

/// An observation that can be made.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// Its name: the mechanism and what it is, `reclaim.refault_file`.
    pub name: &'static str,
    pub mechanism: Mechanism,
    pub unit: Unit,
    /// What it is, in a line.
    pub what: &'static str,
    /// The file that it is read from, below the root.
    pub file: &'static str,
    /// What a machine has that shows it.
    pub needs: &'static str,
    pub computed: Computed,
}

impl Observation {
    pub fn find(name: &str) -> Option<&'static Observation> {
        OBSERVATIONS.iter().find(|observation| observation.name == name)
    }

    /// Its value in a window, or why there is none.
    pub fn observe(&self, window: &Window) -> Result<Value, String> {
        let value = match self.computed {
            Computed::Number(of) => of(window).filter(|number| number.is_finite()).map(Value::Number),
            Computed::Word(of) => of(window).map(Value::Word),
        };
        value.ok_or_else(|| self.why_not(window))
    }

    /// Whether it has a value only if something happened, and the file that would say so is there: then nothing did.
    pub fn is_idle(&self, window: &Window) -> bool {
        self.needs.ends_with("in the window") && self.is_there(window)
    }

    fn is_there(&self, window: &Window) -> bool {
        let State { files, damaged, .. } = &window.end;
        let is_known = files.texts.keys().any(|path| is_matched(self.file, path));
        is_known && !damaged.contains_key(self.file)
    }

    fn why_not(&self, window: &Window) -> String {
        let end = &window.end;
        let path = format!("/{}", self.file);
        let needs = match self.needs {
            ANY_KERNEL => "which any kernel has".to_string(),
            needs => format!("needs {needs}"),
        };
        if let Some(problem) = end.damaged.get(self.file).or_else(|| window.begin.damaged.get(self.file)) {
            return problem.clone();
        }
        if let Some(problem) = end.files.unreadable.get(self.file) {
            return format!("{path}: {problem}; {needs}");
        }
        match self.is_there(window) {
            true if self.is_idle(window) => format!("nothing happened: {needs}"),
            true => format!("{path} does not say it: {needs}"),
            false => format!("no {path}: {needs}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::files::{CGROUP_FILES, FILES};
    use std::collections::BTreeSet;

    #[test]
    fn names_say_the_mechanism_and_are_unique() {
        let names: BTreeSet<&str> = OBSERVATIONS.iter().map(|observation| observation.name).collect();
        assert_eq!(names.len(), OBSERVATIONS.len());
        for Observation { name, mechanism, unit, computed, .. } in OBSERVATIONS {
            assert!(name.starts_with(&format!("{}.", mechanism.name())), "{name}");
            assert_eq!(*unit == Unit::Word, matches!(computed, Computed::Word(_)), "{name}");
        }
    }

    #[test]
    fn every_file_of_an_observation_is_read() {
        for Observation { name, file, .. } in OBSERVATIONS {
            let is_cgroups = CGROUP_FILES.iter().any(|of| file.ends_with(of));
            assert!(
                is_cgroups || FILES.iter().any(|read| read == file) || *name == "numa.process_spread",
                "{name}: {file}"
            );
        }
    }

    #[test]
    fn nothing_is_seen_of_nothing() {
        let window = Window::default();
        for observation in OBSERVATIONS {
            let why = observation.observe(&window).unwrap_err();
            let is_told = why.contains("needs") || why.contains("which any kernel has");
            assert!(is_told, "{}: {why}", observation.name);
        }
    }
}
