//! Any bytes are samples of a profiler or an error; threads that come of them end, and use no page that their
//! process has not.

#![no_main]

use libfuzzer_sys::fuzz_target;
use workload::threads::samples::SampledThreads;
use workload::threads::{Operation, Program};

fuzz_target!(|content: &[u8]| {
    let Ok(threads) = SampledThreads::parse(content) else { return };
    let mut program = Program::Samples(threads);
    let layout = program.layout().clone();
    for (thread, &process) in layout.threads.iter().enumerate() {
        let areas = &layout.processes[process as usize].areas;
        let mut now = 0u64;
        while let Some(operation) = program.next(thread, now) {
            match operation {
                Operation::Touch { area, page, .. } => assert!(page < areas[area as usize]),
                // A clock that soon is where the next sample was.
                _ => now = now.saturating_mul(2).saturating_add(1),
            }
        }
    }
});
