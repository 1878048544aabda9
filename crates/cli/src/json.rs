//! JSON on stdout. Every document names its schema, a file in schemas/.

use crate::failure::Failure;
use crate::terminal;
use anyhow::Context;
use serde::Serialize;

#[derive(Serialize)]
struct Document<'a, T> {
    schema: String,
    mmtwin: &'static str,
    #[serde(flatten)]
    content: &'a T,
}

/// Prints `content` as a document with the schema `mmtwin-NAME/1`.
pub fn print<T: Serialize>(name: &str, content: &T) -> Result<(), Failure> {
    let document =
        Document { schema: format!("mmtwin-{name}/1"), mmtwin: env!("CARGO_PKG_VERSION"), content };
    let text = serde_json::to_string_pretty(&document).context("JSON")?;
    terminal::print(&text)
}
