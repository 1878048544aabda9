//! The kernel of a run: resolves the names of series and variants.
//!
//! ```text
//!   series "numa", variant "p4"        ─► a variant of the series
//!   any series,    variant "6.12"      ─► a release, the same in every series
//!   series "pcp",  variant "batch-63"  ─► a debugging kernel with that pageset batch
//! ```

use machine::PageSize;
use mm::sysctl::most_like;
use mm::{Series, SettingError, Settings, Variant};
use std::collections::BTreeMap;
use thiserror::Error;

/// The kernel of a run.
#[derive(Clone, Copy, Debug)]
pub struct KernelChoice {
    pub variant: &'static Variant,
    /// For a debugging kernel, the fixed `pcp->batch`; `high` is twice that, and neither is scaled.
    pub batch: Option<i32>,
}

/// Whether debugging kernels with any batch are variants of the series.
fn has_batches(series: &Series) -> bool {
    series.name == Series::PCP.name
}

impl KernelChoice {
    /// Resolves a name: a variant of the series, a kernel release, or `batch-N` in the series of pagesets.
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

    /// The settings of a run: those with which the machine was `set_up`, then those of the variant, then
    /// `changes`. If a kernel with this page size does not have a file that the variant sets, that setting is
    /// skipped.
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

/// An unknown series or variant.
#[derive(Debug, Error)]
pub enum KernelError {
    /// The series does not exist.
    #[error(
        "{name}: no such series; series: {}",
        Series::ALL.iter().map(|series| series.name).collect::<Vec<_>>().join(", ")
    )]
    UnknownSeries { name: String },
    /// The series has no such variant, and there is no such release.
    #[error(
        "{name}: no such variant of series {}; most like it: {}; `mmtwin list variants` and `mmtwin list releases` list \
         all{}",
        series.name,
        most_like(name, series.variants().map(|variant| variant.name).chain(releases())),
        if has_batches(series) { ", besides batch-N" } else { "" }
    )]
    UnknownVariant {
        name: String,
        /// The series in which it was looked up.
        series: Series,
    },
}

fn releases() -> impl Iterator<Item = &'static str> {
    mm::series::RELEASES.iter().map(|(release, _)| *release)
}
