//! A diagnosis as text: the verdict, the findings as far as a screen has room, and what was not seen.

use super::predict::Prediction;
use crate::table::{Grid, folded, terminal_width};
use live::doctor::{ANY_KERNEL, Diagnosis, Finding, Mechanism, Observation, Samples, Severity, show};
use mm::sysctl::Since;
use std::collections::BTreeSet;

/// What a small terminal shows at once.
const LINES: usize = 40;
const COLUMNS: usize = 80;
/// Where the text of a finding begins, behind what the line is about.
const LABEL: usize = 11;
/// Lines of a screen about where a saved tree comes from.
const FEW_LINES: usize = 2;
/// Reasons for what is not seen, and notes, that a screen has.
const FEW: usize = 4;

/// Behind a line that is cut.
const MORE: &str = " ...";

/// What is told.
pub struct Told<'a> {
    pub diagnosis: &'a Diagnosis,
    pub samples: &'a Samples,
    pub is_here: bool,
    pub prediction: Option<&'a Prediction>,
}

impl Told<'_> {
    /// What fits onto a screen: findings in full as long as there is room, then in a line each.
    pub fn screen(&self) -> String {
        let width = terminal_width().unwrap_or(COLUMNS).min(COLUMNS);
        let (head, foot) = (self.head(width, FEW_LINES), self.foot(width));
        let lines = |text: &str| text.lines().count();
        let findings = &self.diagnosis.findings;
        // An empty line is before each part.
        let mut room = LINES.saturating_sub(lines(&head) + lines(&foot) + 2);
        let mut text = head;
        let mut at = 0;
        while let Some(finding) = findings.get(at) {
            let full = self.finding(finding, width);
            let after = findings.len() - at - 1;
            if lines(&full) + 1 + after.min(1) + after > room {
                break;
            }
            room -= lines(&full) + 1;
            text += &format!("\n\n{full}");
            at += 1;
        }
        let rest = &findings[at..];
        if !rest.is_empty() {
            let shown = if rest.len() < room { rest.len() } else { room.saturating_sub(2) };
            let line = |finding: &Finding| {
                let line = format!("{}  {}", name(finding), finding.title);
                let folded = folded(&line, width.saturating_sub(MORE.len()));
                let mut lines = folded.lines();
                let first = lines.next().unwrap_or_default();
                if lines.next().is_some() { format!("{first}{MORE}") } else { line }
            };
            text += "\n";
            rest[..shown].iter().for_each(|finding| text += &format!("\n{}", line(finding)));
            if shown < rest.len() {
                text += &format!("\n... and {} more", rest.len() - shown);
            }
        }
        format!("{text}\n\n{foot}")
    }

    /// Everything.
    pub fn all(&self) -> String {
        let width = terminal_width().unwrap_or(COLUMNS);
        let mut text = self.head(width, usize::MAX);
        for finding in &self.diagnosis.findings {
            text += &format!("\n\n{}", self.finding(finding, width));
        }
        text += &format!("\n\n{}", self.observations());
        text += &format!("\n\nNot seen:\n\n{}", self.not_seen(width));
        if !self.diagnosis.other_releases.is_empty() {
            let list = self.diagnosis.other_releases.join(", ");
            text += &format!("\n\n{}", folded(&format!("Rules of other kernels: {list}"), width));
        }
        let prediction = self.prediction.map(|of| prediction(of, width)).unwrap_or_default();
        let sound = self.sound(width);
        for part in [sound, prediction].into_iter().chain(self.notes(width)) {
            if !part.is_empty() {
                text += &format!("\n\n{part}");
            }
        }
        text
    }

    /// The verdict, and what was diagnosed; of the source of a saved tree so many lines.
    fn head(&self, width: usize, lines: usize) -> String {
        let diagnosis = self.diagnosis;
        let of = |name: &str| diagnosis.number(name);
        let mut parts = vec![match diagnosis.kernel.as_str() {
            "" => "A kernel without a name".to_string(),
            kernel => format!("Linux {kernel}"),
        }];
        let plural =
            |count: f64, noun: &str| format!("{count} {noun}{}", if count == 1.0 { "" } else { "s" });
        parts.extend(of("machine.cpus").map(|cpus| plural(cpus, "CPU")));
        parts.extend(of("machine.nodes").map(|nodes| plural(nodes, "node")));
        parts.extend(of("machine.memory").map(|mib| format!("{:.1} GiB", mib / 1024.0)));
        let mut text = format!("{}; {:.1} s of /proc and /sys", parts.join(", "), diagnosis.seconds);
        if !self.is_here {
            let source = folded(&format!("from: {}", self.samples.source), width.saturating_sub(4));
            let shown: Vec<&str> = source.lines().take(lines).collect();
            let more = if source.lines().count() > lines { MORE } else { "" };
            text += &format!("\n{}{more}", shown.join("\n"));
        }
        folded(&format!("{}\n{text}", self.verdict()), width)
    }

    fn verdict(&self) -> String {
        let findings = &self.diagnosis.findings;
        let count =
            |severity: Severity| findings.iter().filter(|finding| finding.rule.severity == severity).count();
        let of = |severity: Severity, what: &str| match count(severity) {
            0 => None,
            count => Some(format!("{count} {what}")),
        };
        let counts: Vec<String> = [
            of(Severity::Harm, "with harm"),
            of(Severity::Cost, "with a cost"),
            of(Severity::Note, "to know"),
        ]
        .into_iter()
        .flatten()
        .collect();
        match findings.first() {
            None if self.diagnosis.sound.is_empty() => {
                "No rule can tell whether anything is wrong: what they look at was not seen.".into()
            }
            None => "Nothing is wrong, as far as the rules see.".into(),
            Some(worst) => format!(
                "{} {}: {}. The worst: {}.",
                findings.len(),
                if findings.len() == 1 { "finding" } else { "findings" },
                counts.join(", "),
                worst.title
            ),
        }
    }

    fn finding(&self, finding: &Finding, width: usize) -> String {
        let rule = finding.rule;
        let mut text = folded(&format!("{}  {}", name(finding), finding.title), width);
        let mut line = |label: &str, content: &str| text += &format!("\n{}", labelled(label, content, width));
        line("seen", &seen(finding));
        line("means", &finding.means);
        line("because", &format!("{} ({})", rule.reason, rule.source));
        line("acts", &acts(finding));
        line("be sure", &commands(&rule.sure, width));
        text
    }

    fn foot(&self, width: usize) -> String {
        let prediction = self.prediction.map(|of| prediction(of, width)).unwrap_or_default();
        let parts =
            [prediction, self.sound(width)].into_iter().chain(self.notes(width).into_iter().take(FEW));
        let mut text: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
        text.extend(self.untold(width));
        if !self.is_here && !self.diagnosis.findings.is_empty() {
            text.push("Commands under `be sure` are for the machine that this is of.".into());
        }
        text.push("--all has every observation, and all findings in full.".into());
        text.join("\n")
    }

    /// Mechanisms without a finding.
    fn sound(&self, width: usize) -> String {
        let names: Vec<&str> = self.diagnosis.sound.iter().map(|mechanism| mechanism.name()).collect();
        match names[..] {
            [] => String::new(),
            _ => folded(&format!("Nothing found: {}.", names.join(", ")), width),
        }
    }

    fn notes(&self, width: usize) -> Vec<String> {
        self.diagnosis.notes.iter().map(|note| folded(&format!("note: {note}"), width)).collect()
    }

    /// What would let the rules tell that cannot.
    fn untold(&self, width: usize) -> Option<String> {
        let missing = self.diagnosis.not_seen.iter().filter(|missing| !missing.rules.is_empty());
        // Where a file is missing that any kernel has, its lines need no options.
        let without: BTreeSet<&str> = missing
            .clone()
            .filter(|missing| missing.observation.needs == ANY_KERNEL)
            .map(|missing| missing.observation.file)
            .collect();
        let mut needs: Vec<String> = Vec::new();
        for Observation { file, needs: option, .. } in missing.clone().map(|missing| missing.observation) {
            let need = if without.contains(file) { format!("/{file}") } else { option.to_string() };
            if !needs.contains(&need) {
                needs.push(need);
            }
        }
        let rules: usize = missing.map(|missing| missing.rules.len()).sum();
        if needs.is_empty() {
            return None;
        }
        let more =
            if needs.len() > FEW { format!("; and {} more", needs.len() - FEW) } else { String::new() };
        needs.truncate(FEW);
        let noun = if rules == 1 { "rule" } else { "rules" };
        Some(folded(
            &format!("Not seen, so that {rules} {noun} cannot tell: {}{more}.", needs.join("; ")),
            width,
        ))
    }

    fn observations(&self) -> String {
        let mut grid = Grid { words: vec![1, 2], ..Grid::new(&["seen", "value", "what it is"]) };
        let mut last = None::<Mechanism>;
        for seen in &self.diagnosis.seen {
            let of = seen.observation;
            if last.is_some_and(|last| last != of.mechanism) {
                grid.row(["", "", ""]);
            }
            last = Some(of.mechanism);
            grid.row([of.name.to_string(), show(&seen.value, of.unit), of.what.to_string()]);
        }
        grid.render()
    }

    /// A paragraph for each observation that could not be made.
    fn not_seen(&self, width: usize) -> String {
        let paragraphs = self.diagnosis.not_seen.iter().map(|missing| {
            let (name, why) = (missing.observation.name, &missing.why);
            let rules = match &missing.rules[..] {
                [] => String::new(),
                rules => format!(" Rules that cannot tell: {}.", rules.join(", ")),
            };
            folded(&format!("{name}: {why}.{rules}"), width)
        });
        paragraphs.collect::<Vec<_>>().join("\n")
    }
}

/// `cost  reclaim.thrashing`
fn name(finding: &Finding) -> String {
    format!("{}  {}", finding.rule.severity.name(), finding.rule.id)
}

/// A line with what it is about before it, and the lines that it is folded into below each other.
fn labelled(label: &str, content: &str, width: usize) -> String {
    let text = folded(content, width.saturating_sub(LABEL));
    let lines = text.lines().enumerate().map(|(at, line)| {
        let label = if at == 0 { label } else { "" };
        format!("  {label:<size$}{line}", size = LABEL - 2)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Commands, those that are longer than a line continued as a shell takes it.
fn commands(of: &[String], width: usize) -> String {
    let room = width.saturating_sub(LABEL);
    let broken = |command: &String| match command.chars().count() > room {
        true => folded(command, room.saturating_sub(2)).replace('\n', " \\\n"),
        false => command.clone(),
    };
    of.iter().map(broken).collect::<Vec<_>>().join("\n")
}

fn seen(finding: &Finding) -> String {
    let of = finding.seen.iter();
    let parts =
        of.map(|seen| format!("{} {}", seen.observation.name, show(&seen.value, seen.observation.unit)));
    parts.collect::<Vec<_>>().join(", ")
}

/// The settings with their values here, and since when there are such if they are new.
fn acts(finding: &Finding) -> String {
    let setting = |(setting, value): &(&mm::sysctl::Setting, Option<String>)| {
        let value = value.as_deref().map_or("not seen here".into(), |value| format!("is {value}"));
        let since = match setting.since {
            Since::Oldest => String::new(),
            since => format!("; since {}", since.release()),
        };
        format!("{} ({value}{since})", setting.name)
    };
    let mut parts: Vec<String> = finding.settings.iter().map(setting).collect();
    parts.extend(finding.rule.elsewhere.clone());
    let mut text = parts.join(", ");
    let dates: Vec<String> =
        finding.rule.dates().iter().map(|date| format!("{}: {}", date.name(), date.releases())).collect();
    if !dates.is_empty() {
        text += &format!("\nchanges of the kernel (`mmtwin list dates`): {}", dates.join("; "));
    }
    text
}

fn prediction(of: &Prediction, width: usize) -> String {
    let Prediction { rule, scenario, setting, from, to, kernel, seeds, .. } = of;
    let how = format!(
        "{scenario} on --machine this as a stand-in for what runs there ({kernel}, {setting} from {from} to {to}, {seeds} seeds)"
    );
    let text = match &of.not_run {
        Some(why) => format!("Not predicted for {rule}, by {scenario}: {why}"),
        None => format!("Predicted for {rule}, by {how}: {}", of.verdict.join(" ")),
    };
    folded(&text, width)
}
