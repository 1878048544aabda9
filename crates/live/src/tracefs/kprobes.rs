//! Our own trace events at kernel functions: `kprobe_events`.
//!
//! ```text
//!   p:numa/setnuma sched_setnuma nid=%si:s32       at each call: the second argument
//!   r:numa/misret mpol_misplaced nid=$retval:s32   at each return: the return value
//! ```
//!
//! Each definition creates a directory `events/numa/setnuma` like that of a tracepoint. `kprobe_profile`
//! counts the calls that a probe missed because all return slots were in use or another probe was running.

use crate::notice::say;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{Tracefs, TracefsError};

const EVENTS: &str = "kprobe_events";

/// Events that exist until this is dropped. Instances that use them have to be removed before.
#[derive(Debug)]
pub struct Kprobes {
    root: PathBuf,
    names: Vec<String>,
}

impl Kprobes {
    /// Creates the events of these definitions.
    pub fn define(tracefs: &Tracefs, definitions: &[String]) -> Result<Kprobes, TracefsError> {
        let mut probes = Kprobes { root: tracefs.root().to_path_buf(), names: Vec::new() };
        for definition in definitions {
            append(tracefs.root(), definition).map_err(|source| TracefsError::File {
                path: probes.root.join(EVENTS),
                source: io::Error::other(format!("`{definition}`: {source}")),
            })?;
            let name = definition.split_once(':').and_then(|(_, rest)| rest.split(' ').next());
            probes.names.extend(name.map(str::to_string));
        }
        Ok(probes)
    }

    /// Number of calls that the probes missed.
    pub fn missed(&self) -> Result<u64, TracefsError> {
        let path = self.root.join("kprobe_profile");
        let text =
            fs::read_to_string(&path).map_err(|source| TracefsError::File { path: path.clone(), source })?;
        let events: Vec<&str> = self.names.iter().filter_map(|name| name.rsplit('/').next()).collect();
        missed(&text, &events).ok_or(TracefsError::File {
            path,
            source: io::Error::other("expected a line for each event, with its name, hits and misses"),
        })
    }
}

/// The sum of the missed calls of these events; `None` unless there is a line for each.
fn missed(text: &str, events: &[&str]) -> Option<u64> {
    let mut by_event = BTreeMap::new();
    for line in text.lines() {
        let [name, _, missed] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
        by_event.insert(name, missed);
    }
    events.iter().map(|event| by_event.get(event)?.parse::<u64>().ok()).sum()
}

fn append(root: &Path, line: &str) -> io::Result<()> {
    OpenOptions::new().append(true).open(root.join(EVENTS))?.write_all(line.as_bytes())
}

impl Drop for Kprobes {
    fn drop(&mut self) {
        for name in &self.names {
            if let Err(error) = append(&self.root, &format!("-:{name}")) {
                say(format_args!("cannot remove the event {name}: {error}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_calls_of_our_events_add_up() {
        let text =
            "  fault             19008      0\n  misret    190    7\n  mis  200  2\n  theirs  5  1000\n";
        assert_eq!(missed(text, &["fault", "misret", "mis"]), Some(9));
        assert_eq!(missed("", &["fault"]), None, "an event that is not there");
        assert_eq!(missed("fault 3", &["fault"]), None);
        assert_eq!(missed("fault 3 x", &["fault"]), None);
    }
}
