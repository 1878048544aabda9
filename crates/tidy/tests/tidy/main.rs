//! House rules that a test holds.
//!
//! ```text
//!   crates/**.rs, fuzz/**.rs, *.md ─► Workspace ─► rule ─► findings ──┐
//!                                                                    ├─► file:line, what, and what to do
//!   exceptions.toml ─► what breaks a rule today ─────────────────────┘
//! ```
//!
//! CONTRIBUTING.md says what the rules are for. Each is a function from the workspace to findings in a file of its own, with small
//! sources that break it; [`RULES`] lists them. Rules go by names and shapes, as no types are known here; where a name may mean
//! two things they say nothing. What broke a rule when it was made stands in `exceptions.toml`, see [`exceptions`].

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
        remedy: "Split it where it begins something else: at most 60 lines from `fn` to the last brace.",
        check: functions::long,
    },
    Rule {
        name: "parameters",
        remedy: "Give those that belong together a type, or make it a method of what has them: at most 6, without `self`.",
        check: functions::wide,
    },
    Rule {
        name: "machine-and-cpu",
        remedy: "Make it a method of `Kernel` or `OnCpu`, which have both.",
        check: functions::machine_and_cpu,
    },
    Rule {
        name: "bool-literal",
        remedy: "Make two functions, or give the two values names in an enum.",
        check: literals::check,
    },
    Rule { name: "features", remedy: "Ask in policy.rs, and use the answer here.", check: features::check },
    Rule {
        name: "circle",
        remedy: "Move what two of them need below both, or the decision above both: at most 6 files may need each other.",
        check: circles::check,
    },
    Rule {
        name: "parts",
        remedy: "Move it to the part that knows it, or onto `Kernel` if it crosses parts.",
        check: parts::check,
    },
    Rule { name: "names-in-pages", remedy: "Name what is there now.", check: pages::check },
    Rule {
        name: "header",
        remedy: "Open it with `//!`: what it is for, how it goes, where the kernel does it.",
        check: headers::check,
    },
    Rule {
        name: "banned",
        remedy: "Return an error, or print where the command prints (crates/cli/src/terminal.rs).",
        check: banned::check,
    },
];

/// Set to take out of `exceptions.toml` what is no longer needed.
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
    assert!(
        complaints.is_empty(),
        "\n{}\n\n{count} places break the rules of the house\n",
        complaints.join("\n")
    );
}
