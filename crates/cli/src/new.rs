//! `mmtwin new`: a scenario to start from, with a comment at each key.

use crate::completion;
use crate::failure::Failure;
use crate::terminal;
use lab::scenario::Scenario;

/// The scenario that is printed where no other is asked for.
const TEMPLATE: &str = include_str!("new.toml");

/// Print a scenario to start from
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mmtwin new > my.toml            a service and a reader, with what each key means
  mmtwin new kbuild > build.toml  a built-in scenario
  mmtwin show my.toml             check it")]
pub struct Arguments {
    /// Scenario: a name from `mmtwin list scenarios` [default: one with comments]
    #[arg(add = completion::scenarios())]
    scenario: Option<String>,
}

pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let text = match &arguments.scenario {
        None => TEMPLATE.into(),
        Some(name) => Scenario::text(name)?,
    };
    terminal::print(text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::experiment::Experiment;

    #[test]
    fn what_is_printed_can_be_run() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("my.toml");
        std::fs::write(&path, TEMPLATE).unwrap();
        let experiment = Experiment::of(path.to_str().unwrap(), None).unwrap();
        assert_eq!(experiment.runs().unwrap().len(), 6);
    }
}
