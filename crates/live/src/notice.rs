//! What is said where nothing can be returned: in guards that are dropped.

use std::fmt::Display;
use std::io::{self, Write};

/// Says it on stderr. Where that is closed, full or broken, nobody hears it.
pub fn say(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}
