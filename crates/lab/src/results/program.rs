//! Which program makes runs.

/// A program, as results tell it from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its version, for people.
    pub version: String,
    /// Hash of the sources that decide what comes out of a run, made when they were compiled: another one may count
    /// otherwise, so it is part of a run's identity.
    pub build: String,
    /// The commit that was checked out when it was built, empty if that is not known. For people: sources may have been
    /// edited since, and commits that change no result are many.
    pub commit: String,
}

impl Program {
    /// This one, built from `commit`.
    pub fn this(commit: &str) -> Program {
        let version = env!("CARGO_PKG_VERSION").into();
        Program { version, build: env!("MMTWIN_BUILD").into(), commit: commit.into() }
    }
}
