//! What programs ask for: operations, generators and recorded demand.

pub mod trace;
