//! Two moments of a machine, parsed, and what happened between them.
//!
//! ```text
//!   Samples ── proc::parse_* ──► State (begin), ZoneInfo ..., State (end) ──► rates, shares, states by sample
//! ```
//!
//! A file that does not parse is a file that is not there, with the parser's words kept: the rest of a diagnosis goes on.

use std::collections::BTreeMap;

use crate::proc::{
    FreeBlocks, ProcError, SwapArea, Zone, ZoneInfo, parse_buddyinfo, parse_meminfo, parse_pressure,
    parse_swaps, parse_vmstat, parse_zoneinfo,
};
use crate::snapshot::chosen;

use super::files::Files;
use super::saved::{Moment, Samples};

/// Zones with less of the memory than this part say nothing about the machine, such as DMA.
const SMALL_ZONE: u64 = 16;
/// Characters of what a parser says.
const LONGEST_PROBLEM: usize = 120;

/// The files of one moment, parsed.
#[derive(Debug, Default)]
pub struct State {
    pub files: Files,
    pub vmstat: BTreeMap<String, u64>,
    pub meminfo: BTreeMap<String, u64>,
    pub zoneinfo: ZoneInfo,
    pub buddyinfo: Vec<FreeBlocks>,
    pub swaps: Vec<SwapArea>,
    pub memory_pressure: BTreeMap<String, u64>,
    pub io_pressure: BTreeMap<String, u64>,
    /// Paths that did not parse, with the reason.
    pub damaged: BTreeMap<String, String>,
}

impl State {
    fn new(files: &Files) -> State {
        let mut state = State { files: files.clone(), ..State::default() };
        state.vmstat = state.parsed("proc/vmstat", parse_vmstat);
        state.meminfo = state.parsed("proc/meminfo", parse_meminfo);
        state.zoneinfo = state.parsed("proc/zoneinfo", parse_zoneinfo);
        state.buddyinfo = state.parsed("proc/buddyinfo", parse_buddyinfo);
        state.swaps = state.parsed("proc/swaps", parse_swaps);
        state.memory_pressure = state.parsed("proc/pressure/memory", parse_pressure);
        state.io_pressure = state.parsed("proc/pressure/io", parse_pressure);
        state
    }

    fn parsed<T: Default>(&mut self, path: &str, parse: fn(&str) -> Result<T, ProcError>) -> T {
        let Some(text) = self.files.texts.get(path) else { return T::default() };
        parse(text).unwrap_or_else(|error| {
            self.damaged.insert(path.into(), shortened(&error.to_string()));
            T::default()
        })
    }
}

/// A parser's words, which name what was found: of a damaged file that may be long.
fn shortened(words: &str) -> String {
    match words.char_indices().nth(LONGEST_PROBLEM) {
        Some((end, _)) => format!("{}...", &words[..end]),
        None => words.into(),
    }
}

/// What is known of a memory cgroup.
#[derive(Debug, Default)]
pub struct Cgroup {
    /// Path below the mount point; `/` is the root.
    pub path: String,
    /// How often it was at its limit, tried above its high limit, found nothing to reclaim at its limit, and lost a process, in the
    /// window. A process is lost to the limit of this group or of one below or above it, or because the machine had no memory.
    pub at_max: u64,
    pub above_high: u64,
    pub ooms: u64,
    pub oom_kills: u64,
    /// The part of the time that all of its tasks waited for memory, if the kernel says so.
    pub full_pressure: Option<f64>,
    /// Bytes that it uses, and may use.
    pub limit: Option<(u64, u64)>,
}

/// A machine between two moments.
#[derive(Debug, Default)]
pub struct Window {
    pub seconds: f64,
    pub begin: State,
    pub end: State,
    /// The zones at each moment, the first and the last included.
    pub zones: Vec<ZoneInfo>,
    /// The memory cgroups, of either version.
    pub cgroups: Vec<Cgroup>,
}

impl Window {
    pub fn new(samples: &Samples) -> Window {
        let (begin, end) = (State::new(&samples.begin.files), State::new(&samples.end.files));
        let zones = |moment: &Moment| parse_zoneinfo(moment.files.texts.get("proc/zoneinfo")?).ok();
        let moments = [&samples.begin].into_iter().chain(&samples.between).chain([&samples.end]);
        let zones = moments.filter_map(zones).filter(|zones| !zones.zones.is_empty()).collect();
        let seconds = samples.end.seconds - samples.begin.seconds;
        let mut window = Window { seconds, begin, end, zones, cgroups: Vec::new() };
        window.cgroups = window.find_cgroups();
        window
    }

    /// The release of the kernel, as `uname -r` has it.
    pub fn kernel(&self) -> &str {
        self.end.files.text("proc/sys/kernel/osrelease").unwrap_or_default()
    }

    /// How much the sum of those of these counters that the kernel has grew; none if it has none of them. A counter that fell, because
    /// a CPU or node went away, did not grow.
    pub fn growth(&self, counters: &[&str]) -> Option<f64> {
        let grown = |name: &&str| {
            let (begin, end) = (self.begin.vmstat.get(*name)?, self.end.vmstat.get(*name)?);
            Some(end.saturating_sub(*begin) as f64)
        };
        let grown: Vec<f64> = counters.iter().filter_map(grown).collect();
        (!grown.is_empty()).then(|| grown.iter().sum())
    }

    /// The same by second.
    pub fn rate(&self, counters: &[&str]) -> Option<f64> {
        Some(self.growth(counters)? / self.seconds)
    }

    /// The growth of all counters whose names begin so, by second.
    pub fn rate_of_all(&self, prefix: &str) -> Option<f64> {
        let range = self.end.vmstat.range(prefix.to_string()..);
        let names: Vec<&str> =
            range.map(|(name, _)| name.as_str()).take_while(|name| name.starts_with(prefix)).collect();
        self.rate(&names)
    }

    /// Which part, in percent, the growth of `part` is of that of `part` and `rest`; none if nothing grew.
    pub fn share(&self, part: &[&str], rest: &[&str]) -> Option<f64> {
        let part = self.growth(part)?;
        percent(part, part + self.growth(rest)?)
    }

    /// A counter of vmstat at the end.
    pub fn counter(&self, name: &str) -> Option<f64> {
        self.end.vmstat.get(name).map(|value| *value as f64)
    }

    /// An amount of meminfo at the end, in MiB.
    pub fn mib(&self, name: &str) -> Option<f64> {
        self.end.meminfo.get(name).map(|kib| *kib as f64 / 1024.0)
    }

    /// The number in a file at the end.
    pub fn number(&self, path: &str) -> Option<f64> {
        let text = self.end.files.text(path)?;
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok().map(|number| number as f64),
            None => text.parse::<u64>().ok().map(|number| number as f64),
        }
    }

    /// The word in a file at the end: the one in brackets where all are listed.
    pub fn word(&self, path: &str) -> Option<String> {
        self.end.files.text(path).map(|text| chosen(text).to_string())
    }

    /// The sum of a file of all pools of huge pages, each multiplied by what `of` says of a page of so many KiB.
    pub fn of_pools(&self, file: &str, of: impl Fn(u64) -> f64) -> Option<f64> {
        let end = format!("kB/{file}");
        let pools = self.end.files.between("sys/kernel/mm/hugepages/hugepages-", &end);
        let sizes: Vec<f64> = pools
            .filter_map(|(kib, pages)| Some(pages.parse::<u64>().ok()? as f64 * of(kib.parse().ok()?)))
            .collect();
        (!sizes.is_empty()).then(|| sizes.iter().sum())
    }

    /// How much a statistic of folios grew: of each size, in KiB.
    pub fn growth_by_size(&self, statistic: &str) -> Vec<(u64, f64)> {
        const BEGIN: &str = "sys/kernel/mm/transparent_hugepage/hugepages-";
        let end = format!("kB/stats/{statistic}");
        let at_end = self.end.files.between(BEGIN, &end);
        let grown = at_end.filter_map(|(size, count)| {
            let path = format!("{BEGIN}{size}{end}");
            let before: u64 = self.begin.files.text(&path)?.parse().ok()?;
            let count: u64 = count.parse().ok()?;
            Some((size.parse().ok()?, count.saturating_sub(before) as f64))
        });
        grown.collect()
    }

    /// The part of the window, in percent, that tasks waited.
    pub fn pressure(&self, of: fn(&State) -> &BTreeMap<String, u64>, line: &str) -> Option<f64> {
        let (begin, end) = (of(&self.begin).get(line)?, of(&self.end).get(line)?);
        percent(end.saturating_sub(*begin) as f64 * 1e-6, self.seconds)
    }

    fn find_cgroups(&self) -> Vec<Cgroup> {
        const ROOT: &str = "sys/fs/cgroup";
        let paths = self.end.files.texts.keys().filter_map(|path| {
            let (directory, file) = path.strip_prefix(ROOT)?.rsplit_once('/')?;
            ["memory.events", "memory.failcnt"].contains(&file).then_some(directory)
        });
        paths.map(|path| self.cgroup(&format!("{ROOT}{path}"), path)).collect()
    }

    fn cgroup(&self, directory: &str, path: &str) -> Cgroup {
        let file =
            |state: &State, name: &str| state.files.text(&format!("{directory}/{name}")).map(str::to_string);
        let event = |state: &State, name: &str| {
            let events = parse_vmstat(&file(state, "memory.events")?).ok()?;
            events.get(name).copied()
        };
        let grown = |of: &dyn Fn(&State) -> Option<u64>| {
            of(&self.end).unwrap_or(0).saturating_sub(of(&self.begin).unwrap_or(0))
        };
        // A group that came into being in the window has counted from zero.
        let failures = |state: &State| file(state, "memory.failcnt").and_then(|count| count.parse().ok());
        let stalled =
            |state: &State| parse_pressure(&file(state, "memory.pressure")?).ok()?.get("full").copied();
        let number = |name: &str| file(&self.end, name).and_then(|text| text.parse::<u64>().ok());
        let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"));
        let limit = number("memory.max").or_else(|| number("memory.limit_in_bytes"));
        Cgroup {
            path: if path.is_empty() { "/".into() } else { path.into() },
            at_max: grown(&|state| event(state, "max").or_else(|| failures(state))),
            above_high: grown(&|state| event(state, "high")),
            ooms: grown(&|state| event(state, "oom")),
            oom_kills: grown(&|state| event(state, "oom_kill")),
            full_pressure: stalled(&self.end)
                .and_then(|_| percent(grown(&stalled) as f64 * 1e-6, self.seconds)),
            limit: used.zip(limit),
        }
    }
}

/// Zones that are more than a small part of the memory.
pub fn large_zones(zones: &ZoneInfo) -> impl Iterator<Item = &Zone> {
    let all: u64 = zones.zones.iter().fold(0, |sum, zone| sum.saturating_add(zone.managed));
    zones.populated().filter(move |zone| zone.managed > all / SMALL_ZONE)
}

/// Which part `part` is of `whole`; none of nothing.
pub fn percent(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| 100.0 * part / whole)
}
