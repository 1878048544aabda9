//! `/proc/meminfo`: one amount per line.

use std::collections::BTreeMap;

use super::{ProcError, number};

/// Parses `/proc/meminfo`: amount by name. Unit: KiB, except for the `HugePages_` lines, which count huge
/// pages.
pub fn parse_meminfo(text: &str) -> Result<BTreeMap<String, u64>, ProcError> {
    let mut amounts = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let error = |problem| ProcError { file: "/proc/meminfo", line: index + 1, problem };
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| error(format!("expected a name, a colon and a number, found `{line}`")))?;
        let value = value.trim().trim_end_matches("kB").trim_end();
        amounts.insert(name.to_string(), number(value).map_err(error)?);
    }
    Ok(amounts)
}
