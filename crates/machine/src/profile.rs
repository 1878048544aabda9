//! Machine profiles: a machine as a TOML file in which every figure names its source.
//!
//! ```toml
//! name = "intel-2s-128"
//! description = "2-socket Ice Lake SP server, 128 logical CPUs"
//! page_size_kib = 4                    # or 16, or 64; 4 if left out
//!
//! [topology]
//! source = "..."                       # where the shape comes from
//! sockets = 2
//! cores_per_socket = 32
//! threads_per_core = 2
//! nodes = 2
//! node_distances = [[10, 20], [20, 10]]
//! memory_mib_per_node = 131072
//! caches = [{ level = 3, kib = 49152, shared_by = "socket" }]
//!
//! [costs]
//! page_clear_ns = { value = 110.0, source = "measured by ..." }
//!
//! [paging]                             # costs of file pages, swap and reclaim
//! file_read_call_ns = { value = 250.0, source = "..." }
//!
//! [numa]                               # costs of memory on several nodes
//! node_gb_per_second = { value = 150.0, source = "..." }
//!
//! [links.distance-31]                  # links that differ from these, see `crate::links`
//! memory_line_ns = { value = 270.0, source = "..." }
//!
//! [memory.node1]                       # a node's memory that differs
//! node_gb_per_second = { value = 20.0, source = "..." }
//!
//! [blocks]                             # costs that depend on block size
//! clear_l1_kib = { value = 32.0, source = "..." }
//!
//! [devices.sata-ssd]                   # a block device and its name, see `crate::storage`
//! kind = "disk"
//! read_iops_one = { value = 13000.0, source = "data sheet of ..." }
//! ```
//!
//! `invlpgb_ns` may be left out if the machine cannot broadcast a flush, `virtualized` on bare metal,
//! `turn_shares` if CPUs run at the same time. Without `[paging]` a machine runs no workload with files or
//! swap, without `[devices]` it has nothing to store them on, and without `[numa]` it runs no workload that
//! streams through memory. Without `[blocks]` a page of a large block costs as much as a single page. The
//! last `memory_only_nodes` nodes have no CPU.
//!
//! A figure that nothing pins down may give its plausible range:
//! `{ value = 500.0, range = [250.0, 1500.0], source = "assumption: ..." }`.
//!
//! A figure without a source, an unknown key or an impossible value is an error that names the key.

use crate::blocks::BlockCosts;
use crate::costs::{Costs, NumaCosts, PagingCosts};
use crate::links::{Link, LinkFigures, MemoryFigures, MemoryOf};
use crate::memblock::{FOUR_GIB_MIB, Layout, Memblock};
use crate::page_size::PageSize;
use crate::storage::{Device, DeviceFigures};
use crate::time::Time;
use crate::topology::{Cache, MAX_NODES, Node, SharedBy, Topology, TurnShares, is_distance_table};
use crate::wrong_value::WrongValue;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

/// A number and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a figure such as { value = 100.0, source = \"measured on ...\" }")]
pub struct Figure {
    /// The number, in the unit that its key ends in.
    pub value: f64,
    /// Plausible range, if nothing pins the number down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// A measurement, a baseline row of a published table, or a datasheet.
    pub source: String,
}

/// The topology of a machine as written in a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologyFigures {
    /// Where the topology comes from.
    pub source: String,
    /// Processor packages.
    pub sockets: u16,
    /// Cores per socket.
    pub cores_per_socket: u16,
    /// SMT threads per core, 1 or 2.
    pub threads_per_core: u16,
    /// Whether this is a virtual machine, in which sending an IPI traps to the hypervisor.
    #[serde(default)]
    pub virtualized: bool,
    /// [`Topology::turn_shares`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub turn_shares: Vec<TurnShares>,
    /// Number of NUMA nodes.
    pub nodes: u8,
    /// How many of them, the last ones, have memory but no CPU.
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory_only_nodes: u8,
    /// Distance table of the firmware (SLIT), 10 = local.
    pub node_distances: Vec<Vec<u8>>,
    /// Memory of each node, MiB.
    pub memory_mib_per_node: u64,
    /// Data and unified caches, nearest first.
    pub caches: Vec<CacheFigure>,
}

/// A cache level as written in a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheFigure {
    /// 1, 2 or 3.
    pub level: u8,
    /// Size of one instance, KiB.
    pub kib: u64,
    /// The CPUs that share an instance.
    pub shared_by: SharedBy,
}

macro_rules! cost_figures {
    (
        $(#[$struct_doc:meta])* $name:ident
        required { $($(#[$doc:meta])* $key:ident,)* }
        $(optional { $($(#[$optional_doc:meta])* $optional:ident,)* })?
    ) => {
        $(#[$struct_doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$doc])* pub $key: Figure,)*
            $($(
                $(#[$optional_doc])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $optional: Option<Figure>,
            )*)?
        }

        impl $name {
            /// All figures with their keys, in the order of the file.
            pub fn entries(&self) -> Vec<(&'static str, &Figure)> {
                let required = [$((stringify!($key), &self.$key)),*];
                let optional: &[(&'static str, Option<&Figure>)] =
                    &[$($((stringify!($optional), self.$optional.as_ref())),*)?];
                let optional = optional.iter().filter_map(|&(key, figure)| Some((key, figure?)));
                required.into_iter().chain(optional).collect()
            }

            /// The figure named `key`, if the profile has it.
            pub fn entry_mut(&mut self, key: &str) -> Option<&mut Figure> {
                match key {
                    $(stringify!($key) => Some(&mut self.$key),)*
                    $($(stringify!($optional) => self.$optional.as_mut(),)*)?
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use cost_figures;

cost_figures! {
    /// Unit costs as written in a profile; their meaning is in [`Costs`].
    CostFigures
    required {
        /// [`Costs::line_transfer`] between SMT siblings.
        line_same_core_ns,
        /// [`Costs::line_transfer`] between cores of a socket.
        line_same_socket_ns,
        /// [`Costs::line_transfer`] between sockets.
        line_other_socket_ns,
        /// [`Costs::ipi_send`].
        ipi_send_ns,
        /// [`Costs::ipi_trap`], paid only if the machine is virtualized.
        ipi_trap_ns,
        /// [`Costs::ipi_deliver`].
        ipi_deliver_ns,
        /// [`Costs::ipi_receive`].
        ipi_receive_ns,
        /// [`Costs::ipi_wake`].
        ipi_wake_ns,
        /// [`Costs::tlb_flush_all`].
        tlb_flush_all_ns,
        /// [`Costs::tlb_flush_page`].
        tlb_flush_page_ns,
        /// [`Costs::tlb_refill`].
        tlb_refill_ns,
        /// [`Costs::memory_line`] of the CPU's own node.
        memory_line_ns,
        /// [`Costs::memory_line`] of another node.
        remote_memory_line_ns,
        /// [`Costs::lock_section`].
        lock_section_ns,
        /// [`Costs::list_take`].
        list_take_ns,
        /// [`Costs::list_put`].
        list_put_ns,
        /// [`Costs::list_move`].
        list_move_ns,
        /// [`Costs::take_spread`].
        take_spread,
        /// [`Costs::put_spread`].
        put_spread,
        /// [`Costs::page_clear`].
        page_clear_ns,
        /// [`Costs::page_copy`].
        page_copy_ns,
        /// [`Costs::page_miss`].
        page_miss_ns,
        /// [`Costs::page_fault`].
        page_fault_ns,
        /// [`Costs::page_unmap`].
        page_unmap_ns,
        /// [`Costs::page_alloc`].
        page_alloc_ns,
        /// [`Costs::page_free`].
        page_free_ns,
        /// [`Costs::struct_page_init`].
        struct_page_init_ns,
        /// [`Costs::struct_page_free`].
        struct_page_free_ns,
        /// [`Costs::pte_write`].
        pte_write_ns,
        /// [`Costs::grace_period`].
        grace_period_ns,
        /// [`Costs::socket_call`].
        socket_call_ns,
        /// [`Costs::smt_slowdown`].
        smt_slowdown,
        /// [`Costs::speed`].
        speed,
    }
    optional {
        /// [`Costs::boot_struct_page_init`]; the default is `struct_page_init_ns`.
        boot_struct_page_init_ns,
        /// [`Costs::invlpgb`]; left out if the machine does not have the instruction.
        invlpgb_ns,
    }
}

cost_figures! {
    /// Costs of file pages, swap and reclaim as written in a profile; see [`PagingCosts`].
    PagingFigures
    required {
        /// [`PagingCosts::file_read_call`].
        file_read_call_ns,
        /// [`PagingCosts::file_lookup`].
        file_lookup_ns,
        /// [`PagingCosts::file_write`].
        file_write_ns,
        /// [`PagingCosts::file_insert`].
        file_insert_ns,
        /// [`PagingCosts::file_remove`].
        file_remove_ns,
        /// [`PagingCosts::io_submit`].
        io_submit_ns,
        /// [`PagingCosts::io_complete`].
        io_complete_ns,
        /// [`PagingCosts::task_switch`].
        task_switch_ns,
        /// [`PagingCosts::lru_scan`].
        lru_scan_ns,
        /// [`PagingCosts::rmap_walk`].
        rmap_walk_ns,
        /// [`PagingCosts::pte_unmap`].
        pte_unmap_ns,
        /// [`PagingCosts::swap_out`].
        swap_out_ns,
        /// [`PagingCosts::swap_in`].
        swap_in_ns,
        /// [`PagingCosts::pte_scan`].
        pte_scan_ns,
        /// [`PagingCosts::compact_scan`].
        compact_scan_ns,
    }
}

cost_figures! {
    /// Costs of memory on several nodes as written in a profile; see [`NumaCosts`]. Rates are in 10^9 bytes
    /// per second.
    NumaFigures
    required {
        /// [`NumaCosts::stream_page`].
        stream_gb_per_second,
        /// [`NumaCosts::remote_stream_page`].
        remote_stream_gb_per_second,
        /// [`NumaCosts::node_page`].
        node_gb_per_second,
        /// [`NumaCosts::link_page`].
        link_gb_per_second,
        /// [`NumaCosts::pte_protect`].
        pte_protect_ns,
        /// [`NumaCosts::hint_fault`].
        hint_fault_ns,
        /// [`NumaCosts::page_migrate`].
        page_migrate_ns,
        /// [`NumaCosts::thread_start`].
        thread_start_ns,
        /// [`NumaCosts::tick`].
        tick_ns,
    }
    optional {
        /// [`NumaCosts::slow_stream_page`], for nodes without CPUs; the default is the rate of another node.
        slow_stream_gb_per_second,
        /// [`NumaCosts::slow_node_page`], for nodes without CPUs; the default is the rate of a node with
        /// CPUs.
        slow_node_gb_per_second,
    }
}

cost_figures! {
    /// Costs that depend on block size as written in a profile; see [`BlockCosts`].
    BlockFigures
    required {
        /// [`BlockCosts::clear_l1_parts`].
        clear_l1_kib,
        /// [`BlockCosts::clear_l2_parts`].
        clear_l2_kib,
        /// [`BlockCosts::page_clear_l2`].
        page_clear_l2_ns,
        /// [`BlockCosts::page_clear_llc`].
        page_clear_llc_ns,
        /// [`BlockCosts::page_use_l2`].
        page_use_l2_ns,
        /// [`BlockCosts::page_use_llc`].
        page_use_llc_ns,
        /// [`BlockCosts::further_page`].
        further_page_ns,
        /// [`BlockCosts::further_unmap`].
        further_unmap_ns,
        /// [`BlockCosts::further_unmap_at_once`].
        further_unmap_at_once_ns,
        /// [`BlockCosts::tlb_entries`].
        tlb_entries,
        /// [`BlockCosts::tlb_walk`].
        tlb_walk_ns,
        /// [`BlockCosts::tlb_run_pages`].
        tlb_run_pages,
    }
    optional {
        /// [`BlockCosts::tlb_contiguous_pages`]; left out if page-table entries have no such mark.
        tlb_contiguous_pages,
    }
}

impl PagingFigures {
    fn costs(&self) -> PagingCosts {
        let time = |figure: &Figure| Time::from_nanoseconds_f64(figure.value);
        PagingCosts {
            file_read_call: time(&self.file_read_call_ns),
            file_lookup: time(&self.file_lookup_ns),
            file_write: time(&self.file_write_ns),
            file_insert: time(&self.file_insert_ns),
            file_remove: time(&self.file_remove_ns),
            io_submit: time(&self.io_submit_ns),
            io_complete: time(&self.io_complete_ns),
            task_switch: time(&self.task_switch_ns),
            lru_scan: time(&self.lru_scan_ns),
            rmap_walk: time(&self.rmap_walk_ns),
            pte_unmap: time(&self.pte_unmap_ns),
            swap_out: time(&self.swap_out_ns),
            swap_in: time(&self.swap_in_ns),
            pte_scan: time(&self.pte_scan_ns),
            compact_scan: time(&self.compact_scan_ns),
        }
    }
}

impl BlockFigures {
    fn costs(&self, page_size: PageSize) -> BlockCosts {
        let time = |figure: &Figure| Time::from_nanoseconds_f64(figure.value);
        let (parts, count) =
            (|kib: &Figure| (kib.value / 4.0) as u64, |figure: &Figure| (figure.value as u64).max(1));
        BlockCosts {
            page_parts: page_size.parts(),
            clear_l1_parts: parts(&self.clear_l1_kib),
            clear_l2_parts: parts(&self.clear_l2_kib),
            page_clear_l2: time(&self.page_clear_l2_ns),
            page_clear_llc: time(&self.page_clear_llc_ns),
            page_use_l2: time(&self.page_use_l2_ns),
            page_use_llc: time(&self.page_use_llc_ns),
            further_page: time(&self.further_page_ns),
            further_unmap: time(&self.further_unmap_ns),
            further_unmap_at_once: time(&self.further_unmap_at_once_ns),
            tlb_entries: count(&self.tlb_entries),
            tlb_walk: time(&self.tlb_walk_ns),
            tlb_run_pages: count(&self.tlb_run_pages),
            tlb_contiguous_pages: self.tlb_contiguous_pages.as_ref().map_or(1, count),
        }
    }
}

impl NumaFigures {
    fn costs(&self, page_size: PageSize) -> NumaCosts {
        let time = |figure: &Figure| Time::from_nanoseconds_f64(figure.value);
        let page = |rate: &Figure| page_size.time_at(rate.value);
        NumaCosts {
            stream_page: page(&self.stream_gb_per_second),
            remote_stream_page: page(&self.remote_stream_gb_per_second),
            node_page: page(&self.node_gb_per_second),
            link_page: page(&self.link_gb_per_second),
            slow_stream_page: page(
                self.slow_stream_gb_per_second.as_ref().unwrap_or(&self.remote_stream_gb_per_second),
            ),
            slow_node_page: page(self.slow_node_gb_per_second.as_ref().unwrap_or(&self.node_gb_per_second)),
            pte_protect: time(&self.pte_protect_ns),
            hint_fault: time(&self.hint_fault_ns),
            page_migrate: time(&self.page_migrate_ns),
            thread_start: time(&self.thread_start_ns),
            tick: time(&self.tick_ns),
        }
    }
}

/// Upper bound of addresses without memory, between zones and between nodes.
const MOST_HOLES_MIB: u64 = 16 << 10;

/// Whether serde may leave a value out.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The profile of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The name that `--machine` takes.
    pub name: String,
    /// What the machine is, in a line.
    pub description: String,
    /// The base page size of its kernel, for which costs of pages are given; 4 KiB if left out.
    #[serde(default, rename = "page_size_kib", skip_serializing_if = "is_default")]
    pub page_size: PageSize,
    pub topology: TopologyFigures,
    #[serde(default, skip_serializing_if = "is_default")]
    pub memblock: Memblock,
    pub costs: CostFigures,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paging: Option<PagingFigures>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa: Option<NumaFigures>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<BlockFigures>,
    /// Figures of links that differ from the general ones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<Link, LinkFigures>,
    /// Figures of nodes' memory that differ from the general ones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub memory: BTreeMap<MemoryOf, MemoryFigures>,
    /// Block devices, by the names that scenarios use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub devices: BTreeMap<String, DeviceFigures>,
}

/// An error in a profile. Lines are those of the parsed text, from 1.
#[derive(Debug, Error, PartialEq)]
pub enum ProfileError {
    /// Not TOML, an unknown or missing key, or a value of the wrong type; the text names line and key.
    #[error("{0}")]
    Syntax(String),
    /// A figure whose source is empty.
    #[error(
        "{}{key}: a figure needs a source; say which measurement, baseline row or datasheet {value} comes from",
        at(.line)
    )]
    NoSource { key: String, line: Option<usize>, value: f64 },
    /// A value that no machine can have.
    #[error("{}{wrong}", at(.line))]
    OutOfRange { wrong: WrongValue, line: Option<usize> },
    /// A table of links or memory that does not apply to this machine.
    #[error("{}{key}: {problem}", at(.line))]
    Useless {
        key: String,
        line: Option<usize>,
        /// Why it does not apply, and what would be right.
        problem: String,
    },
}

fn at(line: &Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!("line {line}: "))
}

impl ProfileError {
    /// The same error with its line in `text`.
    fn within(mut self, text: &str) -> ProfileError {
        match &mut self {
            ProfileError::Syntax(_) => {}
            ProfileError::NoSource { key, line, .. }
            | ProfileError::OutOfRange { wrong: WrongValue { key, .. }, line }
            | ProfileError::Useless { key, line, .. } => *line = line_of(text, key),
        }
        self
    }
}

/// The line of a TOML text, from 1, that contains `key` (such as `demand.groups[0].mib`), or else the
/// innermost of its tables.
pub fn line_of(text: &str, key: &str) -> Option<usize> {
    line_of_path(text, key.split('.'))
}

/// The same of a key that is given table by table, whose names may have dots.
pub fn line_of_path<'k>(text: &str, path: impl IntoIterator<Item = &'k str>) -> Option<usize> {
    let document = toml::de::DeTable::parse(text).ok()?;
    let (mut table, mut found) = (Some(document.get_ref()), None);
    for part in path {
        let is_name = table.is_some_and(|table| table.contains_key(part));
        let (name, index) = part.split_once('[').filter(|_| !is_name).unwrap_or((part, ""));
        let Some((name, value)) = table.and_then(|table| table.get_key_value(name)) else { break };
        found = Some(name.span().start);
        let index: Option<usize> = index.trim_end_matches(']').parse().ok();
        let entry = index.and_then(|index| value.get_ref().as_array()?.get(index));
        found = entry.map(|entry| entry.span().start).or(found);
        table = entry.unwrap_or(value).get_ref().as_table();
    }
    Some(1 + text[..found?].matches('\n').count())
}

fn refuse(key: impl Into<String>, value: impl ToString, expected: &'static str) -> Result<(), ProfileError> {
    Err(ProfileError::OutOfRange { wrong: WrongValue::new(key, value, expected), line: None })
}

impl Figure {
    /// Whether it has a source and is a number of the range that it says.
    fn check(&self, key: String) -> Result<(), ProfileError> {
        let &Figure { value, range, .. } = self;
        if self.source.trim().is_empty() {
            return Err(ProfileError::NoSource { key, line: None, value });
        }
        if let Some([low, high]) = range
            && !(0.0 <= low && low <= value && value <= high && high <= 1e9)
        {
            return refuse(key, format!("{value}, range {low} to {high}"), "a value within its range");
        }
        if !(value.is_finite() && (0.0..=1e9).contains(&value)) {
            return refuse(key, value, "a number from 0 to 1e9");
        }
        Ok(())
    }
}

impl TopologyFigures {
    /// Whether there can be a machine of this shape.
    fn check(&self) -> Result<(), ProfileError> {
        if self.source.trim().is_empty() {
            let (key, value) = ("topology.source".into(), f64::from(self.sockets));
            return Err(ProfileError::NoSource { key, line: None, value });
        }
        self.check_cpus()?;
        self.check_nodes()?;
        if self.caches.is_empty() {
            return refuse("topology.caches", "[]", "at least the last-level cache");
        }
        if let Some(cache) = self.caches.iter().find(|cache| !(1..=1 << 24).contains(&cache.kib)) {
            return refuse("topology.caches kib", cache.kib, "1 KiB to 16 GiB");
        }
        Ok(())
    }

    fn check_cpus(&self) -> Result<(), ProfileError> {
        let cpus =
            u64::from(self.sockets) * u64::from(self.cores_per_socket) * u64::from(self.threads_per_core);
        if !(1..=2).contains(&self.threads_per_core) {
            return refuse("topology.threads_per_core", self.threads_per_core, "1 or 2");
        }
        if cpus == 0 || cpus > 8192 {
            let value = format!("{}, of {} sockets", self.cores_per_socket, self.sockets);
            return refuse("topology.cores_per_socket", value, "1 to 8192 logical CPUs of all sockets");
        }
        let is_share = |share: &f64| share.is_finite() && *share > 0.0;
        let is_right = |turns: &TurnShares| {
            turns.busy.len() == turns.shares.len()
                && turns.busy.is_sorted_by(|one, next| one < next)
                && turns.busy.iter().all(|cpu| u64::from(cpu.0) < cpus)
                && turns.shares.iter().all(is_share)
        };
        if let Some(turns) = self.turn_shares.iter().find(|turns| !is_right(turns)) {
            let expected = "busy CPUs in ascending order, and a number above 0 for each";
            return refuse("topology.turn_shares", format!("{turns:?}"), expected);
        }
        Ok(())
    }

    fn check_nodes(&self) -> Result<(), ProfileError> {
        if self.memory_only_nodes >= self.nodes.max(1) {
            let expected = "fewer than topology.nodes, as CPUs need a node";
            return refuse("topology.memory_only_nodes", self.memory_only_nodes, expected);
        }
        if self.nodes > MAX_NODES {
            let expected = "at most 64, as many as a set of nodes can name";
            return refuse("topology.nodes", self.nodes, expected);
        }
        let cores = self.sockets * self.cores_per_socket;
        if self.nodes == 0 || !cores.is_multiple_of(u16::from(self.nodes - self.memory_only_nodes)) {
            let expected = "a divisor of the number of cores, nodes without CPUs apart";
            return refuse("topology.nodes", self.nodes, expected);
        }
        if self.node_distances.len() != usize::from(self.nodes) || !is_distance_table(&self.node_distances) {
            let expected = "one row and one column a node, 10 from each to itself and more to the others";
            return refuse("topology.node_distances", format!("{:?}", self.node_distances), expected);
        }
        if !(64..=1 << 24).contains(&self.memory_mib_per_node)
            || self.memory_mib_per_node * u64::from(self.nodes) + MOST_HOLES_MIB >= 1 << 24
        {
            let expected = "at least 64 MiB, and less than 16 TiB less 16 GiB in all";
            return refuse("topology.memory_mib_per_node", self.memory_mib_per_node, expected);
        }
        Ok(())
    }
}

impl Profile {
    /// Parses and checks a profile.
    pub fn parse(text: &str) -> Result<Profile, ProfileError> {
        let profile: Profile = toml::from_str(text).map_err(|e| ProfileError::Syntax(e.to_string()))?;
        profile.check().map_err(|error| error.within(text))?;
        Ok(profile)
    }

    /// The profile as TOML.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("a profile has only tables, numbers and strings")
    }

    /// Checks that the profile describes a possible machine; [`Profile::parse`] has done so already.
    pub fn check(&self) -> Result<(), ProfileError> {
        self.topology.check()?;
        if let Some((key, value, expected)) = self.memblock.contradiction(self.topology.nodes) {
            return refuse(format!("memblock.{key}"), value, expected);
        }
        self.figures().into_iter().try_for_each(|(key, figure)| figure.check(key))?;
        for (name, device) in &self.devices {
            if let Some((key, value, expected)) = device.contradiction() {
                return refuse(format!("devices.{name}.{key}"), value, expected);
            }
        }
        self.check_rates()?;
        self.check_ways()?;
        if let Some(blocks) = &self.blocks
            && blocks.clear_l2_kib.value < blocks.clear_l1_kib.value
        {
            return refuse("blocks.clear_l2_kib", blocks.clear_l2_kib.value, "at least blocks.clear_l1_kib");
        }
        for (key, factor) in [("smt_slowdown", &self.costs.smt_slowdown), ("speed", &self.costs.speed)] {
            if !(0.05..=20.0).contains(&factor.value) {
                return refuse(format!("costs.{key}"), factor.value, "a factor from 0.05 to 20");
            }
        }
        Ok(())
    }

    /// Whether bytes go anywhere at the rates of memory and links.
    fn check_rates(&self) -> Result<(), ProfileError> {
        let figures = self.figures().into_iter();
        for (key, rate) in figures.filter(|(key, _)| key.ends_with("_gb_per_second")) {
            if rate.value < 1e-3 {
                return refuse(key, rate.value, "at least 0.001");
            }
            if self.numa.is_none() {
                let expected = "a rate is of use only with [numa]; add that, or leave this out";
                return refuse(key, rate.value, expected);
            }
        }
        Ok(())
    }

    /// Checks that tables of links and memory apply to this machine.
    fn check_ways(&self) -> Result<(), ProfileError> {
        let useless = |key: String, problem: String| Err(ProfileError::Useless { key, line: None, problem });
        let topology = self.topology();
        for (link, figures) in &self.links {
            let key = format!("links.{link}");
            if !link.is_of(&topology) {
                return useless(key, link.remedy(&topology));
            }
            if figures.entries().is_empty() {
                let problem = "give memory_line_ns, stream_gb_per_second or link_gb_per_second";
                return useless(key, problem.into());
            }
        }
        for (&MemoryOf(node), figures) in &self.memory {
            let key = format!("memory.{}", MemoryOf(node));
            if node.0 >= topology.nodes {
                let last = MemoryOf(Node(topology.nodes - 1));
                return useless(key, format!("there is no such node; they are node0 to {last}"));
            }
            if figures.entries().is_empty() {
                let problem = "give memory_line_ns, stream_gb_per_second or node_gb_per_second";
                return useless(key, problem.into());
            }
        }
        Ok(())
    }

    /// All figures with their full keys: `costs.page_clear_ns`, `devices.nvme.read_iops_one`.
    pub fn figures(&self) -> Vec<(String, &Figure)> {
        let costs = self.costs.entries().into_iter().map(|(key, figure)| (format!("costs.{key}"), figure));
        let paging = self.paging.iter().flat_map(|paging| paging.entries());
        let paging = paging.map(|(key, figure)| (format!("paging.{key}"), figure));
        let devices = self.devices.iter().flat_map(|(name, device)| {
            device.entries().into_iter().map(move |(key, figure)| (format!("devices.{name}.{key}"), figure))
        });
        let numa = self.numa.iter().flat_map(|numa| numa.entries());
        let numa = numa.map(|(key, figure)| (format!("numa.{key}"), figure));
        let blocks = self.blocks.iter().flat_map(|blocks| blocks.entries());
        let blocks = blocks.map(|(key, figure)| (format!("blocks.{key}"), figure));
        let links = self.links.iter().flat_map(|(link, figures)| {
            figures.entries().into_iter().map(move |(key, figure)| (format!("links.{link}.{key}"), figure))
        });
        let memory = self.memory.iter().flat_map(|(node, figures)| {
            figures.entries().into_iter().map(move |(key, figure)| (format!("memory.{node}.{key}"), figure))
        });
        costs.chain(paging).chain(numa).chain(links).chain(memory).chain(blocks).chain(devices).collect()
    }

    /// The figure with this full key (see [`Profile::figures`]), if the profile has it.
    pub fn figure_mut(&mut self, key: &str) -> Option<&mut Figure> {
        let (table, key) = key.split_once('.')?;
        match table {
            "costs" => self.costs.entry_mut(key),
            "paging" => self.paging.as_mut()?.entry_mut(key),
            "numa" => self.numa.as_mut()?.entry_mut(key),
            "blocks" => self.blocks.as_mut()?.entry_mut(key),
            "links" | "memory" | "devices" => {
                let (name, key) = key.rsplit_once('.')?;
                let name = name.to_string();
                match table {
                    "links" => self.links.get_mut(&name.try_into().ok()?)?.entry_mut(key),
                    "memory" => self.memory.get_mut(&name.try_into().ok()?)?.entry_mut(key),
                    _ => self.devices.get_mut(&name)?.entry_mut(key),
                }
            }
            _ => None,
        }
    }

    /// A new block device of this name, if the machine has one.
    pub fn device(&self, name: &str) -> Option<Device> {
        self.devices.get(name).map(DeviceFigures::device)
    }

    /// The machine as its kernel sees it with `mem=` on the command line: without the memory beyond so many MiB. On a PC that is an
    /// address (`parse_memopt` in arch/x86/kernel/e820.c), on arm64 a size (`memblock_mem_limit_remove_map`).
    pub fn limited_to(&self, mib: u64) -> Profile {
        let mut limited = self.clone();
        let reached = match self.memblock.layout {
            Layout::Pc => mib.min(self.memblock.below_4g_mib) + mib.saturating_sub(FOUR_GIB_MIB),
            Layout::Arm64 => mib,
        };
        limited.topology.memory_mib_per_node = self.topology.memory_mib_per_node.min(reached);
        limited
    }

    /// The topology, for a simulation.
    pub fn topology(&self) -> Topology {
        let t = &self.topology;
        Topology {
            sockets: t.sockets,
            cores_per_socket: t.cores_per_socket,
            threads_per_core: t.threads_per_core,
            nodes: t.nodes,
            memory_only_nodes: t.memory_only_nodes,
            turn_shares: t.turn_shares.clone(),
            node_distances: t.node_distances.clone(),
            caches: t
                .caches
                .iter()
                .map(|c| Cache { level: c.level, bytes: c.kib * 1024, shared_by: c.shared_by })
                .collect(),
        }
    }

    /// The costs, for a simulation.
    pub fn costs(&self) -> Costs {
        let c = &self.costs;
        let time = |figure: &Figure| Time::from_nanoseconds_f64(figure.value);
        Costs {
            line_transfer: [
                Time::ZERO,
                time(&c.line_same_core_ns),
                time(&c.line_same_socket_ns),
                time(&c.line_other_socket_ns),
            ],
            ipi_send: time(&c.ipi_send_ns),
            ipi_trap: if self.topology.virtualized { time(&c.ipi_trap_ns) } else { Time::ZERO },
            ipi_deliver: time(&c.ipi_deliver_ns),
            ipi_receive: time(&c.ipi_receive_ns),
            ipi_wake: time(&c.ipi_wake_ns),
            tlb_flush_all: time(&c.tlb_flush_all_ns),
            tlb_flush_page: time(&c.tlb_flush_page_ns),
            tlb_refill: time(&c.tlb_refill_ns),
            invlpgb: c.invlpgb_ns.as_ref().map(time),
            memory_line: [time(&c.memory_line_ns), time(&c.remote_memory_line_ns)],
            lock_section: time(&c.lock_section_ns),
            list_take: time(&c.list_take_ns),
            list_put: time(&c.list_put_ns),
            list_move: time(&c.list_move_ns),
            take_spread: c.take_spread.value,
            put_spread: c.put_spread.value,
            page_clear: time(&c.page_clear_ns),
            page_copy: time(&c.page_copy_ns),
            page_miss: time(&c.page_miss_ns),
            page_fault: time(&c.page_fault_ns),
            page_unmap: time(&c.page_unmap_ns),
            page_alloc: time(&c.page_alloc_ns),
            page_free: time(&c.page_free_ns),
            struct_page_init: time(&c.struct_page_init_ns),
            boot_struct_page_init: time(
                c.boot_struct_page_init_ns.as_ref().unwrap_or(&c.struct_page_init_ns),
            ),
            struct_page_free: time(&c.struct_page_free_ns),
            pte_write: time(&c.pte_write_ns),
            grace_period: time(&c.grace_period_ns),
            socket_call: time(&c.socket_call_ns),
            smt_slowdown: c.smt_slowdown.value,
            speed: c.speed.value,
            paging: self.paging.as_ref().map(PagingFigures::costs),
            numa: self.numa.as_ref().map(|numa| numa.costs(self.page_size)),
            blocks: self.blocks.as_ref().map(|blocks| blocks.costs(self.page_size)),
            links: self.links.iter().map(|(&link, figures)| (link, figures.costs(self.page_size))).collect(),
            memory: self
                .memory
                .iter()
                .map(|(node, figures)| (node.0, figures.costs(self.page_size)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILAN: &str = include_str!("../../../machines/milan-vm-252.toml");
    const E7: &str = include_str!("../../../machines/e7-8895-8s.toml");
    const TIERED: &str = include_str!("../../../machines/tiered-2n.toml");

    #[test]
    fn sending_traps_only_in_a_virtual_machine() {
        let (milan, e7) = (Profile::parse(MILAN).unwrap(), Profile::parse(E7).unwrap());
        assert_eq!((milan.topology().cpus(), e7.topology().cpus()), (252, 288));
        assert!(milan.topology.virtualized && milan.costs().ipi_trap > Time::ZERO);
        assert!(!e7.topology.virtualized && e7.costs().ipi_trap == Time::ZERO);
    }

    #[test]
    fn what_may_be_missing_is_kept_when_it_is_there() {
        let without = Profile::parse(MILAN).unwrap();
        assert_eq!(without.costs().invlpgb, None);
        let invlpgb = "invlpgb_ns = { value = 500.0, source = \"made up\" }\n\n[blocks]";
        let text = MILAN.replacen("\n[blocks]", invlpgb, 1);
        let with = Profile::parse(&text).unwrap();
        assert_eq!(with.costs().invlpgb, Some(Time::from_nanoseconds(500)));
        assert_eq!(with.costs.entries().len(), without.costs.entries().len() + 1);
        for profile in [with, without] {
            assert_eq!(Profile::parse(&profile.to_toml()), Ok(profile));
        }
        let nameless = text.replace("made up", "");
        assert!(
            matches!(Profile::parse(&nameless), Err(ProfileError::NoSource { key, .. }) if key == "costs.invlpgb_ns")
        );
    }

    #[test]
    fn machines_that_page_have_prices_and_devices() {
        for text in [
            include_str!("../../../machines/epyc-7k62-32g.toml"),
            include_str!("../../../machines/epyc-7k62-vm.toml"),
            include_str!("../../../machines/i7-9700.toml"),
        ] {
            let profile = Profile::parse(text).unwrap();
            assert!(profile.costs().paging.is_some_and(|paging| paging.file_lookup > Time::ZERO));
            for device in ["sata-ssd", "nvme", "ramdisk", "zram"] {
                assert!(profile.device(device).is_some(), "{device}");
            }
        }
    }

    #[test]
    fn machines_of_several_nodes_have_prices_of_their_own() {
        let numa = Profile::parse(include_str!("../../../machines/numa-256.toml")).unwrap();
        let tiered = Profile::parse(TIERED).unwrap();
        assert_eq!((numa.topology().cpus(), tiered.topology().cpus()), (256, 16));
        for profile in [numa, tiered.clone()] {
            let costs = profile.costs().numa();
            assert!(costs.stream_page < costs.remote_stream_page && costs.node_page < costs.stream_page);
            assert_eq!(Profile::parse(&profile.to_toml()), Ok(profile));
        }
        let mut without_rate = tiered.clone();
        without_rate.figure_mut("numa.node_gb_per_second").unwrap().value = 0.0;
        let refused = Profile::parse(&without_rate.to_toml());
        assert!(
            matches!(refused, Err(ProfileError::OutOfRange { wrong, .. }) if wrong.key == "numa.node_gb_per_second")
        );
        let mut crowded = tiered.clone();
        crowded.topology.nodes = MAX_NODES + 1;
        let refused = Profile::parse(&crowded.to_toml()).unwrap_err().to_string();
        assert_eq!(refused, "line 10: topology.nodes = 65: at most 64, as many as a set of nodes can name");
        let mut without_cpus = tiered;
        without_cpus.topology.memory_only_nodes = 2;
        assert!(Profile::parse(&without_cpus.to_toml()).is_err());
    }

    #[test]
    fn a_device_is_a_table_of_its_own() {
        let text = format!(
            "{MILAN}[devices.swap]\nkind = \"ramdisk\"\ncopy_ns = {{ value = 412.5, source = \"made up\" }}\n"
        );
        let mut profile = Profile::parse(&text).unwrap();
        assert_eq!(Profile::parse(&profile.to_toml()), Ok(profile.clone()));
        assert!(profile.device("swap").is_some() && profile.device("sata-ssd").is_none());
        assert_eq!(profile.figures().last().unwrap().0, "devices.swap.copy_ns");
        let keys: Vec<String> = profile.figures().into_iter().map(|(key, _)| key).collect();
        for key in keys {
            profile.figure_mut(&key).unwrap().source.clear();
            let refused = Profile::parse(&profile.to_toml());
            assert!(matches!(refused, Err(ProfileError::NoSource { key: named, .. }) if named == key));
            profile.figure_mut(&key).unwrap().source = "made up".into();
        }
        assert!(Profile::parse(&text.replace("copy_ns", "copy_us")).is_err());
        let refused = Profile::parse(&text.replace("412.5", "0.0"));
        assert!(
            matches!(refused, Err(ProfileError::OutOfRange { wrong, .. }) if wrong.key == "devices.swap.copy_ns")
        );
    }

    #[test]
    fn distances_are_those_that_firmware_may_give() {
        let with = |distances: &str| {
            let right = "[[10, 20], [20, 10]]";
            assert!(TIERED.contains(right));
            Profile::parse(&TIERED.replace(right, distances)).map(|_| ())
        };
        assert_eq!(with("[[10, 11], [255, 10]]"), Ok(()));
        for wrong in ["[[10, 20]]", "[[10, 20], [20]]", "[[11, 20], [20, 10]]", "[[10, 10], [20, 10]]", "[]"]
        {
            let refused = with(wrong);
            assert!(
                matches!(&refused, Err(ProfileError::OutOfRange { wrong, line: Some(11) }) if wrong.key == "topology.node_distances"),
                "{wrong}: {refused:?}"
            );
        }
    }

    #[test]
    fn distances_are_the_same_both_ways() {
        let distances = Profile::parse(E7).unwrap().topology.node_distances;
        for (a, row) in distances.iter().enumerate() {
            assert_eq!(row[a], 10);
            assert_eq!(row.iter().filter(|&&distance| distance == 21).count(), 3, "three links a socket");
            for (b, &there) in row.iter().enumerate() {
                assert_eq!(there, distances[b][a]);
            }
        }
    }
}
