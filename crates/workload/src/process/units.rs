//! Divides the process tree of a build into the jobs that make ran and the tail that ran alone.
//!
//! ```text
//!   make ─┬─ sh ─┬─ gcc ─┬─ cc1          a unit: everything below a child of make
//!         │      │       └─ as
//!         │      └─ objtool
//!         ├─ make (in a directory) ─┬─ sh ...     make itself is a unit of one process
//!         │                         └─ sh ...
//!         └─ sh link-vmlinux.sh ─ ld ...          nothing else runs any more: the tail
//! ```

/// A process in the tree.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Family {
    /// Index of the process that forked it, which comes earlier in the list.
    pub parent: Option<u32>,
    /// Time of the fork, in nanoseconds.
    pub started: u64,
    /// Time of its last event.
    pub ended: u64,
    pub is_make: bool,
}

struct Unit {
    processes: Vec<u32>,
    started: u64,
    ended: u64,
    /// The unit that contains the parent of this unit's first process.
    parent: Option<usize>,
    is_make: bool,
}

/// Groups processes into jobs of make, and splits off the tail: the processes at the end of the build that
/// ran while no other job did.
pub(super) fn units_and_tail(processes: &[Family]) -> (Vec<Vec<u32>>, Vec<u32>) {
    let mut units = units(processes);
    let mut by_start: Vec<usize> = (0..units.len()).filter(|&unit| !units[unit].is_make).collect();
    by_start.sort_by_key(|&unit| units[unit].started);
    // The tail begins with the first job from which on every job starts after all earlier ones have ended.
    // Jobs that wait for it, its ancestors, do not count.
    let mut tail_from = 0;
    let mut active: Vec<usize> = Vec::new();
    for (position, &unit) in by_start.iter().enumerate() {
        active.retain(|&earlier| units[earlier].ended > units[unit].started);
        if active.iter().any(|&earlier| !is_ancestor(&units, earlier, unit)) {
            tail_from = position + 1;
        }
        active.push(unit);
    }
    let mut tail: Vec<u32> =
        by_start[tail_from..].iter().flat_map(|&unit| std::mem::take(&mut units[unit].processes)).collect();
    tail.sort_by_key(|&index| processes[index as usize].started);
    let parallel = units.into_iter().map(|unit| unit.processes).filter(|processes| !processes.is_empty());
    (parallel.collect(), tail)
}

/// The jobs of make, in the order of their start.
fn units(processes: &[Family]) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let mut unit_of: Vec<usize> = Vec::with_capacity(processes.len());
    for (index, process) in processes.iter().enumerate() {
        let is_job = process.parent.is_none_or(|parent| processes[parent as usize].is_make);
        let parent = process.parent.map(|parent| unit_of[parent as usize]);
        let unit = match parent {
            Some(unit) if !is_job && !process.is_make => unit,
            _ => {
                let (started, ended) = (process.started, process.ended);
                units.push(Unit { processes: vec![], started, ended, parent, is_make: process.is_make });
                units.len() - 1
            }
        };
        unit_of.push(unit);
        units[unit].processes.push(index as u32);
        units[unit].ended = units[unit].ended.max(process.ended);
    }
    units
}

fn is_ancestor(units: &[Unit], elder: usize, unit: usize) -> bool {
    std::iter::successors(units[unit].parent, |&unit| units[unit].parent).any(|ancestor| ancestor == elder)
}

/// Keeps one in `one_in` of `units` when sorted by CPU time, so that jobs of every length keep their share.
/// The result has the original order.
pub(super) fn sample(units: Vec<Vec<u32>>, one_in: usize, nanoseconds: impl Fn(u32) -> u64) -> Vec<Vec<u32>> {
    let one_in = one_in.max(1);
    let time = |unit: &Vec<u32>| unit.iter().map(|&index| nanoseconds(index)).sum::<u64>();
    let mut by_time: Vec<usize> = (0..units.len()).collect();
    by_time.sort_by_key(|&unit| time(&units[unit]));
    let mut kept: Vec<usize> = by_time.into_iter().skip(one_in / 2).step_by(one_in).collect();
    kept.sort_unstable();
    kept.into_iter().map(|unit| units[unit].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(parent: i64, started: u64, ended: u64, is_make: bool) -> Family {
        Family { parent: u32::try_from(parent).ok(), started, ended, is_make }
    }

    #[test]
    fn jobs_are_what_make_starts_and_the_tail_is_what_runs_alone() {
        let processes = [
            family(-1, 0, 100, true), // 0 make
            family(0, 1, 50, true),   // 1 make in a directory
            family(1, 2, 20, false),  // 2 sh
            family(2, 3, 19, false),  // 3   cc1
            family(1, 10, 45, false), // 4 sh, beside 2
            family(0, 60, 99, false), // 5 sh: link
            family(5, 61, 90, true),  // 6   make inside the link
            family(6, 62, 80, false), // 7     sh
            family(7, 63, 79, false), // 8       cc1
            family(5, 91, 98, false), // 9   ld
        ];
        let (units, tail) = units_and_tail(&processes);
        assert_eq!(units, [vec![0], vec![1], vec![2, 3], vec![4], vec![6]]);
        assert_eq!(tail, [5, 7, 8, 9]);
    }

    #[test]
    fn a_build_that_ends_in_parallel_has_no_tail() {
        let processes = [
            family(-1, 0, 100, true),
            family(0, 1, 90, false),
            family(0, 2, 95, false),
            family(0, 80, 99, false),
        ];
        let (units, tail) = units_and_tail(&processes);
        assert_eq!((units.len(), tail), (4, vec![]));
    }

    #[test]
    fn a_sample_has_jobs_of_all_sizes() {
        let units: Vec<Vec<u32>> = (0..100).map(|index| vec![index]).collect();
        // Long jobs come together, as in a build.
        let kept =
            sample(units, 4, |index| if index < 20 { 1_000 + u64::from(index) } else { u64::from(index) });
        assert_eq!(kept.len(), 25);
        assert_eq!(kept.iter().filter(|unit| unit[0] < 20).count(), 5);
        assert!(kept.is_sorted());
        assert!(sample(vec![], 0, |_| 0).is_empty());
    }
}
