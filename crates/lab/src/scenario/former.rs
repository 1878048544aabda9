//! The present form of workloads that had a kind of their own before programs could run side by side: `kind = "paging"`, one program
//! and its memory cgroups by number, `kind = "numa"`, threads on several nodes, `kind = "kernel-writes"`, an operator and a service,
//! `kind = "mappings"`, a recorded program, `kind = "socket-stream"`, pairs of processes, `kind = "page-fault"`, tasks that touch memory,
//! `kind = "kbuild"`, kernel builds, `kind = "replay"`, a trace of the page allocator, and `kind = "long-running"`, processes whose
//! memory comes and goes.
//!
//! ```text
//!   paging
//!   cgroup_max_mib = [64]        [[workload.cgroups]]    name = "cgroup-0", max_mib = 64
//!   [workload.demand]       ─►   [[workload.programs]]   name = "program-0", cgroup = "cgroup-0", program = the demand
//!   [[workload.changes]]         [[workload.events]]     write = "SETTING=VALUE"
//!   numa
//!   [workload.program]           [[workload.programs]]   name = "program-0", layout, begins_on, program = the same
//!   kernel_thread, lru_add  ─►   [[workload.programs]]   program = { kind = "kernel-thread" }, { kind = "touch-once" }
//!   kernel-writes
//!   writes                  ─►   [[workload.events]]     write = each of them
//!   [workload.service]           [[workload.programs]]   program = { kind = "service" }
//!   mappings
//!   program = "jvm"         ─►   [[workload.programs]]   program = { kind = "recorded-mappings", recording = "jvm" }
//!   socket-stream
//!   pairs, ...              ─►   [[workload.programs]]   name = "streams", program = { kind = "socket-stream", the same }
//!   page-fault
//!   tasks, mib          ─►   [[workload.programs]]   name = "tasks", program = { kind = "page-faults", first_cpu = 0, the same }
//!   kbuild
//!   builds, jobs, bind  ─►   [[workload.programs]]   name = "build", copies, memory_node, program = { kind = "kernel-build", the same }
//!   replay
//!   trace, copies, ...  ─►   [[workload.programs]]   name = "trace", program = { kind = "page-trace", the same }
//!   long-running
//!   memory_mib          ─►   [settings]              mem
//!   occupancy, ...      ─►   [[workload.programs]]   name = "tasks", program = { kind = "map-unmap", mib, ... }
//! ```
//!
//! It is shown in the error, so that its reader can go on.

use machine::WrongValue;
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};

/// Keys of the former form that stay as they are.
const SAME: [&str; 7] =
    ["files", "large_folios", "swap", "swap_mib", "held_mib", "warm_milliseconds", "milliseconds"];

/// Milliseconds that every write to a pool and every recording has ended after, where a scenario had no time; the run ends with the last
/// one.
const LONG: i64 = 3_600_000;

/// MiB that the kernel itself takes of `mem`, where memory was all for processes.
const OF_KERNEL_MIB: i64 = 44;

/// Units of the recorded build, which a build had where a scenario gave no number.
const UNITS: i64 = 12908;

fn table(entries: impl IntoIterator<Item = (&'static str, Option<Value>)>) -> Value {
    let present = entries.into_iter().filter_map(|(key, value)| Some((key.to_string(), value?)));
    Value::Table(present.collect())
}

fn name(kind: &str, number: i64) -> Option<Value> {
    Some(format!("{kind}-{number}").into())
}

/// A kind that workloads had.
struct Former {
    kind: &'static str,
    /// The kind of program that it is now.
    program: &'static str,
    /// What `[workload]` is now, if that has the keys that it had.
    present: fn(Table) -> Option<Table>,
}

const fn former(kind: &'static str, program: &'static str, present: fn(Table) -> Option<Table>) -> Former {
    Former { kind, program, present }
}

const FORMER: [Former; 9] = [
    former("paging", "groups", of_paging),
    former("numa", "numa01", of_numa),
    former("kernel-writes", "service", of_kernel_writes),
    former("mappings", "recorded-mappings", of_mappings),
    former("socket-stream", "socket-stream", of_socket_stream),
    former("page-fault", "page-faults", of_page_fault),
    former("kbuild", "kernel-build", of_kbuild),
    former("replay", "page-trace", of_replay),
    former("long-running", "map-unmap", of_long_running),
];

/// The error for a scenario whose workload has a kind that none has now, with its present form if it had one; `None` for all other texts.
pub(super) fn wrong_kind(text: &str) -> Option<WrongValue> {
    let mut scenario: Table = toml::from_str(text).ok()?;
    let Value::Table(workload) = scenario.remove("workload")? else { return None };
    let kind = workload.get("kind")?.as_str().filter(|kind| *kind != "host")?.to_string();
    let expected = match FORMER.iter().find(|former| former.kind == kind) {
        None => "`host`, or is left out".into(),
        Some(former) => match (former.present)(workload).and_then(in_present_form) {
            Some(present) => format!(
                "no kind, or `host`: it is a program of a host now. As it is written now, in place of all tables of the workload, and beside other settings:\n\n{present}"
            ),
            None => format!(
                "no kind, or `host`: it is a program of kind \"{}\" now ([[workload.programs]]), whose keys are in docs/src/reference/scenarios.md",
                former.program
            ),
        },
    };
    Some(WrongValue::new("workload.kind", kind, expected))
}

/// The tables of a scenario that are written for this workload, and for the settings in it.
fn in_present_form(mut present: Table) -> Option<String> {
    present.remove("kind");
    // What is none of the workload's is beside it.
    let settings = present.remove("settings");
    let tables = [("settings", settings), ("workload", Some(Value::Table(present)))];
    let tables: BTreeMap<&str, Value> =
        tables.into_iter().filter_map(|(name, table)| Some((name, table?))).collect();
    toml::to_string(&tables).ok()
}

fn of_mappings(mut program: Table) -> Option<Table> {
    let recording = program.remove("program")?;
    program.extend([("kind".into(), "recorded-mappings".into()), ("recording".into(), recording)]);
    let program = table([("name", name("program", 0)), ("program", Some(Value::Table(program)))]);
    Some(Table::from_iter([
        ("milliseconds".into(), Value::from(LONG)),
        ("programs".into(), Value::Array(vec![program])),
    ]))
}

fn of_socket_stream(program: Table) -> Option<Table> {
    of_loop("streams", program)
}

fn of_page_fault(mut program: Table) -> Option<Table> {
    program.extend([("kind".into(), "page-faults".into()), ("first_cpu".into(), 0.into())]);
    of_loop("tasks", program)
}

/// Builds each had a memcg. Units that ended before measuring began are given as time, as `warm_milliseconds`: some 25 ms.
fn of_kbuild(mut program: Table) -> Option<Table> {
    let (builds, bind) = (program.remove("builds")?, program.remove("bind"));
    program.remove("processes_per_slab");
    program.insert("kind".into(), "kernel-build".into());
    program.entry("units").or_insert(UNITS.into());
    let warm = program.remove("warm_units")?.as_integer()?;
    let program = table([
        ("name", Some("build".into())),
        ("cgroup", Some("build".into())),
        ("copies", Some(builds)),
        ("memory_node", bind),
        ("program", Some(Value::Table(program))),
    ]);
    let cgroup = table([("name", Some("build".into())), ("per_copy", Some(true.into()))]);
    Some(Table::from_iter([
        ("warm_milliseconds".into(), Value::from(if warm > 0 { 25 } else { 0 })),
        ("milliseconds".into(), Value::from(LONG)),
        ("cgroups".into(), Value::Array(vec![cgroup])),
        ("programs".into(), Value::Array(vec![program])),
    ]))
}

fn of_replay(mut program: Table) -> Option<Table> {
    program.insert("kind".into(), "page-trace".into());
    program.insert("milliseconds".into(), Value::from(LONG));
    let mut workload = of_loop("trace", program)?;
    workload.remove("warm_milliseconds");
    Some(workload)
}

/// Sizes were parts of memory; what is mapped was counted in turnovers of it.
fn of_long_running(mut program: Table) -> Option<Table> {
    let number = |value: Value| value.as_float().or(value.as_integer().map(|whole| whole as f64));
    let mut take = |key: &str| number(program.remove(key)?);
    let (memory, occupancy, turnovers) = (take("memory_mib")?, take("occupancy")?, take("turnovers")?);
    let (unmovable, zram, order) = (take("unmovable")?, take("zram")?, take("order")?);
    let part = |percent: f64| Value::from((memory * percent / 100.0).round() as i64);
    let compacts = program.remove("compaction")?.as_str()? != "none";
    let cache = program.remove("page_cache")?;
    let is_cached = cache.as_str()? != "none";
    let resident = program.remove("occupied").is_some_and(|of| of.as_str() == Some("memory"));
    let program = table([
        ("kind", Some("map-unmap".into())),
        ("tasks", program.remove("processes")),
        ("mib", Some(part(occupancy))),
        ("counted", resident.then(|| "resident".into())),
        ("turnovers", Some(Value::from((100.0 * turnovers / occupancy).round().max(1.0) as i64))),
        ("areas", program.remove("areas")),
        ("partly_touched", program.remove("partly_touched")),
        ("unmovable_mib", Some(part(unmovable))),
        ("file_mib", is_cached.then(|| part(400.0))),
        ("preferred_kib", Some(Value::from(4 << order as i64))),
    ]);
    let program = table([("name", Some("tasks".into())), ("program", Some(program))]);
    let mem = format!("{}M", memory as i64 + OF_KERNEL_MIB);
    let settings = table([
        ("mem", Some(mem.into())),
        ("vm.compaction_proactiveness", (!compacts).then(|| "0".into())),
        // Nothing could be reclaimed, so kswapd would not have undone a boost.
        ("vm.watermark_boost_factor", (!is_cached && zram == 0.0).then(|| "0".into())),
    ]);
    let Value::Table(present) = table([
        ("settings", Some(settings)),
        ("files", is_cached.then(|| "nvme".into())),
        ("large_folios", (cache.as_str()? == "blocks").then(|| true.into())),
        ("swap", (zram > 0.0).then(|| "zram".into())),
        ("swap_mib", (zram > 0.0).then(|| part(zram))),
        ("milliseconds", Some(Value::from(LONG))),
        ("programs", Some(Value::Array(vec![program]))),
    ]) else {
        return None;
    };
    Some(present)
}

/// A program that was measured for so many milliseconds.
fn of_loop(name: &str, mut program: Table) -> Option<Table> {
    let milliseconds = program.remove("milliseconds")?;
    // A quarter of the time was warm-up, but of a number of messages.
    let warm = if program.contains_key("messages") { 0 } else { milliseconds.as_integer()? / 4 };
    let program = table([("name", Some(name.into())), ("program", Some(Value::Table(program)))]);
    Some(Table::from_iter([
        ("warm_milliseconds".into(), Value::from(warm)),
        ("milliseconds".into(), milliseconds),
        ("programs".into(), Value::Array(vec![program])),
    ]))
}

fn of_kernel_writes(mut workload: Table) -> Option<Table> {
    let Value::Array(writes) = workload.remove("writes")? else { return None };
    let mut milliseconds = Value::from(LONG);
    if let Some(Value::Table(mut service)) = workload.remove("service") {
        milliseconds =
            service.remove("milliseconds").filter(|of| of.as_integer() != Some(0)).unwrap_or(milliseconds);
        let threads = service.remove("cpus")?;
        service.extend([
            ("kind".into(), "service".into()),
            ("threads".into(), threads),
            ("first_cpu".into(), 1.into()),
        ]);
        let program = table([("name", Some("service".into())), ("program", Some(Value::Table(service)))]);
        workload.insert("programs".into(), Value::Array(vec![program]));
    }
    workload.insert("milliseconds".into(), milliseconds);
    let events = writes.into_iter().map(|write| table([("write", Some(write))]));
    workload.insert("events".into(), Value::Array(events.collect()));
    Some(workload)
}

fn of_numa(mut workload: Table) -> Option<Table> {
    let beside = |name: &str, kind: &str, key: &'static str, of: &Value| {
        let program = table([("kind", Some(kind.into())), (key, of.get(key).cloned())]);
        let cpu = of.get("cpu").cloned();
        table([("name", Some(name.into())), ("begins_on_cpu", cpu), ("program", Some(program))])
    };
    let kernel_thread = workload.remove("kernel_thread");
    let lru_add = workload.remove("lru_add");
    let mut programs = vec![table([
        ("name", name("program", 0)),
        ("layout", Some(workload.remove("layout").unwrap_or_else(|| "from_libraries".into()))),
        ("begins_on", Some(workload.remove("begins_on").unwrap_or_else(|| 0.into()))),
        ("cpuset_mems", workload.remove("cpuset_mems")),
        // Who leaves pages in an LRU batch does so before.
        ("start_milliseconds", lru_add.as_ref().map(|_| 1.into())),
        ("program", Some(workload.remove("program")?)),
    ])];
    let beside_it = [
        kernel_thread.map(|of| beside("kernel-thread", "kernel-thread", "milliseconds", &of)),
        lru_add.map(|of| beside("earlier", "touch-once", "pages", &of)),
    ];
    programs.extend(beside_it.into_iter().flatten());
    workload.insert("programs".into(), Value::Array(programs));
    Some(workload)
}

fn of_paging(mut workload: Table) -> Option<Table> {
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
    present.insert("cgroups".into(), Value::Array(cgroups));
    present.insert("programs".into(), Value::Array(programs));
    if !events.is_empty() {
        present.insert("events".into(), Value::Array(events));
    }
    Some(present)
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
    use sim::Workload;

    /// The host that the error about a scenario of a former kind shows, behind the scenario's header.
    fn present(header: &str, kind: &str, former: &str) -> Workload {
        let error = Scenario::parse("old.toml", former).unwrap_err().to_string();
        let (said, present) = error.split_once("\n\n").unwrap();
        assert!(said.starts_with(&format!("old.toml: line 10: workload.kind = {kind}")), "{said}");
        Scenario::parse("new.toml", &format!("{header}{present}")).unwrap().workload
    }

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
        let host = present(header, "paging", &former);
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

    #[test]
    fn an_operator_and_a_service_are_on_a_host() {
        let header = "name = 'old'\ndescription = 'd'\nevidence = 'e'\nmachine = 'milan-vm-252'\nseries = 'hugetlb'\n\
             variants = ['6.18']\nseeds = 1\nmetrics = ['grow_time']\n";
        let number = "{ value = 1.0, source = 'made up' }";
        let service = format!(
            "[workload.service]\ncpus = 4\nrequests_per_second = {number}\nwork_us = {number}\nwork_spread = {number}\npages = 8\n\
             milliseconds = 70\n"
        );
        for (service, milliseconds, programs) in [("", super::LONG as u64, 0), (service.as_str(), 70, 1)] {
            let former = format!(
                "{header}[workload]\nkind = 'kernel-writes'\nwrites = ['vm.nr_hugepages=8', 'vm.nr_hugepages=0']\n{service}"
            );
            let host = present(header, "kernel-writes", &former);
            assert_eq!((host.milliseconds, host.programs.len()), (milliseconds, programs));
            assert_eq!(host.events[1].write, "vm.nr_hugepages=0");
        }
    }

    #[test]
    fn a_recorded_program_is_one_of_a_host() {
        let header = "name = 'old'\ndescription = 'd'\nevidence = 'e'\nmachine = 'ampere-altra'\nseries = 'folios'\n\
             variants = ['folios-base']\nseeds = 1\nmetrics = ['fault_time']\n";
        let figures = ["cpu_seconds", "runs", "million_walks"]
            .map(|key| format!("{key} = {{ value = 1.0, source = 'made up' }}\n"))
            .concat();
        let former = format!("{header}[workload]\nkind = 'mappings'\nprogram = 'redis'\n{figures}");
        let host = present(header, "mappings", &former);
        assert_eq!(host.programs[0].program.kind(), "recorded-mappings");
        assert_eq!(host.programs[0].program.recordings(), Some(1));
    }

    #[test]
    fn pairs_of_processes_are_a_program_of_a_host() {
        let header = "name = 'old'\ndescription = 'd'\nevidence = 'e'\nmachine = 'intel-2s-128'\nseries = 'pcp'\n\
             variants = ['6.18']\nseeds = 1\nmetrics = ['score']\n";
        for (messages, warm) in [("", 50), ("messages = 10\n", 0)] {
            let former = format!(
                "{header}[workload]\nkind = 'socket-stream'\npairs = 4\nblocks = [3]\ncopied_kib = 20\nin_flight = 8\n\
                 calls = {{ value = 1.0, source = 'made up' }}\nswap_every_us = 1000\nbackground_miss = 1.5\n{messages}milliseconds = 200\n"
            );
            let host = present(header, "socket-stream", &former);
            assert_eq!((host.warm_milliseconds, host.milliseconds), (warm, 200));
            assert_eq!(host.programs[0].program.kind(), "socket-stream");
        }
    }

    #[test]
    fn tasks_that_touch_memory_are_a_program_of_a_host() {
        let header = "name = 'old'\ndescription = 'd'\nevidence = 'e'\nmachine = 'intel-2s-128'\nseries = 'pcp'\n\
             variants = ['6.18']\nseeds = 1\nmetrics = ['score']\n";
        let former =
            format!("{header}[workload]\nkind = 'page-fault'\ntasks = 4\nmib = 8\nmilliseconds = 40\n");
        let host = present(header, "page-fault", &former);
        assert_eq!((host.warm_milliseconds, host.milliseconds), (10, 40));
        let workload::tasks::ProgramSpec::PageFaults(spec) = host.programs[0].program else {
            panic!("faults")
        };
        assert_eq!((spec.tasks, spec.first_cpu, spec.mib), (4, Some(0), 8));
    }

    #[test]
    fn builds_are_copies_of_a_program_of_a_host() {
        let header = "name = 'old'\ndescription = 'd'\nevidence = 'e'\nmachine = 'intel-2s-224'\nseries = 'pcp'\n\
             variants = ['6.18']\nseeds = 1\nmetrics = ['lock']\n";
        for (units, expected) in [("", 12908), ("units = 40\n", 40)] {
            let former = format!(
                "{header}[workload]\nkind = 'kbuild'\nbuilds = 2\njobs = 28\nbind = 1\nwarm_units = 7\n{units}\
                 intensity = {{ value = 1.0, source = 'made up' }}\nprocesses_per_slab = {{ value = 8, source = 'made up' }}\n"
            );
            let host = present(header, "kbuild", &former);
            assert_eq!((host.warm_milliseconds, host.programs[0].copies), (25, 2));
            assert_eq!(host.programs[0].memory_node, Some(1));
            let workload::tasks::ProgramSpec::KernelBuild(build) = &host.programs[0].program else {
                panic!("a build")
            };
            assert_eq!((build.jobs, build.units), (28, Some(expected)));
        }
    }

    #[test]
    fn threads_on_several_nodes_are_a_program_of_a_host() {
        let header = "name = 'old'\ndescription = 'd'\nevidence = 'e'\nmachine = 'qemu-2n'\nseries = 'numa'\n\
             variants = ['6.18']\nseeds = 1\nmetrics = ['elapsed']\n";
        let former = format!(
            "{header}[workload]\nkind = 'numa'\nplacement = 'stay'\nmilliseconds = 10\n[workload.kernel_thread]\ncpu = 3\n\
             milliseconds = 5\n[workload.lru_add]\ncpu = 2\npages = 7\n[workload.program]\nkind = 'numa02'\nthreads = 2\n\
             mib = 4\nloops = 1\n"
        );
        let host = present(header, "numa", &former);
        let kinds = host.programs.iter().map(|program| (program.program.kind(), program.begins_on_cpu));
        assert_eq!(
            kinds.collect::<Vec<_>>(),
            [("numa02", None), ("kernel-thread", Some(3)), ("touch-once", Some(2))]
        );
        assert_eq!((host.programs[0].begins_on, host.programs[0].start_milliseconds), (Some(0), 1));
    }

    #[test]
    fn a_trace_is_a_program_of_a_host() {
        let header = "name = 'old'\ndescription = 'd'\nevidence = 'e'\nmachine = 'intel-2s-128'\nseries = 'pcp'\n\
             variants = ['6.18']\nseeds = 1\nmetrics = ['alloc_zone']\n";
        let former =
            format!("{header}[workload]\nkind = 'replay'\ntrace = 'a.parquet'\ncopies = 2\nstagger_us = 7\n");
        let host = present(header, "replay", &former);
        assert_eq!(host.warm_milliseconds, 0);
        let workload::tasks::ProgramSpec::PageTrace(spec) = &host.programs[0].program else {
            panic!("a trace")
        };
        assert_eq!((spec.trace.to_str(), spec.copies, spec.stagger_us), (Some("a.parquet"), 2, 7));
    }

    #[test]
    fn memory_that_comes_and_goes_is_of_a_program_of_a_host() {
        let header = "name = 'old'\ndescription = 'd'\nevidence = 'e'\nmachine = 'i7-9700'\nseries = 'folios'\n\
             variants = ['folios-v2']\nseeds = 1\nmetrics = ['preferred_success']\n";
        let former = |cache: &str, zram: f64| {
            format!(
                "{header}[workload]\nkind = 'long-running'\nmemory_mib = 256\noccupancy = 50.0\nturnovers = 20\nprocesses = 4\n\
                 areas = [{{ least = 1, most = 3, weight = 1.0, life = 1.0 }}]\npartly_touched = 0.0\nunmovable = 2.0\n\
                 page_cache = '{cache}'\nzram = {zram:?}\ncompaction = 'none'\norder = 4\n"
            )
        };
        let host = present(header, "long-running", &former("none", 0.0));
        let workload::tasks::ProgramSpec::MapUnmap(spec) = &host.programs[0].program else { panic!("areas") };
        assert_eq!((spec.mib, spec.turnovers, spec.unmovable_mib, spec.preferred_kib), (128, 40, 5, 64));
        assert_eq!((spec.file_mib, host.swap_mib), (0, 0));
        let host = present(header, "long-running", &former("blocks", 40.0));
        assert!(host.large_folios && host.swap.as_deref() == Some("zram"));
        assert_eq!(host.swap_mib, 102);
    }

    #[test]
    fn what_lacks_keys_of_its_former_form_is_told_which_program_it_is_now() {
        let former = "name = 'old'\ndescription = 'd'\nevidence = 'e'\nmachine = 'i7-9700'\nvariants = ['6.18']\nseeds = 1\n\
             metrics = ['score']\n[workload]\nkind = 'long-running'\n";
        let error = Scenario::parse("old.toml", former).unwrap_err().to_string();
        assert!(error.starts_with("old.toml: line 9: workload.kind = long-running: "), "{error}");
        assert!(error.contains("a program of kind \"map-unmap\""), "{error}");
        for super::Former { program, .. } in super::FORMER {
            assert!(workload::tasks::ProgramSpec::KINDS.contains(&program), "{program}");
        }
    }
}
