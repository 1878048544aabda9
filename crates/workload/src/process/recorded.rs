//! The recorded kernel build that is compiled into mmtwin.

use super::{ProcessError, ProcessProfile};
use std::sync::OnceLock;

impl ProcessProfile {
    /// The recorded kernel build, `data/kbuild.profile`, parsed once.
    pub fn kernel_build() -> Result<&'static ProcessProfile, &'static ProcessError> {
        static PROFILE: OnceLock<Result<ProcessProfile, ProcessError>> = OnceLock::new();
        let file = &include_bytes!("../../../../data/kbuild.profile")[..];
        PROFILE.get_or_init(|| ProcessProfile::load(file)).as_ref()
    }
}
