//! One run: which kernel with which settings on which machine, the workload, and the seed.
//!
//! ```text
//!   machine, settings ──┐
//!   series, variant ────┼─► Run ─► identity of the result
//!   workload, seed ─────┘    │
//!                            └─ Boot: everything but the workload, as programs see it
//! ```
//!
//! A run is stored with its results and read again, so it consists of names and numbers and has no state of
//! the simulation.

use crate::boot::Boot;
use crate::host::Workload;
use crate::kernel_choice::{KernelChoice, KernelError, name_and_features};
use crate::progress::RunProgress;
use machine::Profile;
use mm::Decisions;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One run, completely specified.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Name of its scenario; the results are filed under it.
    pub scenario: String,
    /// The series of patches that the variant belongs to.
    pub series: String,
    /// Name of the variant; see [`KernelChoice`].
    pub variant: String,
    /// The kernel tree that the variant takes decisions from, if it takes any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeKernel>,
    /// Seed of all random numbers.
    pub seed: u64,
    pub machine: Profile,
    /// Settings that differ from the defaults.
    pub settings: BTreeMap<String, String>,
    pub workload: Workload,
}

/// A kernel that takes decisions from a kernel tree, and has all else from a release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeKernel {
    /// The release.
    pub base: String,
    /// Hash of the functions, as sources and as compiled.
    pub content_hash: String,
}

impl TreeKernel {
    /// The name of the release with the features that follow the tree's name: of `my-patch:mglru.tiers=off`, `6.12:mglru.tiers=off`.
    pub fn of_base(&self, variant: &str) -> String {
        match name_and_features(variant) {
            (_, Some(features)) => format!("{}:{features}", self.base),
            (_, None) => self.base.clone(),
        }
    }
}

impl Run {
    /// Resolves the kernel's name. The boot reports its progress in `progress`.
    pub fn boot<'a>(&'a self, progress: &'a RunProgress) -> Result<Boot<'a>, KernelError> {
        let of_base = self.tree.as_ref().map(|tree| tree.of_base(&self.variant));
        let name = of_base.as_ref().unwrap_or(&self.variant);
        let KernelChoice { features, batch, .. } = KernelChoice::parse(&self.series, name)?;
        let decisions = Decisions::default();
        let (machine, settings) = (&self.machine, &self.settings);
        let seed = self.seed;
        Ok(Boot {
            features,
            decisions,
            batch,
            machine,
            settings,
            seed,
            progress,
            validate_every: None,
            timeline: None,
        })
    }
}
