//! The kernel of a run: resolves the names of series and variants.
//!
//! ```text
//!   series "numa", variant "vma-scanning-4"          ─► a variant of the series
//!   any series,    variant "6.12"                    ─► a release, the same in every series
//!   series "pcp",  variant "batch-63"                ─► a debugging kernel with that pageset batch
//!   any of them    "6.18:mglru.tiers=off+numa.…=on"  ─► the same with features of its own
//! ```

use machine::PageSize;
use mm::features::by_name::FeatureError;
use mm::sysctl::most_like;
use mm::{Features, Series, SettingError, Settings, Variant};
use std::collections::BTreeMap;
use thiserror::Error;

/// The kernel of a run.
#[derive(Clone, Copy, Debug)]
pub struct KernelChoice {
    pub variant: &'static Variant,
    /// The variant's features, with those that the name changes.
    pub features: Features,
    /// For a debugging kernel, the fixed `pcp->batch`; `high` is twice that, and neither is scaled.
    pub batch: Option<i32>,
}

/// The name of a kernel, and the features that may follow it behind a colon.
pub fn name_and_features(variant: &str) -> (&str, Option<&str>) {
    variant.split_once(':').map_or((variant, None), |(name, features)| (name, Some(features)))
}

/// Whether debugging kernels with any batch are variants of the series.
fn has_batches(series: &Series) -> bool {
    series.name == Series::PCP.name
}

impl KernelChoice {
    /// Resolves a name: a variant of the series, a kernel release, or `batch-N` in the series of pagesets; each may be followed by
    /// features, `NAME:FEATURE=VALUE+FEATURE=VALUE`.
    pub fn parse(series: &str, name: &str) -> Result<KernelChoice, KernelError> {
        let (name, changed) = name_and_features(name);
        let mut choice = KernelChoice::named(series, name)?;
        for change in changed.into_iter().flat_map(|changed| changed.split('+')) {
            let (path, word) =
                change.split_once('=').ok_or_else(|| KernelError::NoFeature { text: change.into() })?;
            choice.features.set(path.trim(), word.trim())?;
        }
        choice.features.check()?;
        Ok(choice)
    }

    fn named(series: &str, name: &str) -> Result<KernelChoice, KernelError> {
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
        let variant = variant.ok_or_else(unknown)?;
        Ok(KernelChoice { variant, features: variant.features, batch })
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
    /// Text behind the colon of a variant that sets no feature.
    #[error("{text}: expected FEATURE=VALUE, as in 6.18:mglru.types_apart=off; several are joined by +")]
    NoFeature { text: String },
    /// A feature that the kernel cannot have.
    #[error(transparent)]
    Feature(#[from] FeatureError),
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
