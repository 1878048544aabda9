//! A process that is larger than memory: what is evicted as an unchanged tree's multi-gen LRU says is what the policies evict.

use crate::kernels::Kernel;
use crate::short_of_memory::{self, Host, PAGES};
use machine::Cpu;
use mm::{Decisions, Event, MemoryManager};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// How often one is touched.
const TOUCHES: u64 = 100_000;

fn set(mm: &mut MemoryManager) {
    mm.set("transparent_hugepage/enabled", "never").expect("the kernel has the setting");
}

fn run(host: &mut Host) {
    let Host { mm, machine, space, start } = host;
    let mut random = Pcg64Mcg::new(2);
    for _ in 0..TOUCHES {
        // Half of all touches are of a tenth of all pages.
        let among = if random.random_range(0..2) == 0 { PAGES / 10 } else { PAGES };
        let (page, write) = (random.random_range(0..among), random.random_range(0..2) == 0);
        let touched = mm.enter(machine, Cpu(0)).touch(*space, *start + page, write);
        touched.expect("swap has room");
    }
}

/// Runs both.
pub fn compare(kernel: &Kernel, decisions: Decisions) {
    short_of_memory::compare(kernel, decisions, set, run, (Event::PgstealAnon, PAGES));
}
