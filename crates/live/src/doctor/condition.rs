//! Conditions of rules: comparisons of an observation with a number, with a part of another observation, or with a word.
//!
//! ```text
//!   pcp.at_high_max_share >= 50 %
//!   swap.in > 0.5 * swap.out
//!   folios.enabled is always
//! ```
//!
//! A number has the unit of the observation, and what is compared has one unit: a rule that compares pages with CPUs does not load.

use std::fmt::{self, Display, Formatter};

use super::observations::{Observation, Unit, Value};

/// A comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The name of the observation.
    pub of: &'static str,
    pub test: Test,
    /// As it is written in the rule.
    pub text: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    Number(Comparison, Operand),
    Is(String),
    IsNot(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Less,
    AtMost,
    More,
    AtLeast,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    Number(f64),
    Part { factor: f64, of: &'static str },
}

/// Whether a condition holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Holds {
    Yes,
    No,
    /// The observation that it needs was not made.
    NotSeen(&'static str),
}

impl Comparison {
    fn parse(word: &str) -> Option<Comparison> {
        match word {
            "<" => Some(Comparison::Less),
            "<=" => Some(Comparison::AtMost),
            ">" => Some(Comparison::More),
            ">=" => Some(Comparison::AtLeast),
            _ => None,
        }
    }

    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Comparison::Less => left < right,
            Comparison::AtMost => left <= right,
            Comparison::More => left > right,
            Comparison::AtLeast => left >= right,
        }
    }
}

impl Display for Condition {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl Condition {
    /// Parses a condition and checks its names and units.
    pub fn parse(text: &str) -> Result<Condition, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (name, operator, rest) = match &words[..] {
            [name, operator, rest @ ..] if !rest.is_empty() => (*name, *operator, rest),
            _ => {
                return Err(format!(
                    "{text:?}: expected NAME OPERATOR VALUE, such as `swap.in > 10 pages/s`"
                ));
            }
        };
        let observation = known(name)?;
        let test = match (operator, rest) {
            ("is", ["not", word]) => Test::IsNot(word.to_string()),
            ("is", [word]) => Test::Is(word.to_string()),
            _ => {
                let comparison = Comparison::parse(operator)
                    .ok_or_else(|| format!("{text:?}: `{operator}` is none of <, <=, >, >=, is, is not"))?;
                Test::Number(comparison, Operand::parse(rest, observation.unit)?)
            }
        };
        if (observation.unit == Unit::Word) == matches!(test, Test::Number(..)) {
            let other = if observation.unit == Unit::Word { "a word; write `is`" } else { "a number" };
            return Err(format!("{text:?}: {name} is {other}"));
        }
        Ok(Condition { of: observation.name, test, text: text.into() })
    }

    /// Whether it holds, given what was seen.
    pub fn holds(&self, seen: &dyn Fn(&str) -> Option<Value>) -> Holds {
        let Some(value) = seen(self.of) else { return Holds::NotSeen(self.of) };
        let is_so = match (&self.test, value) {
            (Test::Is(word), Value::Word(seen)) => seen == *word,
            (Test::IsNot(word), Value::Word(seen)) => seen != *word,
            (Test::Number(comparison, operand), Value::Number(left)) => match operand {
                Operand::Number(right) => comparison.holds(left, *right),
                Operand::Part { factor, of } => match seen(of) {
                    Some(Value::Number(right)) => comparison.holds(left, factor * right),
                    _ => return Holds::NotSeen(of),
                },
            },
            // Checked when it was parsed: an observation is either a number or a word.
            _ => false,
        };
        if is_so { Holds::Yes } else { Holds::No }
    }
}

/// The observation of this name.
pub fn known(name: &str) -> Result<&'static Observation, String> {
    Observation::find(name).ok_or_else(|| {
        let names = super::OBSERVATIONS.iter().map(|observation| observation.name);
        format!("`{name}` is no observation; most like it: {}", mm::sysctl::most_like(name, names))
    })
}

impl Operand {
    fn parse(words: &[&str], unit: Unit) -> Result<Operand, String> {
        let text = words.join(" ");
        let number = |word: &str| {
            let number = word.parse::<f64>().ok().filter(|number| number.is_finite());
            number.ok_or_else(|| format!("{text:?}: expected a number, found `{word}`"))
        };
        let part = |factor: f64, name: &str| {
            let of = known(name)?;
            match of.unit == unit {
                true => Ok(Operand::Part { factor, of: of.name }),
                false => Err(format!("{text:?}: {name} is in {:?}, not in {unit:?}", of.unit)),
            }
        };
        match words {
            [factor, "*", name] => part(number(factor)?, name),
            [name] if name.parse::<f64>().is_err() => part(1.0, name),
            [value] if unit.name().is_empty() => number(value).map(Operand::Number),
            [value, of] if *of == unit.name() => number(value).map(Operand::Number),
            _ => {
                Err(format!("{text:?}: expected a number and `{}`, or a part of an observation", unit.name()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str, seen: &[(&str, f64)]) -> Holds {
        let value =
            |name: &str| seen.iter().find(|(of, _)| *of == name).map(|(_, value)| Value::Number(*value));
        Condition::parse(text).unwrap().holds(&value)
    }

    #[test]
    fn conditions_compare() {
        assert_eq!(holds("swap.in > 10 pages/s", &[("swap.in", 10.0)]), Holds::No);
        assert_eq!(holds("swap.in >= 10 pages/s", &[("swap.in", 10.0)]), Holds::Yes);
        let both = [("swap.in", 6.0), ("swap.out", 10.0)];
        assert_eq!(holds("swap.in > 0.5 * swap.out", &both), Holds::Yes);
        assert_eq!(holds("swap.in > swap.out", &both), Holds::No);
        assert_eq!(holds("swap.in > swap.out", &both[..1]), Holds::NotSeen("swap.out"));
        assert_eq!(holds("swap.page_cluster > 0", &[]), Holds::NotSeen("swap.page_cluster"));
        let always = |_: &str| Some(Value::Word("always".into()));
        assert_eq!(Condition::parse("folios.enabled is always").unwrap().holds(&always), Holds::Yes);
        assert_eq!(Condition::parse("folios.enabled is not always").unwrap().holds(&always), Holds::No);
    }

    #[test]
    fn what_is_wrong_is_told() {
        let error = |text: &str| Condition::parse(text).unwrap_err();
        assert!(error("swap.inn > 10 pages/s").contains("most like it: swap.in"));
        assert!(error("swap.in > 10 CPUs").contains("`pages/s`"));
        assert!(error("swap.in > 10").contains("`pages/s`"));
        assert!(error("swap.in > ten pages/s").contains("`ten`"));
        assert!(error("swap.in > NaN pages/s").contains("`NaN`"));
        assert!(error("swap.in = 10 pages/s").contains("none of"));
        assert!(error("swap.in is always").contains("a number"));
        assert!(error("folios.enabled > 1").contains("a word"));
        assert!(error("swap.in > 0.5 * machine.cpus").contains("Cpus"));
        assert!(error("swap.in >").contains("expected NAME"));
    }
}
