//! Distils a process profile from the trace of a build; `data/kbuild.profile` was made with it.
//!
//! ```text
//! mmtwin record -o build.parquet -- make -s -j2 vmlinux
//! cargo run --release -p workload --example distil -- build.parquet data/kbuild.profile 2
//! ```
//!
//! With a last argument of N, one of N jobs of make is kept. Record with `kernel.pid_max` above the number of
//! processes: if a pid is reused, the trace has only the name of the last process.

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
