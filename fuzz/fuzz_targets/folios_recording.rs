//! Whatever is in a recording of faults, it is judged or there is an error.

#![no_main]

use fuzz::directory_of;
use libfuzzer_sys::fuzz_target;
use live::verify::folios::from_recordings;

fuzz_target!(|content: &[u8]| {
    let Some(place) = directory_of(content) else { return };
    let _ = from_recordings(place.path(), String::new(), &mut |_| {});
});
