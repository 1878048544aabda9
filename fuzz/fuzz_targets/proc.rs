//! Any text is a /proc/zoneinfo or an error, and the same for its neighbours.

#![no_main]

use libfuzzer_sys::fuzz_target;
use live::proc::{
    parse_buddyinfo, parse_meminfo, parse_pagetypeinfo, parse_pressure, parse_swaps, parse_vmstat,
    parse_zoneinfo,
};

fuzz_target!(|text: &str| {
    if let Ok(zoneinfo) = parse_zoneinfo(text) {
        let _ = zoneinfo.populated().count();
    }
    let _ = parse_buddyinfo(text);
    let _ = parse_meminfo(text);
    let _ = parse_pagetypeinfo(text);
    let _ = parse_pressure(text);
    let _ = parse_swaps(text);
    let _ = parse_vmstat(text);
});
