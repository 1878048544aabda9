//! `-o FILE`: what a command found, in files. The ending of a name says what a file is to be.
//!
//! ```text
//!   -o names ─► check   known endings, no name twice, a place that can be written to     before anything is computed
//!                 └► Files ─► write   .html .md .csv of a page, .svg .png of its first chart, .json of the document,
//!                            .conf and .pftrace
//! ```
//!
//! A command makes one page of what it found, whatever files are asked for; .conf and .pftrace are contents that a command
//! makes itself, if they are asked for.

use crate::failure::Failure;
use crate::runner;
use crate::table::Grid;
use crate::terminal;
use anyhow::Context;
use clap::Args;
use report::again::Again;
use report::{Data, Page, Part, Section, Table, html, markdown};
use std::borrow::Cow;
use std::io::Write;
use std::path::{Path, PathBuf};
use workload::output::{Existing, Output, directory_of};

/// The options of every command that writes files.
#[derive(Args)]
pub struct FileArguments {
    /// Write the answer to a file, by its ending: .html a report with charts, .svg or .png its first chart,
    /// .csv, .md or .json the table; may be given several times
    #[arg(short, long = "output", value_name = "FILE")]
    output: Vec<PathBuf>,

    /// Replace files of -o that exist
    #[arg(long, requires = "output")]
    force: bool,
}

/// Options of former versions, which are refused with a word on what does the same now.
#[derive(Args)]
pub struct GoneArguments {
    #[arg(long, hide = true, value_name = "FILE")]
    plot: Option<PathBuf>,
}

impl GoneArguments {
    /// Refuses what is gone.
    pub fn refuse(&self) -> Result<(), Failure> {
        match &self.plot {
            Some(path) => Err(Failure::input(format!(
                "--plot {}: this option is gone; -o FILE.html writes a report with the chart",
                path.display()
            ))),
            None => Ok(()),
        }
    }
}

/// What a file is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Html,
    Svg,
    Png,
    Csv,
    Md,
    Json,
    Conf,
    Pftrace,
}

impl Ending {
    /// Of every command.
    pub const ANSWER: &[Ending] = &[Ending::Html, Ending::Csv, Ending::Md, Ending::Json];

    /// Of commands whose answer has a chart.
    pub const CHART: &[Ending] =
        &[Ending::Html, Ending::Svg, Ending::Png, Ending::Csv, Ending::Md, Ending::Json];

    const ALL: [Ending; 8] = [
        Ending::Html,
        Ending::Svg,
        Ending::Png,
        Ending::Csv,
        Ending::Md,
        Ending::Json,
        Ending::Conf,
        Ending::Pftrace,
    ];

    fn name(self) -> &'static str {
        match self {
            Ending::Html => "html",
            Ending::Svg => "svg",
            Ending::Png => "png",
            Ending::Csv => "csv",
            Ending::Md => "md",
            Ending::Json => "json",
            Ending::Conf => "conf",
            Ending::Pftrace => "pftrace",
        }
    }

    /// What a file of this ending has.
    fn about(self) -> &'static str {
        match self {
            Ending::Html => "a report",
            Ending::Svg | Ending::Png => "a picture",
            Ending::Csv | Ending::Md => "a table",
            Ending::Json => "what --json prints",
            Ending::Conf => "a file for /etc/sysctl.d",
            Ending::Pftrace => "a timeline for ui.perfetto.dev",
        }
    }

    fn of(path: &Path) -> Option<Ending> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        Ending::ALL.into_iter().find(|known| known.name() == ending)
    }
}

impl FileArguments {
    /// Refuses names whose ending is none of `endings`, a name given twice, and places that cannot be written to.
    pub fn check(&self, endings: &[Ending]) -> Result<Files, Failure> {
        let existing = if self.force { Existing::Replace } else { Existing::Keep };
        let mut files: Vec<(Ending, Output)> = Vec::new();
        for path in &self.output {
            let ending = Ending::of(path).filter(|ending| endings.contains(ending)).ok_or_else(|| {
                let known = endings.iter().map(|ending| format!(".{} ({})", ending.name(), ending.about()));
                let known = known.collect::<Vec<_>>().join(", ");
                Failure::input(format!("-o {}: the name has to end in one of {known}", path.display()))
            })?;
            if matches!(ending, Ending::Svg | Ending::Png) && !cfg!(feature = "pictures") {
                return Err(no_pictures(path));
            }
            let output = Output::at(path, existing)?;
            let is_same = |other: &Output| place(other).is_some() && place(other) == place(&output);
            if files.iter().any(|(_, other)| other.path() == path || is_same(other)) {
                return Err(Failure::input(format!("-o {}: it is given twice", path.display())));
            }
            files.push((ending, output));
        }
        Ok(Files { files })
    }
}

/// Where a file will be, however its name is spelled; none of a stream.
fn place(output: &Output) -> Option<PathBuf> {
    let file = output.file()?;
    Some(directory_of(file).canonicalize().ok()?.join(file.file_name()?))
}

/// Files that can be written.
pub struct Files {
    files: Vec<(Ending, Output)>,
}

/// What files are made of.
pub struct Contents {
    pub page: Page,
    /// The document that `--json` prints.
    pub json: String,
    /// Of a command that has an ending of its own: what a .conf or a .pftrace has.
    pub own: Vec<u8>,
}

impl Files {
    /// Whether no file is asked for.
    pub fn are_none(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether a file of this ending is asked for.
    pub fn want(&self, ending: Ending) -> bool {
        self.files.iter().any(|(wanted, _)| *wanted == ending)
    }

    /// Writes all files of what `contents` makes, which is not asked if there are none.
    pub fn write(&self, contents: impl FnOnce() -> Result<Contents, Failure>) -> Result<(), Failure> {
        if self.are_none() {
            return Ok(());
        }
        let contents = contents()?;
        for (ending, output) in &self.files {
            let bytes = contents.of(*ending)?;
            let mut file = output.create()?;
            file.write_all(&bytes).with_context(|| output.path().display().to_string())?;
            file.finish()?;
            terminal::say(format_args!("wrote {}", output.path().display()));
        }
        Ok(())
    }
}

/// The first chart of a page, which is the one that answers.
#[cfg(feature = "pictures")]
fn picture(page: &Page, ending: Ending) -> Result<Vec<u8>, Failure> {
    let Some(chart) = page.charts().next() else {
        let ending = ending.name();
        return Err(Failure::input(format!(
            "-o FILE.{ending}: this answer has no chart; -o FILE.html has all of it"
        )));
    };
    let svg = report::picture::svg(chart, &page.title).context("the picture")?;
    let svg = terminal::harmless(&svg);
    match ending {
        Ending::Png => Ok(report::picture::png(&svg).context("the picture")?),
        _ => Ok(svg.into_owned().into_bytes()),
    }
}

#[cfg(not(feature = "pictures"))]
fn picture(_: &Page, ending: Ending) -> Result<Vec<u8>, Failure> {
    Err(no_pictures(&Path::new("FILE").with_extension(ending.name())))
}

/// What a program says that cannot draw.
fn no_pictures(path: &Path) -> Failure {
    Failure::input(format!(
        "-o {}: this mmtwin was built without pictures; cargo build --release -p mmtwin --features pictures builds one \
         with them, and -o FILE.html has the charts in any",
        path.display()
    ))
}

impl Contents {
    /// What a file has. In a text nothing foreign is obeyed where it is printed.
    fn of(&self, ending: Ending) -> Result<Cow<'_, [u8]>, Failure> {
        let text = match ending {
            Ending::Html => html::page(&self.page).context("the report")?,
            Ending::Md => markdown::page(&self.page),
            Ending::Csv => {
                let table = self.page.data.csv().context("the table")?;
                String::from_utf8_lossy(&table).into_owned()
            }
            Ending::Json => format!("{}\n", self.json),
            Ending::Conf => String::from_utf8_lossy(&self.own).into_owned(),
            Ending::Pftrace => return Ok(Cow::Borrowed(&self.own)),
            Ending::Svg | Ending::Png => return Ok(Cow::Owned(picture(&self.page, ending)?)),
        };
        Ok(Cow::Owned(terminal::harmless(&text).into_owned().into_bytes()))
    }
}

/// A page of `front` and then tables, each with its title. The first table is what other programs get.
pub fn tables(title: &str, front: Vec<Section>, grids: &[(&str, &Grid)]) -> Page {
    let parts: Vec<(&str, Table)> = grids.iter().map(|(title, grid)| (*title, grid.on_page(""))).collect();
    let data = parts.first().map(|(_, table)| Data::from(table)).unwrap_or_default();
    let section = |(title, table): (&str, Table)| {
        let caption = title.to_string();
        Section { title: title.into(), parts: vec![Part::Table(Table { caption, ..table })] }
    };
    let again = again(Path::new("")).section(&[], &[], &[]);
    let sections = front.into_iter().chain(parts.into_iter().map(section)).chain([again]).collect();
    Page { title: title.into(), sections, data, ..Page::default() }
}

/// What is needed to run this command again, its results being in `results`.
pub fn again(results: &Path) -> Again {
    let program = runner::program();
    Again {
        command: typed(std::env::args_os().map(|word| word.to_string_lossy().into_owned())),
        version: program.version,
        commit: program.commit,
        build: program.build,
        results: results.display().to_string(),
    }
}

/// Words as a shell takes them, the program by its name.
fn typed(words: impl Iterator<Item = String>) -> String {
    let quoted = |word: String| {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=,:+@%".contains(letter);
        match !word.is_empty() && word.chars().all(is_plain) {
            true => word,
            false => format!("'{}'", word.replace('\'', "'\\''")),
        }
    };
    ["mmtwin".to_string()].into_iter().chain(words.skip(1).map(quoted)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &[&str]) -> Result<Files, Failure> {
        let directory = std::env::temp_dir();
        let output = names.iter().map(|name| directory.join(name)).collect();
        FileArguments { output, force: true }.check(Ending::ANSWER)
    }

    #[test]
    fn endings_are_known_and_names_given_once() {
        assert_eq!(check(&["a.html", "b.CSV", "c.md"]).unwrap().files.len(), 3);
        for (names, says) in [
            (&["a.pdf"][..], "a.pdf: the name has to end in one of .html (a report), .csv (a table)"),
            (&["a"], "the name has to end in"),
            (&["a.conf"], "the name has to end in"),
            (&["a.html", "b.csv", "a.html"], "a.html: it is given twice"),
            (&["a.html", "./a.html"], "a.html: it is given twice"),
            (&["none/there/a.html"], "no directory"),
        ] {
            let message = check(names).err().and_then(|failure| failure.message()).unwrap();
            assert!(message.contains(says), "{message}");
        }
    }

    #[test]
    fn pictures_are_refused_before_anything_is_computed_where_nothing_draws_them() {
        for name in ["a.svg", "a.PNG"] {
            let output = vec![std::env::temp_dir().join(name)];
            let checked = FileArguments { output, force: true }.check(Ending::CHART);
            let refused = checked.err().and_then(|failure| failure.message());
            match cfg!(feature = "pictures") {
                true => assert_eq!(refused, None),
                false => assert!(refused.is_some_and(|said| said.contains("--features pictures")), "{name}"),
            }
        }
    }

    #[test]
    fn commands_can_be_pasted() {
        let words = ["/usr/bin/mmtwin", "compare", "it's", "--fail-if", "score < -2 %"];
        assert_eq!(
            typed(words.into_iter().map(String::from)),
            r"mmtwin compare 'it'\''s' --fail-if 'score < -2 %'"
        );
    }
}
