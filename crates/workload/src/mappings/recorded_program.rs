//! Which recording of a program: one that is built in, or files of the user.

use super::{Mappings, MappingsError, Recordings};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

crate::no_numbers!(RecordedProgram);

/// A program with recordings of its mappings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordedProgram {
    /// [`super::CHROMIUM`].
    Chromium,
    /// [`super::CHROMIUM_TABLE`].
    ChromiumTable,
    /// [`super::CHROMIUM_CHART`].
    ChromiumChart,
    /// [`super::CHROMIUM_EDITOR`].
    ChromiumEditor,
    /// [`super::REDIS`].
    Redis,
    /// [`super::JVM`].
    Jvm,
    /// [`super::KERNEL_BUILD`].
    KernelBuild,
    /// A recording of the user, see docs/src/workloads/speedometer.md.
    #[serde(untagged)]
    File(PathBuf),
    /// Recordings of several runs of one program.
    #[serde(untagged)]
    Files(Vec<PathBuf>),
}

impl RecordedProgram {
    /// The programs with built-in recordings, as scenarios name them.
    pub const NAMES: [&str; 7] =
        ["chromium", "chromium-table", "chromium-chart", "chromium-editor", "redis", "jvm", "kernel-build"];

    /// The built-in recordings.
    fn built_in(&self) -> Recordings {
        match self {
            RecordedProgram::Chromium => super::CHROMIUM,
            RecordedProgram::ChromiumTable => super::CHROMIUM_TABLE,
            RecordedProgram::ChromiumChart => super::CHROMIUM_CHART,
            RecordedProgram::ChromiumEditor => super::CHROMIUM_EDITOR,
            RecordedProgram::Redis => super::REDIS,
            RecordedProgram::Jvm => super::JVM,
            RecordedProgram::KernelBuild => super::KERNEL_BUILD,
            RecordedProgram::File(_) | RecordedProgram::Files(_) => &[],
        }
    }

    /// Paths of the recordings in files.
    fn files(&self) -> &[PathBuf] {
        match self {
            RecordedProgram::File(path) => std::slice::from_ref(path),
            RecordedProgram::Files(paths) => paths,
            _ => &[],
        }
    }

    /// Paths of the recordings in files, so that those relative to a scenario file can be resolved.
    pub fn files_mut(&mut self) -> &mut [PathBuf] {
        match self {
            RecordedProgram::File(path) => std::slice::from_mut(path),
            RecordedProgram::Files(paths) => paths,
            _ => &mut [],
        }
    }

    /// Number of recordings.
    pub fn recordings(&self) -> usize {
        self.built_in().len() + self.files().len()
    }

    /// Reads the recording of this number, from 0. The error names its file.
    pub fn load(&self, number: usize) -> Result<Mappings, String> {
        let path = self.files().get(number);
        let mappings = match path {
            Some(path) => {
                std::fs::read(path).map_err(MappingsError::from).and_then(|packed| Mappings::parse(&packed))
            }
            None => Mappings::parse(self.built_in()[number]),
        };
        mappings.map_err(|error| {
            let of = path.map_or(String::new(), |path| format!("{}: ", path.display()));
            format!("{of}{error}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_programs_with_recordings() {
        #[derive(Deserialize)]
        struct Named {
            recording: RecordedProgram,
        }
        for name in RecordedProgram::NAMES {
            let named: Named = toml::from_str(&format!("recording = '{name}'")).unwrap();
            assert!(!named.recording.built_in().is_empty(), "{name}");
        }
    }
}
