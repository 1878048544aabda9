//! No literal `true` or `false` for a `bool` parameter: the call does not show what it means. Two functions,
//! or an enum with two values, have names.
//!
//! ```text
//!   every fn of the workspace ─► name ─► owner, module, which parameters are bool ──┐
//!                                                                                  ├─► all candidates must agree
//!   every call with a literal ─► name, Type:: or module:: before it, arguments ────┘
//! ```
//!
//! Types are not known here, so calls are matched by name, and ambiguous ones are not reported: all functions
//! of that name must have a `bool` at this position; a plain name must be defined or imported in the file;
//! and methods with names from other crates ([`FOREIGN`]) are ignored.

use crate::finding::Finding;
use crate::walk::{Look, Place, line_of, walk};
use crate::workspace::Workspace;
use std::collections::{BTreeMap, BTreeSet};
use syn::punctuated::Punctuated;
use syn::{Expr, FnArg, ItemUse, Lit, Signature, Token, Type, UseTree};

/// Methods of the standard library and of dependencies that take a `bool`, or any type.
const FOREIGN: [&str; 22] = [
    "append",
    "contains",
    "create",
    "create_new",
    "entry",
    "extend",
    "fill",
    "force",
    "get",
    "insert",
    "map_or",
    "new",
    "push",
    "read",
    "replace",
    "set",
    "store",
    "swap",
    "truncate",
    "unwrap_or",
    "write",
    "resize",
];

pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut signatures = Signatures::default();
    for source in &workspace.sources {
        signatures.file = source.path.clone();
        walk(source, &mut signatures);
    }
    let mut findings = Vec::new();
    for source in &workspace.sources {
        let mut imports = Imports::default();
        walk(source, &mut imports);
        let mut calls = Calls {
            file: &source.path,
            imports: &imports.0,
            callees: &signatures.callees,
            findings: Vec::new(),
        };
        walk(source, &mut calls);
        findings.append(&mut calls.findings);
    }
    findings
}

/// A function that a call may refer to.
struct Callee {
    file: String,
    owner: Option<String>,
    has_self: bool,
    /// For each parameter, including `self`, whether it is a `bool`.
    bools: Vec<bool>,
}

#[derive(Default)]
struct Signatures {
    file: String,
    callees: BTreeMap<String, Vec<Callee>>,
}

impl Look for Signatures {
    fn function(&mut self, place: &Place, signature: &Signature, _: usize) {
        let bools = signature.inputs.iter().map(|input| match input {
            FnArg::Typed(input) => matches!(&*input.ty, Type::Path(path) if path.path.is_ident("bool")),
            FnArg::Receiver(_) => false,
        });
        self.callees.entry(signature.ident.to_string()).or_default().push(Callee {
            file: self.file.clone(),
            owner: place.owner.clone(),
            has_self: matches!(signature.inputs.first(), Some(FnArg::Receiver(_))),
            bools: bools.collect(),
        });
    }
}

/// The names that a file imports.
#[derive(Default)]
struct Imports(BTreeSet<String>);

impl Look for Imports {
    fn import(&mut self, _: &Place, import: &ItemUse) {
        let mut trees = vec![&import.tree];
        while let Some(tree) = trees.pop() {
            match tree {
                UseTree::Path(path) => trees.push(&path.tree),
                UseTree::Name(name) => drop(self.0.insert(name.ident.to_string())),
                UseTree::Group(group) => trees.extend(&group.items),
                _ => {}
            }
        }
    }
}

struct Calls<'a> {
    file: &'a str,
    imports: &'a BTreeSet<String>,
    callees: &'a BTreeMap<String, Vec<Callee>>,
    findings: Vec<Finding>,
}

impl<'a> Calls<'a> {
    /// Reports literals for parameters that are `bool` in all of `candidates`; `first` is the index of the
    /// first argument.
    fn judge(
        &mut self,
        place: &Place,
        name: &syn::Ident,
        arguments: &Punctuated<Expr, Token![,]>,
        first: usize,
        candidates: Vec<&Callee>,
    ) {
        let fitting: Vec<&Callee> =
            candidates.into_iter().filter(|callee| callee.bools.len() == first + arguments.len()).collect();
        for (at, argument) in arguments.iter().enumerate() {
            if let Some(literal) = bool_literal(argument)
                && !fitting.is_empty()
                && fitting.iter().all(|callee| callee.bools[first + at])
            {
                self.findings.push(Finding {
                    file: self.file.to_string(),
                    line: line_of(argument),
                    item: format!("{} hands {literal} to {name}", place.item()),
                    amount: 1,
                    message: format!("{} hands {literal} to {name}", place.item()),
                });
            }
        }
    }

    /// The functions that a called path may refer to.
    fn meant(&self, place: &Place, path: &syn::Path) -> Vec<&'a Callee> {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let Some((name, before)) = names.split_last() else { return Vec::new() };
        let known = self.callees.get(name).map(Vec::as_slice).unwrap_or_default();
        match before.last() {
            Some(of) if of.starts_with(char::is_uppercase) => {
                let owner = if of == "Self" { place.owner.as_ref() } else { Some(of) };
                known.iter().filter(|callee| callee.owner.as_ref() == owner).collect()
            }
            Some(of) => {
                let free = known.iter().filter(|callee| callee.owner.is_none());
                free.filter(|callee| is_module(&callee.file, of)).collect()
            }
            None => {
                let free: Vec<&'a Callee> = known.iter().filter(|callee| callee.owner.is_none()).collect();
                let here: Vec<&'a Callee> =
                    free.iter().copied().filter(|callee| callee.file == self.file).collect();
                match here.is_empty() {
                    false => here,
                    true if self.imports.contains(name) => free,
                    true => Vec::new(),
                }
            }
        }
    }
}

/// Whether a file is the module, or in the crate, of this name.
fn is_module(file: &str, name: &str) -> bool {
    let stem = file.trim_end_matches(".rs").trim_end_matches("/mod");
    stem.rsplit('/').next() == Some(name) || file.starts_with(&format!("crates/{name}/"))
}

fn bool_literal(expression: &Expr) -> Option<bool> {
    match expression {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Bool(value) => Some(value.value),
            _ => None,
        },
        _ => None,
    }
}

impl Look for Calls<'_> {
    fn expression(&mut self, place: &Place, expression: &Expr) {
        if place.is_test {
            return;
        }
        match expression {
            Expr::MethodCall(call) if !FOREIGN.iter().any(|name| call.method == name) => {
                let known = self.callees.get(&call.method.to_string()).map(Vec::as_slice).unwrap_or_default();
                let methods = known.iter().filter(|callee| callee.has_self).collect();
                self.judge(place, &call.method, &call.args, 1, methods);
            }
            Expr::Call(call) => {
                if let Expr::Path(path) = &*call.func
                    && let Some(name) = path.path.segments.last()
                {
                    let meant = self.meant(place, &path.path);
                    self.judge(place, &name.ident, &call.args, 0, meant);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&Workspace::of(files)).into_iter().map(|finding| finding.item).collect()
    }

    const ZONE: &str = "
        pub fn drain(pages: u64, all: bool) {}
        impl Zone {
            fn mark(&mut self, young: bool) { Self::of(1, true); let closure = |x| x; closure(true); }
            fn of(order: u8, boosted: bool) {}
            fn push(&mut self, dirty: bool) {}
            fn count(&self, pages: u64, all: bool) {}
        }
        impl Lru { fn count(&self, pages: u64, of: T) {} }
        fn here(zone: &mut Zone, all: bool) {
            zone.mark(false);
            drain(3, true);
            assert!(Zone::of(2, false), \"text\");
            Zone::mark(zone, true);
            drain(4, all);
        }
        #[test] fn test() { drain(3, true); }";

    #[test]
    fn literals_are_found_in_calls_of_all_kinds() {
        let expected = [
            "Zone::mark hands true to of",
            "here hands false to mark",
            "here hands true to drain",
            "here hands false to of",
            "here hands true to mark",
        ];
        assert_eq!(found(&[("crates/a/src/zone.rs", ZONE)]), expected);
    }

    #[test]
    fn what_a_name_means_elsewhere_is_asked_of_imports_and_modules() {
        let elsewhere = "
            use crate::zone::{drain, Zone};
            fn a() { drain(1, true); zone::drain(2, true); crate::zone::drain(3, false); }";
        let files = [
            ("crates/a/src/zone.rs", "pub fn drain(pages: u64, all: bool) {}"),
            ("crates/a/src/b.rs", elsewhere),
        ];
        let expected = ["a hands true to drain", "a hands true to drain", "a hands false to drain"];
        assert_eq!(found(&files), expected);
    }

    #[test]
    fn nothing_is_said_where_a_name_may_mean_something_else() {
        let doubtful = "
            fn a(list: &mut Vec<bool>, drain: impl Fn(u64, bool), other: Other) {
                list.push(true);
                drain(3, true);
                other.count(3, true);
                Other::of(1, true);
                somewhere::drain(3, true);
                list.mark(true, true);
            }";
        assert_eq!(
            found(&[
                ("crates/a/src/zone.rs", &ZONE[..ZONE.find("fn here").unwrap()]),
                ("crates/a/src/b.rs", doubtful)
            ]),
            ["Zone::mark hands true to of"]
        );
    }
}
