//! The files with the tables as printed, and what of the twin stands for their rows and columns.
//!
//! ```text
//!   [[table]]  id, mail, workload          scenarios, times, run_to_run     what is run for it
//!     columns  id, unit                    quantity, printed_as             what a run measures
//!     rows     name, kind, v (values)      variant, base                    the kernel
//!              └── as printed ──┘          └── none of tables of sentences, layouts and parameters
//! ```
//!
//! What the right half names has to be there, see [`Table::check`]: a file with a name that leads nowhere is refused.

use mm::Mechanism;
use mm::sysctl::meant;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

const SCHEMA: &str = "mm-tables/2";
const FILE: &str = "data/published/seed-tables.toml";
const TEXT: &str = include_str!("../../../../data/published/seed-tables.toml");

/// What was published about a mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publication {
    /// The mechanism, by whose names commands know it.
    pub mechanism: Mechanism,
    /// The series.
    pub description: &'static str,
    /// What the ids of its tables begin with.
    pub prefix: &'static str,
}

impl Publication {
    /// All that was published.
    pub const ALL: &'static [Publication] = &[
        Publication {
            mechanism: Mechanism::Pcp,
            description: "PCP high auto-tuning, 10 patches, 2023",
            prefix: "pcp.",
        },
        Publication {
            mechanism: Mechanism::Hugetlb,
            description: "Batch hugetlb vmemmap modification operations, 12 patches, 2023",
            prefix: "hugetlb.",
        },
        Publication {
            mechanism: Mechanism::Reclaim,
            description: "Refault distance update with MGLRU support, RFC v3, 6 patches, 2023",
            prefix: "reclaim.",
        },
        Publication {
            mechanism: Mechanism::Numa,
            description: "sched/numa: Enhance vma scanning, v3, 4 patches, 2023",
            prefix: "numa.",
        },
        Publication {
            mechanism: Mechanism::Folios,
            description: "variable-order, large folios for anonymous memory, v2, 2023",
            prefix: "folios.",
        },
    ];

    /// What was published about the mechanism named `name`.
    pub fn find(name: &str) -> Result<&'static Publication, TablesError> {
        let of = |mechanism| Publication::ALL.iter().find(|publication| publication.mechanism == mechanism);
        let unknown = || TablesError::UnknownMechanism { name: name.into() };
        Mechanism::find(name).and_then(of).ok_or_else(unknown)
    }

    /// What the table `id` belongs to.
    pub fn of_table(id: &str) -> Option<&'static Publication> {
        Publication::ALL.iter().find(|publication| id.starts_with(publication.prefix))
    }

    /// Its tables; with `only`, those named there, now or before.
    pub fn tables(&self, only: &[String]) -> Result<Vec<Table>, TablesError> {
        let tables: Vec<Table> =
            parse(FILE, TEXT)?.into_iter().filter(|table| table.id.starts_with(self.prefix)).collect();
        let only: Vec<String> = only.iter().map(|id| present_id(id).unwrap_or(id.clone())).collect();
        if let Some(unknown) = only.iter().find(|id| tables.iter().all(|table| &table.id != *id)) {
            let known: Vec<&str> = tables.iter().map(|table| table.id.as_str()).collect();
            return Err(TablesError::UnknownTable { id: unknown.clone(), known: known.join(", ") });
        }
        Ok(tables.into_iter().filter(|table| only.is_empty() || only.contains(&table.id)).collect())
    }
}

/// How ids of tables began before, the longer ones first, and how they begin now.
const FORMER_PREFIXES: [(&str, &str); 7] = [
    ("s0.struct.", "pcp."),
    ("s0.", "pcp."),
    ("s1.hugetlb.", "hugetlb."),
    ("s1.", "hugetlb."),
    ("s2.", "reclaim."),
    ("s3.", "numa."),
    ("s4.", "folios."),
];

/// What the table formerly named `id` is called now, if that is a former name.
pub fn present_id(id: &str) -> Option<String> {
    FORMER_PREFIXES
        .iter()
        .find_map(|(former, present)| id.strip_prefix(former).map(|rest| format!("{present}{rest}")))
}

/// Reads a file of tables; its name is for errors.
pub fn parse(file: &'static str, text: &str) -> Result<Vec<Table>, TablesError> {
    let wrong = |text: String| TablesError::Syntax { file, text };
    let tables: File = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
    if tables.schema != SCHEMA {
        return Err(wrong(format!("schema = {:?}, expected {SCHEMA:?}", tables.schema)));
    }
    tables.table.iter().try_for_each(Table::check).map_err(wrong)?;
    Ok(tables.table)
}

/// Why tables cannot be had.
#[derive(Debug, Error)]
pub enum TablesError {
    /// No such mechanism.
    #[error("{name}: no such mechanism{}; there are: {}", meant(name, known_names()), known_mechanisms())]
    UnknownMechanism {
        /// What was asked for.
        name: String,
    },
    /// No such table.
    #[error("{id}: no such table; tables: {known}")]
    UnknownTable {
        /// What was asked for.
        id: String,
        /// What there is.
        known: String,
    },
    /// A file of tables is wrong.
    #[error("{file}: {text}")]
    Syntax {
        /// The file.
        file: &'static str,
        /// What the parser says.
        text: String,
    },
}

fn known_names() -> impl Iterator<Item = &'static str> {
    Publication::ALL.iter().flat_map(|publication| publication.mechanism.names())
}

fn known_mechanisms() -> String {
    let name = |publication: &Publication| match publication.mechanism.alias() {
        Some(alias) => format!("{} (or {alias})", publication.mechanism.name()),
        None => publication.mechanism.name().into(),
    };
    Publication::ALL.iter().map(name).collect::<Vec<_>>().join(", ")
}

#[derive(Deserialize)]
struct File {
    schema: String,
    table: Vec<Table>,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Table {
    /// Its id, such as `pcp.kbuild.numactl`.
    pub id: String,
    /// Where it was printed.
    pub mail: String,
    /// What was run.
    pub workload: String,
    /// What the twin runs for columns that name no scenarios of their own. Quantities of several are added up.
    #[serde(default)]
    pub scenarios: Vec<String>,
    /// How many runs its values are the sums of.
    #[serde(default = "once")]
    pub times: u32,
    /// Two rows that differ as two runs of one kernel do.
    pub run_to_run: Option<[String; 2]>,
    /// Its columns; rows may have further ones.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Row>,
}

fn once() -> u32 {
    1
}

/// A column.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its key in [`Row::v`].
    pub id: String,
    /// Its heading as printed.
    pub label: String,
    /// Its unit.
    pub unit: String,
    /// What the twin runs for it in place of the table's scenarios.
    #[serde(default)]
    pub scenarios: Vec<String>,
    /// The metric or counter that stands for it.
    pub quantity: Option<String>,
    /// How it prints the quantity.
    #[serde(default)]
    pub printed_as: PrintedAs,
    /// Why no quantity stands for it.
    pub not_predicted: Option<String>,
}

/// How a column prints what a run measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrintedAs {
    /// As it is.
    #[default]
    Itself,
    /// In thousands.
    Thousands,
    /// In percent of the base row's, which then is 100 exactly.
    PercentOfBase,
    /// By how many percent it differs from the base row's.
    ChangeFromBase,
}

/// Whether a row may be used for calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The unpatched kernel.
    Baseline,
    /// A patched kernel, to be predicted.
    Predicted,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Row {
    /// The kernel as printed, or the name of the sentence or fact.
    pub name: String,
    /// The twin's variant that is this kernel.
    pub variant: Option<String>,
    /// The row that it is compared with, the table's first if it does not say.
    pub base: Option<String>,
    /// Quantities that stand for columns in this row in place of the columns' own.
    #[serde(default)]
    pub quantities: BTreeMap<String, String>,
    /// See [`Kind`].
    pub kind: Kind,
    /// Line of the thread where its first value stands.
    pub line: u32,
    /// Its values as printed, by column.
    pub v: BTreeMap<String, String>,
}

impl Table {
    /// Its column `id`; rows may have some that it does not list.
    pub fn column(&self, id: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.id == id)
    }

    /// Its row `name`.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }
}

impl Row {
    /// Its columns in the order of the table, then those that only this row has.
    pub fn columns<'a>(&'a self, table: &'a Table) -> impl Iterator<Item = &'a str> {
        let declared = table.columns.iter().map(|column| column.id.as_str());
        let others = self.v.keys().map(String::as_str).filter(|id| table.column(id).is_none());
        declared.chain(others).filter(|id| self.v.contains_key(*id))
    }
}
