//! Any bytes are an access trace or an error, whatever format they are said to have; reading them ends, and never panics.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Cursor;
use workload::access::{Accesses, Format};

/// A format that the user names, if the input begins with a line `#format NAME`, and the trace.
fn named_format(content: &[u8]) -> (Option<Format>, &[u8]) {
    let named = || {
        let line = content.strip_prefix(b"#format ")?;
        let end = line.iter().position(|&byte| byte == b'\n')?;
        Some((std::str::from_utf8(&line[..end]).ok()?.parse().ok(), &line[end + 1..]))
    };
    named().unwrap_or((None, content))
}

// libFuzzer's hook ends the process at every panic. The reader catches those of the Parquet crate; one that leaves
// the reader still ends the run.
fuzz_target!(init: std::panic::set_hook(Box::new(|_| {})), |content: &[u8]| {
    let (format, content) = named_format(content);
    let input = Cursor::new(content.to_vec());
    let Ok(accesses) = Accesses::from_reader(input, "trace".to_string(), format) else { return };
    for access in accesses {
        match access {
            Ok(access) => assert!(access.pages > 0 && access.index.checked_add(access.pages.into()).is_some()),
            Err(_) => break,
        }
    }
});
