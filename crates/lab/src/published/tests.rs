use super::*;
use crate::results::Record;
use std::collections::BTreeMap;

fn tables(ids: &[&str]) -> Vec<Table> {
    let ids: Vec<String> = ids.iter().map(|id| id.to_string()).collect();
    Mechanism::find("pcp").unwrap().tables(&ids).unwrap()
}

/// Records of a scenario with these metric values by variant.
fn observe(observations: &mut Observations, scenario: &str, values: &[(&str, &[(&str, f64)])]) {
    let loaded = crate::scenario::Scenario::load("page_fault1").unwrap();
    let machine = crate::scenario::load_machine(&loaded.machine).unwrap();
    let records: Vec<Record> = values
        .iter()
        .map(|(variant, metrics)| {
            let run = loaded.run(variant, 1, &machine, &BTreeMap::new()).unwrap();
            let mut record = Record::new(String::new(), "test", &run, &Default::default());
            record.metrics = metrics.iter().map(|(name, value)| (name.to_string(), *value)).collect();
            record
        })
        .collect();
    observations.enter(scenario, &records);
}

fn cell<'a>(report: &'a Report, row: &str, metric: &str) -> &'a Cell {
    let mut cells = report.tables.iter().flat_map(|table| &table.cells);
    cells.find(|cell| cell.row == row && cell.metric == metric).unwrap()
}

#[test]
fn every_table_has_a_source_and_every_scenario_exists() {
    let all = tables(&[]);
    assert_eq!(all.len(), 16);
    for need in needs(&all) {
        crate::scenario::Scenario::load(need.scenario).unwrap();
        for variant in &need.variants {
            crate::scenario::KernelChoice::parse("pcp", variant).unwrap();
        }
    }
    let report = Report::new(&all, &Observations::default());
    for cell in report.tables.iter().flat_map(|table| &table.cells) {
        if let Some(reason) = &cell.reason {
            assert!(reason.contains("was not run"), "{} {} {}: {reason}", cell.table, cell.row, cell.metric);
        }
    }
}

#[test]
fn layouts_and_parameters_are_as_published() {
    let ids = ["s0.struct.per_cpu_pages.base", "s0.struct.per_cpu_pages.patched", "s0.parameters"];
    let report = Report::new(&tables(&ids), &Observations::default());
    // Baseline facts of machines are the business of their profiles.
    let fact = |cell: &&Cell| cell.table == "s0.parameters" && cell.kind == Kind::Baseline;
    for cell in report.tables.iter().flat_map(|table| &table.cells).filter(|cell| !fact(cell)) {
        let number = matches!((&cell.predicted, Printed::parse(&cell.published)),
            (CellValue::Number(value), Some(printed)) if (value - printed.value).abs() <= printed.half_unit);
        assert!(number || cell.same == Some(true), "{cell:?}");
    }
    assert_eq!((report.computed.not_predicted, report.computed.texts_wrong), (0, 0));
    assert_eq!(report.summary.cells, 0, "none of them is simulated");
}

#[test]
fn percentages_directions_and_errors() {
    let mut observations = Observations::default();
    let base: &[(&str, f64)] =
        &[("build_time", 50.0), ("lock", 40.0), ("free_high", 1000.0), ("alloc_zone", 200.0)];
    let patch: &[(&str, f64)] =
        &[("build_time", 51.0), ("lock", 10.0), ("free_high", 0.0), ("alloc_zone", 40.0)];
    observe(&mut observations, "kbuild-j224", &[("base", base), ("patch5", base), ("patch7", patch)]);
    let report = Report::new(&tables(&["s0.kbuild.j224"]), &observations);
    // 98.5 published: within 2 % of the base, no direction; 102 predicted.
    let build = cell(&report, "patch7", "build_time");
    assert_eq!(build.predicted, CellValue::Number(102.0));
    assert_eq!((build.direction, build.resolved), (None, None));
    assert!((build.error.unwrap() - 3.5 / 98.5).abs() < 1e-12);
    // 16.8 -> 5.4 published.
    assert_eq!(cell(&report, "patch7", "lock").direction, Some(Direction::Right));
    // 100 -> 97.0 published, no change predicted.
    let zone = cell(&report, "patch5", "alloc_zone");
    assert_eq!((zone.direction, zone.resolved), (Some(Direction::Wrong), Some(true)));
    // Baseline cells are shown and not judged.
    let base = cell(&report, "base", "lock");
    assert_eq!((base.predicted.clone(), base.error, base.direction), (CellValue::Number(40.0), None, None));
    let summary = &report.summary;
    assert_eq!((summary.cells, summary.baseline, summary.errors), (12, 4, 8));
    assert_eq!((summary.direction_wrong, summary.directions), (3, 6));
}

#[test]
fn coarse_digits_do_not_resolve_a_direction() {
    let mut observations = Observations::default();
    let metrics: &[(&str, f64)] =
        &[("score", 1.0), ("lock", 2.0), ("free_high", 5.0), ("alloc_zone", 5.0), ("cache_miss", 1.3)];
    let variants = ["base", "patch1", "patch3", "patch5", "patch7", "patch9", "patch10"];
    observe(&mut observations, "sctp_stream_many", &variants.map(|variant| (variant, metrics)));
    let report = Report::new(&tables(&["s0.netperf.sctp_stream_many"]), &observations);
    let miss = cell(&report, "patch3", "cache_miss");
    assert_eq!(
        (miss.published.as_str(), miss.direction, miss.resolved),
        ("1.2", Some(Direction::Wrong), Some(false))
    );
    assert_eq!(cell(&report, "patch7", "cache_miss").resolved, Some(true));
    assert_eq!(cell(&report, "patch1", "cache_miss").direction, None);
}

#[test]
fn sentences_compare_the_variants_that_they_name() {
    let mut observations = Observations::default();
    let build = |seconds: f64, lock: f64, memory: f64| {
        vec![
            ("build_time", seconds),
            ("lock", lock),
            ("free_high", 4.0),
            ("alloc_zone", 8.0),
            ("memory_max", memory),
        ]
    };
    let values = [
        ("base", build(200.0, 40.0, 100.0)),
        ("patch1", build(190.0, 36.0, 100.0)),
        ("patch3", build(190.0, 35.0, 100.0)),
        ("patch5", build(180.0, 30.0, 100.0)),
        ("patch7", build(162.0, 10.0, 140.0)),
        ("patch9", build(160.0, 9.0, 150.0)),
        ("patch10", build(165.0, 9.0, 120.0)),
    ];
    let values: Vec<(&str, &[(&str, f64)])> =
        values.iter().map(|(name, metrics)| (*name, &metrics[..])).collect();
    observe(&mut observations, "kbuild", &values);
    let report = Report::new(&tables(&["s0.claims", "s0.claims.baseline"]), &observations);
    let number = |row: &str, metric: &str| match cell(&report, row, metric).predicted {
        CellValue::Number(value) => value,
        _ => f64::NAN,
    };
    assert!((number("c7.build", "change") + 10.0).abs() < 1e-9);
    assert!((number("c0.maxmem", "change") - 50.0).abs() < 1e-9);
    assert_eq!((number("c1.build", "before"), number("c1.build", "after")), (200.0, 190.0));
    assert_eq!(cell(&report, "c1.build", "before").kind, Kind::Baseline);
    assert_eq!(cell(&report, "c7.lock", "before").kind, Kind::Predicted);
    let missing = cell(&report, "c1.unix.bw", "change");
    assert_eq!(missing.reason.as_deref(), Some("scenario af_unix was not run"));
    assert_eq!(missing.error, None);
}

#[test]
fn unknown_names_are_refused_with_what_there_is() {
    assert!(Mechanism::find("hvo").unwrap_err().to_string().contains("pcp, hugetlb"));
    let error = Mechanism::find("pcp").unwrap().tables(&["s0.kbuild".into()]).unwrap_err().to_string();
    assert!(error.contains("s0.kbuild: no such table") && error.contains("s0.kbuild.numactl"), "{error}");
}
