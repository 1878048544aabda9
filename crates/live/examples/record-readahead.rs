//! Records readahead on the running kernel (root), with a file in TMPDIR:
//!
//! `cargo run --release -p live --example record-readahead -- data/recordings/readahead-6.18.44 MACHINE`

#![allow(clippy::print_stderr)]

use std::path::Path;

use live::snapshot::kernel_release;
use live::verify::readahead::{Recording, record};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(directory), Some(machine)) = (arguments.next(), arguments.next()) else {
        return Err("expected a directory for the recording, and a description of this machine".into());
    };
    let cases = record(&mut |what| eprintln!("{what}"))?;
    let release = kernel_release();
    let number = release.split('-').next().unwrap_or(&release);
    Ok(Recording::write(Path::new(&directory), number.into(), machine, &cases)?)
}
