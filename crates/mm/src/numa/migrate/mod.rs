//! What happens to the page that a hint fault is about.

pub mod policy;
pub mod promotion;
