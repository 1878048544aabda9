//! A shared object of decisions, in this process: with [`crate::note`], the only place with unsafe code.
//!
//! What makes it sound: the object was compiled a moment ago from records whose fields are those of `mm`'s structures, which
//! [`check_size`] asks it again; it has no symbols but its own; and it is never unloaded, so a function pointer from it is good for as
//! long as the process lives. That the C code itself keeps to its records is the user's word (and the sanitizers', if asked).
#![allow(unsafe_code)]

use crate::compiler::{Instrumentation, Object};
use crate::decision::{DECISIONS, Decision, Symbols};
use crate::error::{Error, Place};
use crate::extract::Extract;
use crate::note::{self, Note};
use libloading::Library;
use mm::Decisions;
use mm::decisions::{Flat, Rule};

/// Whose function makes a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// The function of the tree.
    Tree {
        /// Where the function begins.
        place: Place,
        /// Hash of the text of the function and of all that it needs.
        text_hash: String,
    },
    /// The twin's own rule, as nobody asked for the tree's function.
    Own,
}

/// Decisions of a tree, ready to be asked.
pub struct Loaded {
    /// What a memory manager is built with.
    pub decisions: Decisions,
    /// Of each decision, whose function makes it.
    pub provenance: Vec<(&'static str, Provenance)>,
    /// Hash of sources, header, compiler and flags.
    pub content_hash: String,
    write_coverage: Option<extern "C" fn()>,
    /// Where the object keeps the address of its note.
    note: Option<*mut *mut u8>,
}

impl Loaded {
    /// Loads what was compiled of `extract`.
    pub fn open(object: &Object, extract: Extract) -> Result<Loaded, Error> {
        let found: Vec<&'static Decision> = extract.found.iter().map(|found| found.decision).collect();
        let provenance =
            DECISIONS.iter().map(|decision| (decision.name, provenance(&extract, decision))).collect();
        Ok(Loaded { provenance, ..Loaded::of(object, &found)? })
    }

    /// Loads an object with these decisions, of whose sources nothing is said.
    pub fn of(object: &Object, found: &[&'static Decision]) -> Result<Loaded, Error> {
        if let (Instrumentation::Sanitizers, Some(runtime)) = (object.instrumentation, &object.preloaded)
            && !has_sanitizer()
        {
            return Err(Error::NoSanitizer { runtime: runtime.clone() });
        }
        // SAFETY: the object has no constructors (`extract.rs` refuses them) and nothing else that runs when it is loaded but what
        // the compiler's own instrumentation brings.
        let library = unsafe { Library::new(&object.path) };
        let library = library.map_err(|error| problem(object, error.to_string()))?;
        // It is never unloaded: rules are copied into kernels that live as long as they like.
        let library: &'static Library = Box::leak(Box::new(library));
        let mut decisions = Decisions::default();
        for decision in found {
            decision.slot.install(&mut decisions, &OfObject { library, object, decision })?;
        }
        let write_coverage = match object.instrumentation {
            // SAFETY: `unit.rs` defines it so.
            Instrumentation::Coverage => unsafe {
                symbol::<extern "C" fn()>(library, "mmtwin_write_coverage")
            },
            _ => None,
        };
        // SAFETY: `c/mmtwin.h` defines an `unsigned long` of that name, which nobody writes.
        let note_size =
            unsafe { symbol::<*const std::ffi::c_ulong>(library, "mmtwin_size_of_note").map(|size| *size) };
        if note_size != Some(note::BYTES as std::ffi::c_ulong) {
            let text = "another version of mmtwin compiled it; add the kernel again".to_string();
            return Err(problem(object, text));
        }
        // SAFETY: `c/mmtwin.h` defines a pointer of that name.
        let note = unsafe { symbol::<*mut *mut u8>(library, "mmtwin_note") };
        let content_hash = object.content_hash.clone();
        Ok(Loaded { decisions, provenance: Vec::new(), content_hash, write_coverage, note })
    }

    /// Notes from now on what is asked.
    pub fn note_in(&self, note: Note) {
        if let Some(place) = self.note {
            // SAFETY: the object is never unloaded, no decision is being made on another thread yet, and the note is of the
            // structure that the object was compiled with.
            unsafe { *place = note.leak() };
        }
    }

    /// Writes down which branches were taken so far, if the object was built for that.
    pub fn write_coverage(&self) {
        if let Some(write) = self.write_coverage {
            write();
        }
    }
}

fn provenance(extract: &Extract, decision: &Decision) -> Provenance {
    match extract.found(decision) {
        None => Provenance::Own,
        Some(found) => Provenance::Tree { place: found.place.clone(), text_hash: extract.text_hash(found) },
    }
}

/// The symbols of a decision in an object.
struct OfObject<'a> {
    library: &'static Library,
    object: &'a Object,
    decision: &'a Decision,
}

impl Symbols for OfObject<'_> {
    fn rule<S: Flat>(&self) -> Result<Rule<S>, Error> {
        let OfObject { library, object, decision } = *self;
        check_size::<S>(library, object, decision)?;
        let name = format!("mmtwin_decide_{}", decision.name);
        // SAFETY: the shim of that name takes a pointer to a record whose declaration was written from `S::FIELDS`, and its size is
        // that of `S`. It keeps no pointer to it.
        let decide = unsafe { symbol::<extern "C" fn(&mut S)>(library, &name) };
        decide.map(Rule::Tree).ok_or_else(|| problem(object, format!("there is no {name}")))
    }
}

fn check_size<S: Flat>(library: &'static Library, object: &Object, decision: &Decision) -> Result<(), Error> {
    let name = format!("mmtwin_size_of_{}", decision.name);
    // SAFETY: `MMTWIN_DECISION` defines an `unsigned long` of that name, which nobody writes.
    let size = unsafe { symbol::<*const std::ffi::c_ulong>(library, &name).map(|size| *size) };
    let ours = size_of::<S>() as std::ffi::c_ulong;
    match size {
        Some(size) if size == ours => Ok(()),
        other => Err(problem(object, format!("{} is of {other:?} bytes there and of {ours} here", S::TAG))),
    }
}

/// # Safety
/// `T` is what the symbol is: a pointer to a function or to data.
unsafe fn symbol<T: Copy>(library: &'static Library, name: &str) -> Option<T> {
    // SAFETY: the caller's word.
    unsafe { library.get::<T>(name).ok().map(|symbol| *symbol) }
}

/// Whether AddressSanitizer's runtime is part of this process.
fn has_sanitizer() -> bool {
    let this = libloading::os::unix::Library::this();
    // SAFETY: the symbol is only looked for.
    unsafe { this.get::<*const ()>("__asan_init").is_ok() }
}

fn problem(object: &Object, message: String) -> Error {
    Error::Object { object: object.path.clone(), message }
}
