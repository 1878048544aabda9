//! Judges the twin by the running kernel: `cargo run --release -p live --example verify_here` as root.
use live::recordings;
use live::verify::{self, programs};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, hidden, program, directory] = &arguments[..]
        && hidden == "workload"
    {
        return Ok(programs::run(program.parse()?, Path::new(directory))?);
    }
    let program = std::env::current_exe()?.display().to_string();
    let options = verify::Options {
        program: vec![program, "workload".to_string()],
        workloads: arguments[1..].iter().map(|name| name.parse()).collect::<Result<_, _>>()?,
        recordings: recordings::default_directory(),
    };
    let report = verify::pcp(&options, &mut |what| eprintln!("{what}"))?;
    for entry in &report.entries {
        let error = entry.error.map_or("-".into(), |error| format!("{:+.3} %", 100.0 * error));
        println!(
            "{:<32} {:<20} {:>9} {:>9} {error:>10}",
            entry.case, entry.counter, entry.kernel, entry.twin
        );
    }
    report.notes.iter().for_each(|note| println!("{note}"));
    report.fallback.iter().for_each(|reason| println!("recordings were judged: {reason}"));
    Ok(())
}
