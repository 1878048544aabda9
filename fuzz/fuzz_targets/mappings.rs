//! Any rows are recorded mappings or an error, and so are any bytes in place of a packed file; what is accepted has address spaces.

#![no_main]

use libfuzzer_sys::fuzz_target;
use workload::mappings::Mappings;

fuzz_target!(|content: &[u8]| {
    let _ = Mappings::parse(content);
    let packed = zstd::bulk::compress(content, 1).expect("zstd packs anything");
    let Ok(mappings) = Mappings::parse(&packed) else { return };
    for space in mappings.address_spaces() {
        let _ = space.scaled(1 << 16);
    }
});
