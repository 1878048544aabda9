//! `mmtwin man`: manual pages of all commands, made of the same texts as `--help`.

use crate::failure::Failure;
use crate::terminal;
use clap::Command;
use std::path::PathBuf;

/// Write manual pages of all commands into a directory
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mmtwin man ~/.local/share/man/man1
  mmtwin man /tmp && man /tmp/mmtwin-compare.1")]
pub struct Arguments {
    /// The directory, which is made if it is not there
    directory: PathBuf,
}

/// Writes the pages of `command` and of what is below it; those that are there are replaced.
pub fn execute(arguments: &Arguments, command: Command) -> Result<(), Failure> {
    let directory = &arguments.directory;
    let failed =
        |error: std::io::Error| Failure::input(format!("{}: {error}; give a directory", directory.display()));
    std::fs::create_dir_all(directory).map_err(failed)?;
    clap_mangen::generate_to(command, directory).map_err(failed)?;
    terminal::say(format_args!("wrote mmtwin.1 and a page for each command to {}", directory.display()));
    Ok(())
}
