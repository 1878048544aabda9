//! Readers of directories, fed from one input.
//!
//! ```text
//!   #file recording.toml         every file begins with a line of its name,
//!   ...                          and ends where the next begins
//!   #file events.pgt.zst         what is packed on disk is not in the input: a changed byte of a packed file
//!   ...                          would hardly ever be a changed byte of what is in it
//! ```

use std::path::Path;
use tempfile::TempDir;

const MARK: &[u8] = b"#file ";

/// A directory that holds one directory, `case`, with the files of an input; nothing if there are none.
pub fn directory_of(content: &[u8]) -> Option<TempDir> {
    let place = tempfile::tempdir().expect("a directory for temporary files");
    let case = place.path().join("case");
    std::fs::create_dir(&case).expect("a directory of our own");
    let mut rest = content.strip_prefix(MARK)?;
    loop {
        let (file, next) = match find(rest, b"\n#file ") {
            Some(at) => (&rest[..at], Some(&rest[at + 1 + MARK.len()..])),
            None => (rest, None),
        };
        write(&case, file)?;
        match next {
            Some(next) => rest = next,
            None => return Some(place),
        }
    }
}

/// Writes a file: a line of its name, and its content.
fn write(directory: &Path, file: &[u8]) -> Option<()> {
    let end = file.iter().position(|&byte| byte == b'\n')?;
    let name = std::str::from_utf8(&file[..end]).ok()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.starts_with('.') || name.len() > 100 || !name.chars().all(is_plain) {
        return None;
    }
    let content = &file[end + 1..];
    if name.ends_with(".zst") {
        let packed = zstd::bulk::compress(content, 1).expect("zstd packs anything");
        std::fs::write(directory.join(name), packed).ok()
    } else {
        std::fs::write(directory.join(name), content).ok()
    }
}

fn find(content: &[u8], wanted: &[u8]) -> Option<usize> {
    content.windows(wanted.len()).position(|part| part == wanted)
}
