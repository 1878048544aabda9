//! `/proc/pressure/*` and `memory.pressure` of a cgroup: how long tasks have waited for a resource (PSI).

use std::collections::BTreeMap;

use super::{ProcError, number};

/// Parses a file of pressure: microseconds since boot by line, `some` (a task waited) and `full` (all did, so nobody worked).
pub fn parse_pressure(text: &str) -> Result<BTreeMap<String, u64>, ProcError> {
    let mut totals = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let error = |problem| ProcError { file: "/proc/pressure", line: index + 1, problem };
        let expected = || error(format!("expected `some` or `full` and `total=N`, found `{line}`"));
        let (name, rest) = line.split_once(' ').ok_or_else(expected)?;
        let total = rest.split_whitespace().find_map(|word| word.strip_prefix("total="));
        totals.insert(name.to_string(), number(total.ok_or_else(expected)?).map_err(error)?);
    }
    Ok(totals)
}
