//! Calls that end the program or write to stdout unexpectedly: `unwrap`, `todo!`, `println!` and the like.
//!
//! The command may print, because that is its purpose; build scripts must, because that is how they talk to
//! cargo.

use crate::finding::Finding;
use crate::walk::{Look, Place, line_of, walk};
use crate::workspace::Workspace;
use syn::{Expr, Macro};

const MACROS: [&str; 7] = ["println", "print", "eprintln", "eprint", "todo", "unimplemented", "dbg"];

pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &workspace.sources {
        if source.path.starts_with("crates/cli/") || source.path.ends_with("/build.rs") {
            continue;
        }
        let mut calls = Calls { file: &source.path, findings: Vec::new() };
        walk(source, &mut calls);
        findings.append(&mut calls.findings);
    }
    findings
}

struct Calls<'a> {
    file: &'a str,
    findings: Vec<Finding>,
}

impl Calls<'_> {
    fn push(&mut self, place: &Place, line: usize, what: &str) {
        if !place.is_test {
            self.findings.push(Finding {
                file: self.file.to_string(),
                line,
                item: format!("{} calls {what}", place.item()),
                amount: 1,
                message: format!("{} calls {what}", place.item()),
            });
        }
    }
}

impl Look for Calls<'_> {
    fn expression(&mut self, place: &Place, expression: &Expr) {
        if let Expr::MethodCall(call) = expression
            && call.method == "unwrap"
            && call.args.is_empty()
        {
            self.push(place, line_of(&call.method), "unwrap()");
        }
    }

    fn macro_call(&mut self, place: &Place, call: &Macro) {
        if let Some(name) = call.path.segments.last().map(|segment| segment.ident.to_string())
            && MACROS.contains(&name.as_str())
        {
            self.push(place, line_of(call), &format!("{name}!"));
        }
    }
}

#[test]
fn what_ends_a_program_is_found() {
    let source = "
        fn a() { format!(\"{}\", x.unwrap()); println!(); }
        impl Zone { fn b() { todo!() } fn c() { unwrap(); x.unwrap_or(1) } }
        #[cfg(test)] mod tests { fn d() { dbg!(x.unwrap()); } }";
    let workspace = Workspace::of(&[
        ("crates/a/src/lib.rs", source),
        ("crates/cli/src/main.rs", "fn main() { println!() }"),
        ("crates/a/build.rs", "fn main() { println!() }"),
        ("crates/a/tests/all.rs", source),
    ]);
    let items: Vec<String> = check(&workspace).into_iter().map(|finding| finding.item).collect();
    assert_eq!(items, ["a calls unwrap()", "a calls println!", "Zone::b calls todo!"]);
}
