//! `/proc/zoneinfo`: zones with their watermarks and per-CPU lists, and nodes with their counters.
//!
//! ```text
//!   Node 0, zone      DMA
//!     per-node stats                 only in the first zone of a node that has memory
//!         nr_inactive_anon 1036
//!     pages free     3840
//!           min      40              promo: not in 6.1
//!           protection: (0, 3019, 6219, 6219, 6219)
//!         nr_free_pages 3840
//!     pagesets                       from here on only in zones that have memory
//!       cpu: 0
//!                 count:    0
//!                 high_min: 25       high_min and high_max: not in 6.12
//!     vm stats threshold: 4
//!     start_pfn:           1
//! ```

use std::collections::BTreeMap;

use machine::memblock::ZoneSpan;
use machine::{Node, ZoneType};

use super::{ProcError, node_and_zone, number, numbers};

const FILE: &str = "/proc/zoneinfo";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ZoneInfo {
    /// The counters of each node, by name.
    pub nodes: BTreeMap<u16, BTreeMap<String, u64>>,
    /// The zones in the order of the file, including those without memory.
    pub zones: Vec<Zone>,
}

/// One zone. All sizes are in pages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Zone {
    pub node: u16,
    pub name: String,
    /// Free pages on the buddy lists.
    pub free: u64,
    /// How much the watermarks are raised at the moment (`watermark_boost`), after a fallback to another
    /// migratetype.
    pub boost: u64,
    /// The watermarks, including the boost. Below `min` only privileged allocations succeed;
    pub min: u64,
    /// below `low` kswapd is woken;
    pub low: u64,
    /// at `high` kswapd goes back to sleep;
    pub high: u64,
    /// at `promo` it does so if NUMA balancing promotes pages (`None` if the kernel does not print it, as in
    /// 6.1).
    pub promo: Option<u64>,
    /// Page frames from the first to the last one, including holes.
    pub spanned: u64,
    /// Page frames that exist.
    pub present: u64,
    /// Pages that the buddy allocator manages.
    pub managed: u64,
    /// Pages reserved against allocations that could have used a higher zone, indexed by that zone
    /// (`lowmem_reserve`).
    pub protection: Vec<u64>,
    /// First page frame; `None` if the zone has no memory.
    pub start_pfn: Option<u64>,
    /// The other counters of the zone, by the kernel's name.
    pub counters: BTreeMap<String, u64>,
    /// The per-CPU lists; empty if the zone has no memory.
    pub pagesets: Vec<Pageset>,
}

/// The per-CPU page lists of a zone (`struct per_cpu_pages`). All sizes are in pages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pageset {
    pub cpu: u16,
    /// Pages on the lists.
    pub count: u64,
    /// The lists are drained when they have more than this.
    pub high: u64,
    /// Number of pages moved to or from the buddy lists at a time.
    pub batch: u64,
    /// Lower limit of the auto-tuned `high` (`None` if the kernel does not print it, as in 6.12).
    pub high_min: Option<u64>,
    /// Upper limit of the auto-tuned `high` (`None` if the kernel does not print it, as in 6.12).
    pub high_max: Option<u64>,
    /// How much a counter may change on this CPU before the zone's counter is updated (`vm stats threshold`).
    pub stat_threshold: Option<u64>,
}

impl ZoneInfo {
    pub fn populated(&self) -> impl Iterator<Item = &Zone> {
        self.zones.iter().filter(|zone| zone.present > 0)
    }

    /// The physical ranges of these zones, by node and address, without ZONE_DEVICE, which the allocator does
    /// not manage.
    pub fn spans(&self) -> Vec<ZoneSpan> {
        let spans = self.populated().filter_map(|zone| {
            Some(ZoneSpan {
                node: Node(zone.node.try_into().ok()?),
                zone: ZoneType::ALL.into_iter().find(|kind| kind.name() == zone.name)?,
                start_pfn: zone.start_pfn?.try_into().ok()?,
                spanned: zone.spanned.try_into().ok()?,
                present: zone.present.try_into().ok()?,
                managed: zone.managed.try_into().ok()?,
            })
        });
        spans.collect()
    }
}

/// What the current lines of the file belong to.
#[derive(Clone, Copy, PartialEq)]
enum Section {
    Node,
    Zone,
    Pagesets,
}

/// The numbers of one zone read so far, by name.
struct ZoneLines {
    line: usize,
    node: u16,
    name: String,
    section: Section,
    numbers: BTreeMap<String, u64>,
    protection: Vec<u64>,
    pagesets: Vec<(usize, BTreeMap<String, u64>)>,
}

pub fn parse_zoneinfo(text: &str) -> Result<ZoneInfo, ProcError> {
    let mut info = ZoneInfo::default();
    let mut zone: Option<ZoneLines> = None;
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        let error = |problem| ProcError { file: FILE, line: line_number, problem };
        if line.starts_with("Node") {
            let (node, name, _) = node_and_zone(line).map_err(error)?;
            if let Some(zone) = zone.replace(ZoneLines::new(line_number, node, name)) {
                info.zones.push(zone.finish()?);
            }
        } else if let Some(zone) = &mut zone {
            zone.read(line_number, line.trim(), &mut info.nodes).map_err(error)?;
        } else {
            return Err(error(format!("expected `Node N, zone NAME`, found `{line}`")));
        }
    }
    if let Some(zone) = zone {
        info.zones.push(zone.finish()?);
    }
    Ok(info)
}

impl ZoneLines {
    fn new(line: usize, node: u16, name: String) -> ZoneLines {
        let (numbers, protection, pagesets) = Default::default();
        ZoneLines { line, node, name, section: Section::Zone, numbers, protection, pagesets }
    }

    fn read(
        &mut self,
        line_number: usize,
        line: &str,
        nodes: &mut BTreeMap<u16, BTreeMap<String, u64>>,
    ) -> Result<(), String> {
        match line {
            "per-node stats" => {
                self.section = Section::Node;
                return Ok(());
            }
            "pagesets" => {
                self.section = Section::Pagesets;
                return Ok(());
            }
            _ => {}
        }
        if let Some(list) = line.strip_prefix("protection:") {
            let list = list.trim().trim_start_matches('(').trim_end_matches(')');
            self.protection = numbers(list.split(',').map(str::trim))?;
            return Ok(());
        }
        let (key, value) = line
            .rsplit_once(char::is_whitespace)
            .ok_or_else(|| format!("expected a name and a number, found `{line}`"))?;
        let (key, value) = (key.trim().trim_end_matches(':'), number(value)?);
        if key == "pages free" {
            self.section = Section::Zone;
        }
        match (self.section, key) {
            (Section::Node, _) => {
                nodes.entry(self.node).or_default().insert(key.to_string(), value);
            }
            (Section::Zone, _) | (_, "node_unreclaimable" | "start_pfn") => {
                self.numbers.insert(key.to_string(), value);
            }
            (Section::Pagesets, "cpu") => {
                self.pagesets.push((line_number, BTreeMap::from([("cpu".to_string(), value)])));
            }
            (Section::Pagesets, _) => {
                let (_, pageset) = self.pagesets.last_mut().ok_or("expected `cpu: N` first")?;
                pageset.insert(key.to_string(), value);
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Zone, ProcError> {
        let mut pagesets = Vec::new();
        for (line, numbers) in std::mem::take(&mut self.pagesets) {
            let missing = |problem| ProcError { file: FILE, line, problem };
            let need = |key: &str| {
                numbers.get(key).copied().ok_or_else(|| missing(format!("this CPU has no `{key}`")))
            };
            let cpu = need("cpu")?;
            pagesets.push(Pageset {
                cpu: u16::try_from(cpu).map_err(|_| missing(format!("CPU {cpu}; at most 65535")))?,
                count: need("count")?,
                high: need("high")?,
                batch: need("batch")?,
                high_min: numbers.get("high_min").copied(),
                high_max: numbers.get("high_max").copied(),
                stat_threshold: numbers.get("vm stats threshold").copied(),
            });
        }
        let mut need = |key: &str| {
            let (name, line) = (&self.name, self.line);
            self.numbers.remove(key).ok_or_else(|| ProcError {
                file: FILE,
                line,
                problem: format!("zone {name} has no `{key}`"),
            })
        };
        let zone = Zone {
            node: self.node,
            name: self.name.clone(),
            free: need("pages free")?,
            boost: need("boost")?,
            min: need("min")?,
            low: need("low")?,
            high: need("high")?,
            spanned: need("spanned")?,
            present: need("present")?,
            managed: need("managed")?,
            promo: need("promo").ok(),
            start_pfn: need("start_pfn").ok(),
            protection: self.protection,
            pagesets,
            counters: BTreeMap::new(),
        };
        Ok(Zone { counters: self.numbers, ..zone })
    }
}
