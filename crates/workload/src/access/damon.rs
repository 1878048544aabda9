//! Detects recordings of DAMON, so that the error can name them.
//!
//! ```text
//!   PERFILE2...                              perf.data of `damo record` with perf
//!   damon_recfmt_ver...                      binary recording of older versions of damo
//!   x\x9c...                                 JSON compressed with zlib
//!   [{"kdamond_idx": ... "nr_accesses": ...  JSON
//!   base_time_absolute: ...                  `damo report raw`
//!   kdamond.0  4452 ... damon:damon_aggregated: ...      `perf script`
//! ```
//!
//! DAMON counts in how many samples each region of memory was accessed. Which pages of the region were
//! accessed, and in which order, is not recorded, so there is nothing to replay.

/// The kind of DAMON recording, if the file is one.
pub(super) fn recording(head: &[u8]) -> Option<&'static str> {
    let has = |part: &[u8], word: &[u8]| part.windows(word.len()).any(|window| window == word);
    let text = head.trim_ascii_start();
    let first = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let is_json = matches!(text.first(), Some(b'[' | b'{'));
    if head.starts_with(b"PERFILE2") {
        Some("perf.data")
    } else if head.starts_with(b"damon_recfmt_ver")
        || text.starts_with(b"base_time_absolute:")
        || is_json && has(text, b"\"nr_accesses\"")
        || has(first, b" damon:damon_")
    {
        Some("a recording of DAMON")
    } else {
        None
    }
}

/// Whether the bytes may be DAMON's JSON compressed with zlib. Ask only after all other formats.
pub(super) fn is_packed(head: &[u8]) -> bool {
    head.starts_with(b"x\x9c")
}
