//! Which functions can be taken from a tree, where they are, what can be given to them, and where `mm` asks them.
//!
//! A new decision is an entry in [`DECISIONS`], a shim in the mechanism's file in `c/`, and a [`mm::decisions::Rule`] that `mm` asks.

use mm::Decisions;
use mm::decisions::{Flat, PcpState, PcpZoneState, Rule, WatermarkState};
use std::fmt;

/// A function of the kernel that decides something.
pub struct Decision {
    /// Its name in the kernel.
    pub name: &'static str,
    /// The file that it is in.
    pub file: &'static str,
    /// Other files in which what it needs may be.
    pub others: &'static [&'static str],
    /// The header in `c/` that belongs to it.
    pub header: &'static str,
    /// What its shim can give: type and name.
    pub parameters: &'static [(&'static str, &'static str)],
    /// Types of the answer that its shim understands.
    pub answers: &'static [&'static str],
    /// Where it goes.
    pub slot: Slot,
}

/// Where a decision goes in [`Decisions`], by the record that it is asked with.
pub enum Slot {
    /// A pageset.
    Pcp(fn(&mut Decisions) -> &mut Rule<PcpState>),
    /// A zone's pagesets.
    PcpZone(fn(&mut Decisions) -> &mut Rule<PcpZoneState>),
    /// All zones.
    Watermarks(fn(&mut Decisions) -> &mut Rule<WatermarkState>),
}

/// A file of `c/`.
pub struct CFile {
    /// Its name.
    pub name: &'static str,
    /// What is in it.
    pub text: &'static str,
}

macro_rules! c_files {
    ($($name:literal),* $(,)?) => {
        &[$(CFile { name: $name, text: include_str!(concat!("../c/", $name)) }),*]
    };
}

/// The headers, in the order in which they are included.
pub const HEADERS: &[CFile] = c_files!["mmtwin.h", "pcp.h", "watermarks.h"];
/// The shims between records and the kernel's structures.
pub const SHIMS: &[CFile] = c_files!["pcp.c", "watermarks.c"];

/// The records, as C declares them.
pub fn records() -> String {
    [record::<PcpState>(), record::<PcpZoneState>(), record::<WatermarkState>()].concat()
}

fn record<S: Flat>() -> String {
    let field = |field: &mm::decisions::Field| match field.elements {
        None => format!("\t{} {};\n", field.c_type, field.name),
        Some(elements) => format!("\t{} {}[{elements}];\n", field.c_type, field.name),
    };
    format!("struct {} {{\n{}}};\n", S::TAG, S::FIELDS.iter().map(field).collect::<String>())
}

const ALLOCATOR: &str = "mm/page_alloc.c";
const ZONES: &[&str] = &["include/linux/mmzone.h", "mm/internal.h"];
const OF_PAGESET: &[(&str, &str)] = &[
    ("struct per_cpu_pages *", "pcp"),
    ("struct zone *", "zone"),
    ("struct page *", "page"),
    ("int", "batch"),
    ("int", "high"),
    ("bool", "free_high"),
    ("int", "order"),
    ("unsigned int", "order"),
    ("int", "migratetype"),
];
const OF_ZONE: &[(&str, &str)] =
    &[("struct zone *", "zone"), ("int", "batch"), ("int", "cpu_online"), ("int", "high_fraction")];

const fn of_pageset(
    name: &'static str,
    answers: &'static [&'static str],
    rule: fn(&mut Decisions) -> &mut Rule<PcpState>,
) -> Decision {
    Decision {
        name,
        file: ALLOCATOR,
        others: ZONES,
        header: "pcp.h",
        parameters: OF_PAGESET,
        answers,
        slot: Slot::Pcp(rule),
    }
}

const fn of_zone(name: &'static str, rule: fn(&mut Decisions) -> &mut Rule<PcpZoneState>) -> Decision {
    Decision {
        name,
        file: ALLOCATOR,
        others: ZONES,
        header: "pcp.h",
        parameters: OF_ZONE,
        answers: &["int"],
        slot: Slot::PcpZone(rule),
    }
}

/// All functions that can be taken from a tree.
pub static DECISIONS: &[Decision] = &[
    of_pageset("nr_pcp_alloc", &["int"], |d| &mut d.pcp.nr_pcp_alloc),
    of_pageset("nr_pcp_high", &["int"], |d| &mut d.pcp.nr_pcp_high),
    of_pageset("nr_pcp_free", &["int"], |d| &mut d.pcp.nr_pcp_free),
    of_pageset("decay_pcp_high", &["bool", "int"], |d| &mut d.pcp.decay_pcp_high),
    of_pageset("free_unref_page_commit", &["void"], |d| &mut d.pcp.free_unref_page_commit),
    of_zone("zone_batchsize", |d| &mut d.pcp.zone_batchsize),
    of_zone("zone_highsize", |d| &mut d.pcp.zone_highsize),
    Decision {
        name: "__setup_per_zone_wmarks",
        file: ALLOCATOR,
        others: ZONES,
        header: "watermarks.h",
        parameters: &[],
        answers: &["void"],
        slot: Slot::Watermarks(|d| &mut d.watermarks),
    },
];

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Decision {
    /// Its file and the others in which what it needs may be.
    pub fn files(&self) -> impl Iterator<Item = &'static str> {
        [self.file].into_iter().chain(self.others.iter().copied())
    }

    /// The decision of that name.
    pub fn named(name: &str) -> Option<&'static Decision> {
        DECISIONS.iter().find(|decision| decision.name == name)
    }
}
