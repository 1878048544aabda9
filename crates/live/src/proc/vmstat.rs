//! `/proc/vmstat`: one counter per line.

use std::collections::BTreeMap;

use super::{ProcError, number};

pub fn parse_vmstat(text: &str) -> Result<BTreeMap<String, u64>, ProcError> {
    let mut counters = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let error = |problem| ProcError { file: "/proc/vmstat", line: index + 1, problem };
        let (name, value) = line
            .split_once(' ')
            .ok_or_else(|| error(format!("expected a name and a number, found `{line}`")))?;
        counters.insert(name.to_string(), number(value.trim()).map_err(error)?);
    }
    Ok(counters)
}
