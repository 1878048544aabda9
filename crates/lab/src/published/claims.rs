//! Sentences: "build time decreases from 206s to 199s, -3.4%" is a metric of a scenario, from one variant to another.

use super::report::CellValue;
use super::sources::Observations;
use super::tables::{Kind, Row};
use crate::metric::{ALLOC_ZONE, BUILD_TIME, CACHE_MISS, FREE_HIGH, LOCK, MEMORY_MAX, Metric, SCORE};

/// The table of sentences.
pub(super) const TABLE: &str = "s0.claims";

/// What a sentence is about. Of several variants that it changes to, the one with the highest value counts ("up to").
struct Claim(&'static str, &'static str, Metric, &'static str, &'static [&'static str]);

const CLAIMS: &[Claim] = &[
    Claim("c1.build", "kbuild", BUILD_TIME, "base", &["patch1"]),
    Claim("c1.lock", "kbuild", LOCK, "base", &["patch1"]),
    Claim("c1.free_high", "kbuild", FREE_HIGH, "base", &["patch1"]),
    Claim("c1.unix.bw", "af_unix", SCORE, "base", &["patch1"]),
    Claim("c1.unix.lock", "af_unix", LOCK, "base", &["patch1"]),
    Claim("c1.unix.free_high", "af_unix", FREE_HIGH, "base", &["patch1"]),
    Claim("c1.unix.miss", "af_unix", CACHE_MISS, "base", &["patch1"]),
    Claim("c3.unix.bw", "af_unix", SCORE, "patch1", &["patch3"]),
    Claim("c3.unix.lock", "af_unix", LOCK, "patch1", &["patch3"]),
    Claim("c3.unix.free_high", "af_unix", FREE_HIGH, "patch1", &["patch3"]),
    Claim("c3.unix.miss", "af_unix", CACHE_MISS, "patch1", &["patch3"]),
    Claim("c5.lock", "kbuild", LOCK, "patch3", &["patch5"]),
    Claim("c7.build", "kbuild", BUILD_TIME, "patch5", &["patch7"]),
    Claim("c7.lock", "kbuild", LOCK, "patch5", &["patch7"]),
    Claim("c7.free_high", "kbuild", FREE_HIGH, "patch5", &["patch7"]),
    Claim("c7.alloc_zone", "kbuild", ALLOC_ZONE, "patch5", &["patch7"]),
    Claim("c9.alloc_zone", "kbuild", ALLOC_ZONE, "patch7", &["patch9"]),
    Claim("c9v2.alloc_zone", "kbuild-8cg", ALLOC_ZONE, "patch7", &["patch9"]),
    Claim("c10.netperf", "sctp_stream_many", SCORE, "patch9", &["patch10"]),
    Claim("c0.maxmem", "kbuild", MEMORY_MAX, "base", &["patch7", "patch9", "patch10"]),
];

fn find(row: &str) -> Option<&'static Claim> {
    CLAIMS.iter().find(|claim| claim.0 == row)
}

/// Scenario and variants that a sentence needs.
pub(super) fn needs(row: &str) -> Vec<(&'static str, String)> {
    find(row).map_or(Vec::new(), |Claim(_, scenario, _, from, to)| {
        [*from].iter().chain(*to).map(|variant| (*scenario, variant.to_string())).collect()
    })
}

/// The kind of a cell: what a sentence says of the unpatched kernel is baseline.
pub(super) fn kind(row: &Row, column: &str) -> Kind {
    match find(&row.variant) {
        Some(Claim(_, _, _, "base", _)) if column == "before" => Kind::Baseline,
        _ => row.kind,
    }
}

/// What the twin predicts for `before`, `after` or `change` (percent) of a sentence.
pub(super) fn predict(row: &Row, column: &str, observations: &Observations) -> CellValue {
    let Some(Claim(_, scenario, metric, from, to)) = find(&row.variant) else {
        return CellValue::Missing("no metric stands for this sentence".into());
    };
    let before = || observations.mean(scenario, from, *metric);
    let after = || {
        let values = to.iter().map(|variant| observations.mean(scenario, variant, *metric));
        values.collect::<Result<Vec<f64>, _>>().map(|values| values.into_iter().fold(f64::MIN, f64::max))
    };
    let value = match column {
        "before" => before(),
        "after" => after(),
        "change" => before().and_then(|before| match before {
            0.0 => Err(format!("{} of {from} is zero, so there is no change in percent", metric.name)),
            before => after().map(|after| 100.0 * (after / before - 1.0)),
        }),
        _ => Err("no metric stands for this column".into()),
    };
    value.into()
}
