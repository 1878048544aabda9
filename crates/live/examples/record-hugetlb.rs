//! Records what the running kernel does when counts are written to its pool of huge pages (root):
//!
//! `cargo run --release -p live --example record-hugetlb -- data/recordings/hugetlb-6.18.44`

#![allow(clippy::print_stderr)]

use std::path::Path;

use live::verify::hugetlb::{obstacle, record};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args().nth(1).ok_or("name a directory to write to")?;
    if let Some(obstacle) = obstacle() {
        return Err(obstacle.into());
    }
    record(&mut |what| eprintln!("{what}"))?.write(Path::new(&directory))?;
    Ok(())
}
