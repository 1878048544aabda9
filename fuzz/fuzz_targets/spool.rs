//! Whatever is in a spool, the trace that is made of it can be read, or there is an error and no trace.

#![no_main]

use fuzz::directory_of;
use libfuzzer_sys::fuzz_target;
use live::record::recover;
use workload::trace::TraceReader;

fuzz_target!(|content: &[u8]| {
    let Some(place) = directory_of(content) else { return };
    let output = place.path().join("trace.parquet");
    let recovered = recover(&place.path().join("case"), &output, false, &mut |_| {});
    match recovered {
        Ok(_) => {
            assert!(TraceReader::open(&output).expect("what was just written").all(|event| event.is_ok()))
        }
        // A trace with a gap is kept, and the error says so.
        Err(_) if output.exists() => assert!(TraceReader::open(&output).is_ok()),
        Err(_) => {}
    }
});
