//! Scenarios of programs that run out of memory, for tests.

use lab::scenario::Scenario;

/// A scenario on a machine: `workload` has the keys of the workload apart from programs; each program is a group of threads, given by
/// its keys, in the memory cgroup of that name, or in none if that is empty.
pub fn scenario(machine: &str, workload: &str, programs: &[(&str, &str)]) -> Scenario {
    let program = |(number, (cgroup, keys)): (usize, &(&str, &str))| {
        let cgroup = if cgroup.is_empty() { String::new() } else { format!("cgroup = \"{cgroup}\"") };
        format!(
            r#"
            [[workload.programs]]
            name = "program-{number}"
            {cgroup}
            [workload.programs.program]
            kind = "groups"
            [[workload.programs.program.groups]]
            {keys}
            compute_ns = {{ value = 100.0, source = "made up" }}
            "#
        )
    };
    let programs: String = programs.iter().enumerate().map(program).collect();
    let text = format!(
        r#"
        name = "reader"
        description = "random reads"
        evidence = "made up"
        machine = "{machine}"
        series = "reclaim"
        variants = ["mglru-6.7"]
        seeds = 1
        metrics = ["score"]
        [workload]
        kind = "host"
        warm_milliseconds = 0
        {workload}
        {programs}
        "#
    );
    Scenario::parse("reader", &text).unwrap()
}

/// A memory cgroup with `memory.max`.
pub fn cgroup(name: &str, max_mib: u64) -> String {
    format!("\n[[workload.cgroups]]\nname = \"{name}\"\nmax_mib = {max_mib}\n")
}
