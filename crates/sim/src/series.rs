//! What runs sample over virtual time, and the histograms that they keep: names, units, and what each is.
//!
//! ```text
//!   every 50 ms   memory in pagesets, held by programs, in use; pages taken and drained so far; lists of the LRUs
//!   of a host     transactions, page cache, its generations, swap, dirty memory, refaults; anonymous memory; nodes
//! ```
//!
//! A sample is what is there at that moment, or, where the name says `so far`, a sum since the run began, warm-up included.

/// A series of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    pub name: &'static str,
    pub title: &'static str,
    pub unit: Unit,
}

/// The unit of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Base pages.
    Pages,
    Mebibytes,
    Percent,
    Count,
}

impl Unit {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Pages => "pages",
            Unit::Mebibytes => "MiB",
            Unit::Percent => "%",
            Unit::Count => "",
        }
    }
}

const fn sampled(name: &'static str, title: &'static str, unit: Unit) -> Sampled {
    Sampled { name, title, unit }
}

/// Before the number of a node.
const OF_NODE: &str = "pages_node";

/// All series. That of memory by node has the node's number behind its name.
pub const SERIES: &[Sampled] = &[
    sampled("pcp_pages", "memory in pagesets", Unit::Pages),
    sampled("allocated_pages", "memory of programs outside address spaces", Unit::Pages),
    sampled("used_pages", "memory not in free lists", Unit::Pages),
    sampled("pages_from_zone", "pages taken from zones so far", Unit::Count),
    sampled("pages_drained", "pages drained from pagesets so far", Unit::Count),
    sampled("nr_inactive_anon", "anonymous memory, inactive", Unit::Pages),
    sampled("nr_active_anon", "anonymous memory, active", Unit::Pages),
    sampled("nr_inactive_file", "page cache, inactive", Unit::Pages),
    sampled("nr_active_file", "page cache, active", Unit::Pages),
    sampled("transactions", "transactions so far", Unit::Count),
    sampled("nr_file_pages", "page cache", Unit::Pages),
    sampled("swap_used_pages", "swap in use", Unit::Pages),
    sampled("zswap_pages", "pool of zswap", Unit::Pages),
    sampled("zswapped_pages", "memory in zswap, uncompressed", Unit::Pages),
    sampled("nr_dirty", "dirty memory", Unit::Pages),
    sampled("nr_writeback", "memory being written", Unit::Pages),
    sampled("workingset_refault_file", "refaults of page cache so far", Unit::Count),
    sampled("workingset_activate_file", "refaults of page cache that were activated so far", Unit::Count),
    sampled(
        "workingset_restore_file",
        "refaults of page cache that had been in the working set so far",
        Unit::Count,
    ),
    sampled("file_youngest_generation", "page cache, youngest generation", Unit::Pages),
    sampled("file_second_generation", "page cache, second generation", Unit::Pages),
    sampled("file_third_generation", "page cache, third generation", Unit::Pages),
    sampled("file_fourth_generation", "page cache, fourth generation", Unit::Pages),
    sampled("anon_mib", "anonymous memory", Unit::Mebibytes),
    sampled("preferred_success", "faults that got the preferred order", Unit::Percent),
    sampled("turnovers", "turnovers: memory mapped, in times of what is mapped at once", Unit::Count),
    sampled("local_accesses", "accesses on the thread's own node", Unit::Percent),
    sampled(OF_NODE, "memory in use on a node", Unit::Pages),
];

/// What a series of this name is.
pub fn of(name: &str) -> Option<&'static Sampled> {
    let of_node = name.strip_prefix(OF_NODE).filter(|node| node.parse::<u8>().is_ok());
    let name = if of_node.is_some() { OF_NODE } else { name };
    SERIES.iter().find(|series| series.name == name)
}

/// Histograms, of nanoseconds, and what is recorded in each while a run is measured.
pub const HISTOGRAMS: [(&str, &str); 3] = [
    (
        "alloc_slow",
        "time of an allocation that its CPU's pageset could not serve, waits for the zone's lock included",
    ),
    ("zone_take", "time under a zone's lock of a refill of a pageset, or of a page taken past it"),
    ("zone_put", "time under a zone's lock of pages that go back to free lists"),
];
