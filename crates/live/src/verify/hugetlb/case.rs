//! A case: counts that are written to the pool of huge pages, in order.
//!
//! ```text
//!   case                      several steps, from an empty pool to an empty pool
//!   +- step                   one write
//!      +- hvo, node, pages    vm.hugetlb_optimize_vmemmap, the file, and the count written to it
//! ```
//!
//! Steps build on each other because the work of a write depends on the pages in the pool: how many of them
//! are optimised, and whether any page in the system is, which switches the kernel's static key.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::rollback::sysctl;

/// Size of a huge page in KiB: the twin models x86-64's default.
pub const HUGE_PAGE_KIB: u64 = 2048;

/// One write of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// `vm.hugetlb_optimize_vmemmap` at that time.
    pub hvo: bool,
    /// The node whose nr_hugepages is written; `None`: `vm.nr_hugepages`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u16>,
    /// The count in huge pages.
    pub pages: u64,
}

impl Write {
    /// The file that is written.
    pub fn path(&self) -> PathBuf {
        match self.node {
            None => sysctl("vm.nr_hugepages"),
            Some(node) => format!(
                "/sys/devices/system/node/node{node}/hugepages/hugepages-{HUGE_PAGE_KIB}kB/nr_hugepages"
            )
            .into(),
        }
    }
}

/// A sequence of writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Name in the report.
    pub name: String,
    pub writes: Vec<Write>,
}

impl Case {
    fn new(name: String, writes: &[(bool, u64)]) -> Case {
        let write = |&(hvo, pages)| Write { hvo, node: None, pages };
        Case { name, writes: writes.iter().map(write).collect() }
    }

    /// The size of the largest pool in the case, in KiB.
    pub fn peak_kib(&self) -> u64 {
        self.writes.iter().map(|write| write.pages).max().unwrap_or(0).saturating_mul(HUGE_PAGE_KIB)
    }

    /// All cases. Those with HVO that add few pages come first, because a machine splits the PMD of a range
    /// of `struct page`s only once after boot.
    pub fn all() -> Vec<Case> {
        let mut cases = Vec::new();
        for hvo in [true, false] {
            let state = if hvo { "on" } else { "off" };
            for pages in [1, 3, 64, 500, 2000] {
                cases.push(Case::new(format!("HVO {state}, {pages}"), &[(hvo, pages), (hvo, 0)]));
            }
            let writes = [(hvo, 16), (hvo, 516), (hvo, 16), (hvo, 0)];
            cases.push(Case::new(format!("HVO {state}, 500 beside 16"), &writes));
            let writes = [(hvo, 3), (hvo, 3), (hvo, 0), (hvo, 0)];
            cases.push(Case::new(format!("HVO {state}, each count twice"), &writes));
        }
        let mixed = [(true, 1), (false, 3), (false, 0)];
        cases.push(Case::new("1 with HVO, 2 without".into(), &mixed));
        let mut one_node = Case::new("HVO on, 64 on node 0".into(), &[(true, 64), (true, 0)]);
        one_node.writes.iter_mut().for_each(|write| write.node = Some(0));
        cases.push(one_node);
        cases
    }
}
