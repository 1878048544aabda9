//! Random command lines and scenario files, generated from a seed.
//!
//! ```text
//!   built-in scenario ─► keys that determine run time and size: small    milliseconds = 3, mib = 7, units = 2 ...
//!                    └─► some of the other keys: any value within their bounds, any word or switch
//!   machine          ─► a built-in one, some with less memory
//!   settings         ─► any values that the kernel accepts, on the command line or in the scenario
//! ```

use lab::scenario::{Scenario, load_machine, machine_names};
use machine::{PageSize, Profile};
use mm::series::RELEASES;
use mm::sysctl::Kind;
use mm::{SETTINGS, Series, Settings};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::path::Path;
use toml::{Table, Value};
use workload::keys::{Bounds, Key, Numbers, Takes, Value as _};

/// Name of the scenario file; the file of a machine may be beside it.
const SCENARIO: &str = "case.toml";
const MACHINE: &str = "machine.toml";

/// A command line and the files that it reads.
#[derive(Clone, Debug)]
pub struct Case {
    scenario: Table,
    variant: String,
    /// A built-in machine in place of the scenario's.
    machine: Option<String>,
    /// `memory_mib_per_node` in place of the machine's.
    memory_mib: Option<i64>,
    settings: Vec<(String, String)>,
}

/// Upper limits of the keys that determine the run time and memory of a case, so that a run takes less than a
/// second. All other keys may have any value within their bounds.
const SMALL: &[(&str, i64)] = &[
    ("milliseconds", 12),
    ("warm_milliseconds", 10),
    ("start_milliseconds", 10),
    ("stay_milliseconds", 10),
    ("drift_milliseconds", 10),
    ("mapped_after_milliseconds", 10),
    ("mib", 48),
    ("shared_mib", 16),
    ("loading_mib", 32),
    ("hot_mib", 8),
    ("drift_mib", 8),
    ("window_mib", 8),
    ("window_accesses", 200),
    ("held_mib", 64),
    ("swap_mib", 256),
    ("max_mib", 64),
    ("low_mib", 64),
    ("min_mib", 32),
    ("memory_mib", 96),
    ("buffer_pool_mib", 32),
    ("cache_mib", 32),
    ("secondary_mib", 16),
    ("tree_mib", 32),
    ("threads", 6),
    ("clients", 4),
    ("secondaries", 3),
    ("warehouses", 6),
    ("loaders", 4),
    ("tables", 4),
    ("table_size", 20_000),
    ("outstanding", 64),
    ("pages", 600),
    ("tasks", 4),
    ("pairs", 4),
    ("jobs", 6),
    ("units", 8),
    ("groups", 6),
    ("processes", 4),
    ("loops", 3),
    ("turnovers", 3),
    ("accesses", 40),
    ("cpus", 4),
    ("cgroup", 4),
    ("cgroup_parent", 4),
    ("common_pages", 200),
    ("other_pages", 100),
    ("accesses_per_ms", 60),
    ("copied_kib", 64),
    ("in_flight", 40),
    ("bind", 1),
    ("begins_on", 1),
    ("cpuset_mems", 1),
    ("cpu", 7),
    ("requests_per_second", 5000),
    ("most", 300),
    ("least", 30),
    ("swap_every_us", 5000),
];

/// The words of keys that take one of a few.
const WORDS: &[(&str, &[&str])] = &[
    ("placement", &["stay", "idle", "swap"]),
    ("layout", &["from_libraries", "fixed_areas"]),
    ("object", &["file", "memory"]),
    ("advice", &["normal", "sequential", "random"]),
    ("rand_type", &["uniform", "special"]),
    ("stock_index", &["item", "warehouse"]),
    ("occupied", &["areas", "memory"]),
    ("page_cache", &["none", "pages", "blocks"]),
    ("compaction", &["none", "kcompactd", "direct"]),
    ("files", &["ramdisk", "nvme", "sata-ssd"]),
    ("swap", &["zram", "nvme", "ramdisk"]),
];

/// Boolean keys, which most scenarios leave out.
const SWITCHES: &[&str] = &[
    "large_folios",
    "shared",
    "write",
    "background",
    "thread_local",
    "same_node",
    "own_areas",
    "main_touches_first",
    "loading_stays",
    "aligned",
    "contiguous_entries",
    "one_cpu",
];

/// Writes for scenarios that resize huge page pools.
const WRITES: &[&str] = &[
    "vm.nr_hugepages",
    "vm.nr_overcommit_hugepages",
    "hugepages-2048kB/nr_hugepages",
    "hugepages-1048576kB/nr_hugepages",
    "hugepages-1048576kB/demote",
    "node0/hugepages-2048kB/nr_hugepages",
    "node1/hugepages-2048kB/nr_hugepages",
    "vm.hugetlb_optimize_vmemmap",
];

/// Maximum number of cases drawn until one is accepted.
const DRAWS: usize = 100;

impl Case {
    /// The case of a seed: in one of ten the first one drawn, which the command mostly refuses, otherwise one
    /// that it accepts.
    pub fn of(seed: u64) -> Case {
        let random = &mut Pcg64Mcg::seed_from_u64(seed);
        let as_it_comes = random.random_bool(0.1);
        let mut draws = std::iter::repeat_with(|| Case::draw(random)).take(DRAWS);
        let last = draws.next().expect("there is a first one");
        if as_it_comes || last.is_accepted() { last } else { draws.find(Case::is_accepted).unwrap_or(last) }
    }

    /// Whether the scenario loads and all its keys and settings are accepted.
    fn is_accepted(&self) -> bool {
        let Some(machine) = self.machine() else { return false };
        let text = toml::to_string(&self.scenario).expect("a table is TOML");
        let settings = self.settings.iter().cloned().collect();
        Scenario::parse(SCENARIO, &text)
            .is_ok_and(|scenario| scenario.run(&self.variant, 1, &machine, &settings).is_ok())
    }

    fn draw(random: &mut Pcg64Mcg) -> Case {
        let names: Vec<&str> = Scenario::names().collect();
        let name = names.choose(random).expect("there are scenarios");
        let built_in = Scenario::load(name).expect("a built-in scenario");
        let mut scenario = Table::try_from(&built_in).expect("a scenario is a table");
        scenario["name"] = Value::String("case".into());
        let Takes::Table(keys) = Scenario::TAKES else { unreachable!("a scenario is a table") };
        let workload = keys.iter().find(|key| key.name == "workload").expect("it has a workload");
        move_keys(&mut scenario["workload"], "workload", workload.takes, random);
        if let Some(Value::Array(writes)) = scenario["workload"].get_mut("writes") {
            *writes = (0..random.random_range(1..=4)).map(|_| write(random)).collect();
        }
        let mut settings = settings(random);
        // Settings in a scenario file are accepted even if the workload does not heed them.
        let own = settings.split_off(settings.len() / 2);
        scenario["settings"] =
            Value::Table(own.into_iter().map(|(name, value)| (name, value.into())).collect());
        let series = Series::find(&built_in.series).expect("a series");
        let kernels: Vec<&str> = series
            .variants()
            .map(|variant| variant.name)
            .chain(RELEASES.iter().map(|(release, _)| *release))
            .collect();
        let machines: Vec<&str> = machine_names().collect();
        let machine = random.random_bool(0.4).then(|| machines.choose(random).expect("machines").to_string());
        let memory_mib = random.random_bool(0.7).then(|| 1 << random.random_range(7..=11));
        let variant = kernels.choose(random).expect("a series has variants").to_string();
        Case { scenario, variant, machine, memory_mib, settings }
    }

    /// The arguments after `mmtwin`.
    pub fn arguments(&self) -> Vec<String> {
        let fixed = [
            "run",
            SCENARIO,
            "--variants",
            &self.variant,
            "--seeds",
            "1",
            "--jobs",
            "1",
            "--results",
            "results",
        ];
        let mut words: Vec<String> = fixed.map(String::from).into();
        words.push("--json".into());
        match (&self.machine, self.memory_mib) {
            (_, Some(_)) => words.extend(["--machine".into(), MACHINE.into()]),
            (Some(machine), None) => words.extend(["--machine".into(), machine.clone()]),
            (None, None) => {}
        }
        words.extend(self.settings.iter().map(|(name, value)| format!("--set={name}={value}")));
        words
    }

    /// The command line as text.
    pub fn command(&self) -> String {
        let quoted = |word: String| if word.contains(' ') { format!("'{word}'") } else { word };
        format!("mmtwin {}", self.arguments().into_iter().map(quoted).collect::<Vec<_>>().join(" "))
    }

    /// The files as text.
    pub fn files(&self) -> String {
        let machine = self.machine_file().map_or(String::new(), |_| {
            let name = self.machine.as_deref().or(self.scenario["machine"].as_str()).unwrap_or_default();
            format!(
                "{MACHINE}: machines/{name}.toml with memory_mib_per_node = {}\n",
                self.memory_mib.unwrap_or(0)
            )
        });
        format!("{machine}{SCENARIO}:\n{}", toml::to_string(&self.scenario).expect("a table is TOML"))
    }

    pub fn write(&self, directory: &Path) {
        let scenario = toml::to_string(&self.scenario).expect("a table is TOML");
        std::fs::write(directory.join(SCENARIO), scenario).expect("a file can be written");
        if let Some(machine) = self.machine_file() {
            std::fs::write(directory.join(MACHINE), machine).expect("a file can be written");
        }
    }

    fn machine_file(&self) -> Option<String> {
        self.memory_mib.and(self.machine()).map(|machine| machine.to_toml())
    }

    fn machine(&self) -> Option<Profile> {
        let name = self.machine.as_deref().or(self.scenario["machine"].as_str())?;
        let mut machine = load_machine(name).ok()?;
        if let Some(memory) = self.memory_mib {
            machine.topology.memory_mib_per_node = memory.unsigned_abs();
        }
        Some(machine)
    }

    /// Simplifications of this case by one step, for shrinking.
    pub fn smaller(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        let mut push = |change: &dyn Fn(&mut Case)| {
            let mut case = self.clone();
            change(&mut case);
            cases.push(case);
        };
        push(&|case| case.settings.clear());
        (0..self.settings.len()).for_each(|at| push(&|case| drop(case.settings.remove(at))));
        let own: Vec<String> =
            self.scenario["settings"].as_table().map(|own| own.keys().cloned().collect()).unwrap_or_default();
        for name in &own {
            push(&|case| drop(case.scenario["settings"].as_table_mut().map(|own| own.remove(name))));
        }
        if self.machine.is_some() {
            push(&|case| case.machine = None);
        }
        if self.memory_mib.is_some() {
            push(&|case| case.memory_mib = None);
        }
        for change in smaller_values(&self.scenario["workload"]) {
            push(&|case| case.scenario["workload"] = change.clone());
        }
        cases
    }
}

/// Simplifications of a value: one element removed, or one number halved.
fn smaller_values(value: &Value) -> Vec<Value> {
    match value {
        Value::Integer(number) if *number > 1 => vec![Value::Integer(1), Value::Integer(number / 2)],
        Value::Table(table) => {
            let without = table.keys().map(|key| {
                let mut less = table.clone();
                less.remove(key);
                Value::Table(less)
            });
            let inner = table.iter().flat_map(|(key, inner)| {
                smaller_values(inner).into_iter().map(move |inner| {
                    let mut less = table.clone();
                    less[key] = inner;
                    Value::Table(less)
                })
            });
            without.chain(inner).collect()
        }
        Value::Array(values) => {
            let without = (0..values.len()).filter(|_| values.len() > 1).map(|at| {
                let mut less = values.clone();
                less.remove(at);
                Value::Array(less)
            });
            let inner = (0..values.len()).flat_map(|at| {
                smaller_values(&values[at]).into_iter().map(move |inner| {
                    let mut less = values.clone();
                    less[at] = inner;
                    Value::Array(less)
                })
            });
            without.chain(inner).collect()
        }
        _ => Vec::new(),
    }
}

/// A random number: one of the bounds, or in between on a logarithmic scale.
fn within(bounds: Bounds, random: &mut Pcg64Mcg) -> f64 {
    let Bounds { least, most, .. } = bounds;
    match random.random_range(0..6) {
        0 => least,
        1 => most,
        _ => {
            let part = most.max(1.0).powf(random.random::<f64>()) / most.max(1.0);
            least + (most - least) * part
        }
    }
}

/// Limits the size of a table, and sets some of its keys to random values.
fn move_keys(value: &mut Value, key: &str, takes: Takes, random: &mut Pcg64Mcg) {
    match (value, takes) {
        (Value::Array(values), _) => {
            for value in values.iter_mut() {
                move_keys(value, key, takes, random);
            }
        }
        (Value::Table(table), Takes::Table(keys)) => {
            for known in keys {
                move_key(table, known, random);
            }
        }
        (Value::Table(table), Takes::Kinds(kinds)) => {
            let kind = table.get("kind").and_then(Value::as_str).unwrap_or_default().to_string();
            if let Some((_, takes)) = kinds.iter().find(|(known, _)| *known == kind) {
                let mut keys = Value::Table(std::mem::take(table));
                move_keys(&mut keys, key, *takes, random);
                if let Value::Table(keys) = keys {
                    *table = keys;
                }
            }
        }
        (value, Takes::Number(numbers)) => move_number(value, key, numbers, random),
        _ => {}
    }
}

fn move_key(table: &mut Table, known: &Key, random: &mut Pcg64Mcg) {
    let name = known.name;
    if let Some(value) = table.get_mut(name) {
        move_keys(value, name, known.takes, random);
    } else if let (true, Takes::Number(numbers)) = (random.random_bool(0.05) || name == "units", known.takes)
    {
        // Mostly an optional key; otherwise the error names the key. Without `units`, a build would be
        // everything that was recorded.
        let mut value = if numbers.whole { Value::Integer(0) } else { Value::Float(0.0) };
        move_number(&mut value, name, numbers, random);
        table.insert(name.into(), value);
    }
    if let Some((_, words)) = WORDS.iter().find(|(key, _)| *key == name)
        && table.contains_key(name)
        && random.random_bool(0.3)
    {
        table.insert(name.into(), words.choose(random).expect("words").to_string().into());
    }
    if SWITCHES.contains(&name) && random.random_bool(0.2) {
        table.insert(name.into(), Value::Boolean(random.random()));
    }
}

/// Sets the number of a key, or of a figure with a source.
fn move_number(value: &mut Value, key: &str, numbers: Numbers, random: &mut Pcg64Mcg) {
    let small = SMALL.iter().find(|(name, _)| *name == key).map(|(_, most)| *most as f64);
    if let Value::Table(figure) = value {
        figure.remove("range");
        if let Some(value) = figure.get_mut("value") {
            move_number(value, key, numbers, random);
        }
        return;
    }
    // Keys that affect neither run time nor size mostly keep their value.
    if small.is_none() && random.random_bool(0.85) {
        return;
    }
    let most = small.map_or(numbers.bounds.most, |small| small.min(numbers.bounds.most));
    let number = within(Bounds { most: most.max(numbers.bounds.least), ..numbers.bounds }, random);
    *value = if numbers.whole { Value::Integer(number.round() as i64) } else { Value::Float(number) };
}

/// A write to a kernel file.
fn write(random: &mut Pcg64Mcg) -> Value {
    let file = WRITES.choose(random).expect("files");
    let value = match random.random_range(0..8) {
        0 => u64::MAX,
        1 => u64::from(u32::MAX),
        2 => 0,
        _ => random.random_range(0..600),
    };
    let value = if file.ends_with("vmemmap") { value % 2 } else { value };
    Value::String(format!("{file}={value}"))
}

/// Random settings with values that kernels accept.
fn settings(random: &mut Pcg64Mcg) -> Vec<(String, String)> {
    let mut settings: Vec<(String, String)> = Vec::new();
    if random.random_bool(0.6) {
        let word = ["always", "madvise", "never"].choose(random).expect("words");
        settings.push(("transparent_hugepage/enabled".into(), word.to_string()));
    }
    for _ in 0..random.random_range(0..6) {
        let setting = SETTINGS.choose(random).expect("settings");
        let takes = |value: &String| Settings::new(PageSize::Kib4).set(setting.name, value).is_ok();
        let limit = setting.kind.range(PageSize::Kib4).map_or(1000, |(_, most)| most);
        let any = |random: &mut Pcg64Mcg| (limit as f64).powf(random.random::<f64>()) as u64;
        let mut values = vec![setting.default(PageSize::Kib4), limit.to_string()];
        if let Kind::Choice(words) = setting.kind {
            values.extend(words.iter().map(|word| word.to_string()));
        }
        values.extend((0..4).map(|_| any(random).to_string()));
        values.push((0..4).map(|_| any(random).to_string()).collect::<Vec<_>>().join(" "));
        values.retain(takes);
        let is_new = settings.iter().all(|(name, _)| name != setting.name);
        if let Some(value) = values.choose(random).filter(|_| is_new) {
            settings.push((setting.name.into(), value.clone()));
        }
    }
    settings
}
