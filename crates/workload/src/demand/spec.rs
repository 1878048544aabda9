//! A demand for memory as a scenario's `[workload]` describes it, with what surrounds it.
//!
//! ```toml
//! [workload]
//! kind = "paging"
//! files = "ramdisk"            # device of the machine's profile that files are on
//! swap = "zram"                # device that swap is on; none without it
//! swap_mib = 16384
//! cgroup_max_mib = [4096]      # memory.max of each control group; none for those that are not in the list
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
    /// Programs that run out of memory, as scenarios describe them.
    pub struct Paging {
        /// The machine's device that files are on.
        pub files: String,
        /// Their file system keeps them in large folios, as XFS does since 5.18 and ext4 since 6.16.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub large_folios: bool,
        /// The machine's device that swap is on; without it there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub swap: Option<String>,
        /// Size of the swap area, MiB.
        #[serde(default)]
        pub swap_mib: u64 => MIB.or_none(),
        /// `memory.max` of each control group, MiB; groups that are not in the list have none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub cgroup_max_mib: Vec<u64> => MIB,
        /// `memory.low` of each, MiB; 0 for those that are not in the list.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub cgroup_low_mib: Vec<u64> => MIB.or_none(),
        /// `memory.min` of each, MiB; 0 for those that are not in the list.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub cgroup_min_mib: Vec<u64> => MIB.or_none(),
        /// `memory.oom.group` of each: whether the OOM killer ends all of its processes together; not for those that are not in the
        /// list.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub cgroup_oom_group: Vec<bool>,
        /// The number of the control group that each is in, -1 being the root; the root for those that are not in the list. Groups
        /// of the list that no thread is in are there for those below them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub cgroup_parent: Vec<i32> => Bounds { least: -1.0, ..GROUPS },
        /// Settings that are written while it runs.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub changes: Vec<SettingChange>,
        /// Memory that the kernel and programs that are not modelled hold from the start, MiB.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub held_mib: u64 => MIB.or_none(),
        /// Virtual milliseconds before measuring starts.
        pub warm_milliseconds: u64 => MILLISECONDS.or_none(),
        /// Virtual milliseconds measured; fewer if all threads come to their end.
        pub milliseconds: u64 => MILLISECONDS,
        /// What runs.
        pub demand: DemandSpec,
    }
}

crate::keys! {
    /// A setting that is written while a workload runs.
    #[derive(Eq)]
    pub struct SettingChange {
        /// After so many virtual milliseconds, warming up included.
        pub milliseconds: u64 => MILLISECONDS.or_none(),
        /// Which.
        pub setting: String,
        /// What is written.
        pub value: String,
    }
}

pub(super) fn is_zero(number: &u64) -> bool {
    *number == 0
}

crate::kinds! {
    /// What runs, as scenarios describe it.
    pub enum DemandSpec {
        /// Groups of threads that read files or touch memory, fio among them.
        "groups" Groups(AccessGroups),
        /// A kernel build, recorded once.
        "kernel-build" KernelBuild(RecordedBuild),
        /// memcached, filled by memtier_benchmark.
        "memcached" Memcached(Memcached),
        /// sysbench's `oltp_read_only` on MySQL.
        "sysbench-read-only" SysbenchReadOnly(SysbenchReadOnly),
        /// TPC-C's STOCK_LEVEL on MongoDB.
        "stock-level" StockLevel(Box<StockLevel>),
    }
}

/// What runs, running.
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
    /// Refuses what no run can be made of.
    pub fn check(&self) -> Result<(), WrongValue> {
        self.check_bounds("")?;
        if self.swap.is_some() != (self.swap_mib > 0) {
            return Err(WrongValue::new(
                "swap_mib",
                self.swap_mib,
                "more than 0 with a swap device, 0 without",
            ));
        }
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

    /// The control groups that a group is in, the nearest first, the root left out.
    pub fn ancestors(&self, group: usize) -> impl Iterator<Item = usize> {
        let parent = |group: &usize| usize::try_from(*self.cgroup_parent.get(*group)?).ok();
        std::iter::successors(parent(&group), parent)
    }

    /// Control groups that [`Paging::cgroup_parent`] speaks of.
    pub fn groups_of_tree(&self) -> usize {
        let parents = self.cgroup_parent.iter().filter_map(|&parent| usize::try_from(parent).ok());
        parents.map(|parent| parent + 1).fold(self.cgroup_parent.len(), usize::max)
    }

    /// Figures with a source, by their keys below `workload`.
    pub fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
        let figures = self.demand.figures_mut().into_iter();
        figures.map(|(key, figure)| (format!("demand.{key}"), figure)).collect()
    }
}

impl DemandSpec {
    /// Refuses what no run can be made of.
    pub fn check(&self) -> Result<(), WrongValue> {
        match self {
            DemandSpec::Groups(spec) => spec.check(),
            DemandSpec::KernelBuild(spec) => spec.check(),
            DemandSpec::Memcached(spec) => spec.check(),
            DemandSpec::SysbenchReadOnly(spec) => spec.check(),
            DemandSpec::StockLevel(spec) => spec.check(),
        }
    }

    /// Figures with a source, by their keys.
    pub fn figures_mut(&mut self) -> Vec<(String, &mut Figure)> {
        match self {
            DemandSpec::Groups(spec) => spec.figures_mut(),
            DemandSpec::KernelBuild(spec) => spec.figures_mut(),
            DemandSpec::Memcached(spec) => spec.figures_mut(),
            DemandSpec::SysbenchReadOnly(spec) => spec.figures_mut(),
            DemandSpec::StockLevel(spec) => spec.figures_mut(),
        }
    }

    /// The program, started; `random` gives each of its threads a stream of its own.
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
