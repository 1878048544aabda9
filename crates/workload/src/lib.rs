//! What programs ask for: operations, generators, recorded demand and recorded accesses.

/// An enum whose table in a scenario says by its key `kind` which one it is.
#[macro_export]
macro_rules! kinds {
    (
        $(#[$enum_doc:meta])*
        $visibility:vis enum $name:ident {
            $($(#[$doc:meta])* $kind:literal $variant:ident($spec:ty)),* $(,)?
        }
    ) => {
        $(#[$enum_doc])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(tag = "kind")]
        $visibility enum $name {
            $($(#[$doc])* #[serde(rename = $kind)] $variant($spec),)*
        }

        impl $name {
            /// All kinds.
            $visibility const KINDS: &'static [&'static str] = &[$($kind),*];

            /// What the key says.
            $visibility fn kind(&self) -> &'static str {
                match self {
                    $($name::$variant(_) => $kind,)*
                }
            }

            /// What is wrong with the other keys of a table of this kind, with their places: where serde looks for the
            /// kind it forgets where everything else stands.
            $visibility fn error_in<'de, D: serde::Deserializer<'de>>(kind: &str, keys: D) -> Option<D::Error> {
                match kind {
                    $($kind => <$spec as serde::Deserialize>::deserialize(keys).err(),)*
                    _ => None,
                }
            }
        }

        impl $crate::keys::Value for $name {
            const TAKES: $crate::keys::Takes =
                $crate::keys::Takes::Kinds(&[$(($kind, <$spec as $crate::keys::Value>::TAKES)),*]);

            fn check_bounds(&self, key: &str) -> Result<(), ::machine::WrongValue> {
                match self {
                    $($name::$variant(keys) => $crate::keys::Value::check_bounds(keys, key),)*
                }
            }
        }
    };
}

pub mod access;
pub mod content_hash;
#[cfg(test)]
mod damage;
pub mod demand;
pub mod keys;
pub mod mappings;
pub mod output;
mod parquet_file;
pub mod process;
pub mod table;
pub mod threads;
pub mod trace;
