//! The present form of a workload that was written as `kind = "paging"`: one program and its memory cgroups by number.
//!
//! ```text
//!   cgroup_max_mib = [64]        [[workload.cgroups]]    name = "cgroup-0", max_mib = 64
//!   [workload.demand]       ─►   [[workload.programs]]   name = "program-0", cgroup = "cgroup-0", program = the demand
//!   [[workload.changes]]         [[workload.events]]     write = "SETTING=VALUE"
//! ```
//!
//! It is shown in the error, so that its reader can go on.

use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};

/// Keys of the former form that stay as they are.
const SAME: [&str; 7] =
    ["files", "large_folios", "swap", "swap_mib", "held_mib", "warm_milliseconds", "milliseconds"];

fn table(entries: impl IntoIterator<Item = (&'static str, Option<Value>)>) -> Value {
    let present = entries.into_iter().filter_map(|(key, value)| Some((key.to_string(), value?)));
    Value::Table(present.collect())
}

fn name(kind: &str, number: i64) -> Option<Value> {
    Some(format!("{kind}-{number}").into())
}

/// The `[workload]` of a scenario as it is written now, if it has the former form.
pub(super) fn present_form(text: &str) -> Option<String> {
    let mut scenario: Table = toml::from_str(text).ok()?;
    let Value::Table(mut workload) = scenario.remove("workload")? else { return None };
    if workload.get("kind")?.as_str()? != "paging" {
        return None;
    }
    let Value::Table(demand) = workload.remove("demand")? else { return None };
    let programs = by_cgroup(demand);
    let list = |key: &str, at: i64| workload.get(key)?.as_array()?.get(usize::try_from(at).ok()?).cloned();
    let parent = |at: i64| list("cgroup_parent", at)?.as_integer().filter(|&parent| parent >= 0);
    let mut numbers: BTreeSet<i64> = programs.keys().copied().collect();
    numbers.extend(programs.keys().filter_map(|&at| parent(at)));
    // A cgroup stands below its parent.
    let depth = |at: i64| std::iter::successors(parent(at), |&at| parent(at)).take(numbers.len()).count();
    let mut ordered: Vec<i64> = numbers.iter().copied().collect();
    ordered.sort_by_key(|&at| depth(at));
    let cgroups = ordered.into_iter().map(|at| {
        table([
            ("name", name("cgroup", at)),
            ("parent", parent(at).and_then(|parent| name("cgroup", parent))),
            ("max_mib", list("cgroup_max_mib", at)),
            ("low_mib", list("cgroup_low_mib", at)),
            ("min_mib", list("cgroup_min_mib", at)),
            ("oom_group", list("cgroup_oom_group", at)),
        ])
    });
    let cgroups = cgroups.collect();
    let programs = programs.into_iter().map(|(at, demand)| {
        let program = Some(Value::Table(demand));
        table([("name", name("program", at)), ("cgroup", name("cgroup", at)), ("program", program)])
    });
    let programs = programs.collect();
    let changes = workload.get("changes").and_then(Value::as_array);
    let events = changes.into_iter().flatten().filter_map(|change| {
        let (setting, value) = (change.get("setting")?.as_str()?, change.get("value")?.as_str()?);
        let write = Some(format!("{setting}={value}").into());
        Some(table([("milliseconds", change.get("milliseconds").cloned()), ("write", write)]))
    });
    let events: Vec<Value> = events.collect();
    let mut present: Table =
        SAME.iter().filter_map(|&key| Some((key.to_string(), workload.get(key)?.clone()))).collect();
    present.insert("kind".into(), "host".into());
    present.insert("cgroups".into(), Value::Array(cgroups));
    present.insert("programs".into(), Value::Array(programs));
    if !events.is_empty() {
        present.insert("events".into(), Value::Array(events));
    }
    toml::to_string(&BTreeMap::from([("workload", present)])).ok()
}

/// A program for each memory cgroup that the groups of a demand name.
fn by_cgroup(mut demand: Table) -> BTreeMap<i64, Table> {
    let Some(Value::Array(groups)) = demand.remove("groups") else { return BTreeMap::from([(0, demand)]) };
    let mut programs: BTreeMap<i64, Table> = BTreeMap::new();
    for mut group in groups {
        let number = group.as_table_mut().and_then(|group| group.remove("cgroup"));
        let number = number.and_then(|number| number.as_integer()).unwrap_or(0);
        let program = programs.entry(number).or_insert_with(|| demand.clone());
        if let Value::Array(own) = program.entry("groups").or_insert_with(|| Value::Array(Vec::new())) {
            own.push(group);
        }
    }
    programs
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;

    #[test]
    fn the_former_form_is_refused_with_one_that_is_read() {
        let header = "name = 'old'\ndescription = 'd'\nevidence = 'e'\nmachine = 'epyc-7k62-vm'\nseries = 'reclaim'\n\
             variants = ['6.18']\nseeds = 1\nmetrics = ['score']\n";
        let group = |cgroup: u32| {
            format!(
                "[[workload.demand.groups]]\nthreads = 1\ncgroup = {cgroup}\nobject = 'file'\nmib = 8\n\
                 pattern = {{ kind = 'uniform' }}\ncompute_ns = {{ value = 500.0, source = 'made up' }}\n"
            )
        };
        let former = format!(
            "{header}[workload]\nkind = 'paging'\nfiles = 'nvme'\ncgroup_parent = [2, -1]\ncgroup_max_mib = [64, 32, 80]\n\
             warm_milliseconds = 0\nmilliseconds = 10\n[[workload.changes]]\nmilliseconds = 5\nsetting = 'vm.swappiness'\n\
             value = '1'\n[workload.demand]\nkind = 'groups'\n{}{}",
            group(0),
            group(1)
        );
        let error = Scenario::parse("old.toml", &former).unwrap_err().to_string();
        let (said, present) = error.split_once("\n\n").unwrap();
        assert!(said.starts_with("old.toml: line 10: workload.kind = paging"), "{said}");
        let scenario = Scenario::parse("new.toml", &format!("{header}{present}")).unwrap();
        let sim::Workload::Host(host) = scenario.workload else { panic!("a host") };
        let names: Vec<&str> = host.cgroups.iter().map(|cgroup| cgroup.name.as_str()).collect();
        assert_eq!(names, ["cgroup-1", "cgroup-2", "cgroup-0"]);
        assert_eq!(host.cgroups[2].parent.as_deref(), Some("cgroup-2"));
        assert_eq!(
            host.cgroups.iter().map(|cgroup| cgroup.max_mib).collect::<Vec<_>>(),
            [32, 80, 64].map(Some)
        );
        assert_eq!(host.programs.len(), 2);
        assert_eq!(host.events[0].write, "vm.swappiness=1");
    }
}
