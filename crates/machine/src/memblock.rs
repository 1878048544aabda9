//! Physical memory layout of a machine, and what is reserved before a page allocator gets the rest.
//!
//! ```text
//!   pc      0   16 MiB            below_4g_mib       4 GiB
//!           │DMA│ DMA32 ..........│ no memory        │ Normal ................... │ next node ...
//!           ×     kernel        ××  firmware_kib     │                     tables, struct pages
//!           first MiB reserved
//!
//!   arm64       2 GiB                                4 GiB
//!   no memory   │ DMA .............................. │ Normal ................... │ next node ...
//! ```
//!
//! In the kernel: mm/memblock.c (`memblock.memory` and `memblock.reserved`), arch/x86/kernel/setup.c
//! (reserves the first MiB since 5.13), mm/mm_init.c (`alloc_large_system_hash`).

use crate::topology::Node;
use serde::{Deserialize, Serialize};

/// Types of zones, lowest first (`enum zone_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(usize)]
pub enum ZoneType {
    /// For devices with limited addressing: the first 16 MiB on a PC, memory below 4 GiB on arm64.
    #[serde(rename = "DMA")]
    Dma = 0,
    /// On a PC, memory up to 4 GiB.
    #[serde(rename = "DMA32")]
    Dma32 = 1,
    /// All memory above.
    Normal = 2,
    /// Memory for movable allocations only.
    Movable = 3,
}

impl ZoneType {
    /// Number of zone types.
    pub const COUNT: usize = 4;
    /// All zone types, lowest first.
    pub const ALL: [ZoneType; 4] = [ZoneType::Dma, ZoneType::Dma32, ZoneType::Normal, ZoneType::Movable];

    /// The name in /proc/zoneinfo.
    pub fn name(self) -> &'static str {
        ["DMA", "DMA32", "Normal", "Movable"][self as usize]
    }
}

/// A family of physical address maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// x86-64: memory from address 0 on, with a hole for devices (PCI) below 4 GiB.
    #[default]
    Pc,
    /// arm64 servers: memory from 2 GiB on.
    Arm64,
}

impl Layout {
    /// Address of the first memory, MiB.
    pub fn start_mib(self) -> u64 {
        match self {
            Layout::Pc => 0,
            Layout::Arm64 => 2048,
        }
    }

    /// Zones below the last one, and their end in MiB.
    pub fn lower_zones(self) -> &'static [(ZoneType, u64)] {
        match self {
            Layout::Pc => &[(ZoneType::Dma, 16), (ZoneType::Dma32, FOUR_GIB_MIB)],
            Layout::Arm64 => &[(ZoneType::Dma, FOUR_GIB_MIB)],
        }
    }
}

/// 4 GiB in MiB, where memory continues above the hole for devices.
pub const FOUR_GIB_MIB: u64 = 4096;

/// One zone of a machine whose /proc/zoneinfo is known, in pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneSpan {
    pub node: Node,
    pub zone: ZoneType,
    /// First page frame number.
    pub start_pfn: u32,
    /// Pages from the first to the last, holes included.
    pub spanned: u32,
    /// Number of spanned pages that exist.
    pub present: u32,
    /// Number of present pages that the page allocator was given.
    pub managed: u32,
}

/// The table `[memblock]` of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Memblock {
    /// Where these numbers come from.
    pub source: String,
    pub layout: Layout,
    /// Memory below 4 GiB on a machine that has more, MiB.
    pub below_4g_mib: u64,
    /// What firmware reserves at the end of that, KiB.
    pub firmware_kib: u64,
    /// What the kernel's text and data and its early allocations reserve of the first node, MiB.
    pub kernel_mib: u64,
    /// The zones as /proc/zoneinfo shows them; empty if they are computed from the rest.
    pub zones: Vec<ZoneSpan>,
}

impl Default for Memblock {
    /// A server.
    fn default() -> Memblock {
        Memblock {
            source: "assumption: devices have the addresses from 2 to 4 GiB; kernel_mib from /proc/zoneinfo of Debian's 6.12.95 in QEMU (31 with 6.1, 38 with 6.18)".into(),
            layout: Layout::Pc,
            below_4g_mib: 2048,
            firmware_kib: 0,
            kernel_mib: 36,
            zones: Vec::new(),
        }
    }
}

impl Memblock {
    /// Checks the table for a machine with `nodes` nodes. Returns a wrong key, its value, and what is
    /// expected.
    pub(crate) fn contradiction(&self, nodes: u8) -> Option<(String, String, &'static str)> {
        let wrong = |key: &str, value: u64, expected| Some((key.into(), value.to_string(), expected));
        if self.source.trim().is_empty() {
            return Some(("source".into(), "\"\"".into(), "where these numbers come from"));
        }
        let room = FOUR_GIB_MIB - self.layout.start_mib();
        if !(64..=room).contains(&self.below_4g_mib) {
            return wrong(
                "below_4g_mib",
                self.below_4g_mib,
                "at least 64, and no more than fits below 4 GiB",
            );
        }
        if self.firmware_kib > self.below_4g_mib << 9 {
            return wrong("firmware_kib", self.firmware_kib, "at most half of what is below 4 GiB");
        }
        if self.kernel_mib > 1024 {
            return wrong("kernel_mib", self.kernel_mib, "at most 1024");
        }
        let (mut end, mut previous) = (0, Node(0));
        for (at, zone) in self.zones.iter().enumerate() {
            let key = |name: &str| format!("zones[{at}].{name}");
            let beyond = zone.start_pfn.checked_add(zone.spanned);
            if zone.start_pfn < end
                || zone.node < previous
                || zone.node.0 > previous.0 + 1
                || beyond.is_none()
            {
                return wrong(
                    &key("start_pfn"),
                    zone.start_pfn.into(),
                    "zones by node and address, none within another",
                );
            }
            if !(1..=zone.present).contains(&zone.managed) || zone.present > zone.spanned {
                return wrong(
                    &key("managed"),
                    zone.managed.into(),
                    "from 1 to present, which is at most spanned",
                );
            }
            (end, previous) = (beyond?, zone.node);
        }
        let known = self.zones.last().map(|zone| u16::from(zone.node.0) + 1);
        if known.is_some_and(|known| known != u16::from(nodes)) {
            return wrong(
                "zones, nodes in all",
                known?.into(),
                "as many nodes as the machine has, each with one zone at least",
            );
        }
        None
    }
}
