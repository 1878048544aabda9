//! Names in documentation must exist: paths, `Type::method`, `module::function`, and types in the pages for
//! contributors.
//!
//! ```text
//!   `crates/mm/src/zone.rs`  `*_decisions.rs`   a file or directory; the end of a path is enough if it has no folder
//!   `System::may_share`  `workload::keys!`      an item of a type, module or crate of the workspace
//!   `OnCpu`                                     a type, in ARCHITECTURE.md and CONTRIBUTING.md
//! ```
//!
//! Only backquoted text within sentences is checked. Code blocks are checked by other tests.

use crate::finding::Finding;
use crate::walk::{Look, Place, walk};
use crate::workspace::{Page, Workspace};
use std::collections::{BTreeMap, BTreeSet};
use syn::{Item, Macro, Signature};

/// Pages that name types.
const FOR_CONTRIBUTORS: [&str; 2] = ["ARCHITECTURE.md", "CONTRIBUTING.md"];

pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let names = Names::of(workspace);
    let mut findings = Vec::new();
    for page in &workspace.pages {
        for (line, text) in quoted(&page.text) {
            if let Some(message) = names.missing(workspace, page, text) {
                findings.push(Finding {
                    file: page.path.clone(),
                    line,
                    item: text.to_string(),
                    amount: 1,
                    message,
                });
            }
        }
    }
    findings
}

/// The backquoted texts within sentences, with their line numbers.
fn quoted(text: &str) -> Vec<(usize, &str)> {
    let mut quoted = Vec::new();
    let mut is_code = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            quoted.extend(line.split('`').skip(1).step_by(2).map(|text| (at + 1, text)));
        }
    }
    quoted
}

/// The names that the workspace defines.
#[derive(Default)]
struct Names {
    /// The members of each type, module or crate.
    members: BTreeMap<String, BTreeSet<String>>,
    types: BTreeSet<String>,
    module: String,
    package: String,
}

impl Names {
    fn of(workspace: &Workspace) -> Names {
        let mut names = Names::default();
        for source in &workspace.sources {
            let stem = source.path.trim_end_matches(".rs").trim_end_matches("/mod").trim_end_matches("/lib");
            names.module = stem.rsplit('/').next().unwrap_or(stem).to_string();
            names.package = source.path.split('/').nth(1).unwrap_or_default().to_string();
            walk(source, &mut names);
        }
        names
    }

    fn add(&mut self, place: &Place, name: String) {
        let parents = place.names.iter().filter(|parent| **parent != name).cloned();
        for parent in parents.chain([self.module.clone(), self.package.clone()]) {
            self.members.entry(parent).or_default().insert(name.clone());
        }
    }

    /// The reason why `text` refers to nothing, if it looks as if it should.
    fn missing(&self, workspace: &Workspace, page: &Page, text: &str) -> Option<String> {
        if is_path(workspace, text) {
            return (!is_there(&workspace.files, text)).then(|| format!("there is no {text}"));
        }
        let name = text.trim_end_matches("()").trim_end_matches('!');
        let parts: Vec<&str> = name.split("::").collect();
        if !parts.iter().all(|part| is_identifier(part)) {
            return None;
        }
        let is_known = match parts[..] {
            [.., parent, name] => self.members.get(parent).is_some_and(|members| members.contains(name)),
            [name] if FOR_CONTRIBUTORS.contains(&page.path.as_str()) && is_type_name(name) => {
                self.types.contains(name)
            }
            _ => true,
        };
        (!is_known).then(|| format!("{text} is not defined"))
    }
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Whether a text looks like a type name: `OnCpu`, but not `VARIANTS` or `x86`, nor `Half`, which may be an
/// English word.
fn is_type_name(text: &str) -> bool {
    text.starts_with(char::is_uppercase)
        && text.chars().any(char::is_lowercase)
        && text.chars().skip(1).any(char::is_uppercase)
        && !text.contains('_')
}

/// Whether a text is meant as a path in the workspace.
fn is_path(workspace: &Workspace, text: &str) -> bool {
    let is_plain = text.chars().all(|c| c.is_alphanumeric() || "_-./*".contains(c));
    let begins_here = text.split_once('/').is_some_and(|(first, _)| workspace.files.contains(first));
    is_plain && (begins_here || text.ends_with(".rs"))
}

/// Whether a path, which may be a pattern or have a word in capitals as a placeholder, exists; a path that
/// does not begin with a folder of the root may be anywhere.
fn is_there(files: &BTreeSet<String>, text: &str) -> bool {
    let is_word = |part: &str| part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase());
    let parts = text.trim_end_matches('/').split('/').map(|part| if is_word(part) { "*" } else { part });
    let pattern = parts.collect::<Vec<_>>().join("/");
    let begins_here = pattern.split_once('/').is_some_and(|(first, _)| files.contains(first));
    files.iter().any(|file| {
        fits(&pattern, file)
            || !begins_here && file.match_indices('/').any(|(at, _)| fits(&pattern, &file[at + 1..]))
    })
}

/// Whether a path matches a pattern, in which `*` stands for anything but a slash.
fn fits(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == path,
        Some((before, after)) => path.strip_prefix(before).is_some_and(|rest| {
            let end = rest.find('/').unwrap_or(rest.len());
            (0..=end).filter(|at| rest.is_char_boundary(*at)).any(|at| fits(after, &rest[at..]))
        }),
    }
}

impl Look for Names {
    fn function(&mut self, place: &Place, signature: &Signature, _: usize) {
        self.add(place, signature.ident.to_string());
    }

    fn item(&mut self, place: &Place, item: &Item) {
        let Some(name) = place.names.last() else { return };
        let is_type = matches!(item, Item::Struct(_) | Item::Enum(_) | Item::Trait(_) | Item::Type(_));
        if is_type {
            self.types.insert(name.clone());
        }
        self.add(place, name.clone());
        match item {
            Item::Enum(item) => {
                item.variants.iter().for_each(|variant| self.add(place, variant.ident.to_string()))
            }
            Item::Struct(item) => item
                .fields
                .iter()
                .filter_map(|field| field.ident.as_ref())
                .for_each(|field| self.add(place, field.to_string())),
            _ => {}
        }
    }

    fn constant(&mut self, place: &Place, name: &syn::Ident) {
        self.add(place, name.to_string());
    }

    /// The definitions of a macro are not known, so every name in its arguments counts.
    fn macro_call(&mut self, place: &Place, call: &Macro) {
        let mut ahead = vec![call.tokens.clone()];
        while let Some(tokens) = ahead.pop() {
            for token in tokens {
                match token {
                    proc_macro2::TokenTree::Group(group) => ahead.push(group.stream()),
                    proc_macro2::TokenTree::Ident(name) => {
                        self.types.insert(name.to_string());
                        self.add(place, name.to_string());
                    }
                    _ => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str, text: &str) -> Vec<String> {
        let zone = "
            pub struct Zone { pages: u64 }
            impl Zone { const LIMIT: u64 = 3; fn refill(&self) {} }
            pub enum OnStep { Again }
            macro_rules! keys { () => {} }
            counters! { AllocCounters { pgalloc } }";
        let files = [("crates/mm/src/buddy/zone.rs", zone), ("data/costs.toml", ""), (page, text)];
        check(&Workspace::of(&files)).into_iter().map(|finding| finding.item).collect()
    }

    #[test]
    fn what_is_there_is_found() {
        let text = "`crates/mm/src/buddy/zone.rs`, `crates/mm/src/buddy/`, `zone.rs`, `buddy/zone.rs`, `*ne.rs`, `data/*.toml`, `crates/NAME/src`,
            `Zone::refill`, `Zone::refill()`, `Zone::LIMIT`, `Zone::pages`, `OnStep::Again`, `OnStep`, `mm::keys!`, `zone::Zone`,
            `AllocCounters`, `mm/page_alloc.c`, `a b::c`, `kswapd`\n```\n`gone.rs`\n```\n";
        assert_eq!(found("ARCHITECTURE.md", text), [""; 0]);
    }

    #[test]
    fn what_is_gone_is_told() {
        let text = "`crates/mm/src/zone.rs`, `crates/gone/`, `gone.rs`, `data/*.csv`, `crates/NAME/gone`, `Zone::gone`, `Gone::refill`, `OnCpu`, `Step`";
        let gone = [
            "crates/mm/src/zone.rs",
            "crates/gone/",
            "gone.rs",
            "data/*.csv",
            "crates/NAME/gone",
            "Zone::gone",
            "Gone::refill",
        ];
        assert_eq!(found("docs/src/guide.md", text), gone);
        assert_eq!(found("ARCHITECTURE.md", text), [&gone[..], &["OnCpu"]].concat());
    }
}
