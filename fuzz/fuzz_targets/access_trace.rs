//! Any bytes are an access trace or an error; reading them ends, and never panics.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Cursor;
use workload::access::Accesses;

// libFuzzer's hook ends the process at every panic. The reader catches those of the Parquet crate; one that leaves
// the reader still ends the run.
fuzz_target!(init: std::panic::set_hook(Box::new(|_| {})), |content: &[u8]| {
    let input = Cursor::new(content.to_vec());
    let Ok(accesses) = Accesses::from_reader(input, "trace".to_string(), None) else { return };
    for access in accesses {
        match access {
            Ok(access) => assert!(access.pages > 0 && access.index.checked_add(access.pages.into()).is_some()),
            Err(_) => break,
        }
    }
});
