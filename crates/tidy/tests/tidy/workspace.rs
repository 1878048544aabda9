//! The files of the workspace: Rust sources as syntax trees, Markdown pages as text, all others by path only.
//!
//! ```text
//!   crates/**.rs, fuzz/**.rs          ─► Source   parsed; test code is marked
//!   *.md, docs/src/**.md              ─► Page     text
//!   all files but build products      ─► files    paths that pages may name
//! ```
//!
//! Test code is everything in `tests/`, `benches/`, `examples/` and `fuzz/`, in crates that only tests depend
//! on ([`TEST_CRATES`]), and in modules declared under `#[cfg(test)]`, with their submodules.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Crates that only tests depend on.
const TEST_CRATES: [&str; 2] = ["crates/soak/", "crates/tidy/"];

/// A Rust file.
pub struct Source {
    /// The path within the workspace.
    pub path: String,
    pub syntax: syn::File,
    pub is_test: bool,
}

/// A page of documentation.
pub struct Page {
    /// The path within the workspace.
    pub path: String,
    pub text: String,
}

/// The input of all rules.
#[derive(Default)]
pub struct Workspace {
    pub sources: Vec<Source>,
    pub pages: Vec<Page>,
    /// Paths of files and directories within the workspace.
    pub files: BTreeSet<String>,
}

impl Workspace {
    /// Reads the workspace in a directory.
    pub fn read(root: &Path) -> Workspace {
        let mut workspace = Workspace::default();
        workspace.enter(root, "");
        workspace.mark_test_modules();
        workspace
    }

    /// A workspace of these paths and texts, for tests.
    pub fn of(files: &[(&str, &str)]) -> Workspace {
        let mut workspace = Workspace::default();
        for (path, text) in files {
            let folders = path.match_indices('/').map(|(end, _)| path[..end].to_string());
            workspace.files.extend(folders);
            workspace.add(path, || text.to_string());
        }
        workspace.mark_test_modules();
        workspace
    }

    fn enter(&mut self, root: &Path, folder: &str) {
        let mut names: Vec<_> =
            fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap()).collect();
        names.sort_by_key(|entry| entry.file_name());
        for entry in names {
            let name = entry.file_name().to_string_lossy().into_owned();
            if ["target", ".git", "corpus", "artifacts"].contains(&name.as_str()) {
                continue;
            }
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if entry.file_type().unwrap().is_dir() {
                self.files.insert(path.clone());
                self.enter(root, &path);
            } else {
                self.add(&path, || fs::read_to_string(root.join(&path)).unwrap());
            }
        }
    }

    fn add(&mut self, path: &str, text: impl FnOnce() -> String) {
        self.files.insert(path.to_string());
        if path.ends_with(".rs") && (path.starts_with("crates/") || path.starts_with("fuzz/")) {
            let syntax = syn::parse_file(&text()).unwrap_or_else(|error| panic!("{path}: {error}"));
            self.sources.push(Source { path: path.to_string(), syntax, is_test: is_of_tests(path) });
        } else if path.ends_with(".md") && (path.starts_with("docs/src/") || !path.contains('/')) {
            self.pages.push(Page { path: path.to_string(), text: text() });
        }
    }

    /// Marks the files of modules that are declared under `#[cfg(test)]`.
    fn mark_test_modules(&mut self) {
        let mut stems = Vec::new();
        for source in &self.sources {
            for item in &source.syntax.items {
                if let syn::Item::Mod(module) = item
                    && module.content.is_none()
                    && is_under_test(&module.attrs)
                {
                    stems.push(format!("{}/{}", folder_of_modules(&source.path), module.ident));
                }
            }
        }
        for source in &mut self.sources {
            source.is_test |= stems.iter().any(|stem| {
                source
                    .path
                    .strip_prefix(stem.as_str())
                    .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            });
        }
    }
}

/// Whether everything at a path is test code.
fn is_of_tests(path: &str) -> bool {
    ["/tests/", "/benches/", "/examples/"].iter().any(|folder| path.contains(folder))
        || path.starts_with("fuzz/")
        || TEST_CRATES.iter().any(|name| path.starts_with(name))
}

/// The directory of the modules that a file declares: its own directory for `mod.rs`, `lib.rs` and `main.rs`,
/// else the directory of its name.
pub fn folder_of_modules(path: &str) -> &str {
    let stem = path.trim_end_matches(".rs");
    let (folder, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    if ["mod", "lib", "main"].contains(&name) { folder } else { stem }
}

/// Whether attributes restrict an item to tests.
pub fn is_under_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition.contains("test") && !condition.contains("not") && !condition.contains("feature")
        }
        _ => false,
    })
}

#[test]
fn test_code_is_known_by_its_place_and_its_declaration() {
    let workspace = Workspace::of(&[
        ("crates/a/src/lib.rs", "#[cfg(test)] mod tests; mod b; #[cfg(not(test))] mod c;"),
        ("crates/a/src/tests.rs", ""),
        ("crates/a/src/tests/models.rs", ""),
        ("crates/a/src/b.rs", "#[cfg(test)] mod slow;"),
        ("crates/a/src/b/slow.rs", ""),
        ("crates/a/src/slow.rs", ""),
        ("crates/a/src/c.rs", ""),
        ("crates/a/benches/d.rs", ""),
    ]);
    let tests: Vec<&str> =
        workspace.sources.iter().filter(|source| source.is_test).map(|source| source.path.as_str()).collect();
    assert_eq!(
        tests,
        [
            "crates/a/src/tests.rs",
            "crates/a/src/tests/models.rs",
            "crates/a/src/b/slow.rs",
            "crates/a/benches/d.rs"
        ]
    );
}
