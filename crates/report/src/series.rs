//! Series over virtual time: what the names that runs sample mean, and in which unit their values are.

use crate::chart::Measure;

/// What a series is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub title: &'static str,
    pub unit: Unit,
}

/// The unit of its samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Pages,
    Mebibytes,
    Percent,
    Count,
}

const fn kind(title: &'static str, unit: Unit) -> Kind {
    Kind { title, unit }
}

/// What a series of this name is; one that is not known here is a count.
pub fn kind_of(name: &str) -> Kind {
    match name {
        "pcp_pages" => kind("memory in pagesets", Unit::Pages),
        "allocated_pages" => kind("memory that programs hold", Unit::Pages),
        "used_pages" => kind("memory not in free lists", Unit::Pages),
        "pages_from_zone" => kind("pages taken from zones so far", Unit::Count),
        "pages_drained" => kind("pages drained from pagesets so far", Unit::Count),
        "nr_inactive_anon" => kind("anonymous memory, inactive", Unit::Pages),
        "nr_active_anon" => kind("anonymous memory, active", Unit::Pages),
        "nr_inactive_file" => kind("page cache, inactive", Unit::Pages),
        "nr_active_file" => kind("page cache, active", Unit::Pages),
        "nr_file_pages" => kind("page cache", Unit::Pages),
        "swap_used_pages" => kind("swap in use", Unit::Pages),
        "nr_dirty" => kind("dirty memory", Unit::Pages),
        "nr_writeback" => kind("memory being written", Unit::Pages),
        "file_youngest_generation" => kind("page cache, youngest generation", Unit::Pages),
        "file_second_generation" => kind("page cache, second generation", Unit::Pages),
        "file_third_generation" => kind("page cache, third generation", Unit::Pages),
        "file_fourth_generation" => kind("page cache, fourth generation", Unit::Pages),
        "transactions" => kind("transactions so far", Unit::Count),
        "anon_mib" => kind("anonymous memory", Unit::Mebibytes),
        "preferred_success" => kind("faults that got the preferred order", Unit::Percent),
        "local_accesses" => kind("accesses on the thread's own node", Unit::Percent),
        name if name.starts_with("pages_node") => kind("memory in use on a node", Unit::Pages),
        _ => kind("", Unit::Count),
    }
}

/// What a series is called: what it is, and the name that it has in documents.
pub fn title_of(name: &str) -> String {
    match kind_of(name).title {
        "" => name.into(),
        title => format!("{title} ({name})"),
    }
}

impl Unit {
    /// In words, of samples as they are.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Pages => "pages",
            Unit::Mebibytes => "MiB",
            Unit::Percent => "%",
            Unit::Count => "",
        }
    }

    /// What is on the axis, and what samples are multiplied with.
    pub fn measure(self, page_bytes: u64) -> (Measure, f64) {
        match self {
            Unit::Pages => (Measure::Bytes, page_bytes as f64),
            Unit::Mebibytes => (Measure::Bytes, 1048576.0),
            Unit::Percent => (Measure::Percent, 1.0),
            Unit::Count => (Measure::Number, 1.0),
        }
    }
}
