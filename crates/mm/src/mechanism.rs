//! The mechanisms that are modelled closely enough to be judged, and what each is called.
//!
//! ```text
//!   name, alias ─┬─► series      the patches whose variants are compared       (not of readahead)
//!                ├─► published   the tables that are predicted                 (not of readahead)
//!                └─► verify      the kernels that judge the twin
//! ```
//!
//! A mechanism has one name, which commands, series, recordings kept in the cache and JSON all use. Where the kernel has other words
//! for it, those are taken too: its files say `transparent_hugepage` and `thp_*` for what later mails call large folios.

/// A mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// Lists of free pages for each CPU.
    Pcp,
    /// Pools of huge pages, and their `struct page`s.
    Hugetlb,
    /// Which pages go when memory is short.
    Reclaim,
    /// What is read besides what was asked for.
    Readahead,
    /// Bringing threads and their memory together.
    Numa,
    /// Large folios of anonymous memory.
    Folios,
}

/// What is said of a mechanism.
struct Row {
    name: &'static str,
    alias: Option<&'static str>,
    description: &'static str,
}

const fn row(name: &'static str, description: &'static str) -> Row {
    Row { name, alias: None, description }
}

impl Mechanism {
    /// All of them; readahead is before what builds on the page cache that it fills.
    pub const ALL: [Mechanism; 6] = [
        Mechanism::Pcp,
        Mechanism::Hugetlb,
        Mechanism::Reclaim,
        Mechanism::Readahead,
        Mechanism::Numa,
        Mechanism::Folios,
    ];

    const fn row(self) -> Row {
        match self {
            Mechanism::Pcp => row("pcp", "pagesets: how many free pages each CPU has for itself"),
            Mechanism::Hugetlb => {
                row("hugetlb", "pools of huge pages, and giving back the memory of their struct pages")
            }
            Mechanism::Reclaim => row("reclaim", "which pages go when memory is short, and what comes of it"),
            Mechanism::Readahead => {
                row("readahead", "which pages of a file are read besides those asked for")
            }
            Mechanism::Numa => {
                row("numa", "NUMA balancing: scans, hint faults, migration and preferred nodes")
            }
            Mechanism::Folios => {
                let description =
                    "large folios of anonymous memory: how large a fault makes them, splits, khugepaged";
                Row { alias: Some("thp"), ..row("folios", description) }
            }
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// What else is taken for its name.
    pub const fn alias(self) -> Option<&'static str> {
        self.row().alias
    }

    /// What it is, in a line.
    pub const fn description(self) -> &'static str {
        self.row().description
    }

    /// Its names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        [self.name()].into_iter().chain(self.alias())
    }

    /// The mechanism with this name or alias.
    pub fn find(name: &str) -> Option<Mechanism> {
        Mechanism::ALL.into_iter().find(|mechanism| mechanism.names().any(|known| known == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Series;

    #[test]
    fn every_name_is_one_mechanism_s() {
        let names: Vec<&str> = Mechanism::ALL.into_iter().flat_map(Mechanism::names).collect();
        assert_eq!(names, ["pcp", "hugetlb", "reclaim", "readahead", "numa", "folios", "thp"]);
        for mechanism in Mechanism::ALL {
            assert!(mechanism.names().all(|name| Mechanism::find(name) == Some(mechanism)));
        }
        assert_eq!(Mechanism::find("huge_memory"), None);
    }

    #[test]
    fn every_series_is_of_a_mechanism() {
        assert!(Series::ALL.iter().all(|series| Mechanism::find(series.name).is_some()));
    }
}
