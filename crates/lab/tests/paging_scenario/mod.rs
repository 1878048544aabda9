//! Scenarios of programs that run out of memory, for tests.

use lab::scenario::Scenario;

/// A scenario with groups of threads, each given by its keys, on a machine; `workload` has the other keys of
/// the workload.
pub fn scenario(machine: &str, workload: &str, groups: &[&str]) -> Scenario {
    let group = |keys: &&str| {
        format!(
            r#"
            [[workload.demand.groups]]
            {keys}
            compute_ns = {{ value = 100.0, source = "made up" }}
            "#
        )
    };
    let groups: String = groups.iter().map(group).collect();
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
        kind = "paging"
        warm_milliseconds = 0
        {workload}
        [workload.demand]
        kind = "groups"
        {groups}
        "#
    );
    Scenario::parse("reader", &text).unwrap()
}
