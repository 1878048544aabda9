//! Task names, from scheduler events.

use std::collections::BTreeMap;

/// Bytes of a task name in the kernel, with its terminator (`TASK_COMM_LEN`).
const NAME_BYTES: usize = 16;

/// The last name of each task. CPUs may be read one after another, so the event with the latest time counts.
#[derive(Default)]
pub struct TaskNames {
    names: BTreeMap<i32, (u64, [u8; NAME_BYTES])>,
}

impl TaskNames {
    /// Notes that task `task` was called `name` at `time`.
    pub fn see(&mut self, task: i32, time: u64, name: &[u8]) {
        let mut bytes = [0; NAME_BYTES];
        let length = name.len().min(NAME_BYTES);
        bytes[..length].copy_from_slice(&name[..length]);
        let last = self.names.entry(task).or_default();
        if last.0 <= time {
            *last = (time, bytes);
        }
    }

    /// Name by task. With `anonymize`, each distinct name becomes `task-1`, `task-2`, ... in order of the
    /// first PID that has it.
    pub fn finish(self, anonymize: bool) -> BTreeMap<i32, String> {
        let mut aliases: BTreeMap<[u8; NAME_BYTES], String> = BTreeMap::new();
        self.names
            .into_iter()
            .map(|(task, (_, bytes))| {
                if !anonymize {
                    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
                    return (task, String::from_utf8_lossy(name).into_owned());
                }
                let next = aliases.len() + 1;
                (task, aliases.entry(bytes).or_insert_with(|| format!("task-{next}")).clone())
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_name_stays_and_can_be_hidden() {
        let names = || {
            let mut names = TaskNames::default();
            names.see(8, 20, b"cc1");
            names.see(8, 10, b"sh");
            names.see(7, 10, b"make");
            names.see(9, 10, b"cc1");
            names.see(10, 10, b"a-name-that-is-far-too-long");
            names.finish(false)
        };
        let names = names();
        assert_eq!(names[&8], "cc1");
        assert_eq!(names[&10], "a-name-that-is-f");
        let mut hidden = TaskNames::default();
        for (task, name) in &names {
            hidden.see(*task, 0, name.as_bytes());
        }
        let hidden: Vec<String> = hidden.finish(true).into_values().collect();
        assert_eq!(hidden, ["task-1", "task-2", "task-2", "task-3"]);
    }
}
