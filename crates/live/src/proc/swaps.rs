//! `/proc/swaps`: swap areas.

use super::{ProcError, number};

/// A swap area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwapArea {
    /// The file or device.
    pub name: String,
    pub size_kib: u64,
    pub used_kib: u64,
}

impl SwapArea {
    /// Whether it is compressed memory rather than a device, so that what lies together on it is read no faster.
    pub fn is_memory(&self) -> bool {
        self.name.rsplit('/').next().is_some_and(|name| name.starts_with("zram"))
    }
}

/// Parses `/proc/swaps`: the areas in the order of the file.
pub fn parse_swaps(text: &str) -> Result<Vec<SwapArea>, ProcError> {
    let area = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // A deleted file has a word more; the numbers are the last three but one.
        let [name, .., size, used, _priority] = words[..] else {
            return Err(format!(
                "expected a name, a type, a size, what is used and a priority, found `{line}`"
            ));
        };
        Ok(SwapArea { name: name.into(), size_kib: number(size)?, used_kib: number(used)? })
    };
    let lines = text.lines().enumerate().skip(1);
    lines
        .map(|(index, line)| {
            area(line).map_err(|problem| ProcError { file: "/proc/swaps", line: index + 1, problem })
        })
        .collect()
}
