//! Whatever is in a saved tree of /proc and /sys, it is diagnosed or there is an error.

#![no_main]

use fuzz::directory_of;
use libfuzzer_sys::fuzz_target;
use live::doctor::{Diagnosis, Samples, rules};

// A file is called as its path is, with -- for each slash: end--proc--vmstat.
fuzz_target!(|content: &[u8]| {
    let Some(place) = directory_of(content) else { return };
    let case = place.path().join("case");
    let opened = Samples::open(&case);
    let mut samples = opened.unwrap_or_default();
    if samples.end.seconds <= samples.begin.seconds {
        samples.end.seconds = samples.begin.seconds + 1.0;
    }
    for entry in std::fs::read_dir(&case).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().replace("--", "/");
        let text = String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap_or_default()).into_owned();
        match name.split_once('/') {
            Some(("begin", path)) => samples.begin.files.texts.insert(path.into(), text),
            Some(("end", path)) => samples.end.files.texts.insert(path.into(), text),
            _ => None,
        };
    }
    let _ = Diagnosis::new(&samples, rules());
});
