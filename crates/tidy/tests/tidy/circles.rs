//! Cycles of modules that depend on each other, called circles here: a cycle can only be understood as a whole.
//!
//! ```text
//!   zone.rs ── crate::pcp ──► pcp/mod.rs ── crate::vmstat ──► vmstat.rs ── crate::zone ──► zone.rs
//! ```
//!
//! A file depends on another one if it names one of its items by a path from the crate's root, in a `use` or
//! elsewhere. A re-exported name belongs to the module that it comes from. Paths with `super` between a
//! folder's `mod.rs` and the files next to it do not count.

use crate::finding::Finding;
use crate::walk::{Look, Place, walk};
use crate::workspace::{Source, Workspace};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use syn::{ItemUse, Path, UseTree, Visibility};

/// Maximum number of files in a cycle.
const FILES: usize = 6;

type Module = Vec<String>;

pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in workspace.sources.iter().filter(|source| !source.is_test) {
        if let Some((name, _)) = source.path.split_once("/src/") {
            crates.entry(name).or_default().push(source);
        }
    }
    let mut findings = Vec::new();
    for (name, sources) in crates {
        for circle in Graph::of(name, &sources).circles() {
            findings.push(Finding {
                file: name.to_string(),
                line: 0,
                item: "circle".to_string(),
                amount: circle.len(),
                message: told(&circle),
            });
        }
    }
    findings
}

/// The dependencies within a cycle, as text.
fn told(circle: &BTreeMap<&str, Vec<&str>>) -> String {
    let mut text = format!("{} files need each other:", circle.len());
    for (file, needs) in circle {
        let _ = write!(text, "\n      {file} needs {}", needs.join(", "));
    }
    text
}

/// The dependencies between the files of a crate.
pub struct Graph {
    needs: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    pub fn of(name: &str, sources: &[&Source]) -> Graph {
        let modules: BTreeMap<Module, &str> =
            sources.iter().map(|source| (module_of(name, &source.path), source.path.as_str())).collect();
        let mut exports = BTreeMap::new();
        let mut named = BTreeMap::new();
        for (module, file) in &modules {
            let Some(source) = sources.iter().find(|source| source.path == *file) else { continue };
            let mut paths = Paths { module: module.clone(), ..Paths::default() };
            walk(source, &mut paths);
            exports.extend(paths.exports.into_iter().map(|(name, from)| ((module.clone(), name), from)));
            named.insert(*file, paths.named);
        }
        let mut needs = BTreeMap::new();
        for (file, named) in named {
            let mut of: BTreeSet<String> = named
                .into_iter()
                .filter_map(|path| resolve(path, &modules, &exports))
                .map(str::to_string)
                .collect();
            of.remove(file);
            needs.insert(file.to_string(), of);
        }
        Graph { needs }
    }

    /// The files that each file depends on.
    pub fn needs(&self) -> &BTreeMap<String, BTreeSet<String>> {
        &self.needs
    }

    /// The cycles of more than [`FILES`] files; for each file, the files of its cycle that it depends on.
    fn circles(&self) -> Vec<BTreeMap<&str, Vec<&str>>> {
        let reach: BTreeMap<&str, BTreeSet<&str>> =
            self.needs.keys().map(|file| (file.as_str(), self.reached(file))).collect();
        let mut circles: Vec<BTreeMap<&str, Vec<&str>>> = Vec::new();
        for (file, reached) in &reach {
            if circles.iter().any(|circle| circle.contains_key(file)) {
                continue;
            }
            let mut members: BTreeSet<&str> =
                reached.iter().copied().filter(|other| reach[other].contains(file)).collect();
            members.insert(file);
            if members.len() > FILES {
                let within = |of: &str| self.needs[of].iter().map(String::as_str);
                circles.push(
                    members
                        .iter()
                        .map(|of| (*of, within(of).filter(|other| members.contains(other)).collect()))
                        .collect(),
                );
            }
        }
        circles
    }

    fn reached(&self, file: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut ahead = vec![file];
        while let Some(at) = ahead.pop() {
            for next in &self.needs[at] {
                if reached.insert(next.as_str()) {
                    ahead.push(next);
                }
            }
        }
        reached
    }
}

/// The module path of a file.
fn module_of(name: &str, path: &str) -> Module {
    let inside = path.trim_start_matches(name).trim_start_matches("/src/").trim_end_matches(".rs");
    let mut module: Module = inside.split('/').map(str::to_string).collect();
    if ["lib", "main", "mod"].contains(&module.last().map_or("", String::as_str)) {
        module.pop();
    }
    module
}

/// The file that defines a path from the crate's root; follows re-exports.
fn resolve<'a>(
    mut path: Module,
    modules: &BTreeMap<Module, &'a str>,
    exports: &BTreeMap<(Module, String), Module>,
) -> Option<&'a str> {
    // A longer chain of re-exports of one name is a cycle.
    for _ in 0..8 {
        let length = (0..=path.len()).rev().find(|length| modules.contains_key(&path[..*length]))?;
        let module = path[..length].to_vec();
        let next = path.get(length).and_then(|name| exports.get(&(module.clone(), name.clone())));
        match next {
            Some(from) => path = from.clone(),
            None => return modules.get(&module).copied(),
        }
    }
    None
}

/// The names in a file.
#[derive(Default)]
struct Paths {
    module: Module,
    /// Paths from the crate's root.
    named: BTreeSet<Module>,
    /// Names that the file re-exports, and the modules they come from.
    exports: Vec<(String, Module)>,
}

impl Paths {
    /// Notes the names in a `use` tree; `before` is the path read so far.
    fn import(&mut self, tree: &UseTree, before: &[String], exported: bool) {
        let path_with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.import(&path.tree, &path_with(&path.ident), exported),
            UseTree::Group(group) => {
                group.items.iter().for_each(|inner| self.import(inner, before, exported));
            }
            UseTree::Name(name) if name.ident == "self" => {
                self.imported(before.last().cloned(), before, exported);
            }
            UseTree::Name(name) => {
                self.imported(Some(name.ident.to_string()), &path_with(&name.ident), exported);
            }
            UseTree::Rename(name) => {
                self.imported(Some(name.rename.to_string()), &path_with(&name.ident), exported);
            }
            _ => self.imported(None, before, exported),
        }
    }

    fn imported(&mut self, name: Option<String>, path: &[String], exported: bool) {
        let absolute = match path.first().map(String::as_str) {
            Some("crate") => path[1..].to_vec(),
            Some("self") => [&self.module[..], &path[1..]].concat(),
            Some("super") => {
                let levels = path.iter().take_while(|name| *name == "super").count();
                let above = self.module.len().saturating_sub(levels);
                [&self.module[..above], &path[levels..]].concat()
            }
            _ => [&self.module[..], path].concat(),
        };
        if let (true, Some(name)) = (exported, name) {
            self.exports.push((name, absolute));
        } else if path.first().is_some_and(|first| first == "crate") {
            self.named.insert(absolute);
        }
    }
}

impl Look for Paths {
    fn import(&mut self, place: &Place, import: &ItemUse) {
        if !place.is_test {
            let exported = !matches!(import.vis, Visibility::Inherited);
            self.import(&import.tree, &[], exported);
        }
    }

    fn path(&mut self, place: &Place, path: &Path) {
        let mut names = path.segments.iter().map(|segment| segment.ident.to_string());
        if !place.is_test && names.next().is_some_and(|first| first == "crate") {
            self.named.insert(names.collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring of modules, each of which depends on the next.
    fn ring(count: usize) -> Vec<(String, String)> {
        let of = |at: usize| {
            let next = (at + 1) % count;
            let source = match at % 3 {
                0 => format!("use crate::{{m{next}::{{T, U}}, other}};"),
                1 => format!("fn a(t: &crate::m{next}::T) {{}}"),
                _ => format!("fn a() {{ assert!(crate::m{next}::f()) }}"),
            };
            (format!("crates/a/src/m{at}.rs"), source)
        };
        (0..count).map(of).collect()
    }

    fn found(files: &[(String, String)]) -> Vec<usize> {
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        check(&Workspace::of(&files)).iter().map(|finding| finding.amount).collect()
    }

    #[test]
    fn seven_files_that_need_each_other_are_a_circle() {
        assert_eq!(found(&ring(6)), [0; 0]);
        assert_eq!(found(&ring(7)), [7]);
        let mut open = ring(7);
        open[3].1 = "use super::m4::T; #[cfg(test)] mod tests { use crate::m4::T; }".to_string();
        assert_eq!(found(&open), [0; 0]);
    }

    #[test]
    fn a_re_export_leads_to_where_a_name_comes_from() {
        let mut files = ring(7);
        files.push((
            "crates/a/src/lib.rs".to_string(),
            "pub mod m4; pub use m4::T; use m0::T as U;".to_string(),
        ));
        files[3].1 = "use crate::T;".to_string();
        assert_eq!(found(&files), [7]);
        files[3].1 = "use crate::V;".to_string();
        assert_eq!(found(&files), [0; 0]);
    }

    #[test]
    fn a_folder_is_named_by_its_mod_file() {
        let mut files = ring(7);
        files[3].0 = "crates/a/src/m3/mod.rs".to_string();
        assert_eq!(found(&files), [7]);
    }
}
