//! Tables on the terminal: usually one row per metric and one column per variant.
//!
//! A table that is wider than the terminal is printed in several pieces of a few columns each; the columns
//! that label a row are repeated in every piece. A table of words only is kept in one piece, and its last
//! column wraps.

use crate::terminal::{harmless, is_styled};
pub use report::Tone;

use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, LineStyle, Table,
    TableStyle, presets,
};

/// Width if stdout is not a terminal.
const DEFAULT_WIDTH: usize = 120;

/// A space on each side of a cell, and the column separator.
const PADDING: usize = 3;

/// Rows of a single line have no rules between them.
const UNDER_HEADER: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// A cell of a [`Grid`]; its text may have several lines.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    pub text: String,
    pub tone: Tone,
}

impl From<String> for Entry {
    fn from(text: String) -> Entry {
        Entry { text, tone: Tone::Plain }
    }
}

impl From<&str> for Entry {
    fn from(text: &str) -> Entry {
        text.to_string().into()
    }
}

/// The contents of a table.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// Titles of the columns, the label column first.
    pub header: Vec<String>,
    /// One vector per row, the label first.
    pub rows: Vec<Vec<Entry>>,
    /// Indices of left-aligned columns; the label column always is.
    pub words: Vec<usize>,
    /// Number of label columns beyond the first.
    pub more_labels: usize,
    /// Whether the cells of a column are of one width already, and begin below each other.
    pub is_padded: bool,
}

impl Grid {
    /// A table with these column titles.
    pub fn new(header: &[&str]) -> Grid {
        Grid { header: header.iter().map(|title| title.to_string()).collect(), ..Grid::default() }
    }

    pub fn row<E: Into<Entry>>(&mut self, entries: impl IntoIterator<Item = E>) {
        self.rows.push(entries.into_iter().map(Into::into).collect());
    }

    /// The table of a page.
    pub fn on_page(&self, caption: &str) -> report::Table {
        let one_line = |text: &str| text.lines().collect::<Vec<_>>().join(" ");
        let cell = |Entry { text, tone }: &Entry| report::Cell {
            text: one_line(text),
            note: String::new(),
            tone: *tone,
        };
        report::Table {
            caption: caption.into(),
            header: self.header.iter().map(|title| one_line(title)).collect(),
            rows: self.rows.iter().map(|row| row.iter().map(cell).collect()).collect(),
            is_folded: false,
        }
    }

    /// Lays the table out for the width of the terminal, in one piece or several.
    pub fn render(&self) -> String {
        self.render_for(terminal_width().unwrap_or(DEFAULT_WIDTH))
    }

    /// Lays the table out for this width.
    pub fn render_for(&self, width: usize) -> String {
        if self.is_words() {
            return self.piece(&self.columns(), Some(width));
        }
        let groups = self.groups(width);
        groups.iter().map(|columns| self.piece(columns, None)).collect::<Vec<_>>().join("\n\n")
    }

    /// The indices of all columns that are not labels.
    fn columns(&self) -> Vec<usize> {
        (1 + self.more_labels..self.header.len()).collect()
    }

    fn is_words(&self) -> bool {
        self.columns().iter().all(|column| self.words.contains(column))
    }

    fn column_width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|entry| entry.text.as_str());
        let texts = cells.chain([self.header[column].as_str()]);
        let texts = texts.map(harmless);
        texts.map(|text| text.lines().map(|line| line.chars().count()).max().unwrap_or(0)).max().unwrap_or(0)
            + PADDING
    }

    fn groups(&self, width: usize) -> Vec<Vec<usize>> {
        let label = (0..=self.more_labels).map(|column| self.column_width(column)).sum();
        let mut groups = vec![vec![]];
        let mut used: usize = label;
        for column in self.columns() {
            let own = self.column_width(column);
            let last = groups.len() - 1;
            if used + own > width && !groups[last].is_empty() {
                groups.push(vec![column]);
                used = label + own;
            } else {
                groups[last].push(column);
                used += own;
            }
        }
        groups
    }

    /// Lays out some columns; if `width` is given, the last of them wraps to fit.
    fn piece(&self, columns: &[usize], width: Option<usize>) -> String {
        let mut table = Table::new();
        let several_lines = self.rows.iter().flatten().any(|entry| entry.text.contains('\n'));
        table.load_style(if several_lines { presets::UTF8_HORIZONTAL_ONLY } else { UNDER_HEADER });
        if !is_styled() {
            table.force_no_tty();
        }
        let shown = || (0..=self.more_labels).chain(columns.iter().copied());
        let align = |cell: Cell, column: usize| {
            let words = self.is_padded || column <= self.more_labels || self.words.contains(&column);
            cell.set_alignment(if words { CellAlignment::Left } else { CellAlignment::Right })
        };
        let title = |column: usize| {
            align(Cell::new(harmless(&self.header[column])).add_attribute(Attribute::Bold), column)
        };
        table.set_header(shown().map(title));
        for row in &self.rows {
            table.add_row(shown().map(|column| {
                let entry = row.get(column).cloned().unwrap_or_default();
                let cell = align(Cell::new(harmless(&entry.text)), column);
                match entry.tone {
                    Tone::Plain => cell,
                    Tone::Good => cell.fg(Color::Green),
                    Tone::Bad => cell.fg(Color::Red),
                }
            }));
        }
        if let Some(width) = width.and_then(|width| u16::try_from(width).ok()) {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
            table.set_constraints(vec![ColumnConstraint::ContentWidth; self.more_labels + columns.len()]);
        }
        table.lines().map(|line| line.trim_end().to_string()).collect::<Vec<_>>().join("\n")
    }
}

/// How wide the terminal is, or what COLUMNS says; `None` if stdout is no terminal and COLUMNS says nothing.
pub fn terminal_width() -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns.or_else(|| Table::new().width().map(usize::from))
}

/// A text in lines of no more than `width` characters, as far as its words are; lines that it has stay apart, and so do no number and
/// its unit.
pub fn folded(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let mut pieces = unbreakable(line).into_iter();
        let mut own = pieces.next().unwrap_or_default();
        for piece in pieces {
            if own.chars().count() + 1 + piece.chars().count() <= width {
                own.push(' ');
            } else {
                lines.push(std::mem::take(&mut own));
            }
            own += &piece;
        }
        lines.push(own);
    }
    lines.join("\n")
}

/// Letters of the longest unit, with a comma.
const LONGEST_UNIT: usize = 5;

/// The words of a line, numbers with the short word behind them.
fn unbreakable(line: &str) -> Vec<String> {
    let is_number = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c))
            && word.ends_with(|c: char| c.is_ascii_digit())
    };
    let mut pieces: Vec<String> = Vec::new();
    for word in line.split(' ') {
        match pieces.last_mut() {
            Some(last) if is_number(last) && (1..=LONGEST_UNIT).contains(&word.chars().count()) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => pieces.push(word.into()),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fold_at_spaces() {
        assert_eq!(folded("one two  three\n\nfour", 7), "one two\n three\n\nfour");
        assert_eq!(folded("longer than that", 3), "longer\nthan\nthat");
        assert_eq!(folded("as it is", usize::MAX), "as it is");
        assert_eq!(
            folded("from 410 k/s to +30.7 %, 3 seedlings", 10),
            "from\n410 k/s to\n+30.7 %, 3\nseedlings"
        );
    }

    #[test]
    fn narrow_terminals_get_several_pieces_with_the_label_in_each() {
        let mut grid = Grid::new(&["metric", "pcp-base", "patch1", "patch9"]);
        grid.row(["build time", "206.1", "199.0", "177.2"]);
        let wide = grid.render_for(80);
        assert_eq!(wide.matches("build time").count(), 1);
        let narrow = grid.render_for(34);
        assert_eq!(narrow.matches("build time").count(), 2);
        assert!(narrow.lines().all(|line| line.chars().count() <= 34), "{narrow}");
        let mut words = Grid { words: vec![1, 2], ..Grid::new(&["series", "variant", "what it is"]) };
        words.row(["pcp", "mainline-6.10", "two huge-page lists, strict free lists, chunked zone drains"]);
        let narrow = words.render_for(50);
        assert_eq!(narrow.matches("mainline-6.10").count(), 1);
        assert!(
            narrow.lines().count() > 3 && narrow.lines().all(|line| line.chars().count() <= 50),
            "{narrow}"
        );
        let several = Grid { more_labels: 1, ..grid.clone() };
        assert_eq!(several.render_for(34).matches("206.1").count(), 2, "{}", several.render_for(34));
        // A column that cannot fit is printed all the same.
        assert_eq!(grid.render_for(1).matches("build time").count(), 3);
    }
}
