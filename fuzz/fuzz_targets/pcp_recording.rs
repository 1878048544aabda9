//! Whatever is in a recording of pagesets, it is judged or there is an error.

#![no_main]

use fuzz::directory_of;
use libfuzzer_sys::fuzz_target;
use live::recordings::list;
use live::verify::pcp::{Annotated, closed_loop, open_loop};

fuzz_target!(|content: &[u8]| {
    let Some(place) = directory_of(content) else { return };
    for recording in list(place.path()).into_iter().flatten() {
        let _ = recording.records().map(|records| records.take_while(Result::is_ok).count());
        let _ = (recording.states(), recording.annotations());
        let _ = closed_loop(&recording);
        let _ = open_loop(&recording, Annotated::Yes);
    }
});
