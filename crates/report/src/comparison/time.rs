//! Where CPU time went: by category, by program, by memory cgroup, by CPU.
//!
//! ```text
//!                                                                                              node 0 │ node 1
//!   by category   pcp-base  ▮▮▮▮▮ user ▮▮▮▮▮│▮▮ zone_lock_wait ▮▮│▮▮      by CPU   zone_lock_wait, pcp-base  ▒▒▒▒▒▒▓▓▓▓▓▓▓
//!                 patch9    ▮▮▮▮▮ user ▮▮▮▮▮│▮▮▮                                   zone_lock_wait, patch9    ░░░░░░░░░░░░░
//! ```

use super::Compared;
use crate::chart::{Axis, Chart, Drawing, Heat, Measure, Scale, Stack, Stacks};
use lab::comparison::VariantSummary;
use lab::results::Record;
use machine::{Cpu, Node, Topology};
use mm::Category;
use std::collections::BTreeMap;

/// Columns that a chart of CPUs has at most; on larger machines neighbours share one.
const COLUMNS: usize = 64;
/// Rows that it has at most, unless variants are so many that [`CATEGORIES`] need more.
const ROWS: usize = 36;
/// The least and the most categories that it has.
const CATEGORIES: (usize, usize) = (3, 12);

impl Compared<'_> {
    pub(super) fn time(&self) -> Vec<Chart> {
        let [all, of_kernel] = self.by_program();
        let charts = [self.by_category(), all, of_kernel, self.by_cgroup(), self.by_cpu()];
        charts.into_iter().flatten().collect()
    }

    fn by_category(&self) -> Option<Chart> {
        let stack = |variant: &&VariantSummary| Stack {
            name: variant.name.clone(),
            parts: busy(&variant.cpu_seconds),
        };
        let stacks: Vec<Stack> = self.shown.variants.iter().map(stack).collect();
        let seeds = self.comparison.seeds.len();
        let caption = format!(
            "CPU seconds of all CPUs by what they were spent on, idle left out{}.",
            if seeds > 1 { format!(", means of {seeds} seeds") } else { String::new() }
        );
        stacked("Busy CPU time by category", caption, stacks)
    }

    /// Where several programs run: all of their time, and what the kernel took of it.
    fn by_program(&self) -> [Option<Chart>; 2] {
        let of = |record: &Record| {
            let programs = record.programs.iter();
            programs.map(|program| (program.name.clone(), busy(&program.cpu_seconds))).collect()
        };
        let all = self.stacks(of);
        let in_kernel = |stack: &Stack| {
            let parts = stack.parts.iter().filter(|(category, _)| !is_of_programs(category));
            Stack {
                name: stack.name.clone(),
                parts: parts.map(|(name, part)| (name.clone(), *part)).collect(),
            }
        };
        let kernel = all.iter().map(in_kernel).collect();
        let small = "programs that took less than a thousandth of the largest are left out";
        [
            ("Busy CPU time of each program", "CPU seconds while the threads of each program ran", all),
            ("Kernel time of each program", "What of them the kernel took", kernel),
        ]
        .map(|(title, what, stacks)| {
            stacked(title, format!("{what}, {}; {small}.", self.first_seed()), large(stacks))
        })
    }

    /// Where several programs share a cgroup. What runs outside of all of them is in the chart of programs.
    fn by_cgroup(&self) -> Option<Chart> {
        let programs = self.first_records().map(|(_, record)| programs_of_cgroups(record));
        let is_shared = programs.flat_map(BTreeMap::into_values).any(|programs| programs.len() > 1);
        let caption = format!(
            "CPU seconds while threads of the programs in each memory cgroup ran, {}. What the kernel's own threads do for it is theirs.",
            self.first_seed()
        );
        is_shared
            .then(|| stacked("Busy CPU time of each memory cgroup", caption, self.stacks(of_cgroups)))
            .flatten()
    }

    /// A bar for each part of each variant's first record, those of one name together.
    fn stacks(&self, of: impl Fn(&Record) -> Vec<(String, BTreeMap<String, f64>)>) -> Vec<Stack> {
        let mut stacks: Vec<(String, Stack)> = Vec::new();
        for (variant, record) in self.first_records() {
            for (name, parts) in of(record) {
                stacks.push((name.clone(), Stack { name: format!("{name}, {variant}"), parts }));
            }
        }
        stacks.sort_by(|a, b| a.0.cmp(&b.0));
        stacks.into_iter().map(|(_, stack)| stack).collect()
    }

    /// A row for each variant and each of the largest categories of the kernel, a column for each CPU, those of a node together. None where
    /// there is but one CPU.
    fn by_cpu(&self) -> Option<Chart> {
        let records: Vec<(&str, &Record)> = self.first_records().collect();
        let (_, first) = records.first()?;
        let topology = first.run.machine.topology();
        let has_all =
            |record: &Record| record.time_by_cpu.values().all(|parts| parts.len() == topology.cpus());
        if topology.cpus() < 2 || !records.iter().all(|(_, record)| has_all(record)) {
            return None;
        }
        let columns = columns_of(&topology);
        let categories = largest(&records);
        let (least, most) = CATEGORIES;
        let rows = categories.iter().take((ROWS / records.len()).clamp(least, most));
        let rows: Vec<(&str, &str, &Record)> = rows
            .flat_map(|category| records.iter().map(move |&(variant, record)| (*category, variant, record)))
            .collect();
        let cells = cells_of(rows.iter().map(|&(category, _, record)| (category, record)), &columns);
        let named = |&(category, variant, _): &(&str, &str, &Record)| match records.len() {
            1 => category.to_string(),
            _ => format!("{category}, {variant}"),
        };
        let name = |cpus: &Vec<Cpu>| cpus[0].0.to_string();
        let begins_node = |at: &usize| {
            let node = |at: usize| topology.node(columns[at][0]);
            *at == 0 || node(*at) != node(*at - 1)
        };
        let together = columns.iter().map(Vec::len).max().unwrap_or(1);
        let neighbours = if together == 1 {
            String::new()
        } else {
            format!(", {together} in a column, which has their mean")
        };
        let heat = Heat {
            x: format!("CPUs, node by node, each node under its first CPU{neighbours}"),
            shade: "% of its time".into(),
            most: cells.iter().map(|(.., value)| *value).fold(0.0, f64::max),
            rows: rows.iter().map(named).collect(),
            named: (0..columns.len()).filter(begins_node).map(|at| name(&columns[at])).collect(),
            columns: columns.iter().map(name).collect(),
            cells,
        };
        let caption = format!(
            "Part of the measured time that each CPU spent on the largest categories of the kernel, {}; the rest is the programs' own time, \
             idle time and smaller categories. A bright cell in a dark row: few CPUs do this work, or wait for it. The scale is a root.",
            self.first_seed()
        );
        Some(Chart {
            title: "Kernel time of each CPU by category".into(),
            caption,
            drawing: Drawing::Heat(heat),
        })
    }
}

/// CPUs node by node, as many of one node in a column that there are at most [`COLUMNS`].
fn columns_of(topology: &Topology) -> Vec<Vec<Cpu>> {
    let together = topology.cpus().div_ceil(COLUMNS);
    let nodes = (0..topology.nodes).map(Node);
    nodes
        .flat_map(|node| topology.cpus_of(node).chunks(together).map(<[Cpu]>::to_vec).collect::<Vec<_>>())
        .collect()
}

/// Row, column and the percentage of their time that the CPUs of the column spent on the row's category.
fn cells_of<'r>(
    rows: impl Iterator<Item = (&'r str, &'r Record)>,
    columns: &[Vec<Cpu>],
) -> Vec<(usize, usize, f64)> {
    let mut cells = Vec::new();
    for (row, (category, record)) in rows.enumerate() {
        let parts = record.time_by_cpu.get(category).map_or(&[][..], Vec::as_slice);
        for (column, cpus) in columns.iter().enumerate() {
            let of = cpus.iter().filter_map(|cpu| parts.get(cpu.index()));
            let sum: f64 = of.map(|&part| f64::from(part)).sum();
            cells.push((row, column, sum / cpus.len() as f64 / 100.0));
        }
    }
    cells
}

/// Categories of the kernel's time, the largest over all records first.
fn largest<'r>(records: &[(&str, &'r Record)]) -> Vec<&'r str> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    let times = records.iter().flat_map(|(_, record)| &record.time_by_cpu);
    for (category, parts) in times.filter(|(category, _)| !is_of_programs(category)) {
        *sums.entry(category).or_default() += parts.iter().map(|&part| u64::from(part)).sum::<u64>();
    }
    let mut sums: Vec<(&str, u64)> = sums.into_iter().collect();
    sums.sort_by_key(|&(category, sum)| (std::cmp::Reverse(sum), category));
    sums.into_iter().map(|(category, _)| category).collect()
}

/// Whether it is a program's own time.
fn is_of_programs(category: &str) -> bool {
    Category::find(category).is_some_and(Category::is_user)
}

/// Names of the programs in each memory cgroup.
fn programs_of_cgroups(record: &Record) -> BTreeMap<String, Vec<String>> {
    let mut cgroups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let host = &record.run.workload;
    for program in &host.programs {
        if let Some(cgroup) = &program.cgroup {
            cgroups.entry(cgroup.clone()).or_default().push(program.name.clone());
        }
    }
    cgroups
}

/// Without bars too short to be seen.
fn large(mut stacks: Vec<Stack>) -> Vec<Stack> {
    let whole = |stack: &Stack| stack.parts.values().sum::<f64>();
    let most = stacks.iter().map(whole).fold(0.0, f64::max);
    stacks.retain(|stack| whole(stack) >= most / 1000.0);
    stacks
}

/// CPU time of the programs in each memory cgroup.
fn of_cgroups(record: &Record) -> Vec<(String, BTreeMap<String, f64>)> {
    let time = |(cgroup, programs): (String, Vec<String>)| {
        let mut time = BTreeMap::new();
        let theirs = record.programs.iter().filter(|program| programs.contains(&program.name));
        for (name, seconds) in theirs.flat_map(|program| busy(&program.cpu_seconds)) {
            *time.entry(name).or_default() += seconds;
        }
        (cgroup, time)
    };
    programs_of_cgroups(record).into_iter().map(time).collect()
}

/// CPU seconds without idle ones.
fn busy(cpu_seconds: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let idle = mm::Category::Idle.name();
    let busy = cpu_seconds.iter().filter(|(name, seconds)| *name != idle && **seconds > 0.0);
    busy.map(|(name, seconds)| (name.clone(), *seconds)).collect()
}

/// Bars of CPU seconds; none if there are no seconds.
fn stacked(title: &str, caption: String, stacks: Vec<Stack>) -> Option<Chart> {
    let has_time = stacks.iter().any(|stack| !stack.parts.is_empty());
    let axis = Axis { title: "CPU time".into(), measure: Measure::Seconds, scale: Scale::Linear };
    has_time.then(|| Chart {
        title: title.into(),
        caption,
        drawing: Drawing::Stacks(Stacks { axis, stacks }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::scenario::{Scenario, load_machine};
    use sim::outcome::{Outcome, ProgramOutcome};

    /// A record of `crowded-host`, whose build and database share a cgroup.
    fn record() -> Record {
        let scenario = Scenario::load("crowded-host").unwrap();
        let machine = load_machine(&scenario.machine).unwrap();
        let mut run = scenario.run(&scenario.variants[0], 1, &machine, &BTreeMap::new()).unwrap();
        let host = &mut run.workload;
        for program in &mut host.programs {
            let is_shared = ["build", "database"].contains(&program.name.as_str());
            program.cgroup = is_shared.then(|| "shared".into());
        }
        let mut outcome = Outcome::default();
        for (name, seconds) in [("build", 2.0), ("database", 3.0), ("java", 5.0)] {
            let cpu_seconds = [("program".to_string(), seconds), ("idle".into(), 9.0)].into();
            outcome.programs.push(ProgramOutcome { name: name.into(), cpu_seconds, ..Default::default() });
        }
        outcome.time_by_cpu =
            [("file_read", vec![5, 4]), ("reclaim", vec![0, 10]), ("program", vec![0, 99])].into();
        Record::new("none".into(), &run, &outcome)
    }

    #[test]
    fn programs_of_a_cgroup_are_summed() {
        let expected: BTreeMap<String, f64> = [("program".to_string(), 5.0)].into();
        assert_eq!(of_cgroups(&record()), [("shared".to_string(), expected)]);
    }

    #[test]
    fn the_largest_category_of_the_kernel_comes_first() {
        assert_eq!(largest(&[("6.18", &record())]), ["reclaim", "file_read"]);
    }

    #[test]
    fn columns_have_cpus_of_one_node_and_none_is_missing() {
        let topology = record().run.machine.topology();
        let columns = columns_of(&topology);
        assert!(columns.len() <= COLUMNS && columns.iter().map(Vec::len).sum::<usize>() == topology.cpus());
        let is_of_one =
            |cpus: &Vec<Cpu>| cpus.iter().all(|&cpu| topology.node(cpu) == topology.node(cpus[0]));
        assert!(columns.iter().all(is_of_one));
    }
}
