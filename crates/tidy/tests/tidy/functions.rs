//! Limits for functions: 60 lines, 6 parameters, and a context instead of separate parameters for machine and
//! CPU.
//!
//! Lines are counted from `fn` to the last brace. Parameters are counted without `self`, because they are
//! what a caller has to fill in. A function that takes `&mut Machine` and a CPU should be a method of a
//! context that has both (`OnCpu`, `Kernel`); only functions that create such a context may take both.
//! `crates/machine` is below the contexts.

use crate::finding::Finding;
use crate::walk::{Look, Place, line_of, type_name, walk};
use crate::workspace::Workspace;
use syn::{FnArg, ReturnType, Signature, Type};

const LINES: usize = 60;
const PARAMETERS: usize = 6;
/// The types that contain a machine and a CPU.
const CONTEXTS: [&str; 2] = ["Kernel", "OnCpu"];

struct Found<F> {
    file: String,
    judge: F,
    findings: Vec<Finding>,
}

impl<F: FnMut(&Place, &Signature, usize) -> Option<(usize, String)>> Look for Found<F> {
    fn function(&mut self, place: &Place, signature: &Signature, lines: usize) {
        if place.is_test {
            return;
        }
        if let Some((amount, message)) = (self.judge)(place, signature, lines) {
            let (file, line, item) = (self.file.clone(), line_of(signature), place.item());
            self.findings.push(Finding { file, line, item, amount, message });
        }
    }
}

/// The functions outside of tests for which `judge` returns an amount and a message.
fn judge(
    workspace: &Workspace,
    mut judge: impl FnMut(&Place, &Signature, usize) -> Option<(usize, String)>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &workspace.sources {
        let mut found = Found { file: source.path.clone(), judge: &mut judge, findings: Vec::new() };
        walk(source, &mut found);
        findings.append(&mut found.findings);
    }
    findings
}

pub fn long(workspace: &Workspace) -> Vec<Finding> {
    judge(workspace, |place, _, lines| {
        (lines > LINES).then(|| (lines, format!("{} has {lines} lines, more than {LINES}", place.item())))
    })
}

pub fn wide(workspace: &Workspace) -> Vec<Finding> {
    judge(workspace, |place, signature, _| {
        let count = signature.inputs.iter().filter(|input| matches!(input, FnArg::Typed(_))).count();
        (count > PARAMETERS)
            .then(|| (count, format!("{} takes {count} parameters, more than {PARAMETERS}", place.item())))
    })
}

pub fn machine_and_cpu(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = judge(workspace, |place, signature, _| {
        let is_context = place.owner.as_ref().is_some_and(|owner| CONTEXTS.contains(&owner.as_str()));
        let takes = |wanted: &str, mutable: bool| {
            signature.inputs.iter().any(|input| match input {
                FnArg::Typed(input) => is_of(&input.ty, wanted, mutable),
                FnArg::Receiver(_) => false,
            })
        };
        (!is_context && takes("Machine", true) && takes("Cpu", false) && !returns_context(signature))
            .then(|| (1, format!("{} takes a machine and a CPU", place.item())))
    });
    findings.retain(|finding| !finding.file.starts_with("crates/machine/"));
    findings
}

fn is_of(written: &Type, wanted: &str, mutable: bool) -> bool {
    let is_mutable = matches!(written, Type::Reference(reference) if reference.mutability.is_some());
    is_mutable == mutable && type_name(written).is_some_and(|name| name == wanted)
}

fn returns_context(signature: &Signature) -> bool {
    match &signature.output {
        ReturnType::Type(_, written) => {
            type_name(written).is_some_and(|name| CONTEXTS.contains(&name.as_str()))
        }
        ReturnType::Default => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(check: fn(&Workspace) -> Vec<Finding>, source: &str) -> Vec<(String, usize)> {
        let workspace = Workspace::of(&[("crates/a/src/lib.rs", source)]);
        check(&workspace).into_iter().map(|finding| (finding.item, finding.amount)).collect()
    }

    #[test]
    fn a_function_of_61_lines_is_long() {
        let of =
            |name: &str, lines: usize| format!("/// Text.\nfn {name}() {{{}}}\n", "\n".repeat(lines - 1));
        let source = format!("{}{}#[cfg(test)] mod tests {{ {} }}", of("a", 60), of("b", 61), of("c", 90));
        assert_eq!(found(long, &source), [("b".to_string(), 61)]);
    }

    #[test]
    fn seven_parameters_are_too_many_and_self_is_none() {
        let of = |name: &str, count: usize| {
            let parameters: Vec<String> = (0..count).map(|at| format!("p{at}: u64")).collect();
            format!("fn {name}(&self, {}) {{}}", parameters.join(", "))
        };
        let source = format!("impl Zone {{ {} {} }}", of("a", 6), of("b", 7));
        assert_eq!(found(wide, &source), [("Zone::b".to_string(), 7)]);
    }

    #[test]
    fn a_machine_and_a_cpu_go_together_in_a_context_only() {
        let source = "
            impl OnCpu { fn a(machine: &mut Machine, cpu: Cpu) {} }
            impl MemoryManager {
                fn enter<'a>(&'a mut self, machine: &'a mut Machine, cpu: Cpu) -> Kernel<'a> {}
                fn b(&mut self, machine: &mut Machine<Account>, cpu: Cpu) -> u64 {}
                fn c(&mut self, machine: &Machine, cpu: Cpu) {}
            }
            fn d(machine: &mut machine::Machine, pages: u64, cpu: Cpu) {}";
        let expected = ["MemoryManager::b", "d"].map(|item| (item.to_string(), 1));
        assert_eq!(found(machine_and_cpu, source), expected);
    }
}
