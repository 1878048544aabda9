//! One decision: the twin's own rule, or a function that was compiled from somebody's kernel tree.
//!
//! ```text
//!   Rule::Own       policy.rs decides
//!   Rule::Tree(f)   f(&mut state): what the decision reads goes in, what it answers and changes comes out
//! ```
//!
//! A function of a tree takes one record of plain numbers, so that neither side has to know the other's structures. The record's
//! fields are listed once, here in Rust; `kernel_tree` writes the C structure from that list ([`Flat::FIELDS`]).

use std::fmt;

/// Who makes a decision about `S`.
#[derive(Default)]
pub enum Rule<S: 'static> {
    /// The twin's own rule.
    #[default]
    Own,
    /// A function compiled from a kernel tree. It may be called at any time and on any thread, for as long as the process lives.
    Tree(extern "C" fn(&mut S)),
}

impl<S> Rule<S> {
    /// Whether a tree's function decides.
    #[inline]
    pub fn is_of_tree(&self) -> bool {
        matches!(self, Rule::Tree(_))
    }
}

impl<S> Clone for Rule<S> {
    fn clone(&self) -> Rule<S> {
        *self
    }
}

impl<S> Copy for Rule<S> {}

impl<S> fmt::Debug for Rule<S> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(if self.is_of_tree() { "the tree's" } else { "own" })
    }
}

/// A record that C reads and writes: integers only, in the order of C.
pub trait Flat: Copy + Default + fmt::Debug + PartialEq {
    /// The tag of the structure in C.
    const TAG: &'static str;
    /// The fields of the record: the name, the type in C, and how many there are in a row.
    const FIELDS: &'static [Field];

    /// All numbers of the record, in the order of its fields and, in an array, of its elements.
    fn numbers(&self) -> Vec<i128>;
}

/// A field of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name, which is the same here and in C.
    pub name: &'static str,
    /// The type of one element in C.
    pub c_type: &'static str,
    /// How many elements the field has, if it is an array.
    pub elements: Option<usize>,
}

impl Field {
    /// How many numbers the field is.
    pub fn numbers(&self) -> usize {
        self.elements.unwrap_or(1)
    }
}

/// What a field of a record can be.
pub trait FlatField {
    /// The type of one element in C.
    const C_TYPE: &'static str;
    /// How many elements the field has, if it is an array.
    const ELEMENTS: Option<usize> = None;
    /// The value before anybody has set the field.
    const ZERO: Self;

    /// Appends the numbers that the field consists of.
    fn append_to(&self, numbers: &mut Vec<i128>);
}

macro_rules! flat_field {
    ($($rust:ty = $c:literal),* $(,)?) => {
        $(impl FlatField for $rust {
            const C_TYPE: &'static str = $c;
            const ZERO: $rust = 0;

            fn append_to(&self, numbers: &mut Vec<i128>) {
                numbers.push(i128::from(*self));
            }
        })*
    };
}

flat_field!(i32 = "int", u32 = "unsigned int", i64 = "long long", u64 = "unsigned long long");

impl<T: FlatField, const N: usize> FlatField for [T; N] {
    const C_TYPE: &'static str = T::C_TYPE;
    const ELEMENTS: Option<usize> = Some(N);
    const ZERO: [T; N] = [T::ZERO; N];

    fn append_to(&self, numbers: &mut Vec<i128>) {
        self.iter().for_each(|element| element.append_to(numbers));
    }
}

/// Declares a record that is the same in Rust and in C.
macro_rules! flat {
    ($(#[$about:meta])* pub struct $name:ident as $tag:literal {
        $($(#[$meaning:meta])* pub $field:ident: $type:ty,)*
    }) => {
        $(#[$about])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$meaning])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: <$type as $crate::decisions::rule::FlatField>::ZERO,)* }
            }
        }

        impl $crate::decisions::rule::Flat for $name {
            const TAG: &'static str = $tag;
            const FIELDS: &'static [$crate::decisions::rule::Field] = &[
                $($crate::decisions::rule::Field {
                    name: stringify!($field),
                    c_type: <$type as $crate::decisions::rule::FlatField>::C_TYPE,
                    elements: <$type as $crate::decisions::rule::FlatField>::ELEMENTS,
                },)*
            ];

            fn numbers(&self) -> Vec<i128> {
                let mut numbers = Vec::new();
                $($crate::decisions::rule::FlatField::append_to(&self.$field, &mut numbers);)*
                numbers
            }
        }
    };
}
pub(crate) use flat;

#[cfg(test)]
mod tests {
    use super::*;

    flat! {
        /// Two numbers and three in a row.
        pub struct Sample as "sample" {
            /// A single number.
            pub one: i32,
            /// Three numbers in a row.
            pub three: [u64; 3],
        }
    }

    #[test]
    fn a_record_lists_its_fields_for_c() {
        let fields: Vec<_> = Sample::FIELDS.iter().map(|f| (f.name, f.c_type, f.elements)).collect();
        assert_eq!(fields, [("one", "int", None), ("three", "unsigned long long", Some(3))]);
        assert_eq!(Sample::TAG, "sample");
        let sample = Sample { one: -1, three: [2, 3, u64::MAX] };
        assert_eq!(sample.numbers(), [-1, 2, 3, i128::from(u64::MAX)]);
        assert_eq!(Sample::FIELDS.iter().map(Field::numbers).sum::<usize>(), sample.numbers().len());
    }

    #[test]
    fn a_rule_is_the_twins_own_unless_said_otherwise() {
        extern "C" fn twice(state: &mut i32) {
            *state *= 2;
        }
        let mut rule = Rule::default();
        assert_eq!((rule.is_of_tree(), format!("{rule:?}").as_str()), (false, "own"));
        rule = Rule::Tree(twice);
        let mut state = 21;
        if let Rule::Tree(decide) = rule {
            decide(&mut state);
        }
        assert_eq!((state, format!("{rule:?}").as_str()), (42, "the tree's"));
    }
}
