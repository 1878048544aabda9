//! Whether what a table names is there: scenarios, quantities, variants, rows and columns.
//!
//! ```text
//!   scenarios ──► the built-in ones            variant ──► the series of each scenario
//!   quantity  ──► metrics, counters            base, run_to_run ──► the table's rows
//! ```
//!
//! An error names table, row or column and key, and what would be right.

use super::tables::{Column, Row, Table};
use crate::scenario::Scenario;
use mm::sysctl::meant;
use mm::{Event, Series};
use sim::KernelChoice;
use sim::metric::METRICS;

impl Table {
    /// Refuses names that lead nowhere, and rows and columns of which it is not said what stands for them.
    pub(super) fn check(&self) -> Result<(), String> {
        let wrong = |text| format!("table {}: {text}", self.id);
        self.check_own_keys().map_err(wrong)?;
        for column in &self.columns {
            self.check_column(column).map_err(|text| wrong(format!("column {}: {text}", column.id)))?;
        }
        let series = self.series().map_err(wrong)?;
        for row in &self.rows {
            self.check_row(row, &series).map_err(|text| wrong(format!("row {}: {text}", row.name)))?;
        }
        Ok(())
    }

    fn check_own_keys(&self) -> Result<(), String> {
        self.scenarios.iter().try_for_each(|name| check_scenario(name))?;
        if self.times == 0 {
            return Err("times = 0: it is a number of runs, at least 1".into());
        }
        self.run_to_run.iter().flatten().try_for_each(|name| self.check_name_of_row("run_to_run", name))
    }

    fn check_column(&self, column: &Column) -> Result<(), String> {
        column.scenarios.iter().try_for_each(|name| check_scenario(name))?;
        match (&column.quantity, &column.not_predicted) {
            (Some(quantity), None) => {
                check_quantity(quantity)?;
                let is_run = !(self.scenarios.is_empty() && column.scenarios.is_empty());
                is_run.then_some(()).ok_or("a quantity needs scenarios, its own or the table's".into())
            }
            (Some(_), Some(_)) => Err("it has a quantity and not_predicted; which one?".into()),
            (None, None) if self.is_measured() => {
                Err("it needs a quantity, or not_predicted with the reason".into())
            }
            (None, _) => Ok(()),
        }
    }

    fn check_row(&self, row: &Row, series: &[String]) -> Result<(), String> {
        row.base.iter().try_for_each(|name| self.check_name_of_row("base", name))?;
        for (id, quantity) in &row.quantities {
            if self.column(id).is_none() {
                let ids = self.columns.iter().map(|column| column.id.as_str());
                return Err(format!("quantities: the table has no column {id:?}{}", meant(id, ids)));
            }
            check_quantity(quantity)?;
        }
        match &row.variant {
            Some(variant) if self.is_measured() => {
                series.iter().try_for_each(|series| check_variant(series, variant))
            }
            Some(variant) => Err(format!("variant = {variant:?}: the table needs scenarios that run it")),
            None if self.is_measured() => {
                Err("it needs the variant that it is, as the table has scenarios".into())
            }
            None => Ok(()),
        }
    }

    fn check_name_of_row(&self, key: &str, name: &str) -> Result<(), String> {
        if self.row(name).is_some() {
            return Ok(());
        }
        let names = self.rows.iter().map(|row| row.name.as_str());
        Err(format!("{key} = {name:?}: the table has no row of this name{}", meant(name, names)))
    }

    /// The series of its scenarios.
    fn series(&self) -> Result<Vec<String>, String> {
        let scenarios = self.scenarios.iter().chain(self.columns.iter().flat_map(|column| &column.scenarios));
        let series = scenarios.map(|name| Scenario::load(name).map(|scenario| scenario.series));
        let mut series = series.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        series.sort();
        series.dedup();
        Ok(series)
    }
}

fn check_scenario(name: &str) -> Result<(), String> {
    if Scenario::names().any(|known| known == name) {
        return Ok(());
    }
    let like = meant(name, Scenario::names());
    Err(format!("scenarios: no scenario {name:?}{like}; `mmtwin list scenarios` has all"))
}

fn check_quantity(name: &str) -> Result<(), String> {
    let metrics = METRICS.iter().map(|metric| metric.name);
    let mut known = metrics.chain(Event::ALL.iter().map(|event| event.name()));
    if known.clone().any(|known| known == name) {
        return Ok(());
    }
    let like = meant(name, known.by_ref());
    Err(format!(
        "quantity = {name:?}: no such metric or counter{like}; `mmtwin list metrics` has the metrics"
    ))
}

fn check_variant(series: &str, name: &str) -> Result<(), String> {
    let wrong = |text: String| format!("variant = {name:?}: {text}");
    if let Some(present) = Series::find(series).and_then(|series| series.present_name(name)) {
        return Err(wrong(format!("a former name, it is {present} now")));
    }
    KernelChoice::parse(series, name).map(|_| ()).map_err(|error| wrong(error.to_string()))
}

#[cfg(test)]
mod tests {
    use crate::published::parse;

    const TABLE: &str = r#"
        schema = "mm-tables/2"
        [[table]]
        id = "pcp.small"
        mail = "a mail"
        workload = "kbuild"
        scenarios = ["kbuild"]
        times = 3
        run_to_run = ["before", "after"]
        columns = [
          { id = "time", label = "time", unit = "s", quantity = "build_time", printed_as = "thousands" },
          { id = "runs", label = "runs", unit = "count", not_predicted = "it is what was run" },
        ]
        rows = [
          { name = "before", variant = "pcp-base", kind = "baseline", line = 1, v = { time = "2" } },
          { name = "after", variant = "patch1", base = "before", kind = "predicted", line = 2, quantities = { time = "pgfree" }, v = { time = "1" } },
        ]"#;

    /// What is said of the table with `part` in place of what it has there.
    fn refused(whole: &str, part: &str) -> String {
        assert!(TABLE.contains(whole), "{whole}");
        parse("a.toml", &TABLE.replacen(whole, part, 1)).unwrap_err().to_string()
    }

    #[test]
    fn a_table_with_names_that_lead_somewhere_is_taken() {
        assert_eq!(parse("a.toml", TABLE).unwrap()[0].rows.len(), 2);
    }

    #[test]
    fn an_unknown_scenario_is_refused() {
        let error = refused(r#"["kbuild"]"#, r#"["kbild"]"#);
        assert_eq!(
            error,
            "a.toml: table pcp.small: scenarios: no scenario \"kbild\" (do you mean kbuild?); `mmtwin list scenarios` has \
             all"
        );
        let error = refused(r#"quantity = "#, r#"scenarios = ["../kbuild.toml"], quantity = "#);
        assert!(error.contains("column time: scenarios: no scenario \"../kbuild.toml\""), "{error}");
    }

    #[test]
    fn an_unknown_quantity_is_refused() {
        let error = refused(r#""build_time""#, r#""build_tme""#);
        assert!(
            error.contains("column time: quantity = \"build_tme\": no such metric or counter"),
            "{error}"
        );
        assert!(error.contains("do you mean build_time?"), "{error}");
        let error = refused(r#""pgfree""#, r#""pgfre""#);
        assert!(error.contains("row after: quantity = \"pgfre\"") && error.contains("pgfree?"), "{error}");
    }

    #[test]
    fn a_variant_of_another_series_or_with_a_former_name_is_refused() {
        let error = refused(r#""patch1""#, r#""patch12""#);
        assert!(
            error.contains("row after: variant = \"patch12\": patch12: no such variant of series pcp"),
            "{error}"
        );
        assert!(error.contains("patch10"), "{error}");
        let error = refused(r#""pcp-base""#, r#""base""#);
        assert!(
            error.contains("row before: variant = \"base\": a former name, it is pcp-base now"),
            "{error}"
        );
    }

    #[test]
    fn a_row_or_column_that_there_is_not_is_refused() {
        let error = refused(r#"base = "before""#, r#"base = "befor""#);
        assert!(error.contains("row after: base = \"befor\": the table has no row of this name"), "{error}");
        assert!(error.contains("do you mean before?"), "{error}");
        let error = refused(r#"["before", "after"]"#, r#"["before", "later"]"#);
        assert!(error.contains("table pcp.small: run_to_run = \"later\""), "{error}");
        let error = refused(r#"{ time = "pgfree" }"#, r#"{ tme = "pgfree" }"#);
        assert!(error.contains("row after: quantities: the table has no column \"tme\""), "{error}");
    }

    #[test]
    fn what_is_left_out_is_refused() {
        let error = refused(r#"variant = "patch1", "#, "");
        assert!(error.contains("row after: it needs the variant"), "{error}");
        let error = refused(r#"scenarios = ["kbuild"]"#, "");
        assert!(error.contains("column time: a quantity needs scenarios"), "{error}");
        let error = refused(r#"quantity = "build_time", "#, "");
        assert!(error.contains("column time: it needs a quantity, or not_predicted"), "{error}");
        let error = refused(r#", not_predicted"#, r#", quantity = "score", not_predicted"#);
        assert!(error.contains("column runs: it has a quantity and not_predicted"), "{error}");
        let error = refused("times = 3", "times = 0");
        assert!(error.contains("table pcp.small: times = 0"), "{error}");
    }

    #[test]
    fn a_misspelt_key_of_a_column_is_refused_with_its_line() {
        let error = refused("printed_as", "printed");
        assert!(error.contains("line 11") && error.contains("unknown field `printed`"), "{error}");
    }
}
