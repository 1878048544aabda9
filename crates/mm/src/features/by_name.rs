//! Features by name: every switch of every mechanism, set alone or in combination.
//!
//! ```text
//!   features! { pub struct NumaFeatures { ... } }    a struct of switches, each with its meaning as a doc comment
//!                     │
//!                     ├─► Features::set("numa.large_folios", "off")    variants such as 6.18:numa.large_folios=off
//!                     ├─► Features::get
//!                     └─► Feature::all()                               mmtwin list features
//! ```
//!
//! A feature is `MECHANISM.FIELD`. Its words are `on` and `off`, the values of an enum in lower case, or a number; an optional
//! one takes `off` as well. When each came, and how that is known, is in `dates.toml`. A combination that no kernel could have,
//! because one of its features has nothing to work on, is refused with the reason (`NEEDS`).

use super::{Features, FreeMemory};
use crate::lru::vmscan::features::Lru;
use crate::sysctl::most_like;
use thiserror::Error;

/// A value that a feature can have.
pub trait FeatureValue: Copy {
    /// The words that stand for values, or what they look like.
    fn words() -> Vec<String>;

    /// The word of this value.
    fn word(self) -> String;

    /// The value of a word.
    fn of_word(word: &str) -> Option<Self>;

    /// What each word means, as many as there are words; none of values that say it themselves.
    fn meanings() -> Vec<&'static str> {
        Vec::new()
    }
}

impl FeatureValue for bool {
    fn words() -> Vec<String> {
        vec!["on".into(), "off".into()]
    }

    fn word(self) -> String {
        if self { "on".into() } else { "off".into() }
    }

    fn of_word(word: &str) -> Option<bool> {
        ["off", "on"].iter().position(|other| *other == word).map(|at| at == 1)
    }
}

macro_rules! numbers {
    ($($type:ty),*) => {
        $(impl FeatureValue for $type {
            fn words() -> Vec<String> {
                vec!["a number".into()]
            }

            fn word(self) -> String {
                self.to_string()
            }

            fn of_word(word: &str) -> Option<$type> {
                word.parse().ok()
            }
        })*
    };
}

numbers! { u8, u32 }

impl<T: FeatureValue> FeatureValue for Option<T> {
    fn words() -> Vec<String> {
        let mut words = T::words();
        words.push("off".into());
        words
    }

    fn word(self) -> String {
        self.map_or("off".into(), T::word)
    }

    fn of_word(word: &str) -> Option<Option<T>> {
        if word == "off" { Some(None) } else { T::of_word(word).map(Some) }
    }

    fn meanings() -> Vec<&'static str> {
        let mut meanings = T::meanings();
        if !meanings.is_empty() {
            meanings.push("");
        }
        meanings
    }
}

/// The words of an enum whose values are named one by one, because its own names do not say enough.
pub(crate) fn words_of<T>(named: &[(&str, T)]) -> Vec<String> {
    named.iter().map(|(word, _)| word.to_string()).collect()
}

/// The word of a value among them.
pub(crate) fn word_of<T: PartialEq>(named: &[(&str, T)], value: T) -> String {
    named.iter().find(|(_, other)| *other == value).map_or("other".into(), |(word, _)| word.to_string())
}

/// The value of a word among them.
pub(crate) fn value_of<T: Copy>(named: &[(&str, T)], word: &str) -> Option<T> {
    named.iter().find(|(other, _)| *other == word).map(|(_, value)| *value)
}

/// `LastLevelOverThreeBatches` as `last_level_over_three_batches`.
pub fn snake_case(name: &str) -> String {
    let mut word = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_uppercase() && at > 0 && !word.ends_with('_') {
            word.push('_');
        }
        word.extend(letter.to_lowercase());
    }
    word
}

/// A switch of a struct of features.
pub(crate) struct Field<S> {
    pub name: &'static str,
    pub description: &'static str,
    pub words: fn() -> Vec<String>,
    pub meanings: fn() -> Vec<&'static str>,
    pub word: fn(&S) -> String,
    /// False if there is no such word.
    pub set: fn(&mut S, &str) -> bool,
}

/// A struct of features.
pub(crate) trait FeatureSet: 'static + Sized {
    const FIELDS: &'static [Field<Self>];
}

/// Declares structs of features, and enums that are values of features, whose words are their names.
macro_rules! features {
    () => {};
    (
        $(#[$attribute:meta])*
        pub struct $name:ident { $($fields:tt)* } with parts { $($parts:tt)* }
        $($rest:tt)*
    ) => {
        $crate::features::by_name::feature_struct! { $(#[$attribute])* $name { $($fields)* } { $($parts)* } }
        $crate::features::by_name::features! { $($rest)* }
    };
    (
        $(#[$attribute:meta])*
        pub struct $name:ident { $($fields:tt)* }
        $($rest:tt)*
    ) => {
        $crate::features::by_name::feature_struct! { $(#[$attribute])* $name { $($fields)* } {} }
        $crate::features::by_name::features! { $($rest)* }
    };
    (
        $(#[$attribute:meta])*
        pub enum $name:ident { $($(#[doc = $meaning:literal])* $value:ident,)* }
        $($rest:tt)*
    ) => {
        $(#[$attribute])*
        pub enum $name { $($(#[doc = $meaning])* $value,)* }

        impl $crate::features::by_name::FeatureValue for $name {
            fn words() -> Vec<String> {
                [$(stringify!($value)),*].map($crate::features::by_name::snake_case).into()
            }

            fn word(self) -> String {
                $crate::features::by_name::snake_case(match self { $($name::$value => stringify!($value)),* })
            }

            fn of_word(word: &str) -> Option<$name> {
                [$($name::$value),*].into_iter().find(|value| value.word() == word)
            }

            fn meanings() -> Vec<&'static str> {
                vec![$(concat!($($meaning),*)),*]
            }
        }

        $crate::features::by_name::features! { $($rest)* }
    };
}

/// A struct of [`features!`]: switches, and structs of switches of their own.
macro_rules! feature_struct {
    (
        $(#[$attribute:meta])*
        $name:ident
        { $($(#[doc = $doc:literal])* pub $field:ident: $type:ty $(=> $range:expr)?,)* }
        { $($(#[doc = $part_doc:literal])* pub $part:ident: $part_type:ty,)* }
    ) => {
        $(#[$attribute])*
        pub struct $name {
            $($(#[doc = $doc])* pub $field: $type,)*
            $($(#[doc = $part_doc])* pub $part: $part_type,)*
        }

        impl $crate::features::by_name::FeatureSet for $name {
            const FIELDS: &'static [$crate::features::by_name::Field<$name>] = &[$(
                $crate::features::by_name::Field {
                    name: stringify!($field),
                    description: concat!($($doc),*),
                    words: $crate::features::by_name::feature_words!($type $(, $range)?),
                    meanings: <$type as $crate::features::by_name::FeatureValue>::meanings,
                    word: |set| $crate::features::by_name::FeatureValue::word(set.$field),
                    set: $crate::features::by_name::feature_set!($field, $type $(, $range)?),
                }
            ),*];
        }
    };
}

/// What words a field of [`features!`] takes.
macro_rules! feature_words {
    ($type:ty) => {
        <$type as $crate::features::by_name::FeatureValue>::words
    };
    ($type:ty, $range:expr) => {
        || vec![format!("{} to {}", $range.start(), $range.end())]
    };
}

/// How a field of [`features!`] takes a word.
macro_rules! feature_set {
    ($field:ident, $type:ty) => {
        |set, word| {
            let value = <$type as $crate::features::by_name::FeatureValue>::of_word(word);
            value.inspect(|value| set.$field = *value).is_some()
        }
    };
    ($field:ident, $type:ty, $range:expr) => {
        |set, word| {
            let value = <$type as $crate::features::by_name::FeatureValue>::of_word(word);
            value.filter(|value| $range.contains(value)).inspect(|value| set.$field = *value).is_some()
        }
    };
}

pub(crate) use {feature_set, feature_struct, feature_words, features};

impl FeatureValue for FreeMemory {
    fn words() -> Vec<String> {
        words_of(FREE_MEMORY)
    }

    fn word(self) -> String {
        word_of(FREE_MEMORY, self)
    }

    fn of_word(word: &str) -> Option<FreeMemory> {
        value_of(FREE_MEMORY, word)
    }
}

const FREE_MEMORY: &[(&str, FreeMemory)] = &[
    ("factor", FreeMemory::Factor { capped: false }),
    ("capped_factor", FreeMemory::Factor { capped: true }),
    ("count", FreeMemory::Count),
];

/// A feature as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// `MECHANISM.FIELD`.
    pub path: String,
    /// The struct that has the field, as `dates.toml` names it.
    pub structure: &'static str,
    /// What it does.
    pub description: String,
    /// The words that it takes.
    pub words: Vec<String>,
    /// What each of them means; none if they say it themselves.
    pub meanings: Vec<String>,
    /// What it needs, in words, where other features must be there.
    pub needs: Option<&'static str>,
}

impl Feature {
    /// All features, mechanism by mechanism.
    pub fn all() -> Vec<Feature> {
        let mut features = Features::BASE;
        let of = |(mechanism, structure)| {
            features.switches(mechanism).map_or(Vec::new(), |switches| switches.list(mechanism, structure))
        };
        MECHANISMS.into_iter().flat_map(of).collect()
    }

    /// Pairs of a feature and one that it needs.
    pub fn pairs_of_need() -> impl Iterator<Item = (&'static str, &'static str)> {
        NEEDS.iter().map(|need| (need.feature, need.on))
    }

    /// The name of the field.
    pub fn field(&self) -> &str {
        self.path.split_once('.').map_or("", |(_, field)| field)
    }
}

/// The mechanisms, each with the struct of its features.
const MECHANISMS: [(&str, &str); 10] = [
    ("pcp", "Features"),
    ("hugetlb", "HugetlbFeatures"),
    ("reclaim", "ReclaimFeatures"),
    ("mglru", "GenFeatures"),
    ("readahead", "ReadaheadFeatures"),
    ("numa", "NumaFeatures"),
    ("sched", "SchedFeatures"),
    ("folios", "FolioFeatures"),
    ("zswap", "ZswapFeatures"),
    ("damon", "DamonFeatures"),
];

/// The features of one mechanism, whichever struct they are in.
trait Switches {
    fn list(&self, mechanism: &str, structure: &'static str) -> Vec<Feature>;

    /// None if there is no such field, an error with the right words if the field has no such value.
    fn set(&mut self, field: &str, word: &str) -> Option<Result<(), Vec<String>>>;

    fn word(&self, field: &str) -> Option<String>;
}

impl<S: FeatureSet> Switches for S {
    fn list(&self, mechanism: &str, structure: &'static str) -> Vec<Feature> {
        // Of a comment of several lines.
        let in_a_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let feature = |field: &Field<S>| {
            let path = format!("{mechanism}.{}", field.name);
            Feature {
                structure,
                description: in_a_line(field.description),
                words: (field.words)(),
                meanings: (field.meanings)().into_iter().map(in_a_line).collect(),
                needs: NEEDS.iter().find(|need| need.feature == path).map(|need| need.what),
                path,
            }
        };
        S::FIELDS.iter().map(feature).collect()
    }

    fn set(&mut self, field: &str, word: &str) -> Option<Result<(), Vec<String>>> {
        let field = S::FIELDS.iter().find(|other| other.name == field)?;
        Some(if (field.set)(self, word) { Ok(()) } else { Err((field.words)()) })
    }

    fn word(&self, field: &str) -> Option<String> {
        S::FIELDS.iter().find(|other| other.name == field).map(|field| (field.word)(self))
    }
}

/// Why a feature was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FeatureError {
    /// There is no such feature.
    #[error("{path}: no such feature; most like it: {}; `mmtwin list features` has all", like(path))]
    Unknown { path: String },
    /// It has no such value.
    #[error("{path} = {word}: it takes {}", words.join(", "))]
    Word { path: String, word: String, words: Vec<String> },
    /// It has nothing to work on in this kernel.
    #[error("{path} = {word}: no kernel could have it: {what}")]
    Needs { path: String, word: String, what: &'static str },
}

fn like(path: &str) -> String {
    let all = Feature::all();
    most_like(path, all.iter().map(|feature| feature.path.as_str()))
}

/// What a feature needs to be there.
struct Need {
    feature: &'static str,
    /// The feature that it needs.
    on: &'static str,
    what: &'static str,
    is_missing: fn(&Features) -> bool,
}

/// What features need. A need is looked at whenever a feature is set, whichever it is.
const NEEDS: &[Need] = &[
    Need {
        feature: "pcp.auto_tuning",
        on: "pcp.high_bounds",
        what: "pcp.auto_tuning moves pcp->high between the bounds of pcp.high_bounds",
        is_missing: |f| f.auto_tuning.is_some() && !f.high_bounds,
    },
    Need {
        feature: "pcp.late_free_high",
        on: "pcp.free_memory",
        what: "pcp.late_free_high compares free_count, which pcp.free_memory = count keeps",
        is_missing: |f| f.late_free_high && f.free_memory != FreeMemory::Count,
    },
    Need {
        feature: "pcp.strict_freelists",
        on: "pcp.pageblock_type_on_bulk_free",
        what: "with pcp.strict_freelists a block goes to the list of its pageblock, which pcp.pageblock_type_on_bulk_free reads",
        is_missing: |f| f.strict_freelists && !f.pageblock_type_on_bulk_free,
    },
    Need {
        feature: "numa.turns_windows_first",
        on: "numa.accessing_pids",
        what: "numa.turns_windows_first turns the windows of numa.accessing_pids",
        is_missing: |f| {
            f.numa.turns_windows_first && f.numa.accessing_pids.is_none_or(|pids| !pids.has_windows())
        },
    },
];

impl Features {
    /// Sets the feature `path` to the value of `word`; on error nothing changes.
    pub fn set(&mut self, path: &str, word: &str) -> Result<(), FeatureError> {
        let unknown = || FeatureError::Unknown { path: path.into() };
        let (mechanism, field) = path.split_once('.').ok_or_else(unknown)?;
        if mechanism == "mglru" && self.reclaim.lru == Lru::Classic {
            let what = "this kernel has the classic LRU only";
            return Err(FeatureError::Needs { path: path.into(), word: word.into(), what });
        }
        let mut changed = *self;
        let set = changed.switches(mechanism).and_then(|switches| switches.set(field, word));
        set.ok_or_else(unknown)?.map_err(|words| FeatureError::Word {
            path: path.into(),
            word: word.into(),
            words,
        })?;
        *self = changed;
        Ok(())
    }

    /// Refuses a combination that no kernel could have.
    pub fn check(&self) -> Result<(), FeatureError> {
        match NEEDS.iter().find(|need| (need.is_missing)(self)) {
            Some(need) => Err(FeatureError::Needs {
                path: need.feature.into(),
                word: self.word(need.feature).unwrap_or_default(),
                what: need.what,
            }),
            None => Ok(()),
        }
    }

    /// The word of the feature `path`; none if there is no such feature, or if it belongs to an LRU that this kernel lacks.
    pub fn word(&self, path: &str) -> Option<String> {
        let (mechanism, field) = path.split_once('.')?;
        let mut features = *self;
        features.switches(mechanism)?.word(field)
    }

    /// The features of a mechanism; none of the multi-gen LRU in a kernel that has the classic one only.
    fn switches(&mut self, mechanism: &str) -> Option<&mut dyn Switches> {
        Some(match mechanism {
            "pcp" => self,
            "hugetlb" => &mut self.hugetlb,
            "reclaim" => &mut self.reclaim,
            "mglru" => match &mut self.reclaim.lru {
                Lru::MultiGen(generations) => generations,
                Lru::Classic => return None,
            },
            "readahead" => &mut self.readahead,
            "numa" => &mut self.numa,
            "sched" => &mut self.sched,
            "folios" => &mut self.folios,
            "zswap" => &mut self.zswap,
            "damon" => &mut self.damon,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::RELEASES;
    use crate::{Series, Variant};

    #[test]
    fn every_feature_of_every_variant_can_be_read_and_set_to_what_it_is() {
        let all = Feature::all();
        assert!(all.len() > 90, "{}", all.len());
        for variant in Series::ALL.iter().flat_map(Series::variants) {
            variant.features.check().unwrap();
            for Feature { path, .. } in &all {
                let Some(word) = variant.features.word(path) else {
                    assert!(path.starts_with("mglru."), "{path}");
                    continue;
                };
                let mut features = variant.features;
                features.set(path, &word).unwrap_or_else(|error| panic!("{}: {error}", variant.name));
                assert_eq!(features, variant.features, "{}: {path}", variant.name);
            }
        }
    }

    #[test]
    fn a_feature_is_set_alone() {
        let (release, _) = RELEASES[0];
        for Feature { path, words, .. } in Feature::all() {
            for word in words.iter().filter(|word| !word.contains(' ')) {
                let mut features = Variant::of_release(release).unwrap().features;
                features.set(&path, word).unwrap();
                assert_eq!(features.word(&path).as_ref(), Some(word), "{path}");
            }
        }
    }

    #[test]
    fn wrong_features_are_refused() {
        let mut features = Variant::of_release("6.18").unwrap().features;
        let before = features;
        for (path, word, says) in [
            ("pcp.autotuning", "on", "pcp.auto_tuning"),
            ("auto_tuning", "on", "pcp.auto_tuning"),
            ("pcp.scale_refills", "yes", "on, off"),
            ("pcp.folio_batch", "0", "1 to 31"),
        ] {
            let error = features.set(path, word).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
            assert_eq!(features, before);
        }
        features.set("pcp.high_bounds", "off").unwrap();
        assert!(features.check().unwrap_err().to_string().contains("pcp.auto_tuning = eighth"));
        let mut classic = Variant::of_release("6.18").unwrap().features;
        classic.reclaim = classic.reclaim.classic();
        assert!(classic.set("mglru.types_apart", "on").unwrap_err().to_string().contains("classic LRU"));
    }
}
