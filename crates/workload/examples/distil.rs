//! Makes a process profile of a recorded build: how `data/kbuild.profile` was made.
//!
//! ```text
//! mmtwin record -o build.parquet -- make -s -j2 vmlinux
//! cargo run --release -p workload --example distil -- build.parquet data/kbuild.profile 2
//! ```
//!
//! The last argument keeps one job of make in that many. Record with `kernel.pid_max` above the number of
//! processes: where a pid comes twice, the trace has a name only for the last process.

#![allow(clippy::print_stdout)]

use std::error::Error;
use workload::process::distil;
use workload::trace::TraceReader;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [trace, output, keep_one_in] = arguments.as_slice() else {
        return Err("usage: distil TRACE OUTPUT KEEP_ONE_IN".into());
    };
    let profile = distil(&mut TraceReader::open(trace)?, keep_one_in.parse()?)?;
    profile.write(output)?;
    let totals = profile.totals();
    println!(
        "{output}: {} of {} units, {} processes in the tail; recorded: {:.1} CPU s, {} pages",
        profile.units().len(),
        totals.units,
        profile.tail().len(),
        totals.cpu_seconds,
        totals.allocated_pages
    );
    Ok(())
}
