//! Whatever is in a recording of accesses, it is judged or there is an error.

#![no_main]

use fuzz::directory_of;
use libfuzzer_sys::fuzz_target;
use live::verify::by_recordings;
use mm::Mechanism;

fuzz_target!(|content: &[u8]| {
    let Some(place) = directory_of(content) else { return };
    let _ = by_recordings(Mechanism::Reclaim, place.path());
});
