//! Findings that are accepted for now: `exceptions.toml`, which only gets shorter.
//!
//! ```toml
//! [function-length]
//! "crates/mm/src/allocator/zone.rs: Zone::refill" = 75
//! ```
//!
//! Each line has a rule, a file, an item, and an amount: lines, parameters, files, or number of findings. A
//! finding that is not listed, or exceeds its amount, fails; so does a line with a higher amount than needed.
//! `MMTWIN_SHRINK_EXCEPTIONS=1` removes or lowers such lines, and adapts those whose item has moved to
//! another file; it never adds any.

use crate::finding::{Finding, Rule};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The amounts by rule, then by file and item.
type Amounts = BTreeMap<String, BTreeMap<String, usize>>;

#[derive(Debug, PartialEq)]
pub struct Exceptions(Amounts);

impl Exceptions {
    pub fn parse(text: &str, rules: &[Rule]) -> Result<Exceptions, String> {
        let table: toml::Table = text.parse().map_err(|error| format!("exceptions.toml: {error}"))?;
        let mut amounts = Amounts::new();
        for (rule, listed) in table {
            if !rules.iter().any(|known| known.name == rule) {
                return Err(format!("exceptions.toml: there is no rule {rule}"));
            }
            let listed = listed.as_table().ok_or(format!("exceptions.toml: {rule} is not a table"))?;
            for (key, amount) in listed {
                let amount = amount.as_integer().and_then(|amount| usize::try_from(amount).ok());
                let amount = amount.ok_or(format!("exceptions.toml: {rule}, {key}: not a whole number"))?;
                amounts.entry(rule.clone()).or_default().insert(key.clone(), amount);
            }
        }
        Ok(Exceptions(amounts))
    }

    /// Messages about findings that are not excepted, and about exceptions that are not needed.
    pub fn complaints(&self, rule: &Rule, findings: &[Finding]) -> Vec<String> {
        let nothing = BTreeMap::new();
        let listed = self.0.get(rule.name).unwrap_or(&nothing);
        let found = amounts(findings);
        let mut complaints = Vec::new();
        for finding in findings {
            let (key, allowed) = (finding.key(), listed.get(&finding.key()).copied().unwrap_or(0));
            if found[&key] > allowed {
                let but =
                    if allowed > 0 { format!("\n    the exception allows {allowed}") } else { String::new() };
                let Finding { file, line, message, .. } = finding;
                complaints.push(format!("{file}:{line}: {}: {message}{but}\n    {}", rule.name, rule.remedy));
            }
        }
        for (key, allowed) in listed {
            let place = format!("crates/tidy/exceptions.toml: [{}] \"{key}\" = {allowed}", rule.name);
            match found.get(key).copied().unwrap_or(0) {
                0 => complaints.push(format!("{place}\n    is no longer needed: remove the line")),
                left if left < *allowed => {
                    complaints.push(format!("{place}\n    only needs {left} now: lower it"))
                }
                _ => {}
            }
        }
        complaints
    }

    /// Removes or lowers unneeded exceptions of `rule`, and follows items to other files.
    pub fn shrink(&mut self, rule: &Rule, findings: &[Finding]) {
        let found = amounts(findings);
        let Some(listed) = self.0.get_mut(rule.name) else { return };
        let (mut kept, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(listed).into_iter().partition(|(key, _)| found.contains_key(key));
        for (key, allowed) in gone {
            let moved = found.keys().find(|new| !kept.contains_key(*new) && item_of(new) == item_of(&key));
            kept.extend(moved.map(|new| (new.clone(), allowed)));
        }
        for (key, allowed) in &mut kept {
            *allowed = found[key].min(*allowed);
        }
        *listed = kept;
    }

    /// The contents of the file, after `preface`.
    pub fn to_toml(&self, preface: &str) -> String {
        let mut text = preface.to_string();
        for (rule, listed) in self.0.iter().filter(|(_, listed)| !listed.is_empty()) {
            let _ = write!(text, "\n[{rule}]\n");
            for (key, amount) in listed {
                let _ = writeln!(text, "{key:?} = {amount}");
            }
        }
        text
    }
}

/// The item in a key.
fn item_of(key: &str) -> Option<&str> {
    key.split_once(": ").map(|(_, item)| item)
}

/// The amount of each file and item.
fn amounts(findings: &[Finding]) -> BTreeMap<String, usize> {
    let mut amounts = BTreeMap::new();
    for finding in findings {
        *amounts.entry(finding.key()).or_insert(0) += finding.amount;
    }
    amounts
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule { name: "length", remedy: "Split it.", check: |_| Vec::new() };

    fn finding(item: &str, amount: usize) -> Finding {
        let message = format!("{amount} lines");
        Finding { file: "zone.rs".to_string(), line: 3, item: item.to_string(), amount, message }
    }

    fn exceptions(text: &str) -> Exceptions {
        Exceptions::parse(text, &[RULE]).unwrap()
    }

    #[test]
    fn what_is_not_listed_or_is_more_fails() {
        let listed = exceptions("[length]\n\"zone.rs: a\" = 75\n\"zone.rs: twice\" = 2");
        let found = |findings: &[Finding]| listed.complaints(&RULE, findings);
        let twice = [finding("twice", 1), finding("twice", 1)];
        assert_eq!(found(&[&[finding("a", 75)], &twice[..]].concat()), [""; 0]);
        assert_eq!(
            found(&[&[finding("a", 76), finding("b", 61)], &twice[..]].concat()),
            [
                "zone.rs:3: length: 76 lines\n    the exception allows 75\n    Split it.",
                "zone.rs:3: length: 61 lines\n    Split it."
            ]
        );
        assert_eq!(found(&[&[finding("a", 75), finding("twice", 1)], &twice[..]].concat()).len(), 3);
    }

    #[test]
    fn a_line_that_is_not_needed_fails_and_can_be_taken_out() {
        let mut listed = exceptions("[length]\n\"zone.rs: a\" = 75\n\"zone.rs: gone\" = 80");
        let findings = [finding("a", 70), finding("new", 90)];
        assert_eq!(
            listed.complaints(&RULE, &findings),
            [
                "zone.rs:3: length: 90 lines\n    Split it.",
                "crates/tidy/exceptions.toml: [length] \"zone.rs: a\" = 75\n    only needs 70 now: lower it",
                "crates/tidy/exceptions.toml: [length] \"zone.rs: gone\" = 80\n    is no longer needed: remove the line",
            ]
        );
        listed.shrink(&RULE, &findings);
        assert_eq!(listed.to_toml("# Why.\n"), "# Why.\n\n[length]\n\"zone.rs: a\" = 70\n");
        assert_eq!(exceptions(&listed.to_toml("")), listed);
    }

    #[test]
    fn a_line_follows_its_item_to_another_file() {
        let mut listed = exceptions("[length]\n\"zone.rs: a\" = 75\n\"old.rs: b\" = 80\n\"old.rs: c\" = 80");
        listed.shrink(&RULE, &[finding("a", 75), finding("b", 90), finding("d", 70)]);
        assert_eq!(listed, exceptions("[length]\n\"zone.rs: a\" = 75\n\"zone.rs: b\" = 80"));
    }

    #[test]
    fn a_list_that_means_nothing_is_refused() {
        for text in ["[lenght]", "length = 3", "[length]\na = \"many\"", "["] {
            assert!(Exceptions::parse(text, &[RULE]).unwrap_err().starts_with("exceptions.toml: "), "{text}");
        }
    }
}
