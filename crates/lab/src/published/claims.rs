//! Sentences: "build time decreases from 206s to 199s, -3.4%" is a metric of a scenario, from one variant to another.
//!
//! Each sentence has a rule of its own that says what of the twin stands for it, or why nothing does.

use super::prediction::{CellValue, Observations};
use super::tables::{Kind, Row, Table};
use sim::metric::{
    ALLOC_ZONE, BUILD_TIME, CACHE_MISS, FREE_HIGH, GROW_FLUSHES, GROW_TIME, LOCK, MEMORY_MAX, Metric,
    PAGES_REACHED, SCORE, SHRINK_TIME, SYSTEM_TIME, TRANSACTIONS,
};

/// A sentence by table and row, and what stands for it.
struct Sentence(&'static str, &'static str, Rule);

/// A metric of a scenario, from one variant to others.
struct Claim(&'static str, Metric, &'static str, &'static [&'static str]);

/// What stands for a sentence.
enum Rule {
    /// `before`, `after` and `change` in percent. Of several variants that it changes to, the one with the highest
    /// value counts ("up to").
    Change(Claim),
    /// By how much less, in percent.
    Less(Claim),
    /// How many times larger; the smallest and the largest of several.
    Times(&'static [Claim]),
    /// The most flushes that any page took while a scenario's pool grew under a variant: the average, rounded up.
    FlushesOfPage(&'static str, &'static str),
    /// All flushes while it grew.
    FlushesOfBatch(&'static str, &'static str),
    /// Nothing, and why.
    Nothing(&'static str),
}

const fn change(
    row: &'static str,
    scenario: &'static str,
    metric: Metric,
    from: &'static str,
    to: &'static [&'static str],
) -> Sentence {
    Sentence("pcp.claims", row, Rule::Change(Claim(scenario, metric, from, to)))
}

const fn of_batching(row: &'static str, rule: Rule) -> Sentence {
    Sentence("hugetlb.claims", row, rule)
}

const fn of_refault_distance(row: &'static str, rule: Rule) -> Sentence {
    Sentence("reclaim.claims", row, rule)
}

const fn of_vma_scanning(row: &'static str, rule: Rule) -> Sentence {
    Sentence("numa.claims", row, rule)
}

const fn times(
    scenario: &'static str,
    metric: Metric,
    from: &'static str,
    to: &'static [&'static str],
) -> Claim {
    Claim(scenario, metric, from, to)
}

const SENTENCES: &[Sentence] = &[
    Sentence(
        "folios.claims",
        "anonfolio-v2, FLEXIBLE_THP=disabled",
        Rule::Nothing("a sentence without a number: with the feature compiled out the kernel is folios-base"),
    ),
    change("c1.build", "kbuild", BUILD_TIME, "pcp-base", &["patch1"]),
    change("c1.lock", "kbuild", LOCK, "pcp-base", &["patch1"]),
    change("c1.free_high", "kbuild", FREE_HIGH, "pcp-base", &["patch1"]),
    change("c1.unix.bw", "af_unix", SCORE, "pcp-base", &["patch1"]),
    change("c1.unix.lock", "af_unix", LOCK, "pcp-base", &["patch1"]),
    change("c1.unix.free_high", "af_unix", FREE_HIGH, "pcp-base", &["patch1"]),
    change("c1.unix.miss", "af_unix", CACHE_MISS, "pcp-base", &["patch1"]),
    change("c3.unix.bw", "af_unix", SCORE, "patch1", &["patch3"]),
    change("c3.unix.lock", "af_unix", LOCK, "patch1", &["patch3"]),
    change("c3.unix.free_high", "af_unix", FREE_HIGH, "patch1", &["patch3"]),
    change("c3.unix.miss", "af_unix", CACHE_MISS, "patch1", &["patch3"]),
    change("c5.lock", "kbuild", LOCK, "patch3", &["patch5"]),
    change("c7.build", "kbuild", BUILD_TIME, "patch5", &["patch7"]),
    change("c7.lock", "kbuild", LOCK, "patch5", &["patch7"]),
    change("c7.free_high", "kbuild", FREE_HIGH, "patch5", &["patch7"]),
    change("c7.alloc_zone", "kbuild", ALLOC_ZONE, "patch5", &["patch7"]),
    change("c9.alloc_zone", "kbuild", ALLOC_ZONE, "patch7", &["patch9"]),
    change("c9v2.alloc_zone", "kbuild-8cg", ALLOC_ZONE, "patch7", &["patch9"]),
    change("c10.netperf", "sctp_stream_many", SCORE, "patch9", &["patch10"]),
    change("c0.maxmem", "kbuild", MEMORY_MAX, "pcp-base", &["patch7", "patch9", "patch10"]),
    of_batching(
        "hvo_alloc_doc",
        Rule::Nothing("it repeats documentation of an earlier kernel and names no machine"),
    ),
    of_batching(
        "hvo_free_doc",
        Rule::Nothing("it repeats documentation of an earlier kernel and names no machine"),
    ),
    of_batching("hvo_190x", Rule::Nothing("no machine and no command are given")),
    of_batching(
        "vm_61x",
        Rule::Times(&[times("hugetlb-vm252", GROW_TIME, "hugetlb-base-hvo-off", &["hugetlb-base"])]),
    ),
    of_batching(
        "after_batching",
        Rule::Times(&[
            times("hugetlb-8s", GROW_TIME, "patch12-hvo-off", &["patch12"]),
            times("hugetlb-8s", SHRINK_TIME, "patch12-hvo-off", &["patch12"]),
            times("hugetlb-vm252", GROW_TIME, "patch12-hvo-off", &["patch12"]),
            times("hugetlb-vm252", SHRINK_TIME, "patch12-hvo-off", &["patch12"]),
        ]),
    ),
    of_batching("flushes_before", Rule::FlushesOfPage("hugetlb-vm252", "hugetlb-base")),
    // Patches 10 and 11 leave two flushes. Patch 12 as posted flushes once more, for the list of pages to free, which is
    // empty when a pool grows; the sentence does not count that one.
    of_batching("flushes_after", Rule::FlushesOfBatch("hugetlb-vm252", "patch12")),
    of_refault_distance(
        "improvement",
        Rule::Times(&[times("mongodb-tpcc", TRANSACTIONS, "mglru-6.5", &["refault-distance-6-v3"])]),
    ),
    of_refault_distance("doubled", Rule::Nothing("no workload is named")),
    of_vma_scanning("kernbench", Rule::Nothing("which row improves by more than 5 % is not said; none does")),
    of_vma_scanning(
        "autonuma_sys",
        Rule::Less(Claim("numa01", SYSTEM_TIME, "numa-base", &["vma-scanning-4"])),
    ),
    of_vma_scanning(
        "pid_reset",
        Rule::Nothing("a constant of the patch: the twin has it as it is (numa::scan::policy)"),
    ),
];

/// Whether a table is one of sentences.
pub(super) fn is_table(table: &str) -> bool {
    SENTENCES.iter().any(|sentence| sentence.0 == table)
}

fn find(table: &str, row: &str) -> Option<&'static Rule> {
    SENTENCES.iter().find(|sentence| sentence.0 == table && sentence.1 == row).map(|sentence| &sentence.2)
}

/// Scenario and variants that a sentence needs.
pub(super) fn needs(table: &str, row: &str) -> Vec<(&'static str, &'static str)> {
    let of = |Claim(scenario, _, from, to): &Claim| -> Vec<(&'static str, &'static str)> {
        [*from].iter().chain(*to).map(|variant| (*scenario, *variant)).collect()
    };
    match find(table, row) {
        Some(Rule::Change(claim) | Rule::Less(claim)) => of(claim),
        Some(Rule::Times(claims)) => claims.iter().flat_map(of).collect(),
        Some(Rule::FlushesOfPage(scenario, variant) | Rule::FlushesOfBatch(scenario, variant)) => {
            vec![(scenario, variant)]
        }
        Some(Rule::Nothing(_)) | None => Vec::new(),
    }
}

/// The kind of a cell: what a sentence says of the unpatched kernel is baseline.
pub(super) fn kind(table: &Table, row: &Row, column: &str) -> Kind {
    match find(&table.id, &row.name) {
        Some(Rule::Change(Claim(_, _, "pcp-base", _))) if column == "before" => Kind::Baseline,
        _ => row.kind,
    }
}

impl Claim {
    fn before(&self, observations: &Observations) -> Result<f64, String> {
        observations.mean(self.0, self.2, self.1.name)
    }

    fn after(&self, observations: &Observations) -> Result<f64, String> {
        let values = self.3.iter().map(|variant| observations.mean(self.0, variant, self.1.name));
        values.collect::<Result<Vec<f64>, _>>().map(|values| values.into_iter().fold(f64::MIN, f64::max))
    }

    fn ratio(&self, observations: &Observations) -> Result<f64, String> {
        match self.before(observations)? {
            0.0 => Err(format!("{} of {} is zero, so there is no change in percent", self.1.name, self.2)),
            before => Ok(self.after(observations)? / before),
        }
    }
}

/// What the twin predicts for a cell of a sentence.
pub(super) fn predict(table: &Table, row: &Row, column: &str, observations: &Observations) -> CellValue {
    let Some(rule) = find(&table.id, &row.name) else {
        return CellValue::Missing("no metric stands for this sentence".into());
    };
    match rule {
        Rule::Change(claim) => match column {
            "before" => claim.before(observations),
            "after" => claim.after(observations),
            "change" => claim.ratio(observations).map(|ratio| 100.0 * (ratio - 1.0)),
            _ => Err("no metric stands for this column".into()),
        }
        .into(),
        Rule::Less(claim) => claim.ratio(observations).map(|ratio| 100.0 * (1.0 - ratio)).into(),
        Rule::Times([claim]) => claim.ratio(observations).into(),
        Rule::Times(claims) => {
            let ratios = claims.iter().map(|claim| claim.ratio(observations));
            let ratios: Result<Vec<f64>, String> = ratios.collect();
            let text = |ratios: Vec<f64>| {
                let least = ratios.iter().copied().fold(f64::MAX, f64::min);
                let most = ratios.iter().copied().fold(f64::MIN, f64::max);
                format!("{least:.0}-{most:.0}x slowdown")
            };
            ratios.map(text).into()
        }
        Rule::FlushesOfPage(scenario, variant) => {
            let flushes = observations.mean(scenario, variant, GROW_FLUSHES.name);
            let pages = observations.mean(scenario, variant, PAGES_REACHED.name);
            flushes.and_then(|flushes| Ok(word((flushes / pages?).ceil()))).into()
        }
        Rule::FlushesOfBatch(scenario, variant) => {
            observations.mean(scenario, variant, GROW_FLUSHES.name).map(word).into()
        }
        Rule::Nothing(reason) => CellValue::Missing(reason.to_string()),
    }
}

/// A small number as a sentence says it.
fn word(number: f64) -> String {
    let words = ["none", "one", "two", "three", "four"];
    let index = (number >= 0.0 && number.fract() == 0.0).then_some(number as usize);
    index.and_then(|index| words.get(index)).map_or_else(|| number.to_string(), |word| word.to_string())
}
