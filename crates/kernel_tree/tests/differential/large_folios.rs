//! Faults that may get large folios while memory becomes short and fragmented: an unchanged tree says the orders that the policy says.

use crate::kernels::Kernel;
use crate::short_of_memory::{self, Host, PAGES};
use machine::Cpu;
use mm::address_space::Advice;
use mm::{Decisions, Event, MemoryManager};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// How often something is touched or given back.
const STEPS: u64 = 20_000;

fn set(mm: &mut MemoryManager) {
    mm.set("transparent_hugepage/enabled", "always").expect("the kernel has the setting");
    for (size, mode) in [(16, "always"), (64, "inherit"), (512, "madvise")] {
        // Kernels before 6.8 have no such files.
        let _ = mm.set(&format!("transparent_hugepage/hugepages-{size}kB/enabled"), mode);
    }
}

fn run(host: &mut Host) {
    let Host { mm, machine, space, start } = host;
    let (space, start) = (*space, *start);
    mm.enter(machine, Cpu(0)).madvise(space, start..start + PAGES / 2, Advice::HugePage);
    let mut random = Pcg64Mcg::new(2);
    for step in 0..STEPS {
        let page = start + random.random_range(0..PAGES);
        if random.random_range(0..32) == 0 {
            let end = (page + random.random_range(1..=64)).min(start + PAGES);
            mm.enter(machine, Cpu(0)).madvise_dontneed(space, page..end);
        } else {
            mm.enter(machine, Cpu(0)).touch(space, page, step % 3 > 0).expect("swap has room");
        }
    }
}

/// Runs both.
pub fn compare(kernel: &Kernel, decisions: Decisions) {
    short_of_memory::compare(kernel, decisions, set, run, (Event::Pswpout, 0));
}
