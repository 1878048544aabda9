//! Every file must begin with a `//!` comment of at least one sentence.

use crate::finding::Finding;
use crate::workspace::{Source, Workspace};
use syn::{Expr, Lit, Meta};

/// A comment with fewer words is only a title.
const WORDS: usize = 3;

pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let bare = workspace.sources.iter().filter(|source| words(source) < WORDS);
    bare.map(|source| Finding {
        file: source.path.clone(),
        line: 1,
        item: String::new(),
        amount: 1,
        message: "this file has no description".to_string(),
    })
    .collect()
}

fn words(source: &Source) -> usize {
    let lines = source.syntax.attrs.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(doc) if doc.path.is_ident("doc") => match &doc.value {
            Expr::Lit(text) => match &text.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    lines.map(|line| line.split_whitespace().count()).sum()
}

#[test]
fn a_file_without_prose_is_found() {
    let workspace = Workspace::of(&[
        ("crates/a/src/lib.rs", "//! What hardware costs.\n//! And more.\nfn a() {}"),
        ("crates/a/src/zone.rs", "// What a zone is.\n/// A zone of memory.\nstruct Zone;"),
        ("crates/a/src/lru.rs", "//! Lists\nstruct Lru;"),
    ]);
    let files: Vec<String> = check(&workspace).into_iter().map(|finding| finding.file).collect();
    assert_eq!(files, ["crates/a/src/zone.rs", "crates/a/src/lru.rs"]);
}
