//! Everything that is wrong with the keys and numbers of a file, each with its line, and the parser's errors in the words of this field.
//!
//! ```text
//!   seeeds = 3         line 6: seeeds: no such key (do you mean seeds?); there are ...
//!   [workload]
//!   kind = "pagefault" line 10: workload.kind = pagefault: it takes one of ...
//!   mib = 0            line 12: workload.mib = 0: it takes a whole number from 1 to ...
//! ```
//!
//! serde stops at the first mistake and tells it in terms of Rust's types. What a key takes is known without it ([`Takes`]), so a text that
//! serde refuses is gone through once more. What that does not find, such as a key that is missing, is serde's error in other words.

use super::list;
use machine::WrongValue;
use machine::profile::line_of;
use mm::sysctl::meant;
use toml::de::{DeTable, DeValue};
use workload::keys::{Key, Numbers, Takes, below};

/// Longer values are cut in errors.
const SHOWN: usize = 60;

/// A value as an error shows it.
pub(super) fn shown(value: &str) -> String {
    match value.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value.into(),
    }
}

/// A key and what is wrong with it.
pub(super) struct Mistake {
    key: String,
    says: String,
}

impl Mistake {
    fn no_such_key(key: String, name: &str, keys: &[Key], besides: &[&str]) -> Mistake {
        let known = || besides.iter().copied().chain(keys.iter().map(|key| key.name));
        let says = format!(": no such key{}; there are {}", meant(name, known()), list(known()));
        Mistake { key, says }
    }

    pub(super) fn of(WrongValue { key, value, expected }: WrongValue) -> Mistake {
        Mistake { key, says: format!(" = {}: it takes {expected}", shown(&value)) }
    }

    /// The line that it is in, if its key stands there.
    pub(super) fn line(&self, text: &str) -> Option<usize> {
        line_of(text, &self.key)
    }

    /// The mistake with the file's name and its line.
    pub(super) fn located(&self, place: &str, text: &str) -> String {
        let line = self.line(text).map_or(String::new(), |line| format!("line {line}: "));
        format!("{place}: {line}{}{}", self.key, self.says)
    }
}

/// All keys that there are not and all numbers that their keys do not take.
pub(super) fn mistakes(text: &str, takes: Takes) -> Vec<Mistake> {
    let Ok(document) = DeTable::parse(text) else { return Vec::new() };
    let mut found = Vec::new();
    in_value(&DeValue::Table(document.into_inner()), "", takes, &mut found);
    found
}

fn in_value(value: &DeValue, key: &str, takes: Takes, found: &mut Vec<Mistake>) {
    if let (DeValue::Array(values), false) = (value, matches!(takes, Takes::Number(_))) {
        for (at, value) in values.iter().enumerate() {
            in_value(value.get_ref(), &format!("{key}[{at}]"), takes, found);
        }
        return;
    }
    match takes {
        Takes::NoNumber => {}
        Takes::Number(takes) => found.extend(wrong_number(value, key, &takes).map(Mistake::of)),
        Takes::Table(keys) => in_table(value, key, keys, &[], found),
        Takes::Kinds(kinds) => {
            let Some(table) = value.as_table() else { return };
            let known = || list(kinds.iter().map(|(known, _)| *known));
            match table.get("kind").and_then(|kind| kind.get_ref().as_str()) {
                None => found.push(Mistake {
                    key: key.into(),
                    says: format!(": it lacks the key kind, which takes one of {}", known()),
                }),
                Some(kind) => match kinds.iter().find(|(known, _)| *known == kind) {
                    Some((_, Takes::Table(keys))) => in_table(value, key, keys, &["kind"], found),
                    Some((_, takes)) => in_value(value, key, *takes, found),
                    None => {
                        let like = meant(kind, kinds.iter().map(|(known, _)| *known));
                        let expected = format!("one of {}{like}", known());
                        found.push(Mistake::of(WrongValue::new(below(key, "kind"), kind, expected)));
                    }
                },
            }
        }
    }
}

fn in_table(value: &DeValue, key: &str, keys: &[Key], besides: &[&str], found: &mut Vec<Mistake>) {
    let Some(table) = value.as_table() else { return };
    for (name, value) in table {
        let name = name.get_ref().as_ref();
        match keys.iter().find(|known| known.name == name) {
            Some(known) => in_value(value.get_ref(), &below(key, name), known.takes, found),
            None if besides.contains(&name) => {}
            None => found.push(Mistake::no_such_key(below(key, name), name, keys, besides)),
        }
    }
}

/// What is wrong with a number as it is written, if its key does not take it.
fn wrong_number(value: &DeValue, key: &str, takes: &Numbers) -> Option<WrongValue> {
    let (written, number, is_whole) = match value {
        DeValue::Integer(integer) => {
            let number = i128::from_str_radix(integer.as_str(), integer.radix());
            // What 128 bits cannot hold is outside of all bounds.
            (integer.to_string(), number.map_or(f64::INFINITY, |number| number as f64), true)
        }
        DeValue::Float(float) => (float.to_string(), float.as_str().parse().unwrap_or(f64::NAN), false),
        DeValue::Table(figure) => return wrong_number(figure.get("value")?.get_ref(), key, takes),
        DeValue::Array(values) => {
            let mut values = values.iter().enumerate();
            return values
                .find_map(|(at, value)| wrong_number(value.get_ref(), &format!("{key}[{at}]"), takes));
        }
        DeValue::String(word) if takes.or.is_empty() => return Some(takes.refuse(key, format!("{word:?}"))),
        DeValue::Boolean(_) if takes.or.is_empty() => return Some(takes.refuse(key, "yes or no")),
        _ => return None,
    };
    let is_right = takes.bounds.contain(number) && (is_whole || !takes.whole);
    (!is_right).then(|| takes.refuse(key, shown(&written)))
}

/// The parser's error with the file's name and the line that it is about.
pub(super) fn in_own_words(place: &str, text: &str, error: &toml::de::Error) -> String {
    let says = reworded(error.message());
    let line =
        error.span().and_then(|span| text.get(..span.start)).map(|before| before.matches('\n').count());
    let Some(at) = line else { return format!("{place}: {says}") };
    let quoted = text.lines().nth(at).map_or("", str::trim);
    // A key that is missing is so from a table, whose first line is not wrong.
    match (error.message().starts_with("missing field"), at) {
        (true, 0) => format!("{place}: {says}"),
        (true, at) => {
            format!("{place}: {says} in the table that begins in line {}: {}", at + 1, shown(quoted))
        }
        (false, at) => format!("{place}: line {}: {says}: {}", at + 1, shown(quoted)),
    }
}

/// What serde says, for somebody who knows TOML but not Rust.
fn reworded(message: &str) -> String {
    let pieces: Vec<&str> = message.split('`').collect();
    let listed = || list(pieces.iter().skip(3).step_by(2).copied());
    match pieces[..] {
        ["missing field ", key, ..] => format!("the key {key} is missing"),
        ["duplicate key", ..] => "a key is there twice".into(),
        ["unknown field ", key, ..] => {
            let known: Vec<&str> = pieces.iter().skip(3).step_by(2).copied().collect();
            format!("{key}: no such key{}; there are {}", meant(key, known), listed())
        }
        ["unknown variant ", value, ..] => {
            let known: Vec<&str> = pieces.iter().skip(3).step_by(2).copied().collect();
            format!("{value} is not one of {}{}", listed(), meant(value, known))
        }
        _ => message
            .replace("invalid type: ", "")
            .replace("invalid value: ", "")
            .replace(", expected a string", " is not a string; put it in quotes")
            .replace("expected a sequence", "expected a list in brackets")
            .replace("expected a boolean", "expected true or false")
            .replace("expected a map", "expected a table")
            .replace("expected usize", "expected a whole number")
            .replace("expected u32", "expected a whole number")
            .replace("expected f64", "expected a number")
            .replace('`', ""),
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;

    const TEXT: &str = "name = 'tiny'\ndescription = 'd'\nevidence = 'e'\nmachine = 'intel-2s-224'\nvariants = ['6.18']\n\
         seeds = 3\nmetrics = ['score']\n[workload]\nkind = 'host'\nmilliseconds = 4\n[[workload.programs]]\n\
         name = 'tasks'\n[workload.programs.program]\nkind = 'page-faults'\ntasks = 2\nmib = 4\n";

    fn said(from: &str, to: &str) -> String {
        let text = TEXT.replace(from, to);
        assert_ne!(text, TEXT, "{from}");
        Scenario::parse("a.toml", &text).unwrap_err().to_string()
    }

    #[test]
    fn all_mistakes_are_told_with_their_lines() {
        let several = said("tasks = 2\nmib = 4", "taskz = 2\nmib = 0").replace("seeds", "");
        let lines: Vec<&str> = several.lines().collect();
        assert_eq!(lines.len(), 2, "{several}");
        assert!(lines.iter().any(|line| {
            line.starts_with(
                "a.toml: line 15: workload.programs[0].program.taskz: no such key (do you mean tasks?)",
            )
        }));
        assert!(lines.iter().any(|line| {
            line.starts_with(
                "a.toml: line 16: workload.programs[0].program.mib = 0: it takes a whole number from 1",
            )
        }));
        let of_values =
            said("'6.18']\nseeds = 3\nmetrics = ['score']", "'6.18x']\nseeds = 0\nmetrics = ['scores']");
        for says in ["a.toml: variants = 6.18x", "line 6: seeds = 0", "line 7: metrics = scores"] {
            assert!(of_values.contains(says), "{says}: {of_values}");
        }
    }

    #[test]
    fn errors_are_about_the_line_that_is_wrong_and_in_words_of_the_file() {
        for (from, to, says) in [
            (
                "[workload]",
                "[worklod]",
                "a.toml: line 8: worklod: no such key (do you mean workload?); there are name",
            ),
            (
                "kind = 'page-faults'\n",
                "",
                "a.toml: line 13: workload.programs[0].program: it lacks the key kind, which takes one of",
            ),
            ("host", "hst", "a.toml: line 9: workload.kind = hst: it takes `host`, or is left out"),
            (
                "page-faults",
                "page-fults",
                "a.toml: line 14: workload.programs[0].program.kind = page-fults: it takes one of",
            ),
            ("seeds = 3\n", "", "a.toml: the key seeds is missing"),
            ("mib = 4\n", "", "a.toml: the key mib is missing in the table that begins in line 13"),
            ("seeds = 3", "seeds = 'x'", "a.toml: line 6: seeds = \"x\": it takes a whole number from 1"),
            (
                "name = 'tiny'",
                "name = 3",
                "a.toml: line 1: integer 3 is not a string; put it in quotes: name = 3",
            ),
            ("name = 'tiny'", "name = 'tiny", "a.toml: line 1: "),
            ("['6.18']", "'6.18'", "expected a list in brackets"),
            ("seeds = 3", "seeds = 3\nseeds = 4", "a.toml: line 7: a key is there twice"),
        ] {
            let error = said(from, to);
            assert!(error.contains(says), "{to}: {error}");
            for word in ["usize", "TOML parse error", "invalid type", "unknown field", "variant `"] {
                assert!(!error.contains(word), "{to}: {error}");
            }
        }
    }

    #[test]
    fn settings_may_be_numbers() {
        let text = TEXT.replace("[workload]", "[settings]\n'vm.swappiness' = 60\n[workload]");
        assert_eq!(Scenario::parse("a.toml", &text).unwrap().settings["vm.swappiness"], "60");
        let error = said("[workload]", "[settings]\n'vm.swapiness' = 60\n[workload]");
        assert!(error.starts_with("a.toml: settings = vm.swapiness: no such setting"), "{error}");
    }

    #[test]
    fn a_variant_of_another_series_is_told_apart_from_none() {
        let error = said("'6.18']", "'numa-6.12']");
        assert!(error.contains("numa-6.12 is a variant of series numa"), "{error}");
    }
}
