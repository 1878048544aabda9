//! Any bytes are a file of results or an error; reading them ends, and never panics.

#![no_main]

use bytes::Bytes;
use lab::results::check;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

// libFuzzer's hook ends the process at every panic. The reader catches those of the Parquet crate; one that leaves
// the reader still ends the run.
fuzz_target!(init: std::panic::set_hook(Box::new(|_| {})), |content: &[u8]| {
    let _ = check(Path::new("fuzzed"), &Bytes::copy_from_slice(content));
});
