//! Runs a program on this kernel and notes, twice a second, what the kernel counts and where memory is.
//!
//! ```text
//!   settings ─► processes ─► "ready" from each ─► "go" ─► sample, sample, ... ─► end them
//!                                                          /proc/vmstat, /proc/PID/numa_maps
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};
use workload::threads::Layout;

use super::process::{READY, area_start};
use super::programs::{Chosen, Pages, settings};
use super::trajectory::{COUNTERS, Trajectory, pages_of};

/// Between two samples.
const INTERVAL: Duration = Duration::from_millis(500);
const NODES: &str = "/sys/devices/system/node";
const BALANCING: &str = "/sys/kernel/debug/sched";
const THP: &str = "/sys/kernel/mm";

/// A program whose processes wait for its start. Ended when dropped.
pub struct Waiting {
    /// What each process has mapped.
    layout: Layout,
    processes: Vec<Process>,
}

/// Makes the settings that the programs run with.
pub fn apply_settings(pages: Pages) -> io::Result<()> {
    for (setting, value) in settings(pages) {
        let root = if setting.starts_with("numa_balancing/") { BALANCING } else { THP };
        let file = Path::new(root).join(&setting);
        fs::write(&file, value).map_err(|error| io::Error::other(format!("{}: {error}", file.display())))?;
    }
    Ok(())
}

impl Waiting {
    /// Starts the processes of a program, which is watched for some seconds. `words`: what this program is called with to get
    /// to [`super::run_process`]. This thread is on CPU 0 from then on.
    pub fn start(words: &[String], program: &Chosen, seconds: u64) -> io::Result<Waiting> {
        let cpus = nodes()?.iter().map(Vec::len).sum();
        let layout = program.layout(cpus, seconds)?;
        let start = |number| Process::start(words, &program.word(), number, seconds);
        let processes = (0..layout.processes.len()).map(start).collect::<io::Result<_>>()?;
        let mut set = CpuSet::new();
        set.set(0);
        sched_setaffinity(None, &set)?;
        Ok(Waiting { layout, processes })
    }

    /// They begin.
    pub fn go(&mut self) -> io::Result<()> {
        self.processes.iter_mut().try_for_each(Process::go)
    }

    /// The threads of each process that use memory: without the first one, unless that one touches all memory first.
    pub fn threads(&self) -> io::Result<Vec<Vec<u32>>> {
        let of = |process: &Process| {
            let pid = process.0.id();
            let entries = fs::read_dir(format!("/proc/{pid}/task"))?.collect::<io::Result<Vec<_>>>()?;
            let tids = entries.iter().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            let mut tids: Vec<u32> = tids.filter(|&tid| tid != pid || self.first_threads_touch()).collect();
            tids.sort_unstable();
            Ok(tids)
        };
        self.processes.iter().map(of).collect()
    }

    /// Resident pages of each process, from `/proc/PID/statm`; empty if one has ended.
    pub fn resident_pages(&self) -> Vec<u64> {
        let of = |process: &Process| {
            let statm = fs::read_to_string(format!("/proc/{}/statm", process.0.id())).ok()?;
            statm.split(' ').nth(1)?.parse().ok().filter(|&pages| pages > 0)
        };
        self.processes.iter().map(of).collect::<Option<_>>().unwrap_or_default()
    }

    /// Whether the first thread of each process touches all memory before the others begin.
    pub fn first_threads_touch(&self) -> bool {
        self.layout.processes.iter().any(|process| process.touched)
    }
}

/// Runs a program for some seconds, see [`Waiting::start`].
pub fn observe(words: &[String], program: &Chosen, seconds: u64) -> io::Result<Trajectory> {
    apply_settings(Pages::Base)?;
    let nodes = nodes()?.len();
    let mut program = Waiting::start(words, program, seconds)?;
    let before = counters()?;
    let mut trajectory = Trajectory::default();
    let began = Instant::now();
    program.go()?;
    for sample in 0..=(seconds * 1000 / INTERVAL.as_millis() as u64) as u32 {
        std::thread::sleep((INTERVAL * sample).saturating_sub(began.elapsed()));
        let seconds = began.elapsed().as_secs_f64();
        let now = counters()?;
        let since =
            |name: &&str| (name.to_string(), now.get(*name).unwrap_or(&0) - before.get(*name).unwrap_or(&0));
        let mut values: Vec<(String, u64)> = COUNTERS.iter().map(since).collect();
        for (number, process) in program.processes.iter().enumerate() {
            let maps = fs::read_to_string(format!("/proc/{}/numa_maps", process.0.id())).unwrap_or_default();
            for area in 0..program.layout.processes[number].areas.len() {
                let pages = pages_by_node(&maps, area_start(number, area), nodes);
                let pages = pages.unwrap_or_default().into_iter().enumerate();
                values.extend(pages.map(|(node, pages)| (pages_of(number, area, node), pages)));
            }
        }
        trajectory.push(seconds, values);
    }
    Ok(trajectory)
}

/// A process of the program. Ended when dropped.
struct Process(Child);

impl Process {
    /// Starts one and waits until it can begin.
    fn start(words: &[String], word: &str, number: usize, seconds: u64) -> io::Result<Process> {
        let (program, words) = words.split_first().ok_or_else(|| io::Error::other("there is no program"))?;
        let mut command = Command::new(program);
        command.args(words).args([word, &number.to_string(), &seconds.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process(command.spawn()?);
        let stdout = process.0.stdout.take().expect("it is piped");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        match line.trim() {
            READY => Ok(process),
            _ => Err(io::Error::other(format!("process {number} of {word} did not start"))),
        }
    }

    fn go(&mut self) -> io::Result<()> {
        self.0.stdin.as_mut().expect("it is piped").write_all(b"g")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn counters() -> io::Result<BTreeMap<String, u64>> {
    let text = fs::read_to_string("/proc/vmstat")?;
    let count = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_string(), value.parse().ok()?))
    };
    Ok(text.lines().filter_map(count).collect())
}

/// The CPUs of each node.
pub fn nodes() -> io::Result<Vec<Vec<usize>>> {
    let mut nodes = Vec::new();
    while let Ok(text) = fs::read_to_string(format!("{NODES}/node{}/cpulist", nodes.len())) {
        let cpus = |range: &str| -> Option<std::ops::RangeInclusive<usize>> {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(first.parse().ok()?..=last.parse().ok()?)
        };
        nodes.push(text.trim().split(',').filter_map(cpus).flatten().collect());
    }
    if nodes.is_empty() {
        Err(io::Error::other(format!("{NODES}: this kernel has no nodes")))
    } else {
        Ok(nodes)
    }
}

/// Firmware's table of distances between nodes.
pub fn distances(nodes: usize) -> io::Result<Vec<Vec<u8>>> {
    let row = |node: usize| {
        let file = format!("{NODES}/node{node}/distance");
        let text = fs::read_to_string(&file)?;
        let row: Option<Vec<u8>> = text.split_whitespace().map(|cell| cell.parse().ok()).collect();
        row.ok_or_else(|| io::Error::other(format!("{file}: no distances")))
    };
    (0..nodes).map(row).collect()
}

/// Pages of the mapping at `start` on each node, unless its process has ended.
fn pages_by_node(maps: &str, start: usize, nodes: usize) -> Option<Vec<u64>> {
    let address = format!("{start:x} ");
    let line = maps.lines().find_map(|line| line.strip_prefix(&address))?;
    let on = |node: usize| {
        let sign = format!("N{node}=");
        line.split(' ').find_map(|word| word.strip_prefix(&sign)?.parse().ok()).unwrap_or(0)
    };
    Some((0..nodes).map(on).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_those_of_the_mapping() {
        let maps = "100000000000 default anon=16384 dirty=16384 active=0 N0=16380 N1=4 kernelpagesize_kB=4\n\
                    100100000000 default anon=1 N1=1 kernelpagesize_kB=4\n\
                    7f0000000000 default file=/init mapped=10 N0=10\n";
        assert_eq!(pages_by_node(maps, area_start(0, 0), 2), Some(vec![16380, 4]));
        assert_eq!(pages_by_node(maps, area_start(0, 1), 2), Some(vec![0, 1]));
        assert_eq!(pages_by_node(maps, area_start(1, 0), 2), None);
    }
}
