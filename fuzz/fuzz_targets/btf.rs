//! Any bytes describe a kernel's types or are an error; a member that is found lies in a structure of 512 MiB at most.

#![no_main]

use libfuzzer_sys::fuzz_target;
use live::tracefs::btf::member_offsets;

fuzz_target!(|content: &[u8]| {
    let Ok(offsets) = member_offsets(content, "task", &["seq", "work"]) else { return };
    assert!(offsets.iter().all(|&offset| offset <= u32::MAX as usize / 8));
});
