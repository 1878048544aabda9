//! JSON on stdout: every document names its schema, which is a file in schemas/.

use crate::failure::Failure;
use anyhow::Context;
use serde::Serialize;
use std::io::Write;

#[derive(Serialize)]
struct Document<'a, T> {
    schema: String,
    mmtwin: &'static str,
    #[serde(flatten)]
    content: &'a T,
}

/// Prints `content` as a document of the schema `mmtwin-NAME/1`.
pub fn print<T: Serialize>(name: &str, content: &T) -> Result<(), Failure> {
    let document =
        Document { schema: format!("mmtwin-{name}/1"), mmtwin: env!("CARGO_PKG_VERSION"), content };
    let text = serde_json::to_string_pretty(&document).context("JSON")?;
    print_text(&text)
}

/// Prints text. A reader that has seen enough (`| head`) is no failure.
pub fn print_text(text: &str) -> Result<(), Failure> {
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::Other(anyhow::Error::new(error).context("stdout")))
        }
        _ => Ok(()),
    }
}
