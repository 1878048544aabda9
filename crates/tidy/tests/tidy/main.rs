//! House rules as a test.
//!
//! ```text
//!   crates/**.rs, fuzz/**.rs, *.md ─► Workspace ─► rule ─► findings ──┐
//!                                                                    ├─► file:line, what is wrong, how to fix it
//!   exceptions.toml ─► findings that are accepted for now ───────────┘
//! ```
//!
//! CONTRIBUTING.md has the reasons for the rules. Each rule is a function from the workspace to findings, in
//! a file of its own with small sources that break it; [`RULES`] lists them. Rules use names and syntax,
//! because types are not known here; if a name is ambiguous, they report nothing. Findings from before a rule
//! existed are listed in `exceptions.toml`, see [`exceptions`].

mod banned;
mod circles;
mod exceptions;
mod features;
mod finding;
mod functions;
mod headers;
mod literals;
mod pages;
mod parts;
mod walk;
mod workspace;

use exceptions::Exceptions;
use finding::Rule;
use std::path::Path;
use workspace::Workspace;

const RULES: [Rule; 10] = [
    Rule {
        name: "function-length",
        remedy: "Split it where a new step begins: at most 60 lines from `fn` to the last brace.",
        check: functions::long,
    },
    Rule {
        name: "parameters",
        remedy: "Put parameters that belong together into a type, or make the function a method of one: at most 6, without `self`.",
        check: functions::wide,
    },
    Rule {
        name: "machine-and-cpu",
        remedy: "Make it a method of `Kernel` or `OnCpu`, which contain both.",
        check: functions::machine_and_cpu,
    },
    Rule {
        name: "bool-literal",
        remedy: "Make two functions, or an enum with two named values.",
        check: literals::check,
    },
    Rule {
        name: "features",
        remedy: "Read it in policy.rs, and use the decision here.",
        check: features::check,
    },
    Rule {
        name: "circle",
        remedy: "Move what two files share below both, or the decision above both: at most 6 files may need each other.",
        check: circles::check,
    },
    Rule {
        name: "parts",
        remedy: "Move it to the part that owns the data, or to `Kernel` if it crosses parts.",
        check: parts::check,
    },
    Rule { name: "names-in-pages", remedy: "Use the present name.", check: pages::check },
    Rule {
        name: "header",
        remedy: "Begin it with a `//!` comment: its purpose, how it works, where the kernel does it.",
        check: headers::check,
    },
    Rule {
        name: "banned",
        remedy: "Return an error, or print where the command prints (crates/cli/src/terminal.rs).",
        check: banned::check,
    },
];

/// An environment variable; removes unneeded lines from `exceptions.toml`.
const SHRINK: &str = "MMTWIN_SHRINK_EXCEPTIONS";

#[test]
fn the_workspace_keeps_the_rules() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("exceptions.toml");
    let workspace = Workspace::read(&root);
    assert!(workspace.sources.len() > 100 && workspace.pages.len() > 10, "the workspace is not at {root:?}");
    let text = std::fs::read_to_string(&list).unwrap();
    let mut exceptions = Exceptions::parse(&text, &RULES).unwrap_or_else(|error| panic!("{error}"));
    let mut complaints = Vec::new();
    for rule in &RULES {
        let findings = (rule.check)(&workspace);
        if std::env::var_os(SHRINK).is_some() {
            exceptions.shrink(rule, &findings);
        }
        complaints.extend(exceptions.complaints(rule, &findings));
    }
    if std::env::var_os(SHRINK).is_some() {
        let preface: String =
            text.lines().take_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
        std::fs::write(&list, exceptions.to_toml(&preface)).unwrap();
    }
    let count = complaints.len();
    assert!(complaints.is_empty(), "\n{}\n\n{count} violations of the house rules\n", complaints.join("\n"));
}
