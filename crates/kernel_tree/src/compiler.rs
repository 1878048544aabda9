//! The system's C compiler: from what was taken to a shared object.
//!
//! Flags that change what C means are the kernel's: signed numbers wrap, pointers may alias, `char` is unsigned. The object is linked
//! without a C library and with every symbol resolved, so that a decision that calls anything else does not get as far as running.

use crate::error::Error;
use crate::extract::Extract;
use crate::unit;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MEANING: [&str; 6] = [
    "-std=gnu11",
    "-funsigned-char",
    "-fno-strict-aliasing",
    "-fno-strict-overflow",
    "-fno-delete-null-pointer-checks",
    "-fno-common",
];
/// What the kernel does not build with either. All other warnings are the user's own business.
const ERRORS: [&str; 6] = [
    "-w",
    "-Werror=implicit-function-declaration",
    "-Werror=implicit-int",
    "-Werror=int-conversion",
    "-Werror=incompatible-pointer-types",
    "-Werror=return-type",
];
const OBJECT: [&str; 4] = ["-shared", "-fPIC", "-fvisibility=hidden", "-ftls-model=initial-exec"];
const ALONE: [&str; 5] = [
    "-O2",
    "-ffreestanding",
    "-nostdlib",
    "-fno-stack-protector",
    "-Wl,-z,defs,-z,noexecstack,-z,relro,-z,now",
];

/// What is built into an object besides the functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Instrumentation {
    /// Nothing is.
    #[default]
    None,
    /// AddressSanitizer and UndefinedBehaviorSanitizer: what is undefined ends the process.
    Sanitizers,
    /// Counters of the branches that are taken, for gcov.
    Coverage,
}

impl Instrumentation {
    fn flags(self) -> &'static [&'static str] {
        match self {
            Instrumentation::None => &ALONE,
            Instrumentation::Sanitizers => &[
                "-O1",
                "-g",
                "-fsanitize=address,undefined",
                "-fno-sanitize-recover=all",
                "-fno-omit-frame-pointer",
            ],
            Instrumentation::Coverage => &["-O0", "--coverage"],
        }
    }
}

/// A C compiler, and what it builds in besides.
#[derive(Clone, Debug)]
pub struct Compiler {
    command: String,
    instrumentation: Instrumentation,
}

/// A shared object and the name of what is in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Object {
    /// The file of the object.
    pub path: PathBuf,
    /// Hash of sources, header, compiler and flags.
    pub content_hash: String,
    /// What is built into it besides.
    pub instrumentation: Instrumentation,
    /// The library that has to be there before the program, if any.
    pub preloaded: Option<String>,
}

impl Compiler {
    /// The compiler of the system: what `CC` names, or `cc`.
    pub fn of_the_system(instrumentation: Instrumentation) -> Compiler {
        let command = std::env::var("CC").ok().filter(|command| !command.is_empty());
        Compiler { command: command.unwrap_or_else(|| "cc".to_string()), instrumentation }
    }

    fn flags(&self) -> Vec<&'static str> {
        [&MEANING[..], &ERRORS, &OBJECT, self.instrumentation.flags()].concat()
    }

    fn run(&self, directory: &Path, arguments: &[&str]) -> Result<Output, Error> {
        let mut words = self.command.split_whitespace();
        let program = words.next().unwrap_or("cc");
        let mut command = Command::new(program);
        // Messages are read by people and tests; in another language they are not the same.
        command.args(words).args(arguments).current_dir(directory).env("LC_ALL", "C");
        command.output().map_err(|error| Error::NoCompiler { command: self.command.clone(), error })
    }

    /// Compiles in `directory`, which is made if it is not there.
    pub fn compile(&self, extract: &Extract, directory: &Path) -> Result<Object, Error> {
        let text = unit::text(extract, self.instrumentation);
        let flags = self.flags();
        let file_error =
            |path: &Path, error| Error::File { path: path.to_path_buf(), needed_by: None, error };
        std::fs::create_dir_all(directory).map_err(|error| file_error(directory, error))?;
        let version = self.run(directory, &["--version"])?;
        let content_hash =
            hash(&[text.as_bytes(), flags.join(" ").as_bytes(), self.command.as_bytes(), &version.stdout]);
        let source = directory.join(format!("decisions-{content_hash}.c"));
        std::fs::write(&source, &text).map_err(|error| file_error(&source, error))?;
        let path = source.with_extension("so");
        let names =
            [&source, &path].map(|path| path.file_name().unwrap_or_default().to_string_lossy().into_owned());
        let arguments = [&flags[..], &["-o", &names[1], &names[0]]].concat();
        let output = self.run(directory, &arguments)?;
        if !output.status.success() {
            return Err(Error::Compile { messages: String::from_utf8_lossy(&output.stderr).into_owned() });
        }
        let preloaded = match self.instrumentation {
            Instrumentation::Sanitizers => Some(self.sanitizer(directory)?),
            _ => None,
        };
        Ok(Object { path, content_hash, instrumentation: self.instrumentation, preloaded })
    }

    /// The file of AddressSanitizer's runtime library.
    fn sanitizer(&self, directory: &Path) -> Result<String, Error> {
        let output = self.run(directory, &["-print-file-name=libasan.so"])?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
    }
}

/// The first 32 digits of a hash of all parts and their lengths.
pub fn hash(parts: &[&[u8]]) -> String {
    let mut sha = Sha256::new();
    for part in parts {
        sha.update((part.len() as u64).to_le_bytes());
        sha.update(part);
    }
    sha.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
