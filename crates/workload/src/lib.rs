//! What programs ask of the memory manager: recorded traces and processes, generated demand, and recorded
//! page accesses.
//!
//! Nothing here knows how a kernel answers. [`trace`] holds what the page allocator of a real kernel was
//! asked for, [`process`] profiles of processes made from such traces, [`mappings`] VMAs and first touches of
//! pages, [`access`] page accesses in the formats of other tools, [`demand`] generators of programs that run
//! out of memory, [`threads`] threads that share memory, and [`background`] what is there beside them. Traces and profiles are Parquet tables
//! ([`table`]) with a hash of their values ([`content_hash`]).

/// Declares an enum for a table of a scenario whose key `kind` names the variant; every other key belongs to
/// that variant.
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
            /// The values that the key `kind` takes.
            $visibility const KINDS: &'static [&'static str] = &[$($kind),*];

            /// The value of the key `kind`.
            $visibility fn kind(&self) -> &'static str {
                match self {
                    $($name::$variant(_) => $kind,)*
                }
            }

            /// The error in the other keys of a table of this kind, with the place of the key. Serde's
            /// internally tagged enums buffer the table while they look for the tag, and so lose those
            /// places.
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
pub mod app_launches;
pub mod background;
pub mod content_hash;
#[cfg(test)]
mod damage;
pub mod demand;
pub mod kernel_build;
pub mod keys;
pub mod map_unmap;
pub mod mappings;
pub mod operation;
pub mod output;
pub mod page_faults;
pub mod page_trace;
mod parquet_file;
pub mod process;
pub mod recorded_mappings;
pub mod service;
pub mod socket_stream;
pub mod table;
pub mod tasks;
pub mod threads;
pub mod trace;
