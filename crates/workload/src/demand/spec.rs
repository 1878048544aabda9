//! The `[workload]` of a scenario that runs out of memory: the demand, and the devices and memcgs around it.
//!
//! ```toml
//! [workload]
//! kind = "paging"
//! files = "ramdisk"            # device, of the machine's profile, for the files
//! swap = "zram"                # device for swap; no swap without it
//! swap_mib = 16384
//! cgroup_max_mib = [4096]      # memory.max of each memcg; no limit for memcgs not in the list
//! warm_milliseconds = 2000
//! milliseconds = 1000
//!
//! [workload.demand]
//! kind = "memcached"
//! ...
//! ```

use super::groups::{AccessGroups, Accessors};
use super::kernel_build::{RecordedBuild, RecordedBuildDemand};
use super::memcached::{Memcached, MemcachedDemand};
use super::sysbench::{SysbenchDemand, SysbenchReadOnly};
use super::tpcc::{StockLevel, StockLevelDemand};
use super::{Demand, Layout, Operation};
use crate::keys::{Bounds, GROUPS, MIB, MILLISECONDS, Value};
use machine::WrongValue;
use machine::profile::Figure;
use rand_pcg::Pcg64Mcg;

crate::keys! {
    /// Programs that run out of memory, as in a scenario.
    pub struct Paging {
        /// The device, of the machine's profile, that has the files.
        pub files: String,
        /// Whether the file system uses large folios, as XFS does since 5.18 and ext4 since 6.16.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub large_folios: bool,
        /// The device for swap; no swap if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub swap: Option<String>,
        /// Size of the swap area in MiB.
        #[serde(default)]
        pub swap_mib: u64 => MIB.or_none(),
        /// `memory.max` of each memcg in MiB; no limit for memcgs not in the list.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub cgroup_max_mib: Vec<u64> => MIB,
        /// `memory.low` of each memcg in MiB; 0 for memcgs not in the list.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub cgroup_low_mib: Vec<u64> => MIB.or_none(),
        /// `memory.min` of each memcg in MiB; 0 for memcgs not in the list.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub cgroup_min_mib: Vec<u64> => MIB.or_none(),
        /// `memory.oom.group` of each memcg: whether the OOM killer kills all its processes together; false
        /// for memcgs not in the list.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub cgroup_oom_group: Vec<bool>,
        /// Number of each memcg's parent, -1 for the root; the root for memcgs not in the list. Memcgs in the
        /// list without threads only serve as parents.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub cgroup_parent: Vec<i32> => Bounds { least: -1.0, ..GROUPS },
        /// Settings that are written during the run.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub changes: Vec<SettingChange>,
        /// Memory in use from the start by the kernel and by programs that are not modelled, in MiB.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub held_mib: u64 => MIB.or_none(),
        /// Virtual time before measuring starts, in milliseconds.
        pub warm_milliseconds: u64 => MILLISECONDS.or_none(),
        /// Virtual time measured, in milliseconds; less if all threads finish earlier.
        pub milliseconds: u64 => MILLISECONDS,
        pub demand: DemandSpec,
    }
}

crate::keys! {
    /// A setting that is written during the run.
    #[derive(Eq)]
    pub struct SettingChange {
        /// Virtual time of the write in milliseconds, from the start of warming up.
        pub milliseconds: u64 => MILLISECONDS.or_none(),
        /// Name of the setting.
        pub setting: String,
        /// The value written.
        pub value: String,
    }
}

/// Checks that swap has a size exactly if it has a device.
pub fn check_swap(device: Option<&String>, mib: u64) -> Result<(), WrongValue> {
    match device.is_some() == (mib > 0) {
        true => Ok(()),
        false => Err(WrongValue::new("swap_mib", mib, "more than 0 with a swap device, 0 without")),
    }
}

pub(super) fn is_zero(number: &u64) -> bool {
    *number == 0
}

crate::kinds! {
    /// A program and its parameters, as in a scenario.
    pub enum DemandSpec {
        /// Groups of threads that access files or memory; includes fio.
        "groups" Groups(AccessGroups),
        /// A recorded kernel build.
        "kernel-build" KernelBuild(RecordedBuild),
        /// memcached, filled by memtier_benchmark.
        "memcached" Memcached(Memcached),
        /// sysbench's `oltp_read_only` on MySQL.
        "sysbench-read-only" SysbenchReadOnly(SysbenchReadOnly),
        /// TPC-C's STOCK_LEVEL on MongoDB.
        "stock-level" StockLevel(Box<StockLevel>),
    }
}

/// A running program.
pub enum Program {
    /// See [`DemandSpec::Groups`].
    Groups(Accessors),
    /// See [`DemandSpec::KernelBuild`].
    KernelBuild(RecordedBuildDemand),
    /// See [`DemandSpec::Memcached`].
    Memcached(MemcachedDemand),
    /// See [`DemandSpec::SysbenchReadOnly`].
    SysbenchReadOnly(SysbenchDemand),
    /// See [`DemandSpec::StockLevel`].
    StockLevel(StockLevelDemand),
}

impl Paging {
    /// Checks the keys and how they go together.
    pub fn check(&self) -> Result<(), WrongValue> {
        self.check_bounds("")?;
        check_swap(self.swap.as_ref(), self.swap_mib)?;
        for (group, &parent) in self.cgroup_parent.iter().enumerate() {
            let is_below_itself = self.ancestors(group).nth(self.cgroup_parent.len()).is_some();
            if is_below_itself {
                return Err(WrongValue::new(
                    format!("cgroup_parent[{group}]"),
                    parent,
                    "the number of another group that is not below this one; -1 for the root",
                ));
            }
        }
        self.demand.check().map_err(|wrong| wrong.within("demand"))
    }

    /// The ancestors of a memcg, nearest first, without the root.
    pub fn ancestors(&self, group: usize) -> impl Iterator<Item = usize> {
        let parent = |group: &usize| usize::try_from(*self.cgroup_parent.get(*group)?).ok();
        std::iter::successors(parent(&group), parent)
    }

    /// Number of memcgs that [`Paging::cgroup_parent`] mentions.
    pub fn groups_of_tree(&self) -> usize {
        let parents = self.cgroup_parent.iter().filter_map(|&parent| usize::try_from(parent).ok());
        parents.map(|parent| parent + 1).fold(self.cgroup_parent.len(), usize::max)
    }

    /// All figures (values with a source) and their keys below `workload`.
    pub fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
        let figures = self.demand.figures_mut().into_iter();
        figures.map(|(key, figure)| (format!("demand.{key}"), figure)).collect()
    }
}

impl DemandSpec {
    /// Checks the keys and how they go together.
    pub fn check(&self) -> Result<(), WrongValue> {
        match self {
            DemandSpec::Groups(spec) => spec.check(),
            DemandSpec::KernelBuild(spec) => spec.check(),
            DemandSpec::Memcached(spec) => spec.check(),
            DemandSpec::SysbenchReadOnly(spec) => spec.check(),
            DemandSpec::StockLevel(spec) => spec.check(),
        }
    }

    /// All figures (values with a source) and their keys.
    pub fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
        match self {
            DemandSpec::Groups(spec) => spec.figures_mut(),
            DemandSpec::KernelBuild(spec) => spec.figures_mut(),
            DemandSpec::Memcached(spec) => spec.figures_mut(),
            DemandSpec::SysbenchReadOnly(spec) => spec.figures_mut(),
            DemandSpec::StockLevel(spec) => spec.figures_mut(),
        }
    }

    /// Starts the program; `random` gives each thread a random stream of its own.
    pub fn start(&self, random: impl Fn(u64) -> Pcg64Mcg) -> Result<Program, WrongValue> {
        Ok(match self {
            DemandSpec::Groups(spec) => Program::Groups(spec.demand(random)?),
            DemandSpec::KernelBuild(spec) => Program::KernelBuild(spec.demand(random)?),
            DemandSpec::Memcached(spec) => Program::Memcached(spec.demand(random)?),
            DemandSpec::SysbenchReadOnly(spec) => Program::SysbenchReadOnly(spec.demand(random)?),
            DemandSpec::StockLevel(spec) => Program::StockLevel(spec.demand(random)?),
        })
    }
}

impl Demand for Program {
    fn layout(&self) -> &Layout {
        match self {
            Program::Groups(program) => program.layout(),
            Program::KernelBuild(program) => program.layout(),
            Program::Memcached(program) => program.layout(),
            Program::SysbenchReadOnly(program) => program.layout(),
            Program::StockLevel(program) => program.layout(),
        }
    }

    fn queries_per_transaction(&self) -> Option<u32> {
        match self {
            Program::SysbenchReadOnly(program) => program.queries_per_transaction(),
            _ => None,
        }
    }

    #[inline]
    fn next(&mut self, thread: usize) -> Option<Operation> {
        match self {
            Program::Groups(program) => program.next(thread),
            Program::KernelBuild(program) => program.next(thread),
            Program::Memcached(program) => program.next(thread),
            Program::SysbenchReadOnly(program) => program.next(thread),
            Program::StockLevel(program) => program.next(thread),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: &str = r#"
        files = "nvme"
        swap = "zram"
        swap_mib = 1024
        warm_milliseconds = 0
        milliseconds = 10

        [demand]
        kind = "groups"

        [[demand.groups]]
        threads = 1
        object = "file"
        mib = 8
        pattern = { kind = "uniform" }
        compute_ns = { value = 500.0, source = "made up" }
    "#;

    #[test]
    fn a_workload_is_read_checked_and_written_again() {
        let mut paging: Paging = toml::from_str(GROUPS).unwrap();
        assert_eq!(paging.check(), Ok(()));
        assert_eq!(toml::from_str::<Paging>(&toml::to_string(&paging).unwrap()).as_ref(), Ok(&paging));
        let keys: Vec<String> = paging.figures_mut().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["demand.groups[0].compute_ns"]);
        let refused = |from: &str, to: &str| {
            toml::from_str::<Paging>(&GROUPS.replace(from, to)).map(|paging| paging.check().unwrap_err().key)
        };
        assert_eq!(refused("mib = 8", "mib = 0").unwrap(), "demand.groups[0].mib");
        assert_eq!(refused("swap_mib = 1024", "").unwrap(), "swap_mib");
        assert_eq!(refused("value = 500.0", "value = -1.0").unwrap(), "demand.groups[0].compute_ns");
        assert_eq!(refused("swap_mib", "cgroup_max_mib = [0]\nswap_mib").unwrap(), "cgroup_max_mib[0]");
        for (parents, key) in [
            ("[0]", "cgroup_parent[0]"),
            ("[-1, 2, 1]", "cgroup_parent[1]"),
            ("[-2]", "cgroup_parent[0]"),
            ("[4, 1000]", "cgroup_parent[1]"),
        ] {
            let list = format!("cgroup_parent = {parents}\nswap_mib");
            assert_eq!(refused("swap_mib", &list).unwrap(), key, "{parents}");
        }
        paging.cgroup_parent = vec![2, -1, 1];
        assert_eq!(paging.check(), Ok(()));
        assert_eq!(paging.ancestors(0).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(paging.groups_of_tree(), 3);
        paging.cgroup_parent = vec![4];
        assert_eq!((paging.check(), paging.groups_of_tree()), (Ok(()), 5));
        assert!(refused("threads", "thread").unwrap_err().to_string().contains("thread"));
    }
}
