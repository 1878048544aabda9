//! A kernel tree as judge and as variant: decision functions out of a user's own C sources, for the memory manager to ask.
//!
//! ```text
//!   mm/page_alloc.c ─ tree-sitter ─► Source: items, under which #if        source.rs, truth of conditions: config.rs
//!                                      │
//!   nr_pcp_high ── what it calls ───► Extract: functions, macros, enums    extract.rs; which decisions: decision.rs
//!                                      │         our header's names are never taken        header.rs, c/*.h
//!   records of mm::decisions ───────► unit.c ── cc -O2 ──► shared object    unit.rs, compiler.rs; c/*.c are between both sides
//!                                                             │
//!   mm::Decisions ◄──────────────────────────────────────── Loaded         loaded.rs: all that is unsafe
//! ```
//!
//! Nothing of a kernel's sources is part of this crate: `c/` declares in own words what decisions read, and what is outside of a
//! decision (locks, lists, statistics) is nothing there. What moves pages is noted instead of done.
//!
//! What a decision needs and neither the header nor the tree has is an error that says file, line, function and what to add; so is a
//! function that is missing, there twice, or asks for what nobody here can give. Inline assembly, state that decisions would share,
//! and symbols that are not in the object are refused before anything runs. This protects from accidents, not from malice: the code
//! is the user's own and runs with the user's rights.
//!
//! What was taken from where, and a hash of sources, header, compiler and flags, is in [`Loaded`]; with that a run can be named.

mod compiler;
mod config;
mod decision;
mod error;
mod extract;
mod header;
pub mod judge;
mod loaded;
mod note;
mod signature;
mod source;
mod sources;
mod stored;
mod tree;
mod unit;

pub use compiler::{Compiler, Instrumentation, Object};
pub use config::Config;
pub use decision::{DECISIONS, Decision, Slot};
pub use error::{Error, Place};
pub use extract::{Extract, Survey, Surveyed, Taken};
pub use loaded::{Loaded, Provenance};
pub use note::{Asked, Note};
pub use sources::{LeftOut, Sources, Standing, TreeSources};
pub use stored::{Request, Stored, StoredDecision, StoredError, Whose};
pub use tree::KernelTree;

/// All files of a kernel tree that decisions, or what they need, may be in.
pub fn files() -> Vec<&'static str> {
    let mut files: Vec<&str> = DECISIONS.iter().flat_map(Decision::files).collect();
    files.sort_unstable();
    files.dedup();
    files
}

/// Takes the decisions `wanted` out of `tree`, compiles them in `directory` and loads them.
pub fn load(
    tree: &KernelTree,
    wanted: &[&'static Decision],
    compiler: &Compiler,
    directory: &std::path::Path,
) -> Result<Loaded, Error> {
    let extract = Extract::of(tree, wanted)?;
    let object = compiler.compile(&extract, directory)?;
    Loaded::open(&object, extract)
}
