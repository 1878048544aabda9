//! Where kernel features may be read: in decisions (`policy.rs`), in the features themselves (`features.rs`)
//! and in their named sets (`series.rs`), and in functions named `validate`, which check what a kernel
//! guarantees. Mechanics get the result of a decision instead.
//!
//! A read is `features.FIELD` or `features().FIELD`, whatever is before `features`, or `f.FIELD` if `f` is a
//! parameter of a features type or a `let` binds it to such a value. Passing on a group of features
//! (`&features.reclaim`) is not a read; a group is a field whose type ends in `Features`.

use crate::finding::Finding;
use crate::walk::{Look, Place, line_of, type_name, walk};
use crate::workspace::Workspace;
use std::collections::BTreeSet;
use syn::{Expr, FnArg, Item, Local, Member, Pat, Signature};

const FILES: [&str; 3] = ["policy.rs", "features.rs", "series.rs"];

pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut groups = Groups::default();
    for source in &workspace.sources {
        walk(source, &mut groups);
    }
    let mut findings = Vec::new();
    for source in workspace.sources.iter().filter(|source| !is_asked(&source.path)) {
        let mut reads =
            Reads { file: &source.path, groups: &groups.0, names: Vec::new(), findings: Vec::new() };
        walk(source, &mut reads);
        findings.append(&mut reads.findings);
    }
    findings
}

fn is_asked(path: &str) -> bool {
    FILES.iter().any(|name| path.rsplit('/').next() == Some(name))
}

/// Fields that are groups of features.
#[derive(Default)]
struct Groups(BTreeSet<String>);

impl Groups {
    /// Fields of structs that a macro such as `features!` declares, from its text: `reclaim : ReclaimFeatures ,`.
    fn declared_by_macro(&mut self, text: &str) {
        let words: Vec<&str> = text.split(|letter: char| letter.is_whitespace() || letter == ',').collect();
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        for (at, word) in words.iter().enumerate() {
            // With or without a space before the colon.
            let field = match word.strip_suffix(':') {
                Some("") => at.checked_sub(1).map(|before| words[before]),
                field => field,
            };
            if let (Some(field), Some(of)) = (field, words.get(at + 1))
                && of.ends_with("Features")
            {
                self.0.insert(field.into());
            }
        }
    }
}

impl Look for Groups {
    fn item(&mut self, _: &Place, item: &Item) {
        if let Item::Macro(item) = item {
            self.declared_by_macro(&item.mac.tokens.to_string());
        }
        let Item::Struct(item) = item else { return };
        for field in &item.fields {
            if let (Some(name), Some(of)) = (&field.ident, type_name(&field.ty))
                && of.ends_with("Features")
            {
                self.0.insert(name.to_string());
            }
        }
    }
}

struct Reads<'a> {
    file: &'a str,
    groups: &'a BTreeSet<String>,
    /// Variables that are features, each with the function in which it is defined.
    names: Vec<(String, String)>,
    findings: Vec<Finding>,
}

impl Reads<'_> {
    /// Notes the variables of a pattern that are bound to features.
    fn bind(&mut self, place: &Place, pattern: &Pat, value: &Expr) {
        match (pattern, value) {
            (Pat::Ident(name), _) if self.is_features(place, value) => {
                self.names.push((place.item(), name.ident.to_string()));
            }
            (Pat::Tuple(patterns), Expr::Tuple(values)) => {
                for (pattern, value) in patterns.elems.iter().zip(&values.elems) {
                    self.bind(place, pattern, value);
                }
            }
            _ => {}
        }
    }

    /// Whether an expression is features, or a group of them.
    fn is_features(&self, place: &Place, expression: &Expr) -> bool {
        match expression {
            Expr::Path(path) => path.path.get_ident().is_some_and(|name| {
                name == "features" || self.names.contains(&(place.item(), name.to_string()))
            }),
            Expr::Field(field) => match &field.member {
                Member::Named(name) if name == "features" => true,
                Member::Named(name) => {
                    self.groups.contains(&name.to_string()) && self.is_features(place, &field.base)
                }
                Member::Unnamed(_) => false,
            },
            Expr::Reference(reference) => self.is_features(place, &reference.expr),
            Expr::Paren(inner) => self.is_features(place, &inner.expr),
            Expr::Unary(inner) => self.is_features(place, &inner.expr),
            Expr::MethodCall(call) if call.method == "clone" => self.is_features(place, &call.receiver),
            Expr::MethodCall(call) => call.args.is_empty() && call.method.to_string().ends_with("features"),
            _ => false,
        }
    }
}

impl Look for Reads<'_> {
    fn function(&mut self, place: &Place, signature: &Signature, _: usize) {
        for input in &signature.inputs {
            if let FnArg::Typed(input) = input
                && let Pat::Ident(name) = &*input.pat
                && type_name(&input.ty).is_some_and(|of| of.ends_with("Features"))
            {
                self.names.push((place.item(), name.ident.to_string()));
            }
        }
    }

    fn local(&mut self, place: &Place, local: &Local) {
        if let Some(set) = &local.init {
            self.bind(place, &local.pat, &set.expr);
        }
    }

    fn expression(&mut self, place: &Place, expression: &Expr) {
        let Expr::Field(field) = expression else { return };
        let Member::Named(name) = &field.member else { return };
        let is_excepted =
            place.is_test || place.names.last().is_some_and(|name| name.starts_with("validate"));
        if is_excepted || self.groups.contains(&name.to_string()) || !self.is_features(place, &field.base) {
            return;
        }
        self.findings.push(Finding {
            file: self.file.to_string(),
            line: line_of(name),
            item: format!("{} reads {name}", place.item()),
            amount: 1,
            message: format!("{} reads the feature {name}", place.item()),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: &str = "
        fn a(&self) { if self.features.boost { } }
        fn b(on: OnCpu) -> u64 { assert!(on.features.reclaim.generations > 0, \"\"); limit(&on.features.reclaim) }
        fn c(f: &ReclaimFeatures) -> bool { f.generations }
        fn g(&self) { let (f, n) = (&self.features.reclaim, 1); let other = self.file; f.generations + other.boost }
        fn h(&self) { let f = *self.mm.features(); f.boost && self.reclaim_features().generations && self.file().boost }
        fn d(f: &File) -> u64 { f.generations }
        fn validate_all(features: &Features) -> bool { features.boost }
        #[test] fn e() { features.boost; }";

    fn found(path: &str) -> Vec<String> {
        let features = "struct Features { boost: bool, reclaim: ReclaimFeatures }";
        let workspace = Workspace::of(&[("crates/a/src/features.rs", features), (path, READ)]);
        check(&workspace).into_iter().map(|finding| finding.item).collect()
    }

    #[test]
    fn mechanics_read_no_features() {
        assert_eq!(
            found("crates/a/src/zone.rs"),
            [
                "a reads boost",
                "b reads generations",
                "c reads generations",
                "g reads generations",
                "h reads boost",
                "h reads generations"
            ]
        );
    }

    #[test]
    fn policies_do() {
        assert_eq!(found("crates/a/src/zone/policy.rs"), [""; 0]);
    }
}
