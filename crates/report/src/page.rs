//! A page: what a command found, in the order in which people read it, before anybody knows whether it becomes HTML, Markdown or
//! a table.

use crate::chart::Chart;

/// What a command found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    pub title: String,
    /// What was asked, in a line.
    pub lead: String,
    /// What follows, a sentence or two each.
    pub verdict: Vec<String>,
    pub sections: Vec<Section>,
    /// The figures as they are, for other programs.
    pub data: Data,
}

/// A part of a page with a title of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    pub title: String,
    pub parts: Vec<Part>,
}

/// What a section is made of.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    Text(String),
    Table(Table),
    Chart(Chart),
    /// A file or a command, as it is.
    Code {
        title: String,
        text: String,
    },
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What it has.
    pub caption: String,
    /// Titles of the columns; the first column labels the rows.
    pub header: Vec<String>,
    pub rows: Vec<Vec<Cell>>,
    /// Whether it is shown only if somebody opens it.
    pub is_folded: bool,
}

/// A cell of a [`Table`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    pub text: String,
    /// What is said of it in small letters.
    pub note: String,
    pub tone: Tone,
}

/// Whether a change is a good one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    Good,
    Bad,
}

/// A table for other programs: a line for each figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Data {
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Part {
    /// The lines of a text, those that are empty left out.
    pub fn lines(text: &str) -> impl Iterator<Item = Part> {
        text.lines().filter(|line| !line.is_empty()).map(|line| Part::Text(line.into()))
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { text, ..Cell::default() }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        text.to_string().into()
    }
}

impl Page {
    /// The charts of all sections.
    pub fn charts(&self) -> impl Iterator<Item = &Chart> {
        self.sections.iter().flat_map(|section| &section.parts).filter_map(|part| match part {
            Part::Chart(chart) => Some(chart),
            Part::Text(_) | Part::Table(_) | Part::Code { .. } => None,
        })
    }
}

impl Data {
    /// Columns of these names.
    pub fn of(header: &[&str]) -> Data {
        Data { header: header.iter().map(|name| name.to_string()).collect(), rows: Vec::new() }
    }

    /// The table as comma-separated values (RFC 4180).
    pub fn csv(&self) -> Result<Vec<u8>, csv::Error> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(&self.header)?;
        for row in &self.rows {
            writer.write_record(row)?;
        }
        writer.into_inner().map_err(|error| error.into_error().into())
    }
}

impl From<&Table> for Data {
    fn from(table: &Table) -> Data {
        let rows = table.rows.iter().map(|row| row.iter().map(|cell| cell.text.clone()).collect());
        Data { header: table.header.clone(), rows: rows.collect() }
    }
}

impl Cell {
    /// The class of its element.
    pub(crate) fn class(&self) -> &'static str {
        match self.tone {
            Tone::Plain => "",
            Tone::Good => " class=\"good\"",
            Tone::Bad => " class=\"bad\"",
        }
    }
}
