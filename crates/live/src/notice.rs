//! Messages on stderr from destructors, which cannot return an error.

use std::fmt::Display;
use std::io::{self, Write};

/// Prints a line to stderr; if that is closed, full or broken, the line is lost without an error.
pub fn say(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}
