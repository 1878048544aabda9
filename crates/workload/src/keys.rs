//! Keys of a scenario's tables, each with the numbers that it takes beside it.
//!
//! ```text
//!   keys! { pub struct PageFaultLoop {             a struct that serde reads from a table of the scenario
//!       /// Tasks, on as many CPUs.
//!       pub tasks: usize => CPUS, ... } }          1 to 8192 (CPUs of the largest machine)
//!                              │
//!                              ├─► check(): the first number out of bounds, by its key
//!                              ├─► TAKES: what a text is refused with that no integer of the type can hold
//!                              └─► docs/src/reference/bounds.md
//! ```
//!
//! A number without bounds does not compile. Bounds say what a machine or a program could have, or what the twin can count;
//! both say why. How keys go together (a window within its object) is for each table's own `check`.

use machine::WrongValue;
use machine::profile::Figure;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// The least and the most that a key takes, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The least.
    pub least: f64,
    /// The most; all whole numbers up to it are exact.
    pub most: f64,
    /// Whose limits these are.
    pub why: &'static str,
}

impl Bounds {
    /// From `least` to `most`.
    pub const fn new(least: f64, most: f64, why: &'static str) -> Bounds {
        Bounds { least, most, why }
    }

    /// Whether it is a number within them; NaN is not.
    pub fn contain(&self, value: f64) -> bool {
        (self.least..=self.most).contains(&value)
    }

    /// The same from 0 on.
    pub const fn or_none(self) -> Bounds {
        Bounds { least: 0.0, ..self }
    }
}

/// Whether a number is left out of a file, as it means the same.
pub fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Of threads, tasks and pairs that have a CPU each, and of nodes' CPUs.
pub const CPUS: Bounds = Bounds::new(1.0, 8192.0, "CPUs of the largest machine");
/// Of a node's number.
pub const NODES: Bounds = Bounds::new(0.0, 63.0, "nodes that a set can name");
/// Of threads that share CPUs.
pub const THREADS: Bounds = Bounds::new(1.0, 100_000.0, "a dozen for each CPU of the largest machine");
/// Of processes.
pub const PROCESSES: Bounds = Bounds::new(1.0, 100_000.0, "a dozen for each CPU of the largest machine");
/// Of memory and files in MiB.
pub const MIB: Bounds =
    Bounds::new(1.0, 16_777_215.0, "less than 16 TiB, whose pages have numbers of 32 bits");
/// Of virtual time in ms.
pub const MILLISECONDS: Bounds = Bounds::new(1.0, 864e6, "ten days of virtual time");
/// Of virtual time in us.
pub const MICROSECONDS: Bounds = Bounds::new(1.0, 864e9, "ten days of virtual time");
/// Of what a program computes for one request, in ns.
pub const NANOSECONDS: Bounds = Bounds::new(0.0, 1e9, "a second");
/// The same of programs that do nothing else which takes time: touching memory that is there takes none of its own, and a run would
/// never end.
pub const SOME_NANOSECONDS: Bounds =
    Bounds::new(1.0, 1e9, "a second; 0 would never end, as touching memory takes no other time");
/// Of what can be a part of something.
pub const SHARE: Bounds = Bounds::new(0.0, 1.0, "a part of all");
/// Of how often something is done again.
pub const TIMES: Bounds = Bounds::new(1.0, 1e9, "more than ten days have room for");
/// Of jobs of a build.
pub const UNITS: Bounds = Bounds::new(1.0, 1e7, "some thirty builds of everything that Linux has");
/// Of how much faster a program is than when it was recorded.
pub const INTENSITY: Bounds = Bounds::new(1e-3, 1e3, "a thousand times slower or faster");

/// What numbers a key takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Numbers {
    /// Between which.
    pub bounds: Bounds,
    /// Only whole ones.
    pub whole: bool,
    /// What it takes besides.
    pub or: &'static str,
}

impl Numbers {
    /// The error for a value that is none of them, as it was written.
    pub fn refuse(&self, key: &str, value: impl ToString) -> WrongValue {
        WrongValue::new(key, value, self.to_string())
    }
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Bounds { least, most, why } = self.bounds;
        let kind = if self.whole { "a whole number" } else { "a number" };
        write!(f, "{kind} from {least} to {most}{} ({why})", self.or)
    }
}

/// What a key takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Takes {
    /// Words, paths, yes or no: serde knows.
    NoNumber,
    /// A number, a figure, or a list of them.
    Number(Numbers),
    /// A table or a list of tables.
    Table(&'static [Key]),
    /// A table, or a list of them, whose key `kind` says what the others are.
    Kinds(&'static [(&'static str, Takes)]),
}

/// A key of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub takes: Takes,
}

/// The key `key`, such as `cgroup_max_mib[0]`, below `table`.
pub fn below(table: &str, key: &str) -> String {
    if table.is_empty() { key.into() } else { format!("{table}.{key}") }
}

/// What a key holds that needs no bounds of its own.
pub trait Value {
    /// What it takes.
    const TAKES: Takes;

    /// Refuses the first number in it that is out of bounds; `key` is its own name.
    fn check_bounds(&self, key: &str) -> Result<(), WrongValue>;
}

/// What a key holds that needs bounds.
pub trait Number {
    /// It has no fractions.
    const WHOLE: bool;
    /// What it can be besides a number.
    const OR: &'static str = "";

    /// Refuses it if it is out of bounds.
    fn check_within(&self, key: &str, bounds: Bounds) -> Result<(), WrongValue>;
}

macro_rules! number {
    ($($type:ty, $whole:literal);*) => {
        $(impl Number for $type {
            const WHOLE: bool = $whole;

            fn check_within(&self, key: &str, bounds: Bounds) -> Result<(), WrongValue> {
                match bounds.contain(*self as f64) {
                    true => Ok(()),
                    false => Err(Numbers { bounds, whole: $whole, or: "" }.refuse(key, self)),
                }
            }
        })*
    };
}

number! { u8, true; u16, true; u32, true; u64, true; usize, true; i32, true; f64, false }

impl Number for Figure {
    const WHOLE: bool = false;

    fn check_within(&self, key: &str, bounds: Bounds) -> Result<(), WrongValue> {
        self.value.check_within(key, bounds)?;
        match self.range {
            Some([low, high]) if !(low <= high && bounds.contain(low) && bounds.contain(high)) => {
                let value = format!("{}, range {low} to {high}", self.value);
                let expected = format!("a range from low to high within {} to {}", bounds.least, bounds.most);
                Err(WrongValue::new(key, value, expected))
            }
            _ => Ok(()),
        }
    }
}

impl<T: Number> Number for Option<T> {
    const WHOLE: bool = T::WHOLE;

    fn check_within(&self, key: &str, bounds: Bounds) -> Result<(), WrongValue> {
        self.iter().try_for_each(|value| value.check_within(key, bounds))
    }
}

impl<T: Number> Number for Vec<T> {
    const WHOLE: bool = T::WHOLE;

    fn check_within(&self, key: &str, bounds: Bounds) -> Result<(), WrongValue> {
        check_length(key, self.len())?;
        self.iter()
            .enumerate()
            .try_for_each(|(at, value)| value.check_within(&format!("{key}[{at}]"), bounds))
    }
}

impl<T: Value> Value for Option<T> {
    const TAKES: Takes = T::TAKES;

    fn check_bounds(&self, key: &str) -> Result<(), WrongValue> {
        self.iter().try_for_each(|value| value.check_bounds(key))
    }
}

impl<T: Value> Value for Vec<T> {
    const TAKES: Takes = T::TAKES;

    fn check_bounds(&self, key: &str) -> Result<(), WrongValue> {
        check_length(key, self.len())?;
        self.iter().enumerate().try_for_each(|(at, value)| value.check_bounds(&format!("{key}[{at}]")))
    }
}

impl<T: Value> Value for Box<T> {
    const TAKES: Takes = T::TAKES;

    fn check_bounds(&self, key: &str) -> Result<(), WrongValue> {
        T::check_bounds(self, key)
    }
}

/// More entries of a list than this nobody writes.
const MOST_ENTRIES: usize = 1000;

fn check_length(key: &str, length: usize) -> Result<(), WrongValue> {
    match length <= MOST_ENTRIES {
        true => Ok(()),
        false => Err(WrongValue::new(key, format!("{length} entries"), format!("at most {MOST_ENTRIES}"))),
    }
}

/// Types of keys that hold no numbers.
#[macro_export]
macro_rules! no_numbers {
    ($($type:ty),* $(,)?) => {
        $(impl $crate::keys::Value for $type {
            const TAKES: $crate::keys::Takes = $crate::keys::Takes::NoNumber;

            fn check_bounds(&self, _key: &str) -> Result<(), ::machine::WrongValue> {
                Ok(())
            }
        })*
    };
}

no_numbers!(bool, String, PathBuf, BTreeMap<String, String>);

/// A struct that serde reads from a table of a scenario. A key with numbers has its [`Bounds`] behind `=>`.
#[macro_export]
macro_rules! keys {
    (
        $(#[$struct_attribute:meta])*
        pub struct $name:ident {
            $($(#[$attribute:meta])* pub $key:ident: $type:ty $(=> $bounds:expr)?,)*
        }
    ) => {
        $(#[$struct_attribute])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$attribute])* pub $key: $type,)*
        }

        impl $crate::keys::Value for $name {
            const TAKES: $crate::keys::Takes = $crate::keys::Takes::Table(&[$($crate::keys::Key {
                name: stringify!($key),
                takes: $crate::key_takes!($type $(, $bounds)?),
            }),*]);

            fn check_bounds(&self, key: &str) -> Result<(), ::machine::WrongValue> {
                let below = |name| $crate::keys::below(key, name);
                $($crate::key_check!(&self.$key, &below(stringify!($key)) $(, $bounds)?)?;)*
                Ok(())
            }
        }
    };
}

/// What a key of [`keys!`] takes.
#[doc(hidden)]
#[macro_export]
macro_rules! key_takes {
    ($type:ty) => {
        <$type as $crate::keys::Value>::TAKES
    };
    ($type:ty, $bounds:expr) => {
        $crate::keys::Takes::Number($crate::keys::Numbers {
            bounds: $bounds,
            whole: <$type as $crate::keys::Number>::WHOLE,
            or: <$type as $crate::keys::Number>::OR,
        })
    };
}

/// The check of a key of [`keys!`].
#[doc(hidden)]
#[macro_export]
macro_rules! key_check {
    ($value:expr, $key:expr) => {
        $crate::keys::Value::check_bounds($value, $key)
    };
    ($value:expr, $key:expr, $bounds:expr) => {
        $crate::keys::Number::check_within($value, $key, $bounds)
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    keys! {
        /// Made up.
        pub struct Inner {
            /// Any.
            pub share: Figure => SHARE,
        }
    }

    keys! {
        /// Made up.
        pub struct Outer {
            /// Any.
            pub number: Option<u64> => MIB,
            /// Any.
            pub list: Vec<u8> => Bounds::new(0.0, 10.0, "orders"),
            /// Any.
            pub inner: Vec<Inner>,
            /// Any.
            pub path: PathBuf,
        }
    }

    fn share(value: f64, range: Option<[f64; 2]>) -> Inner {
        Inner { share: Figure { value, range, source: "made up".into() } }
    }

    fn refused(number: Option<u64>, list: &[u8], inner: Inner) -> Option<String> {
        let outer =
            Outer { number, list: list.into(), inner: vec![share(0.5, None), inner], path: "".into() };
        outer
            .check_bounds("outer")
            .err()
            .map(|error| format!("{} = {}: {}", error.key, error.value, error.expected))
    }

    #[test]
    fn the_first_number_out_of_bounds_is_named_with_its_limits() {
        let fine = || share(1.0, Some([0.0, 1.0]));
        assert_eq!(refused(None, &[10], fine()), None);
        assert_eq!(
            refused(Some(1 << 56), &[], fine()).unwrap(),
            "outer.number = 72057594037927936: a whole number from 1 to 16777215 (less than 16 TiB, whose pages have numbers of 32 bits)"
        );
        assert_eq!(
            refused(None, &[3, 11], fine()).unwrap(),
            "outer.list[1] = 11: a whole number from 0 to 10 (orders)"
        );
        assert!(
            refused(None, &[], share(f64::NAN, None))
                .unwrap()
                .starts_with("outer.inner[1].share = NaN: a number from 0 to 1")
        );
        for range in [[0.9, 0.6], [0.5, f64::NAN], [f64::NEG_INFINITY, 0.6], [0.5, 1.1]] {
            assert!(refused(None, &[], share(0.5, Some(range))).is_some(), "{range:?}");
        }
        assert_eq!(refused(None, &[0; 1001], fine()).unwrap(), "outer.list = 1001 entries: at most 1000");
    }

    #[test]
    fn what_a_key_takes_is_known_without_a_value() {
        let Takes::Table(keys) = Outer::TAKES else { panic!("a table") };
        assert_eq!(keys.iter().map(|key| key.name).collect::<Vec<_>>(), ["number", "list", "inner", "path"]);
        assert!(matches!(keys[0].takes, Takes::Number(Numbers { whole: true, .. })));
        assert!(matches!(keys[2].takes, Takes::Table([Key { name: "share", .. }])));
        assert_eq!(keys[3].takes, Takes::NoNumber);
    }
}
