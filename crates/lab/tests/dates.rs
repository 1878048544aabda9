//! Compares crates/mm/src/dates.toml with the feature structs and with the features of each release's
//! variant.

use lab::dates::{Rule, rules};
use mm::Variant;
use mm::features::by_name::Feature;
use mm::series::RELEASES;
use std::collections::BTreeSet;

/// Struct and field of every feature.
fn declared() -> BTreeSet<(String, String)> {
    Feature::all()
        .iter()
        .map(|feature| (feature.structure.to_string(), feature.field().to_string()))
        .collect()
}

#[test]
fn every_rule_has_a_date_and_every_date_a_rule() {
    let dated: BTreeSet<(String, String)> =
        rules().into_iter().map(|rule| (rule.structure, rule.field)).collect();
    let declared = declared();
    assert!(declared.len() > 80, "{declared:?}");
    let apart: Vec<_> = declared.symmetric_difference(&dated).collect();
    assert!(apart.is_empty(), "only in one of the two: {apart:?}");
}

/// Whether the variant of a release has a rule.
fn has(rule: &Rule, release: &str) -> bool {
    let features = format!("{:?}", Variant::of_release(release).unwrap().features);
    // The text of the struct, and in it that of the field.
    let Some(at) = features.find(&format!("{} {{", rule.structure)) else { return false };
    let text = &features[at..];
    let field = format!(" {}: ", rule.field);
    let text = &text[text.find(&field).unwrap() + field.len()..];
    let ends = |character: char| matches!(character, ',' | '}');
    let value = match &rule.value {
        Some(value) => {
            let words = text
                .split(ends)
                .next()
                .unwrap()
                .split(|character: char| !(character.is_alphanumeric() || character == '_'));
            return words.into_iter().any(|word| word == value);
        }
        None => text.split(ends).next().unwrap().trim(),
    };
    !matches!(value, "false" | "None" | "15")
}

#[test]
fn variants_have_rules_from_the_release_on_that_the_date_says() {
    let mut wrong = Vec::new();
    for rule in rules() {
        let with: Vec<&str> =
            RELEASES.iter().map(|&(release, _)| release).filter(|release| has(&rule, release)).collect();
        let known = |release: &str| RELEASES.iter().any(|&(known, _)| known == release);
        let first = rule.variant.as_deref().or(rule.since.as_deref());
        let expected_first = match first {
            _ if rule.posted => None,
            Some(first) => Some(first).filter(|first| known(first)),
            None => Some(RELEASES[0].0),
        };
        if with.first().copied() != expected_first {
            wrong.push(format!("{}: {} from {:?} on, {first:?}", rule.structure, rule.name(), with.first()));
        }
        if let Some(until) = rule.until.as_deref()
            && with.last() != Some(&until)
        {
            wrong.push(format!("{}: {} until {:?}, {until}", rule.structure, rule.name(), with.last()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
