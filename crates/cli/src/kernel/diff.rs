//! `mmtwin kernel diff`: which functions of a kernel tree are changed, and the smallest states in which they decide otherwise.
//!
//! ```text
//!   sources of the kernel, and of the tree that it is compared with ─► standing of each function
//!   changed ones ─► cc ─► a process of their own asks both sides about the same states ─► small examples
//! ```
//!
//! A difference of texts is what `diff` shows. What it comes to is asked here: in how many states the functions decide otherwise, and
//! which of these states are smallest. The child is watched as that of a run is; see [`super::process`].

use super::process::{self, Watched};
use crate::failure::Failure;
use crate::json;
use crate::kernel;
use crate::terminal;
use anyhow::{Context, anyhow};
use clap::Args;
use kernel_tree::judge::{self, Case, Comparison, Example, Named, Side};
use kernel_tree::{Compiler, DECISIONS, Decision, Loaded, Note, Object, Standing, Stored, TreeSources};
use mm::Variant;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The hidden command that asks both sides.
pub const COMMAND: &str = "decide-diff";

/// States that each function is asked about.
const STATES: u64 = 20_000;

/// The side that decides by the twin's own rules.
const TWIN: &str = "twin";

/// Say which functions of a kernel are changed, and in which states they decide otherwise
#[derive(Args)]
pub struct DiffArguments {
    /// The name that the kernel was added under
    name: String,

    /// What to compare with: another kernel that was added, or the rules of the `twin` [default: the tree that the kernel was
    /// added with as unchanged, else the twin]
    #[arg(long, value_name = "KERNEL")]
    against: Option<String>,

    /// How many states to show of each function
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value_t = 3)]
    states: usize,

    /// Print JSON, see schemas/
    #[arg(long)]
    json: bool,
}

/// Where the child finds the notes that the parent watches.
#[derive(clap::Args)]
pub struct ChildArguments {
    /// The note of the old side
    #[arg(long)]
    old: PathBuf,
    /// The note of the new side
    #[arg(long)]
    new: PathBuf,
}

/// What a child is asked.
#[derive(Serialize, Deserialize)]
struct Asked {
    functions: Vec<String>,
    /// The release whose rules are the twin's.
    base: String,
    /// The functions of the old side, unless it is the twin.
    old: Option<Object>,
    new: Object,
    examples: usize,
}

/// How the functions of a kernel stand to those of another one.
#[derive(JsonSchema, Serialize)]
pub struct KernelDiff {
    kernel: String,
    /// The tree or release that it is compared with.
    against: String,
    functions: Vec<FunctionDiff>,
}

/// How one function stands.
#[derive(JsonSchema, Serialize)]
struct FunctionDiff {
    function: String,
    /// `same`, `changed`, `new`, `not-found` or `not-taken`.
    standing: &'static str,
    /// File and line in the tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    /// Whether runs ask the function; one that they do not ask changes none.
    asked_by_runs: bool,
    /// Why the function cannot be taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// What the change comes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    decisions: Option<DecisionDiff>,
}

/// How often two functions decide otherwise.
#[derive(Clone, JsonSchema, Serialize, Deserialize)]
struct DecisionDiff {
    /// How many states both were asked about.
    asked: u64,
    /// In how many of them they differ.
    differing: u64,
    /// Differences between a kernel and the twin for which there is a reason.
    known: Vec<KnownDiff>,
    /// Small states in which they differ.
    states: Vec<StateDiff>,
}

/// A known reason for differences.
#[derive(Clone, JsonSchema, Serialize, Deserialize)]
struct KnownDiff {
    why: String,
    /// In how many states they differ for that reason.
    differing: u64,
}

/// A state in which two functions differ.
#[derive(Clone, JsonSchema, Serialize, Deserialize)]
struct StateDiff {
    /// What both were asked; numbers that are not named are 0.
    asked: Vec<Value>,
    /// What the old function makes of it, as far as both differ.
    old: Vec<Value>,
    /// What the new function makes of it, as far as both differ.
    new: Vec<Value>,
    /// Why they differ, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    known: Option<String>,
}

/// A number of a state.
#[derive(Clone, JsonSchema, Serialize, Deserialize)]
struct Value {
    /// The field, such as `nr_pages[3]`.
    name: String,
    value: i128,
}

impl json::Document for KernelDiff {
    const NAME: &'static str = "kernel-diff";
}

impl From<&Named> for Value {
    fn from(named: &Named) -> Value {
        Value { name: named.name.clone(), value: named.number }
    }
}

impl From<&Example> for StateDiff {
    fn from(example: &Example) -> StateDiff {
        let values = |named: &[Named]| named.iter().map(Value::from).collect();
        StateDiff {
            asked: values(&example.asked),
            old: values(&example.old),
            new: values(&example.new),
            known: example.known.map(String::from),
        }
    }
}

/// Runs the command.
pub fn execute(arguments: &DiffArguments) -> Result<(), Failure> {
    let directory = kernel::directory()?;
    let stored = kernel::find(&directory, &arguments.name)?;
    let sources = stored.sources(&directory)?;
    let against = match arguments.against.as_deref() {
        Some(TWIN) => None,
        Some(other) => Some(kernel::find(&directory, other)?.sources(&directory)?.tree),
        None => sources.other,
    };
    let mut diff = KernelDiff {
        kernel: stored.name.clone(),
        against: match &against {
            Some(tree) => tree.called.clone(),
            None => format!("the twin's {}", stored.base),
        },
        functions: DECISIONS.iter().map(|one| function(one, &sources.tree, against.as_ref())).collect(),
    };
    let sides = Sides { stored: &stored, new: &sources.tree, old: against.as_ref() };
    sides.decide(&mut diff, arguments.states)?;
    if arguments.json { json::print(&diff) } else { terminal::print(told(&diff).trim_end()) }
}

fn function(decision: &'static Decision, new: &TreeSources, old: Option<&TreeSources>) -> FunctionDiff {
    let (standing, problem) = match new.standing(decision, old) {
        Standing::Same => ("same", None),
        Standing::Changed => ("changed", None),
        Standing::New => ("new", None),
        Standing::Missing => ("not-found", None),
        Standing::Refused(problem) => ("not-taken", Some(problem)),
    };
    FunctionDiff {
        function: decision.name.into(),
        standing,
        place: new.place(decision),
        asked_by_runs: decision.slot.decides(),
        problem,
        decisions: None,
    }
}

/// Both sides of a comparison.
struct Sides<'a> {
    stored: &'a Stored,
    new: &'a TreeSources,
    /// Nothing for the twin.
    old: Option<&'a TreeSources>,
}

impl Sides<'_> {
    /// Has a process ask both sides about all functions that are changed.
    fn decide(&self, diff: &mut KernelDiff, examples: usize) -> Result<(), Failure> {
        let base = &self.stored.base;
        let is_judged = |name: &str| judge::cases().iter().any(|case| case.name == name && case.is_in(base));
        let changed =
            diff.functions.iter().filter(|one| one.standing == "changed" && is_judged(&one.function));
        let changed: Vec<&'static Decision> =
            changed.filter_map(|one| Decision::named(&one.function)).collect();
        if changed.is_empty() {
            return Ok(());
        }
        let place = tempfile::tempdir().context("a directory for what is compiled")?;
        let compiler = Compiler::of_the_system(self.stored.instrumentation());
        let mut refuse = |refused: Vec<(&'static Decision, String)>| {
            for (decision, problem) in refused {
                let of_diff = diff.functions.iter_mut().find(|one| one.function == decision.name);
                of_diff.into_iter().for_each(|one| one.problem = Some(problem.clone()));
            }
        };
        let compile = |tree: &TreeSources, wanted: &[&'static Decision], name: &str| {
            tree.compile(wanted, &compiler, &place.path().join(name)).map_err(kernel_tree::StoredError::from)
        };
        let (new, refused) = compile(self.new, &changed, "new")?;
        let mut compiled = without(&changed, &refused);
        refuse(refused);
        let old = match self.old {
            None => None,
            Some(tree) => {
                let (old, refused) = compile(tree, &compiled, "old")?;
                compiled = without(&compiled, &refused);
                refuse(refused);
                Some(old)
            }
        };
        let functions: Vec<String> = compiled.iter().map(|decision| decision.name.into()).collect();
        let asked = Asked { functions, base: base.clone(), old, new, examples };
        for (name, decisions) in self.ask(&asked, place.path())? {
            let of_diff = diff.functions.iter_mut().find(|one| one.function == name);
            of_diff.into_iter().for_each(|one| one.decisions = Some(decisions.clone()));
        }
        Ok(())
    }

    /// What a process of its own says.
    fn ask(&self, asked: &Asked, place: &Path) -> Result<Vec<(String, DecisionDiff)>, Failure> {
        let paths = ["old.note", "new.note"].map(|name| place.join(name));
        let note = |path: &PathBuf| Note::map(path).context("the note");
        let notes = [note(&paths[0])?, note(&paths[1])?];
        let mut command = Command::new(std::env::current_exe().context("this program")?);
        command.arg(COMMAND).arg("--old").arg(&paths[0]).arg("--new").arg(&paths[1]).stdout(Stdio::piped());
        let preloaded = asked.new.preloaded.as_deref();
        let text = serde_json::to_string(asked).context("the functions")?;
        let child = process::start(command, preloaded, &text)?;
        let names = [self.old.map_or(TWIN, |tree| tree.called.as_str()), self.stored.name.as_str()];
        let watched = process::watch(child, &[&notes[0], &notes[1]])?;
        match watched.problem(&names, &[&notes[0], &notes[1]]) {
            Some(problem) => Err(Failure::input(problem)),
            None => {
                let Watched { said, .. } = watched;
                Ok(serde_json::from_str(&said).map_err(|error| anyhow!("what both sides decide: {error}"))?)
            }
        }
    }
}

fn without(
    decisions: &[&'static Decision],
    refused: &[(&'static Decision, String)],
) -> Vec<&'static Decision> {
    let is_refused = |decision: &Decision| refused.iter().any(|(one, _)| one.name == decision.name);
    decisions.iter().filter(|decision| !is_refused(decision)).copied().collect()
}

/// Asks both sides, in a process of its own, and prints what they decide as JSON.
pub fn execute_child(arguments: &ChildArguments) -> Result<(), Failure> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("the functions")?;
    let asked: Asked = serde_json::from_str(&text).context("the functions")?;
    let variant = Variant::of_release(&asked.base);
    let variant = variant.ok_or_else(|| anyhow!("{} is not modelled", asked.base))?;
    let names = || asked.functions.iter().filter_map(|name| Decision::named(name));
    let load = |object: &Object, note: &Path| -> Result<Loaded, anyhow::Error> {
        let loaded = Loaded::of(object, &names().collect::<Vec<_>>())?;
        loaded.note_in(Note::map(note).context("the note")?);
        Ok(loaded)
    };
    let new = load(&asked.new, &arguments.new)?;
    let old = asked.old.as_ref().map(|object| load(object, &arguments.old)).transpose()?;
    let comparison = Comparison {
        old: match &old {
            Some(loaded) => Side::Tree(&loaded.decisions),
            None => Side::Twin(&variant.features),
        },
        new: Side::Tree(&new.decisions),
        release: &asked.base,
        states: STATES,
        examples: asked.examples,
    };
    let cases = judge::cases();
    let of_release = |name: &str| cases.iter().find(|case| case.name == name && case.is_in(&asked.base));
    let found = names().filter_map(|one| Some((one.name, decisions(of_release(one.name)?, &comparison)?)));
    let text = serde_json::to_string(&found.collect::<Vec<_>>()).context("JSON")?;
    terminal::print(&text)
}

fn decisions(case: &Case, comparison: &Comparison) -> Option<DecisionDiff> {
    let found = case.compare(comparison)?;
    let known = |&(why, differing): &(&'static str, u64)| KnownDiff { why: why.into(), differing };
    Some(DecisionDiff {
        asked: found.states,
        differing: found.differing + found.known.iter().map(|(_, differing)| differing).sum::<u64>(),
        known: found.known.iter().map(known).collect(),
        states: found.examples.iter().map(StateDiff::from).collect(),
    })
}

/// What was found, for people.
fn told(diff: &KernelDiff) -> String {
    let mut text = format!("{} against {}\n", diff.kernel, diff.against);
    let (mut alike, mut shows) = (Vec::new(), false);
    for function in &diff.functions {
        match &function.decisions {
            Some(decisions) if decisions.differing == 0 && diff.against.starts_with("the twin's ") => {
                alike.push(function.function.as_str());
            }
            Some(decisions) => {
                text += &told_of(function, decisions);
                shows |= !decisions.states.is_empty();
            }
            None if function.problem.is_some() => {
                let problem = function.problem.as_deref().unwrap_or_default();
                text += &format!("\n{}: cannot be asked: {problem}\n", function.function);
            }
            None if function.standing == "changed" => {
                text += &format!("\n{}: changed; no states are drawn for this release\n", function.function);
            }
            None => {}
        }
    }
    if shows {
        text += "\nnumbers that are not named are 0\n";
    }
    let count = alike.first().and_then(|_| diff.functions.iter().find_map(|one| one.decisions.as_ref()));
    if let Some(count) = count {
        text += &format!("\nthe same decision in each of {} states: {}\n", count.asked, alike.join(", "));
    }
    for (standing, what) in
        [("same", "same text"), ("new", "only in this tree"), ("not-found", "not in this tree")]
    {
        let of_standing = diff.functions.iter().filter(|function| function.standing == standing);
        let names: Vec<&str> = of_standing.map(|function| function.function.as_str()).collect();
        if !names.is_empty() {
            text += &format!("\n{what}: {}\n", names.join(", "));
        }
    }
    text
}

fn told_of(function: &FunctionDiff, decisions: &DecisionDiff) -> String {
    let DecisionDiff { asked, differing, known, states } = decisions;
    let place = function.place.as_deref().unwrap_or_default();
    let mut text = match differing {
        0 => format!(
            "\n{}  {place}: changed, but decides the same in each of {asked} states\n",
            function.function
        ),
        _ => {
            format!("\n{}  {place}: decides otherwise in {differing} of {asked} states\n", function.function)
        }
    };
    if !function.asked_by_runs {
        text += "  no run asks this function: a change to it shows here and nowhere else\n";
    }
    for KnownDiff { why, differing } in known {
        text += &format!("  {differing} of them are known: {why}\n");
    }
    let list = |values: &[Value]| {
        let told: Vec<String> = values.iter().map(|one| format!("{} = {}", one.name, one.value)).collect();
        told.join(", ")
    };
    for StateDiff { asked, old, new, known } in states {
        let mark = if known.is_some() { " (known)" } else { "" };
        text += &format!("  asked  {}{mark}\n", list(asked));
        text += &format!("    old  {}\n    new  {}\n", list(old), list(new));
    }
    text
}
