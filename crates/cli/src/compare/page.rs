//! A comparison as a page: the sentences that are printed, and what the report makes of it.

use super::{ViewArguments, sentences};
use lab::comparison::{Comparison, scenarios};
use lab::experiment::varied::Arm;
use lab::results::Record;
use report::again::Again;
use report::comparison::Compared;
use report::{Data, Page, Part, Section};

/// The runs that a comparison is of.
pub struct Runs<'a> {
    pub arms: &'a [Arm],
    pub records: &'a [Record],
    pub again: Again,
}

/// The page of a comparison; `notes` are those of its runs, one a line.
pub fn of(comparison: &Comparison, view: &ViewArguments, notes: &str, runs: &Runs) -> Page {
    let (metrics, shown) = (view.metrics(comparison), view.shown(comparison));
    let below = sentences::below_the_table(comparison, metrics, &shown);
    let compared = Compared { comparison, metrics, shown: &shown, records: runs.records, notes: &below };
    let mut sections = compared.sections();
    let notes: Vec<Part> = Part::lines(notes).collect();
    if !notes.is_empty() {
        sections.push(Section { title: "What to know about these runs".into(), parts: notes });
    }
    let machines = super::distinct(runs.arms.iter().map(|arm| &arm.machine));
    sections.push(runs.again.section(runs.records, &scenarios(runs.arms), &machines));
    Page { sections, data: compared.data(), ..titled(comparison, &super::description(runs.arms)) }
}

/// The page of comparisons whose runs were made before; `records` are those of them that are known.
pub fn of_documents(
    title: &str,
    (comparisons, records): (&[Comparison], &[Record]),
    view: &ViewArguments,
    again: &Again,
) -> Page {
    let mut page = Page { title: title.into(), ..Page::default() };
    for comparison in comparisons {
        let (metrics, shown) = (view.metrics(comparison), view.shown(comparison));
        let below = sentences::below_the_table(comparison, metrics, &shown);
        let compared = Compared { comparison, metrics, shown: &shown, records, notes: &below };
        let verdict = sentences::verdict(comparison);
        let data = compared.data();
        page.data = Data { header: data.header, rows: [page.data.rows, data.rows].concat() };
        let mut words: Vec<Part> = verdict.into_iter().map(Part::Text).collect();
        for section in compared.sections() {
            let title = format!("{}: {}", comparison.scenario, section.title);
            words.extend(section.parts);
            page.sections.push(Section { title, parts: std::mem::take(&mut words) });
        }
    }
    page.sections.push(again.section(&[], &[], &[]));
    page
}

/// Title, lead and verdict.
fn titled(comparison: &Comparison, description: &str) -> Page {
    let Comparison { scenario, machine, settings, .. } = comparison;
    let settings = super::further_settings(settings);
    let verdict = sentences::verdict(comparison);
    Page {
        title: format!("{scenario} on {machine}"),
        lead: format!("{description}{settings}"),
        verdict: verdict.iter().flat_map(|lines| lines.lines()).map(String::from).collect(),
        ..Page::default()
    }
}
