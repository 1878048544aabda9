//! Whatever is in a recording of NUMA balancing or in an ensemble, it can be read or there is an error.

#![no_main]

use fuzz::directory_of;
use libfuzzer_sys::fuzz_target;
use live::verify::numa::{ensembles, judge, list};

fuzz_target!(|content: &[u8]| {
    let Some(place) = directory_of(content) else { return };
    for (name, recording) in list(place.path()).into_iter().flatten() {
        for case in &recording.cases {
            let _ = (recording.faults(case), recording.decisions(case));
        }
        let _ = judge(&name, &recording, &mut |_| {});
    }
    for (_, ensemble) in ensembles(place.path()).into_iter().flatten() {
        for case in &ensemble.cases {
            let _ = ensemble.runs(case);
        }
    }
});
