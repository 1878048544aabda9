//! Settings under their kernel names, with the kernel's defaults, bounds and errors.
//!
//! ```text
//!   declarations.rs   one line a setting ─┬─► Settings::set     checks, and what an error says that it takes
//!                                         ├─► Setting::show     files of /sys
//!                                         ├─► mmtwin list settings, --json, completion of --set
//!                                         ├─► docs/src/reference/names.md
//!                                         └─► which programs heed it (lab), what a search may try
//!   values.rs         the values, with the defaults
//! ```
//!
//! A setting is declared once, in [`SETTINGS`]: what kind of value it takes between which bounds, in which unit, on which scale,
//! which kernel brought it and how that is known, and which part of the memory manager reads it. Bounds that depend on the size
//! of a base page are a [`Limit`], not a number.

mod declarations;
mod values;

use crate::address_space::huge_memory::features::ThpFiles;
use crate::address_space::huge_memory::settings::{Mode, ThpSettings};
use crate::file_name::{TRIGGERS, is_trigger, short};
use crate::series::Known;
use machine::{PageSize, WrongValue};
use strsim::jaro_winkler;
use thiserror::Error;

pub use declarations::{MIN_PERCPU_PAGELIST_HIGH_FRACTION, SETTINGS};
pub use values::{DirtySettings, LruGenSettings, NumaSettings, Settings};

/// A setting that can be given as `--set NAME=VALUE`.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The kernel's name: of a sysctl, of a file below a directory of /sys or debugfs, or of a boot parameter.
    pub name: &'static str,
    /// Which values the kernel takes.
    pub kind: Kind,
    /// What a number counts.
    pub unit: Unit,
    /// How values that differ in effect are spaced.
    pub scale: Scale,
    /// Which kernel brought it.
    pub since: Since,
    /// Which part of the memory manager reads it.
    pub acts_on: Subsystem,
    /// What it does, in a line.
    pub description: &'static str,
    /// Whether it is a parameter of the kernel's command line: there at boot, and no file of a running kernel changes it.
    of_command_line: bool,
    place: Place,
}

/// Which values a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number from `least` to `most`. What some numbers mean is in `special`; they may lie out of these bounds.
    Integer { least: Limit, most: Limit, special: &'static [(u64, &'static str)] },
    /// A power of two from `least` to `most`.
    PowerOfTwo { least: Limit, most: Limit },
    /// A sum of bits, each with what it switches on; `zero` is what a sum of none means.
    Bits { zero: &'static str, bits: &'static [(u64, &'static str)] },
    /// One of some words, in the order in which the file shows them.
    Choice(&'static [&'static str]),
    /// As many numbers as there are names here, separated by spaces.
    List(&'static [&'static str]),
    /// A text of this form.
    Text(&'static str),
}

/// A bound of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The same in every kernel.
    At(u64),
    /// So many base pages, in bytes.
    BasePages(u64),
    /// The bytes of a huge page (`hpage_pmd_size`).
    HugePage,
    /// The entries of a page table that maps a huge page but one (`HPAGE_PMD_NR - 1`).
    EntriesButOne,
}

impl Limit {
    /// The bound in a kernel with pages of this size.
    pub fn value(self, page_size: PageSize) -> u64 {
        let thp = ThpSettings::new(page_size);
        match self {
            Limit::At(value) => value,
            Limit::BasePages(pages) => pages * page_size.bytes(),
            Limit::HugePage => thp.hpage_pmd_size(),
            Limit::EntriesButOne => u64::from(thp.hpage_pmd_nr()) - 1,
        }
    }
}

impl Kind {
    /// The kind in a word, as `mmtwin list settings --json` has it.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Integer { .. } => "integer",
            Kind::PowerOfTwo { .. } => "power-of-two",
            Kind::Bits { .. } => "bits",
            Kind::Choice(_) => "choice",
            Kind::List(_) => "list",
            Kind::Text(_) => "text",
        }
    }

    /// Which numbers it takes besides special ones, in a kernel with pages of this size.
    pub fn range(&self, page_size: PageSize) -> Option<(u64, u64)> {
        match self {
            Kind::Integer { least, most, .. } | Kind::PowerOfTwo { least, most } => {
                Some((least.value(page_size), most.value(page_size)))
            }
            Kind::Bits { bits, .. } => Some((0, bits.iter().map(|(bit, _)| bit).sum())),
            Kind::Choice(_) | Kind::List(_) | Kind::Text(_) => None,
        }
    }

    /// Whether a number is one that it takes.
    fn takes(&self, number: u64, page_size: PageSize) -> bool {
        let within = self.range(page_size).is_some_and(|(least, most)| (least..=most).contains(&number));
        match self {
            Kind::Integer { special, .. } => within || special.iter().any(|(value, _)| *value == number),
            Kind::PowerOfTwo { .. } => within && number.is_power_of_two(),
            _ => within,
        }
    }

    /// The values that have a name or a meaning of their own.
    pub fn words(&self) -> Vec<String> {
        let meant = |values: &[(u64, &str)]| values.iter().map(|(value, _)| value.to_string()).collect();
        match *self {
            Kind::Integer { least: Limit::At(0), most: Limit::At(1), .. } => vec!["0".into(), "1".into()],
            Kind::Integer { special: values, .. } | Kind::Bits { bits: values, .. } => meant(values),
            Kind::Choice(words) => words.iter().map(|word| word.to_string()).collect(),
            Kind::PowerOfTwo { .. } | Kind::List(_) | Kind::Text(_) => Vec::new(),
        }
    }

    /// What it takes in words, in a kernel with pages of this size.
    pub fn describe(&self, page_size: PageSize) -> String {
        match *self {
            Kind::Integer { least, most, special } => {
                integers(least.value(page_size), most.value(page_size), special)
            }
            Kind::PowerOfTwo { least, most } => {
                format!("a power of two from {} to {}", least.value(page_size), most.value(page_size))
            }
            Kind::Bits { zero, bits } => {
                let bits: Vec<String> = bits.iter().map(|(bit, what)| format!("{bit} ({what})")).collect();
                format!("0 ({zero}), or a sum of {}", one_of(&bits, "and"))
            }
            Kind::Choice(words) => one_of(words, "or"),
            Kind::List(names) => {
                format!("{} numbers separated by spaces, for {}", names.len(), one_of(names, "and"))
            }
            Kind::Text(form) => form.into(),
        }
    }
}

/// `0 (auto-tuned), or 8 to 2147483647`, `0 (off) to 100`, `0 or 1`, `0 and more`.
fn integers(least: u64, most: u64, special: &[(u64, &str)]) -> String {
    let meaning = |number: u64| match special.iter().find(|(value, _)| *value == number) {
        Some((_, what)) => format!("{number} ({what})"),
        None => number.to_string(),
    };
    let apart: String = special
        .iter()
        .filter(|(value, _)| !(least..=most).contains(value))
        .map(|&(value, _)| meaning(value) + ", or ")
        .collect();
    let range = match most {
        u64::MAX => format!("{} and more", meaning(least)),
        _ if most == least + 1 => format!("{} or {}", meaning(least), meaning(most)),
        _ => format!("{} to {}", meaning(least), meaning(most)),
    };
    apart + &range
}

/// `always, madvise or never`.
fn one_of<T: AsRef<str>>(words: &[T], conjunction: &str) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.split_last() {
        Some((last, [])) => last.to_string(),
        Some((last, others)) => format!("{} {conjunction} {last}", others.join(", ")),
        None => String::new(),
    }
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A count, a switch, or words.
    None,
    Bytes,
    KiB,
    MiB,
    Pages,
    /// The binary logarithm of pages.
    Log2Pages,
    HugePages,
    Requests,
    Threads,
    Allocations,
    /// Of slabs.
    Objects,
    Percent,
    PerThousand,
    PerTenThousand,
    PerMillion,
    Seconds,
    Centiseconds,
    Milliseconds,
    Microseconds,
    /// MB/s, as `numa_balancing_promote_rate_limit_MBps` has it.
    MegabytesPerSecond,
}

impl Unit {
    /// The unit as tables print it; empty for a count.
    pub fn name(self) -> &'static str {
        match self {
            Unit::None => "",
            Unit::Bytes => "bytes",
            Unit::KiB => "KiB",
            Unit::MiB => "MiB",
            Unit::Pages => "pages",
            Unit::Log2Pages => "log2 of pages",
            Unit::HugePages => "huge pages",
            Unit::Requests => "requests",
            Unit::Threads => "threads",
            Unit::Allocations => "allocations",
            Unit::Objects => "objects",
            Unit::Percent => "%",
            Unit::PerThousand => "1/1000",
            Unit::PerTenThousand => "1/10000",
            Unit::PerMillion => "1/1000000",
            Unit::Seconds => "s",
            Unit::Centiseconds => "1/100 s",
            Unit::Milliseconds => "ms",
            Unit::Microseconds => "us",
            Unit::MegabytesPerSecond => "MB/s",
        }
    }
}

/// How the values of a setting are spaced, for whoever tries several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps.
    Linear,
    /// Equal factors: 1, 2, 4, ...
    Logarithmic,
}

impl Scale {
    /// The scale in a word.
    pub fn name(self) -> &'static str {
        match self {
            Scale::Linear => "linear",
            Scale::Logarithmic => "logarithmic",
        }
    }
}

/// Which kernel brought a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// 6.1, the oldest release of the twin, has it: read in its sources.
    Oldest,
    /// A later release.
    Release(&'static str, Known),
    /// No release: it was only posted, or is the twin's own.
    Never,
}

impl Since {
    /// The release, or that there is none.
    pub fn release(self) -> &'static str {
        match self {
            Since::Oldest => "6.1 or before",
            Since::Release(release, _) => release,
            Since::Never => "not in mainline",
        }
    }

    /// How the release is known.
    pub fn known(self) -> Option<Known> {
        match self {
            Since::Oldest => Some(Known::Source),
            Since::Release(_, known) => Some(known),
            Since::Never => None,
        }
    }
}

/// Whether a file, such as `vm.nr_hugepages` or `node0/hugepages-2048kB/nr_hugepages`, is one of pools of huge pages.
pub fn is_of_pools(file: &str) -> bool {
    match SETTINGS.iter().find(|setting| setting.name == file) {
        Some(setting) => setting.acts_on == Subsystem::HugetlbPools,
        // Files of single pools are no settings.
        None => file.contains("hugepages"),
    }
}

/// A part of the memory manager, or of what it works with, that reads settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subsystem {
    Zones,
    VmstatWorkers,
    HugetlbPools,
    Reclaim,
    Swap,
    Writeback,
    Readahead,
    LargeFolios,
    Compaction,
    Kcompactd,
    TlbFlushes,
    Slabs,
    Damon,
    NumaBalancing,
    Demotion,
    FailPageAlloc,
    Failslab,
}

impl Subsystem {
    /// What the subsystem is called, in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Subsystem::Zones => "zones and their pagesets",
            Subsystem::VmstatWorkers => "vmstat workers",
            Subsystem::HugetlbPools => "huge-page pools",
            Subsystem::Reclaim => "reclaim",
            Subsystem::Swap => "swap",
            Subsystem::Writeback => "writeback to a device",
            Subsystem::Readahead => "readahead from a device",
            Subsystem::LargeFolios => "folio sizes",
            Subsystem::Compaction => "compaction",
            Subsystem::Kcompactd => "kcompactd",
            Subsystem::TlbFlushes => "TLB flushes",
            Subsystem::Slabs => "slabs of what the kernel keeps of processes",
            Subsystem::Damon => "DAMON_RECLAIM",
            Subsystem::NumaBalancing => "NUMA balancing",
            Subsystem::Demotion => "demotion from fast memory",
            Subsystem::FailPageAlloc => "resizing huge-page pools",
            Subsystem::Failslab => "per-VMA state of NUMA scanning and deferred split lists",
        }
    }
}

/// Where the value of a setting is kept.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// A number; `None` where the kernel computes it as long as nobody has set it.
    Number { get: fn(&Settings) -> Option<u64>, set: fn(&mut Settings, u64) },
    /// The position of a word of [`Kind::Choice`].
    Word { get: fn(&Settings) -> usize, set: fn(&mut Settings, usize) },
    /// Numbers of [`Kind::List`].
    Numbers { get: fn(&Settings) -> &[u64], set: fn(&mut Settings, &[u64]) },
    /// A text that is taken apart; false if it cannot be.
    Text(fn(&mut Settings, &str) -> bool),
    /// The mode of folios of so many KiB, a position in [`Kind::Choice`].
    ModeOfSize(u64),
}

impl Setting {
    /// Whether kernels with pages of this size have it: not every size of folios is a multiple of every page.
    pub fn exists(&self, page_size: PageSize) -> bool {
        match self.place {
            Place::ModeOfSize(kib) => ThpSettings::new(page_size).order_of(kib << 10).is_some(),
            _ => true,
        }
    }

    /// Whether it is the mode of one size of folios.
    pub(crate) fn is_of_size(&self) -> bool {
        matches!(self.place, Place::ModeOfSize(_))
    }

    /// What it takes in words, in a kernel with pages of this size.
    pub fn accepts(&self, page_size: PageSize) -> String {
        self.kind.describe(page_size)
    }

    /// Its default in a kernel with pages of this size; "computed" where the kernel derives it from the machine.
    pub fn default(&self, page_size: PageSize) -> String {
        self.value(&Settings::new(page_size)).unwrap_or_default()
    }

    /// Its value in words; of a text, which is taken apart, nothing is kept.
    pub fn value(&self, settings: &Settings) -> Option<String> {
        match self.place {
            Place::Number { get, .. } => {
                Some(get(settings).map_or("computed".into(), |value| value.to_string()))
            }
            Place::Numbers { get, .. } => {
                let numbers: Vec<String> = get(settings).iter().map(u64::to_string).collect();
                Some(numbers.join(" "))
            }
            Place::Word { .. } | Place::ModeOfSize(_) => {
                let (words, chosen) = self.words(settings)?;
                words.get(chosen).map(|word| word.to_string())
            }
            Place::Text(_) => None,
        }
    }

    /// What reading its file gives: all words, the chosen one in brackets, or the number.
    pub fn show(&self, settings: &Settings) -> Option<String> {
        let Some((words, chosen)) = self.words(settings) else {
            return self.value(settings).map(|it| it + "\n");
        };
        let words: Vec<String> = words
            .iter()
            .enumerate()
            .map(|(at, word)| if at == chosen { format!("[{word}]") } else { word.to_string() })
            .collect();
        Some(words.join(" ") + "\n")
    }

    /// The words that it takes, and which of them is its value.
    fn words(&self, settings: &Settings) -> Option<(&'static [&'static str], usize)> {
        let Kind::Choice(words) = self.kind else { return None };
        match self.place {
            Place::Word { get, .. } => Some((words, get(settings))),
            Place::ModeOfSize(kib) => {
                let thp = &settings.transparent_hugepage;
                thp.order_of(kib << 10).map(|order| (words, thp.mode(order) as usize))
            }
            _ => None,
        }
    }

    /// Takes a value as it is written to the file; false, and nothing changed, if the kernel refuses it.
    fn apply(&self, settings: &mut Settings, value: &str) -> bool {
        let text = self.trimmed(value);
        let page_size = settings.page_size();
        match (self.place, self.kind) {
            (Place::Number { set, .. }, kind) => {
                let number = self.word_of_module(text).or_else(|| text.parse().ok());
                let number = number.filter(|&number| kind.takes(number, page_size));
                number.inspect(|&number| set(settings, number)).is_some()
            }
            (Place::Numbers { set, .. }, Kind::List(names)) => {
                let numbers: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
                let numbers = numbers.ok().filter(|numbers| numbers.len() == names.len());
                numbers.inspect(|numbers| set(settings, numbers)).is_some()
            }
            (Place::Word { set, .. }, Kind::Choice(words)) => {
                let chosen = words.iter().position(|word| *word == text);
                chosen.inspect(|&chosen| set(settings, chosen)).is_some()
            }
            (Place::ModeOfSize(kib), Kind::Choice(words)) => {
                let thp = &mut settings.transparent_hugepage;
                let chosen = thp.order_of(kib << 10).zip(words.iter().position(|word| *word == text));
                chosen.inspect(|&(order, chosen)| thp.set_mode(order, Mode::ALL[chosen])).is_some()
            }
            (Place::Text(parse), _) => parse(settings, value),
            (Place::Numbers { .. } | Place::Word { .. } | Place::ModeOfSize(_), _) => false,
        }
    }

    /// The number that a word stands for, where parameters of modules are switches, which a kernel prints as `Y` and `N` (`kstrtobool`).
    fn word_of_module(&self, text: &str) -> Option<u64> {
        let is_switch = matches!(self.kind, Kind::Integer { most: Limit::At(1), .. });
        match text {
            _ if !is_switch || module_of(self.name).is_none() => None,
            "Y" | "y" | "on" => Some(1),
            "N" | "n" | "off" => Some(0),
            _ => None,
        }
    }

    /// A value without blanks around it under /proc/sys (`proc_get_long`), without the end of the line in files of /sys
    /// (`kstrtoul`, `sysfs_streq`).
    fn trimmed<'a>(&self, value: &'a str) -> &'a str {
        match self.name.starts_with("vm.") || self.name.starts_with("kernel.") {
            true => value.trim(),
            false => value.strip_suffix('\n').unwrap_or(value),
        }
    }
}

/// The module that a setting is a parameter of, and what the parameter is called there (`/sys/module/MODULE/parameters`).
pub fn module_of(name: &str) -> Option<(&str, &str)> {
    name.split_once('.').filter(|(module, _)| ["zswap", "damon_reclaim"].contains(module))
}

/// Whether a setting is a parameter of the kernel's command line.
pub fn is_of_command_line(name: &str) -> bool {
    SETTINGS.iter().any(|setting| setting.name == name && setting.of_command_line)
}

/// Why a setting was refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SettingError {
    /// No such setting.
    #[error("{name}: no such setting; most like it: {}", most_like_setting(name))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// A write to the file does something, and nothing stays set.
    #[error(
        "{name}: no setting, but a file that does something when it is written: --write and [[workload.events]] take it"
    )]
    Trigger {
        /// What was asked for.
        name: String,
    },
    /// It can be read only.
    #[error("{name}: permission denied (EACCES): it can be read only")]
    ReadOnly {
        /// The file.
        name: String,
    },
    /// It is a parameter of the kernel's command line.
    #[error(
        "{name}: no such file (ENOENT): it is of the kernel's command line, so it is given with --set or under [settings]"
    )]
    OfCommandLine {
        /// The parameter.
        name: String,
    },
    /// Only later kernels have it.
    #[error("{name}: no such file (ENOENT) in this kernel; it came with {since}")]
    NoFile {
        /// The file.
        name: String,
        /// The kernel.
        since: ThpFiles,
    },
    /// Kernels with pages of this size have no such file.
    #[error("{name}: no such file (ENOENT) with pages of {} KiB; there are {}", page_size.kib(), sizes(*page_size))]
    NoSize {
        /// The setting.
        name: &'static str,
        /// The size of pages.
        page_size: PageSize,
    },
    /// The kernel would say EINVAL.
    #[error("{} = {}: invalid argument (EINVAL); it takes {}", .0.key, .0.value, .0.expected)]
    Invalid(WrongValue),
}

/// Whether kernels with pages of this size have a setting of this name, or there is none of it at all.
pub fn exists(name: &str, page_size: PageSize) -> bool {
    SETTINGS.iter().find(|setting| setting.name == name).is_none_or(|setting| setting.exists(page_size))
}

fn sizes(page_size: PageSize) -> String {
    let sizes = SETTINGS.iter().filter(|setting| setting.is_of_size() && setting.exists(page_size));
    sizes.map(|setting| setting.name).collect::<Vec<_>>().join(", ")
}

/// How many names are proposed for one that there is not.
const PROPOSED: usize = 3;

/// The settings whose names are most like one that is none of them, which may lack its directory.
fn most_like_setting(name: &str) -> String {
    most_like_of(name, SETTINGS.iter().map(|setting| setting.name))
}

/// The files that can be written whose names are most like one that is none of them.
pub(crate) fn most_like_file(name: &str) -> String {
    most_like_of(name, TRIGGERS.into_iter().chain(SETTINGS.iter().map(|setting| setting.name)))
}

fn most_like_of<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let name = &*short(name);
    let directory = &name[..name.len() - file(name).len()];
    let lacks_directory =
        directory.is_empty() || !SETTINGS.iter().any(|setting| setting.name.starts_with(directory));
    let likeness = |other: &str| match jaro_winkler(name, other) {
        _ if file(other) == name => 1.0,
        whole if lacks_directory => whole.max(jaro_winkler(name, file(other))),
        whole => whole,
    };
    first_by(likeness, names)
}

/// A name without its first directory.
fn file(name: &str) -> &str {
    name.split_once(['/', '.']).map_or(name, |(_, file)| file)
}

/// Those of some names that are most like one that is none of them.
pub fn most_like<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    first_by(|other| jaro_winkler(name, other), names)
}

fn first_by<'a>(likeness: impl Fn(&str) -> f64, names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names: Vec<_> = names.into_iter().map(|other| (likeness(other), other)).collect();
    names.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    names.iter().take(PROPOSED).map(|&(_, name)| name).collect::<Vec<_>>().join(", ")
}

/// From here on a name is taken for another one, misspelt.
const MISSPELT: f64 = 0.8;

/// "(do you mean that one?)", if one of few names is much like one that is none of them.
pub fn meant<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let like = names.into_iter().map(|other| (jaro_winkler(name, other), other));
    let like = like.max_by(|(a, _), (b, _)| a.total_cmp(b)).filter(|(likeness, _)| *likeness >= MISSPELT);
    like.map_or(String::new(), |(_, other)| format!(" (do you mean {other}?)"))
}

impl Settings {
    /// Sets `name` to `value` as written to the file under /proc/sys; on error nothing changes.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) else {
            let name = name.to_string();
            return Err(match is_trigger(&short(&name)) {
                true => SettingError::Trigger { name },
                false => SettingError::Unknown { name },
            });
        };
        let page_size = self.page_size();
        if !setting.exists(page_size) {
            return Err(SettingError::NoSize { name: setting.name, page_size });
        }
        match setting.apply(self, value) {
            true => Ok(()),
            false => {
                Err(SettingError::Invalid(WrongValue::new(setting.name, value, setting.accepts(page_size))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_of_modules_take_the_words_that_a_kernel_prints() {
        let mut settings = Settings::default();
        for (value, on) in [("Y", true), ("n", false), ("on", true), ("0", false), ("1", true)] {
            settings.set("zswap.enabled", value).unwrap();
            settings.set("damon_reclaim.enabled", value).unwrap();
            assert_eq!((settings.zswap.enabled, settings.damon_reclaim.enabled), (on, on), "{value}");
        }
        for (name, value) in
            [("zswap.enabled", "yes"), ("zswap.max_pool_percent", "Y"), ("vm.hugetlb_optimize_vmemmap", "Y")]
        {
            assert!(settings.set(name, value).is_err(), "{name}={value}");
        }
    }

    #[test]
    fn a_setting_without_its_directory_is_recognised() {
        let like = most_like_setting("hugepages-8kB/enabled");
        assert!(like.split(", ").all(|name| name.starts_with("transparent_hugepage/hugepages-")), "{like}");
        assert!(most_like_setting("swappiness").starts_with("vm.swappiness"));
        let huge = most_like_setting("hugepages-2048kB/enabled");
        assert!(huge.starts_with("transparent_hugepage/hugepages-2048kB/enabled"), "{huge}");
        assert_eq!(meant("equilibriun", ["equilibrium", "pid-filter"]), " (do you mean equilibrium?)");
        assert_eq!(meant("hvo", ["pcp", "hugetlb"]), "");
    }

    #[test]
    fn bounds_are_told_in_words() {
        let accepts = |name: &str, size| {
            let setting = SETTINGS.iter().find(|setting| setting.name == name).unwrap();
            setting.accepts(size)
        };
        for (name, text) in [
            ("vm.percpu_pagelist_high_fraction", "0 (auto-tuned), or 8 to 2147483647"),
            ("vm.compaction_proactiveness", "0 (off) to 100"),
            ("numa/demotion_enabled", "0 or 1"),
            ("hugepages-2048kB/boot", "0 and more"),
            ("kernel.numa_balancing", "0 (off), or a sum of 1 (placement) and 2 (memory tiering)"),
            ("transparent_hugepage/enabled", "always, madvise or never"),
            ("vm.lowmem_reserve_ratio", "4 numbers separated by spaces, for DMA, DMA32, Normal and Movable"),
            ("flexthp_unhinted_max", "a power of two from 4096 to 2097152"),
            ("transparent_hugepage/khugepaged/max_ptes_none", "0 to 511"),
        ] {
            assert_eq!(accepts(name, PageSize::Kib4), text, "{name}");
        }
        assert_eq!(accepts("transparent_hugepage/khugepaged/max_ptes_none", PageSize::Kib64), "0 to 8191");
        assert_eq!(accepts("vm.dirty_bytes", PageSize::Kib16), "32768 to 9223372036854775807");
    }

    #[test]
    fn every_setting_reads_back_what_was_written() {
        // Zero means that the limit in the other unit is in force; it cannot be written.
        const NOT_IN_FORCE: [&str; 2] = ["vm.dirty_background_bytes", "vm.dirty_bytes"];
        for page_size in PageSize::ALL {
            for setting in SETTINGS.iter().filter(|setting| setting.exists(page_size)) {
                let name = setting.name;
                let mut settings = Settings::new(page_size);
                let mut values = vec![setting.default(page_size)];
                if let Some((least, most)) = setting.kind.range(page_size) {
                    values.extend([least.to_string(), most.to_string()]);
                    let beyond = most.checked_add(1).map(|beyond| settings.set(name, &beyond.to_string()));
                    assert!(beyond.is_none_or(|set| set.is_err()), "{name}");
                }
                if let Kind::Choice(words) = setting.kind {
                    values.extend(words.iter().map(|word| word.to_string()));
                }
                values.retain(|value| value != "computed");
                for value in values {
                    let is_text = ["thp_anon", "mem"].contains(&name);
                    let is_refused = is_text || NOT_IN_FORCE.contains(&name) && value == "0";
                    assert_eq!(settings.set(name, &value).is_err(), is_refused, "{name}={value}");
                    let read = setting.value(&settings).unwrap_or_default();
                    let is_rounded = [
                        // Any number but 0 switches it on; two pages count as one.
                        "vm.hugetlb_optimize_vmemmap",
                        "flexthp_unhinted_max",
                    ];
                    assert!(read == value || is_rounded.contains(&name), "{name}={value}: {read}");
                }
            }
        }
    }

    #[test]
    fn words_of_files_are_whole_words() {
        let mut settings = Settings::default();
        for (name, value, taken) in [
            ("transparent_hugepage/enabled", "always", true),
            ("transparent_hugepage/enabled", "always\n", true),
            ("transparent_hugepage/enabled", " always", false),
            ("transparent_hugepage/enabled", "Always", false),
            ("transparent_hugepage/defrag", "defer madvise", false),
            ("vm.swappiness", " 7 ", true),
            ("lru_gen/enabled", " 7", false),
            ("flexthp_unhinted_max", "12288", false),
            ("flexthp_unhinted_max", "4194304", false),
        ] {
            assert_eq!(settings.set(name, value).is_ok(), taken, "{name}={value:?}");
        }
        for (bytes, order) in [("4096", 0), ("8192", 0), ("16384", 2), ("2097152", 9)] {
            settings.set("flexthp_unhinted_max", bytes).unwrap();
            assert_eq!(settings.transparent_hugepage.flexthp_unhinted_max, order);
        }
    }

    #[test]
    fn keeps_the_kernel_s_bounds() {
        let mut settings = Settings::default();
        for (name, value, accepted) in [
            ("vm.percpu_pagelist_high_fraction", "0", true),
            ("vm.percpu_pagelist_high_fraction", "7", false),
            ("vm.percpu_pagelist_high_fraction", "8", true),
            ("vm.percpu_pagelist_high_fraction", "-1", false),
            ("vm.watermark_scale_factor", "0", false),
            ("vm.watermark_scale_factor", "3001", false),
            ("vm.watermark_scale_factor", "3000", true),
            ("vm.lowmem_reserve_ratio", "256 256 32", false),
            ("vm.lowmem_reserve_ratio", "256 256 64 0", true),
            ("vm.min_free_kbytes", "", false),
            ("vm.min_free_kbytes", "1 2", false),
            ("vm.swappy", "1", false),
            ("transparent_hugepage/enabled", "madvise", true),
            ("transparent_hugepage/enabled", "inherit", false),
            ("transparent_hugepage/hugepages-64kB/enabled", "inherit", true),
            ("transparent_hugepage/hugepages-8kB/enabled", "always", false),
            ("transparent_hugepage/defrag", "defer+madvise", true),
            ("transparent_hugepage/use_zero_page", "2", false),
            ("transparent_hugepage/khugepaged/max_ptes_none", "511", true),
            ("transparent_hugepage/khugepaged/max_ptes_none", "512", false),
            ("transparent_hugepage/khugepaged/pages_to_scan", "0", false),
            ("thp_anon", "64K:always", true),
            ("thp_anon", "8K:always", false),
        ] {
            let before = settings.clone();
            assert_eq!(settings.set(name, value).is_ok(), accepted, "{name}={value}");
            if !accepted {
                assert_eq!(settings, before, "{name}={value} must change nothing");
            }
        }
    }
}
