//! Any bytes are a process profile or an error; what is accepted can be run through, and every free is of
//! something allocated before.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use workload::process::{Operation, ProcessProfile};

// libFuzzer's hook ends the process at every panic. The reader catches those of the Parquet crate; one that leaves
// the reader still ends the run.
fuzz_target!(init: std::panic::set_hook(Box::new(|_| {})), |content: &[u8]| {
    let Ok(profile) = ProcessProfile::load(Bytes::copy_from_slice(content)) else { return };
    for &index in profile.units().iter().flatten().chain(profile.tail()) {
        let mut allocated = 0u64;
        for &operation in profile.process(index) {
            match operation {
                Operation::Allocate { order, count, .. } => {
                    assert!(order <= mm::page::MAX_PAGE_ORDER);
                    allocated += u64::from(count);
                }
                Operation::Free { first, count, .. } => assert!(u64::from(first) + u64::from(count) <= allocated),
                Operation::FreeShared { order, .. } => assert!(order <= mm::page::MAX_PAGE_ORDER),
                Operation::Run { .. } => {}
            }
        }
    }
    let _ = profile.summary(0..profile.len() as u32);
});
