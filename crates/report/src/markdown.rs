//! A page as Markdown: texts and tables, for mails and tickets. Charts are what their captions say.

use crate::page::{Cell, Page, Part, Table};

/// The page as Markdown.
pub fn page(page: &Page) -> String {
    let mut blocks = vec![format!("# {}", text(&page.title))];
    blocks.extend((!page.lead.is_empty()).then(|| text(&page.lead)));
    blocks.extend(page.verdict.iter().map(|sentence| format!("> {}", text(sentence))));
    for section in &page.sections {
        blocks.push(format!("## {}", text(&section.title)));
        blocks.extend(section.parts.iter().map(part));
    }
    blocks.join("\n\n") + "\n"
}

fn part(part: &Part) -> String {
    match part {
        Part::Text(words) => text(words),
        Part::Table(of) => table(of),
        Part::Chart(chart) => format!("*{}*: {}", text(&chart.title), text(&chart.caption)),
        Part::Code { title, text: code } => format!("{}:\n\n{}", text(title), indented(code)),
    }
}

/// Text in which nothing is markup.
fn text(words: &str) -> String {
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let escaped = words.chars().flat_map(|letter| {
        let backslash = matches!(letter, '\\' | '*' | '_' | '`' | '<' | '|' | '[').then_some('\\');
        backslash.into_iter().chain([letter])
    });
    escaped.collect()
}

/// Code by indentation, which no line of it can end.
fn indented(code: &str) -> String {
    code.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

fn table(table: &Table) -> String {
    let cell = |Cell { text: words, note, .. }: &Cell| match note.is_empty() {
        true => text(words),
        false => format!("{} {}", text(words), text(note)),
    };
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let rule =
        table.header.iter().enumerate().map(|(at, _)| if at == 0 { "---" } else { "---:" }.to_string());
    let mut lines = vec![line(table.header.iter().map(|title| text(title)).collect()), line(rule.collect())];
    lines.extend(table.rows.iter().map(|row| line(row.iter().map(cell).collect())));
    let caption =
        if table.caption.is_empty() { String::new() } else { format!("{}:\n\n", text(&table.caption)) };
    caption + &lines.join("\n")
}
