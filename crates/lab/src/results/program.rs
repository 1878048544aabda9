//! The program that makes runs.

/// A program, as results distinguish it from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Version of the program; only shown.
    pub version: String,
    /// Hash, computed at compile time, of the sources that determine results. Another hash may mean other
    /// results, so it is part of a run's identity.
    pub build: String,
    /// The commit that was checked out when the program was built; empty if unknown. Only shown, because
    /// sources may have been edited since, and many commits change no result.
    pub commit: String,
}

impl Program {
    /// This program, built from `commit`.
    pub fn this(commit: &str) -> Program {
        let version = env!("CARGO_PKG_VERSION").into();
        Program { version, build: env!("MMTWIN_BUILD").into(), commit: commit.into() }
    }
}
