//! The list of commands in `mmtwin --help`, in groups by what one wants of them.
//!
//! ```text
//!   Ask       run, compare, ...        what follows of a workload, a kernel, a setting
//!   Bring     record, kernel, ...      your workload, your patch, your machine
//!   Trust     verify, published, ...   how far answers agree with what is known
//!   Look      list, results, ...       what is there
//! ```
//!
//! clap lists commands in one row, so the list is written here, of the names and descriptions that it has.

use crate::table::folded;
use clap::Command;
use std::fmt::Write;

/// Each group with its commands in order.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Ask what follows", &["run", "compare", "explain", "sweep", "study", "mrc"]),
    ("Bring your own", &["record", "replay", "kernel", "doctor"]),
    ("Know how far to trust it", &["verify", "published", "sensitivity", "calibrate"]),
    ("Look at what there is", &["list", "show", "new", "results", "completions", "man"]),
];

/// Columns of the list, as of clap's other texts.
const WIDTH: usize = 100;

/// The command with its list of commands in groups.
pub fn grouped(command: Command) -> Command {
    let header = *command.get_styles().get_header();
    let literal = *command.get_styles().get_literal();
    let names = GROUPS.iter().flat_map(|(_, names)| *names);
    let column = names.map(|name| name.len()).max().unwrap_or(0) + 4;
    let mut list = String::new();
    for (group, names) in GROUPS {
        let _ = writeln!(list, "{header}{group}:{header:#}");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let folded = folded(&about, WIDTH - column);
            let mut lines = folded.lines();
            let gap = " ".repeat(column - 2 - name.len());
            let _ = writeln!(list, "  {literal}{name}{literal:#}{gap}{}", lines.next().unwrap_or_default());
            lines.for_each(|line| _ = writeln!(list, "{:column$}{line}", ""));
        }
        list.push('\n');
    }
    command.help_template(format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}\
         {header}Options:{header:#}\n{{options}}{{after-help}}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arguments;
    use clap::CommandFactory;

    #[test]
    fn every_command_is_in_one_group() {
        let command = Arguments::command();
        let shown = command.get_subcommands().filter(|of| !of.is_hide_set()).map(|of| of.get_name());
        let mut shown: Vec<&str> = shown.collect();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        shown.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, shown);
    }
}
