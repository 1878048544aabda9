//! `mmtwin`: Linux's memory manager on a simulated machine, from the command line.
//!
//! ```text
//!   arguments ─► one module per command ─► lab, live (data) ─► table or JSON on stdout
//!                                                              progress and a summary line on stderr
//! ```
//!
//! Exit codes: 0 success; 1 failure, or `verify` found counters outside their bounds; 2 impossible request;
//! 130 interrupted; 141 the reader of stdout closed the pipe.

mod arguments;
mod calibrate;
mod compare;
mod completion;
mod doctor;
mod events;
mod explain;
mod failure;
mod files;
mod heat;
mod help;
mod json;
mod kernel;
mod list;
mod man;
mod mrc;
mod new;
mod notes;
mod programs;
mod progress;
mod published;
mod record;
mod recorded_trace;
mod replay;
mod results;
mod run;
mod runner;
mod sensitivity;
mod series;
mod show;
mod sparkline;
mod study;
mod sweep;
mod table;
mod terminal;
mod this_machine;
mod timeline;
mod verify;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use failure::Failure;
use report::number;
use std::process::ExitCode;
use verify::processes;

/// Run Linux's memory manager on a simulated machine.
///
/// Predicts what a patch or a setting does to a workload before you build a kernel: compares variants over
/// paired seeds, replays recorded allocations, and checks predictions against published tables and against
/// the running kernel.
#[derive(Parser)]
#[command(
    name = "mmtwin",
    bin_name = "mmtwin",
    version = env!("MMTWIN_VERSION"),
    after_help = "\
Examples:
  mmtwin list                                 everything that is built in
  mmtwin compare kbuild                       a kernel build, all variants of the series
  mmtwin compare numa01                       NUMA balancing of threads on two nodes
  mmtwin compare speedometer                  a browser benchmark with and without large folios
  mmtwin explain kbuild --from 6.6 --to 6.12  which change between two kernels moved build time
  mmtwin sweep fleet.toml                     which value to choose, its gain and its price
  mmtwin doctor                               what is wrong on this machine, and what acts on it
  mmtwin kernel add my-patch --tree ~/linux   a kernel tree as a variant
  mmtwin record -o build.parquet -- make -j2  page allocator events of a command (root)
  mmtwin replay build.parquet                 the same allocations in the twin
  mmtwin mrc trace.oracleGeneral.bin          miss-ratio curves of replacement policies
  mmtwin study equilibrium                    a question that takes several scenarios
  mmtwin published pcp                        predictions next to published tables
  mmtwin verify pcp                           the twin against the running kernel (root)"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    List(list::Arguments),
    Show(show::Arguments),
    New(new::Arguments),
    Run(run::Arguments),
    Compare(compare::Arguments),
    Explain(explain::Arguments),
    Sweep(sweep::Arguments),
    Doctor(doctor::Arguments),
    Kernel(kernel::Arguments),
    Published(published::Arguments),
    Calibrate(calibrate::Arguments),
    Sensitivity(sensitivity::Arguments),
    Record(record::Arguments),
    Replay(replay::Arguments),
    Results(results::Arguments),
    Mrc(mrc::Arguments),
    Study(study::Arguments),
    Verify(verify::Arguments),
    Completions(completion::Arguments),
    Man(man::Arguments),
    #[command(hide = true, name = kernel::process::COMMAND)]
    DecideRun(kernel::process::RunArguments),
    #[command(hide = true, name = kernel::diff::COMMAND)]
    DecideDiff(kernel::diff::ChildArguments),
    #[command(hide = true, name = processes::WORKLOAD)]
    Workload(processes::WorkloadArguments),
    #[command(hide = true, name = processes::READER)]
    Reader(processes::ReaderArguments),
    #[command(hide = true, name = processes::GUEST)]
    Guest {
        #[command(subcommand)]
        guest: processes::Guest,
    },
    #[command(hide = true, name = processes::NUMA_PROCESS)]
    NumaProcess(processes::NumaProcessArguments),
    #[command(hide = true, name = processes::MEMORY)]
    Memory,
}

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(terminal::say_panic));
    completion::answer(Arguments::command);
    let mut known = help::grouped(Arguments::command());
    let given = known.try_get_matches_from_mut(std::env::args_os());
    let parsed =
        given.and_then(|given| Arguments::from_arg_matches(&given).map_err(|error| error.format(&mut known)));
    let result = match parsed {
        Ok(Arguments { command }) => execute(command),
        Err(error) => say_why(&error),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(message) = failure.message() {
                terminal::say_error(format_args!("error: {message}"));
            }
            failure.exit_code()
        }
    }
}

/// Prints the help text if it was asked for, or else the error in the arguments.
fn say_why(error: &clap::Error) -> Result<(), Failure> {
    if error.use_stderr() {
        terminal::say_error(error.render().to_string().trim_end_matches('\n'));
        Err(Failure::Arguments)
    } else {
        terminal::print_help(error)
    }
}

fn execute(command: Command) -> Result<(), Failure> {
    match command {
        Command::List(arguments) => list::execute(&arguments),
        Command::Show(arguments) => show::execute(&arguments),
        Command::New(arguments) => new::execute(&arguments),
        Command::Run(arguments) => run::execute(&arguments),
        Command::Compare(arguments) => compare::execute(&arguments),
        Command::Explain(arguments) => explain::execute(&arguments),
        Command::Sweep(arguments) => sweep::execute(&arguments),
        Command::Doctor(arguments) => doctor::execute(&arguments),
        Command::Kernel(arguments) => kernel::execute(&arguments),
        Command::DecideRun(arguments) => kernel::process::execute(&arguments),
        Command::DecideDiff(arguments) => kernel::diff::execute_child(&arguments),
        Command::Published(arguments) => published::execute(&arguments),
        Command::Calibrate(arguments) => calibrate::execute(&arguments),
        Command::Sensitivity(arguments) => sensitivity::execute(&arguments),
        Command::Record(arguments) => record::execute(&arguments),
        Command::Replay(arguments) => replay::execute(&arguments),
        Command::Results(arguments) => results::execute(&arguments),
        Command::Mrc(arguments) => mrc::execute(&arguments),
        Command::Study(arguments) => study::execute(&arguments),
        Command::Verify(arguments) => verify::execute(&arguments),
        Command::Completions(arguments) => completion::execute(&arguments),
        Command::Man(arguments) => man::execute(&arguments, Arguments::command()),
        Command::Workload(arguments) => processes::run_workload(&arguments),
        Command::Reader(arguments) => processes::run_reader(&arguments),
        Command::Guest { guest } => processes::run_guest(&guest),
        Command::NumaProcess(arguments) => processes::run_numa_process(&arguments),
        Command::Memory => processes::run_memory(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every numeric option refuses values out of its bounds, and the error names the option.
    #[test]
    fn numbers_of_options_have_bounds_that_errors_name() {
        let extremes = ["", "-1", "0x10", "1.5", "nan", "1e308", "18446744073709551616"];
        let numbers = ["N", "US", "KIB", "PAGES,..."];
        let mut tried = 0;
        for command in Arguments::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            for option in command.get_arguments() {
                let takes_number =
                    option.get_value_names().is_some_and(|names| numbers.contains(&names[0].as_str()));
                let (true, Some(name)) = (takes_number, option.get_long()) else { continue };
                // The kernel's counter fail_page_alloc/nth takes any 64-bit value.
                let beyond = if name == "fail-alloc" { None } else { Some("18446744073709551615") };
                for value in extremes.into_iter().chain(beyond) {
                    let words =
                        ["mmtwin", command.get_name(), &format!("--{name}={value}"), "x"].map(String::from);
                    let error = Arguments::command().try_get_matches_from(words).unwrap_err().to_string();
                    assert!(error.contains(&format!("--{name}")), "{error}");
                    tried += 1;
                }
                // Apart from its option, a negative number is its value too, and no unknown option.
                let words = ["mmtwin", command.get_name(), &format!("--{name}"), "-1"].map(String::from);
                let error = Arguments::command().try_get_matches_from(words).unwrap_err().to_string();
                assert!(error.contains("invalid value '-1'"), "{error}");
            }
        }
        assert!(tried > 100, "{tried}");
    }

    /// Lines wider than 100 columns would wrap, and a wrapped command cannot be copied.
    #[test]
    fn notes_and_examples_of_the_help_fit() {
        for command in Arguments::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines() {
                assert!(line.chars().count() <= 100, "{}: {line}", command.get_name());
            }
        }
    }
}
