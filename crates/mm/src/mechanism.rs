//! The mechanisms that are modelled closely enough to be judged against a kernel, and their names.
//!
//! ```text
//!   name, alias ─┬─► series      patch series whose variants are compared    (none for readahead)
//!                ├─► published   published tables to predict                 (none for readahead)
//!                └─► verify      kernels that judge the twin
//! ```
//!
//! Commands, series, cached recordings and JSON all use the one name of a mechanism. Where the kernel has
//! another word for it, that word is accepted as an alias: sysfs and vmstat say `transparent_hugepage` and
//! `thp_*` for what later patches call large folios.

/// A modelled mechanism of the memory manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// Per-CPU pagesets: lists of free pages.
    Pcp,
    /// Pools of huge pages, and HVO of their `struct page`s.
    Hugetlb,
    /// Reclaim: which folios are evicted when memory is short.
    Reclaim,
    /// Readahead: which pages of a file are read beyond those asked for.
    Readahead,
    /// NUMA balancing: threads and their memory on the same node.
    Numa,
    /// Large folios for anonymous memory.
    Folios,
}

/// The name, alias and description of a mechanism.
struct Row {
    name: &'static str,
    alias: Option<&'static str>,
    description: &'static str,
}

const fn row(name: &'static str, description: &'static str) -> Row {
    Row { name, alias: None, description }
}

impl Mechanism {
    /// All mechanisms, in the order in which `verify` and `list` show them: readahead comes before those that
    /// build on the page cache it fills.
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
            Mechanism::Pcp => row("pcp", "pagesets: how many free pages each CPU keeps for itself"),
            Mechanism::Hugetlb => {
                row("hugetlb", "pools of huge pages, and freeing the memory of their struct pages (HVO)")
            }
            Mechanism::Reclaim => {
                row("reclaim", "which pages are evicted when memory is short, and what refaults change")
            }
            Mechanism::Readahead => row("readahead", "which pages of a file are read beyond those asked for"),
            Mechanism::Numa => {
                row("numa", "NUMA balancing: scans, hint faults, migration and preferred nodes")
            }
            Mechanism::Folios => {
                let description =
                    "large folios of anonymous memory: their size at a fault, splits, khugepaged";
                Row { alias: Some("thp"), ..row("folios", description) }
            }
        }
    }

    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// The kernel's other word for the mechanism, if it has one.
    pub const fn alias(self) -> Option<&'static str> {
        self.row().alias
    }

    pub const fn description(self) -> &'static str {
        self.row().description
    }

    /// The name, and the alias if there is one.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        [self.name()].into_iter().chain(self.alias())
    }

    /// Finds a mechanism by its name or alias.
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
