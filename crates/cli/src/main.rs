//! The `mmtwin` command.
fn main() {}
