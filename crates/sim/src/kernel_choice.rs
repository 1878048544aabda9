//! Which kernel a run has: what the names of a series and of a variant mean.
//!
//! ```text
//!   series "numa", variant "p4"        ─► a variant of the series
//!   any series,    variant "6.12"      ─► a release, which is the same in all of them
//!   series "pcp",  variant "batch-63"  ─► a debugging kernel with that batch
//! ```

use machine::PageSize;
use mm::sysctl::most_like;
use mm::{Series, SettingError, Settings, Variant};
use std::collections::BTreeMap;
use thiserror::Error;

/// A kernel that a run can have.
#[derive(Clone, Copy, Debug)]
pub struct KernelChoice {
    /// Its features.
    pub variant: &'static Variant,
    /// A debugging kernel with this batch, twice of it as high, and no scaling.
    pub batch: Option<i32>,
}

/// Whether kernels with any batch are variants of a series.
fn has_batches(series: &Series) -> bool {
    series.name == Series::PCP.name
}

impl KernelChoice {
    /// By name: a variant of the series, a kernel release, or, on pagesets, `batch-N`.
    pub fn parse(series: &str, name: &str) -> Result<KernelChoice, KernelError> {
        let series =
            Series::find(series).ok_or_else(|| KernelError::UnknownSeries { name: series.into() })?;
        let unknown = || KernelError::UnknownVariant { name: name.into(), series };
        let (variant, batch) = match name.strip_prefix("batch-").map(str::parse) {
            Some(Ok(batch @ 1..=32767)) if has_batches(&series) => {
                (Series::PCP.variant("pcp-base"), Some(batch))
            }
            Some(_) => (None, None),
            None => (series.variant(name).or_else(|| Variant::of_release(name)), None),
        };
        Ok(KernelChoice { variant: variant.ok_or_else(unknown)?, batch })
    }

    /// The settings of a run: how the machine was `set_up`, then what the variant has, then `changes`. Where a kernel with pages of
    /// this size has no file of a variant's, writing to it fails, and the others are written to all the same.
    pub fn settings(
        &self,
        page_size: PageSize,
        set_up: &BTreeMap<String, String>,
        changes: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, SettingError> {
        let own = self.variant.settings.iter().filter(|(name, _)| mm::sysctl::exists(name, page_size));
        let own = own.map(|&(name, value)| (name.to_string(), value.to_string()));
        let mut settings = set_up.clone();
        settings.extend(own);
        settings.extend(changes.clone());
        let mut check = Settings::new(page_size);
        settings.iter().try_for_each(|(name, value)| check.set(name, value))?;
        Ok(settings)
    }
}

/// A kernel that there is not.
#[derive(Debug, Error)]
pub enum KernelError {
    /// No such series.
    #[error(
        "{name}: no such series; series: {}",
        Series::ALL.iter().map(|series| series.name).collect::<Vec<_>>().join(", ")
    )]
    UnknownSeries {
        /// What was asked for.
        name: String,
    },
    /// No such variant or release.
    #[error(
        "{name}: no such variant of series {}; most like it: {}; `mmtwin list variants` and `mmtwin list releases` have \
         all{}",
        series.name,
        most_like(name, series.variants().map(|variant| variant.name).chain(releases())),
        if has_batches(series) { ", besides batch-N" } else { "" }
    )]
    UnknownVariant {
        /// What was asked for.
        name: String,
        /// Where it was looked for.
        series: Series,
    },
}

fn releases() -> impl Iterator<Item = &'static str> {
    mm::series::RELEASES.iter().map(|(release, _)| *release)
}
