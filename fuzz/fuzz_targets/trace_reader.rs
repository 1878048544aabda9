//! Any bytes are a trace or an error; reading them ends, and never panics.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use workload::trace::TraceReader;

// libFuzzer's hook ends the process at every panic. The reader catches those of the Parquet crate; one that leaves
// the reader still ends the run.
fuzz_target!(init: std::panic::set_hook(Box::new(|_| {})), |content: &[u8]| {
    let Ok(reader) = TraceReader::from_bytes(Bytes::copy_from_slice(content)) else { return };
    let _ = reader.require_lossless();
    for event in reader {
        if event.is_err() {
            break;
        }
    }
});
