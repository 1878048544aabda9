//! Whatever is in a directory of results, it is read or there is an error.

#![no_main]

use fuzz::directory_of;
use lab::results::Results;
use libfuzzer_sys::fuzz_target;

// libFuzzer's hook ends the process at every panic. The reader catches those of the Parquet crate; one that leaves
// the reader still ends the run.
fuzz_target!(init: std::panic::set_hook(Box::new(|_| {})), |content: &[u8]| {
    let Some(place) = directory_of(content) else { return };
    let _ = Results::open(&place.path().join("case"), false);
});
