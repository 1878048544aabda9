//! Judges the twin by every recording: `cargo run --release -p live --example judge`.
use live::recordings;
use live::verify::{self, Annotated};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wanted = std::env::args().nth(1);
    for recording in recordings::list(&recordings::default_directory())? {
        if wanted.as_ref().is_some_and(|wanted| *wanted != recording.name) {
            continue;
        }
        let tally = verify::closed_loop(&recording)?;
        let mut entries = tally.entries(&recording.name);
        entries.extend(verify::open_loop(&recording, Annotated::No)?);
        entries.extend(verify::open_loop(&recording, Annotated::Yes)?);
        for entry in entries {
            let error = entry.error.map_or("-".into(), |error| format!("{:+.3} %", 100.0 * error));
            println!(
                "{:<16} {:<36} {:>10} {:>10} {error:>10}",
                entry.case, entry.counter, entry.kernel, entry.twin
            );
            for (cause, times) in entry.causes.iter() {
                println!("{:>20} {} x {}", "", times, cause.description());
            }
        }
    }
    Ok(())
}
