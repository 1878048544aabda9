//! `mmtwin kernel`: kernel trees as variants.
//!
//! ```text
//!   kernel add NAME --tree DIR ─► kernel_tree: extract, compile ─► ~/.cache/mmtwin/kernels/NAME
//!                                                                        │
//!   compare kbuild --variants 6.12,NAME ─► a process for each run ───────┘   process.rs
//! ```

pub mod diff;
pub mod process;

use crate::completion;
use crate::failure::Failure;
use crate::json;
use crate::table::{Entry, Grid};
use crate::terminal;
use anyhow::Context;
use clap::{Args, Subcommand};
use kernel_tree::{Config, Decision, Request, Slot, Stored, StoredDecision, Whose};
use live::places;
use mm::Series;
use mm::series::RELEASES;
use schemars::JsonSchema;
use serde::Serialize;
use sim::{KernelChoice, TreeKernel, name_and_features};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Make a kernel tree a variant: its own C functions decide
#[derive(Args)]
#[command(after_help = "\
Functions that decide (nr_pcp_high, zone_batchsize, get_type_to_scan, ...) are cut out of the tree's
C sources, compiled with the system's C compiler and asked instead of the twin's own rules. All else
is as in the release that the tree is based on. Runs of such a variant have a process of their own.

Examples:
  mmtwin kernel add my-patch --tree ~/linux
  mmtwin kernel add my-patch --source linux-source-6.12 --patch pcp.patch
  mmtwin kernel add my-patch --tree ~/linux --unchanged ~/linux-6.12 --config ~/linux/.config
  mmtwin compare page_fault1 --variants 6.12,my-patch
  mmtwin kernel diff my-patch
  mmtwin kernel list
  mmtwin kernel remove my-patch")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Add(AddArguments),
    Diff(diff::DiffArguments),
    /// List kernels that were added, and which functions of each decide
    List {
        /// Print JSON, see schemas/
        #[arg(long)]
        json: bool,
    },
    /// Remove a kernel; results of its runs stay
    Remove {
        /// The name that it was added under
        #[arg(add = completion::added_kernels())]
        name: String,
    },
}

/// Add a kernel tree as a variant
#[derive(Args)]
struct AddArguments {
    /// The name of the variant: letters, digits, - and _
    name: String,

    /// The root of the kernel tree
    #[arg(long, value_name = "DIR", required_unless_present = "source")]
    tree: Option<PathBuf>,

    /// A source package of Debian, unpacked in /usr/src
    #[arg(long, value_name = "PACKAGE", conflicts_with = "tree")]
    source: Option<String>,

    /// Apply a patch to a copy of the tree first; may be given several times, in order
    #[arg(long, value_name = "FILE")]
    patch: Vec<PathBuf>,

    /// Only functions that differ from this tree's decide [default with --patch: the tree without the patch]
    #[arg(long, value_name = "DIR")]
    unchanged: Option<PathBuf>,

    /// The tree's configuration [default: what every server kernel has]
    #[arg(long, value_name = ".config")]
    config: Option<PathBuf>,

    /// The release that the tree is based on [default: what its Makefile says]
    #[arg(long, value_name = "RELEASE")]
    base: Option<String>,

    /// Compile with AddressSanitizer and UndefinedBehaviorSanitizer; runs are several times slower
    #[arg(long)]
    sanitize: bool,
}

/// The directory of kernels that were added.
pub fn directory() -> Result<PathBuf, Failure> {
    Ok(places::cache().context("kernels that were added")?.join("kernels"))
}

/// Runs the command.
pub fn execute(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.action {
        Action::Add(arguments) => add(arguments),
        Action::Diff(arguments) => diff::execute(arguments),
        Action::List { json } => list(*json),
        Action::Remove { name } => {
            if Stored::remove(&directory()?, name)? {
                terminal::say(format_args!("{name} is removed; results of its runs stay"));
                return Ok(());
            }
            Err(unknown(name, &Stored::all(&directory()?)?))
        }
    }
}

/// The kernel of that name.
fn find(directory: &Path, name: &str) -> Result<Stored, Failure> {
    match Stored::find(directory, name)? {
        Some(stored) => Ok(stored),
        None => Err(unknown(name, &Stored::all(directory)?)),
    }
}

fn unknown(name: &str, all: &[Stored]) -> Failure {
    let names: Vec<&str> = all.iter().map(|kernel| kernel.name.as_str()).collect();
    let there_are = if names.is_empty() { "none was added".into() } else { names.join(", ") };
    Failure::input(format!("{name}: no such kernel; there are: {there_are}"))
}

fn add(arguments: &AddArguments) -> Result<(), Failure> {
    let AddArguments { name, tree, source, patch, unchanged, config, base, sanitize } = arguments;
    // A kernel of such a name would never be asked for.
    if Series::ALL.iter().any(|series| KernelChoice::parse(series.name, name).is_ok()) {
        return Err(Failure::input(format!(
            "{name} is the name of a release or variant; give the kernel another one"
        )));
    }
    let root = match (tree, source) {
        (Some(tree), _) => tree.clone(),
        (None, Some(package)) => Path::new("/usr/src").join(package),
        (None, None) => return Err(Failure::input("--tree or --source says where the kernel tree is")),
    };
    let of_package = |_| match source {
        Some(package) => format!(
            "{}: not there; apt install {package}, and unpack /usr/src/{package}.tar.xz in /usr/src",
            root.display()
        ),
        None => format!("{}: cannot be read", root.display()),
    };
    let root = fs::canonicalize(&root).map_err(|error| Failure::input(of_package(error)))?;
    let config = match config {
        Some(path) => {
            let wrong = |problem: String| Failure::input(format!("{}: {problem}", path.display()));
            let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
            if !text.lines().any(|line| line.starts_with("CONFIG_")) {
                return Err(wrong(
                    "no line sets an option, as in CONFIG_NUMA=y; expected a kernel's .config".into(),
                ));
            }
            Config::parse(&text)
        }
        None => Config::default(),
    };
    let patched = if patch.is_empty() { None } else { Some(with_patches(&root, patch)?) };
    let unchanged = unchanged.as_deref().or(patched.as_ref().map(|_| root.as_path()));
    let request = Request {
        name,
        base: base.as_deref(),
        tree: patched.as_ref().map_or(root.as_path(), |copy| copy.path()),
        called: [root.display().to_string()]
            .into_iter()
            .chain(patch.iter().map(|patch| patch.display().to_string()))
            .collect::<Vec<_>>()
            .join(" + "),
        unchanged,
        config,
        sanitize: *sanitize,
    };
    if Stored::find(&directory()?, name)?.is_some() {
        terminal::say(format_args!("{name} was there and is replaced"));
    }
    let kernel =
        Stored::add(&directory()?, request, &|base| RELEASES.iter().any(|(release, _)| *release == base))?;
    terminal::print(&told(&kernel))
}

/// A copy of the files of a tree that decisions may be in, with patches applied. What they change besides is left out.
fn with_patches(root: &Path, patches: &[PathBuf]) -> Result<tempfile::TempDir, Failure> {
    let copy = tempfile::tempdir().context("a copy of the tree")?;
    let files = kernel_tree::files();
    for file in files.iter().chain(&["Makefile"]) {
        let (from, to) = (root.join(file), copy.path().join(file));
        if from.is_file() {
            fs::create_dir_all(to.parent().unwrap_or(copy.path())).context("a copy of the tree")?;
            fs::copy(&from, &to).with_context(|| format!("{}", from.display()))?;
        }
    }
    for patch in patches {
        let path = fs::canonicalize(patch)
            .map_err(|error| Failure::input(format!("{}: {error}", patch.display())))?;
        let include = files.iter().map(|file| format!("--include={file}"));
        let mut git = Command::new("git");
        // Outside of any repository, so that paths are those of the copy.
        git.current_dir(copy.path()).env("GIT_DIR", "/dev/null").arg("apply").args(include).arg(&path);
        let output = git.output().context("git, which applies patches")?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(Failure::input(format!("{}: does not apply: {}", patch.display(), text.trim())));
        }
    }
    Ok(copy)
}

/// What is whose, for whoever added a kernel.
fn told(kernel: &Stored) -> String {
    let of = |whose: Whose| kernel.decisions.iter().filter(move |decision| decision.whose == whose);
    let names = |whose| of(whose).map(|decision| decision.function.as_str()).collect::<Vec<_>>().join(", ");
    let mut text = format!("{}: based on {}, functions from {}\n", kernel.name, kernel.base, kernel.tree);
    for StoredDecision { function, place, .. } in of(Whose::Tree) {
        text += &format!("  {function}  {}\n", place.as_deref().unwrap_or_default());
    }
    let (unchanged, missing) = (of(Whose::Unchanged).count(), of(Whose::Missing).count());
    if unchanged > 0 {
        text += &format!("unchanged, so that the twin's own rules decide: {}\n", names(Whose::Unchanged));
    }
    if missing > 0 {
        let are = if missing == 1 { "function is" } else { "functions are" };
        text += &format!(
            "{missing} {are} not in this tree: {}; there the rules of the twin's {} decide. A function that was renamed, or moved to \
             another file, is not found and not tried\n",
            names(Whose::Missing),
            kernel.base
        );
    }
    text += &format!("in which states they decide otherwise: mmtwin kernel diff {}\n", kernel.name);
    text += &format!(
        "try it: mmtwin compare {} --variants {},{}",
        scenario(of(Whose::Tree)),
        kernel.base,
        kernel.name
    );
    text
}

/// A scenario that asks what the functions of a tree decide: page faults go through pagesets, while generations and watermarks
/// matter where memory is short.
fn scenario<'a>(mut of_tree: impl Iterator<Item = &'a StoredDecision>) -> &'static str {
    let is_of_pageset = |decision: &Decision| matches!(decision.slot, Slot::Pcp(_) | Slot::PcpZone(_));
    let any = of_tree.any(|one| Decision::named(&one.function).is_some_and(is_of_pageset));
    if any { "page_fault1" } else { "fio-zipf-2g" }
}

/// Kernels that were added.
#[derive(JsonSchema, Serialize)]
pub struct Kernels {
    kernels: Vec<KernelLine>,
}

#[derive(JsonSchema, Serialize)]
struct KernelLine {
    name: String,
    /// The release that it has all rules from that no function of the tree decides.
    base: String,
    tree: String,
    content_hash: String,
    functions: Vec<FunctionLine>,
}

#[derive(JsonSchema, Serialize)]
struct FunctionLine {
    function: String,
    /// `tree`, `unchanged` or `missing`.
    whose: &'static str,
    /// File and line in the tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
}

impl json::Document for Kernels {
    const NAME: &'static str = "kernel-list";
}

fn word(whose: Whose) -> &'static str {
    match whose {
        Whose::Tree => "tree",
        Whose::Unchanged => "unchanged",
        Whose::Missing => "missing",
    }
}

fn list(as_json: bool) -> Result<(), Failure> {
    let all = Stored::all(&directory()?)?;
    if as_json {
        let function = |decision: StoredDecision| FunctionLine {
            function: decision.function,
            whose: word(decision.whose),
            place: decision.place,
        };
        let line = |kernel: Stored| KernelLine {
            name: kernel.name,
            base: kernel.base,
            tree: kernel.tree,
            content_hash: kernel.content_hash,
            functions: kernel.decisions.into_iter().map(function).collect(),
        };
        return json::print(&Kernels { kernels: all.into_iter().map(line).collect() });
    }
    if all.is_empty() {
        return terminal::print("no kernel was added; `mmtwin kernel add --help` says how");
    }
    let mut grid = Grid::new(&["kernel", "based on", "functions of the tree that decide"]);
    for kernel in all {
        let of_tree = kernel.decisions.iter().filter(|decision| decision.whose == Whose::Tree);
        let functions: Vec<&str> = of_tree.map(|decision| decision.function.as_str()).collect();
        grid.row([kernel.name.clone(), kernel.base.clone(), functions.join(" ")].map(Entry::from));
    }
    grid.words = vec![1, 2];
    terminal::print(&grid.render())
}

/// Those of some names that are kernels which were added, for runs to take decisions from. A name that is a variant of the
/// series is not looked for: most commands have no others, and need no directory of kernels.
pub fn trees<'a>(
    series: &str,
    names: impl Iterator<Item = &'a String>,
) -> Result<BTreeMap<String, TreeKernel>, Failure> {
    let names = names.map(|name| name_and_features(name).0);
    let unknown: Vec<&str> = names.filter(|name| KernelChoice::parse(series, name).is_err()).collect();
    let mut trees = BTreeMap::new();
    if unknown.is_empty() {
        return Ok(trees);
    }
    // Who has no home directory has added none.
    let Ok(directory) = directory() else { return Ok(trees) };
    for name in unknown {
        if let Some(Stored { name, base, content_hash, .. }) = Stored::find(&directory, name)? {
            trees.insert(name, TreeKernel { base, content_hash });
            continue;
        }
        // Of a variant of another series the scenario says more.
        if Series::ALL.iter().any(|series| series.variant(name).is_some()) {
            continue;
        }
        let all = Stored::all(&directory)?;
        if let (Err(error), false) = (KernelChoice::parse(series, name), all.is_empty()) {
            let added: Vec<&str> = all.iter().map(|kernel| kernel.name.as_str()).collect();
            let text = format!("{error}; kernel trees that were added: {}", added.join(", "));
            return Err(Failure::input(text));
        }
    }
    Ok(trees)
}
