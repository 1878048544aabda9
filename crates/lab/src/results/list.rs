//! Listing runs without decoding them, from the footers of all files.

use super::directory::{self, open, require_directory};
use super::{Entry, ResultsError};
use rayon::prelude::*;
use std::path::Path;

/// The runs of a directory.
#[derive(Debug, Default)]
pub struct Listing {
    /// Every run once; runs that differ only in their seeds are adjacent.
    pub runs: Vec<Entry>,
    /// Files that cannot be read.
    pub damaged: Vec<ResultsError>,
}

/// Lists the runs in `directory`.
pub fn list(directory: &Path) -> Result<Listing, ResultsError> {
    require_directory(directory)?;
    let mut files = directory::files(directory)?;
    loop {
        let read: Vec<Result<Vec<Entry>, ResultsError>> =
            files.par_iter().map(|(path, kind)| Ok(open(path, *kind)?.into_entries())).collect();
        if read.iter().any(|entries| entries.as_ref().is_err_and(ResultsError::is_not_found)) {
            // A compaction may have removed a file meanwhile; its run is then in a new pack.
            let now = directory::files(directory)?;
            if now != files {
                files = now;
                continue;
            }
        }
        return Ok(Listing::of(read));
    }
}

impl Listing {
    fn of(read: Vec<Result<Vec<Entry>, ResultsError>>) -> Listing {
        let mut listing = Listing::default();
        for entries in read {
            match entries {
                Ok(entries) => listing.runs.extend(entries),
                Err(error) => listing.damaged.push(error),
            }
        }
        listing.runs.par_sort_by(|a, b| a.summary.cmp(&b.summary));
        // After an interrupted compaction, a run may be in a file and in a pack.
        listing.runs.dedup_by(|a, b| a.summary.run == b.summary.run);
        listing
    }
}
