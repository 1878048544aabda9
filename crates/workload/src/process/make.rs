//! make: hands the jobs of a recorded build to its slots, and the processes of a job one after the other.
//!
//! ```text
//!   slot 0     sh ─ gcc ─ cc1 ─ as ─ objtool │ next job ...
//!   slot 1     ...                                               after the last job: the tail, in the last slot that is busy
//!   slot N-1
//! ```

use super::{Operation, ProcessProfile};

/// What a slot does next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// Executes this process of the profile.
    Exec(u32),
    /// The next operation of its process.
    Operation(Operation),
    /// The process ends.
    Exit,
    /// The job has ended.
    JobEnd,
}

struct Slot {
    /// Whether it has a job.
    working: bool,
    /// Processes of the job that have not started.
    processes: &'static [u32],
    /// The running process and the index of its next operation.
    running: Option<(u32, usize)>,
    /// Whether it found no job left.
    idle: bool,
}

/// A build that runs.
pub struct Make {
    profile: &'static ProcessProfile,
    slots: Vec<Slot>,
    /// The jobs that have not started, each by its number in the profile; the next one is last.
    jobs: Vec<usize>,
    /// Number of slots that are not idle.
    active: usize,
    tail_started: bool,
}

impl Make {
    /// A build with so many slots (`make -j`) of these jobs of the profile, in their order.
    pub fn new(profile: &'static ProcessProfile, slots: usize, jobs: impl Iterator<Item = usize>) -> Make {
        let slot = |_| Slot { working: false, processes: &[], running: None, idle: false };
        let mut jobs: Vec<usize> = jobs.collect();
        jobs.reverse();
        Make { profile, slots: (0..slots).map(slot).collect(), jobs, active: slots, tail_started: false }
    }

    /// What `slot` does next; `None` when no job is left for it.
    pub fn next(&mut self, slot: usize) -> Option<Next> {
        loop {
            let own = &mut self.slots[slot];
            if own.idle {
                return None;
            }
            if let Some((process, at)) = own.running {
                return Some(match self.profile.process(process).get(at) {
                    Some(&operation) => {
                        own.running = Some((process, at + 1));
                        Next::Operation(operation)
                    }
                    None => {
                        own.running = None;
                        Next::Exit
                    }
                });
            }
            if let Some((&process, rest)) = own.processes.split_first() {
                (own.processes, own.running) = (rest, Some((process, 0)));
                return Some(Next::Exec(process));
            }
            if std::mem::take(&mut own.working) {
                return Some(Next::JobEnd);
            }
            self.start_job(slot);
        }
    }

    /// Gives `slot` its next job. When no job is left, slots become idle, and the last one gets the tail.
    fn start_job(&mut self, slot: usize) {
        let job = match self.jobs.pop() {
            Some(job) => &self.profile.units()[job],
            None if self.active == 1 && !self.tail_started => {
                self.tail_started = true;
                self.profile.tail()
            }
            None => {
                self.active -= 1;
                self.slots[slot].idle = true;
                return;
            }
        };
        (self.slots[slot].processes, self.slots[slot].working) = (job, true);
    }
}
