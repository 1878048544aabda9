//! What runs there are, without decoding them: every file's footer says which it has.

use super::directory::{self, open, require_directory};
use super::{Entry, ResultsError};
use rayon::prelude::*;
use std::path::Path;

/// The runs of a directory.
#[derive(Debug, Default)]
pub struct Listing {
    /// Every run once; those that differ only in their seeds are next to each other.
    pub runs: Vec<Entry>,
    /// What cannot be read.
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
            // A compaction may have removed a file in between; its run is in a pack then that was not there before.
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
        // A run is in a file and in a pack where a compaction was stopped in between.
        listing.runs.dedup_by(|a, b| a.summary.run == b.summary.run);
        listing
    }
}
