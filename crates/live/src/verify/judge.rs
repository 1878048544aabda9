//! Runs a verification: which kernel is compared with the twin, and the steps that all mechanisms share.
//!
//! A *judge* is the kernel's side of a mechanism: it records cases and compares them with the twin. A *hearing* collects
//! the comparisons for the report. A *subject* is the kernel, or the recording of one, that is compared at the moment.
//!
//! ```text
//!   By::RunningKernel ─► an obstacle? ─► none: recorder runs the cases on this kernel ────────────┐
//!                              └ some ───────┐                                                    │
//!   By::Recordings ──────────────────────────┴► list: recordings of the source tree ───► judge ───┤
//!   By::Emulation ─────► boots: each case in a boot of its own (emulation) ────────────► judge ───┤
//!                                                                                                 ▼
//!                                                            Hearing: entries, notes, kernels ─► Report
//! ```
//!
//! The [`Judge`] of a mechanism knows how its cases are recorded and what is compared. The choice of the kernel, the check
//! that the twin models it, and the fallback to recordings are the same for all mechanisms and are here.

use std::path::{Path, PathBuf};

use mm::{Features, Mechanism};

use super::emulation::{Boots, Emulation, GUEST};
use super::numa::Selection;
use super::pcp::programs::Program;
use super::{Bound, Cases, Entry, Report, VerifyError, features};
use crate::qemu::Task;
use crate::recordings::RecordingError;
use crate::snapshot;

/// The name of the running kernel in errors.
const THIS_MACHINE: &str = "this machine";

/// Which kernels the twin is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The running kernel, or recordings if it cannot be observed.
    RunningKernel,
    Recordings,
    /// Debian's kernels, booted in emulation.
    Emulation {
        /// Boot kernels again whose recordings are in the cache.
        fresh: bool,
    },
}

/// The options of a verification.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Path of this program, which is started again as the observed process.
    pub program: PathBuf,
    /// The workloads to run, for mechanisms that have several; empty: all.
    pub workloads: Vec<Program>,
    /// Directory of the recordings.
    pub recordings: PathBuf,
    /// The programs of `numa` that emulated kernels run.
    pub numa: Selection,
}

impl Asked {
    /// The command line of this program with the subcommand `word`.
    pub(super) fn words(&self, word: &str) -> Vec<String> {
        vec![self.program.display().to_string(), word.to_string()]
    }
}

/// A callback that gets a description of the current step.
pub type Progress<'a> = &'a mut dyn FnMut(&str);

/// Records the cases on the running kernel, and compares each with the twin.
pub type Recorder<J> = fn(&mut J, &Subject, &Asked, &mut Hearing) -> Result<(), VerifyError>;

/// The kernel, or the recording of one, that is compared at the moment.
pub struct Subject<'a> {
    /// Name in the report.
    pub name: &'a str,
    /// Features of the kernel, which the twin gets too.
    pub features: Features,
}

/// A recording of a kernel on disk.
pub trait RecordedKernel: Sized {
    /// All recordings of this kind in `directory`, with their names, sorted by name.
    fn list(directory: &Path) -> Result<Vec<(String, Self)>, RecordingError>;

    /// The release of the recorded kernel.
    fn kernel(&self) -> &str;
}

/// The comparison of one mechanism between the kernel and the twin.
pub trait Judge: Default {
    const MECHANISM: Mechanism;
    /// What is compared, in one line.
    const COMPARED: &'static str;
    /// How far the twin's counters may be off.
    const BOUND: Bound;
    /// A recording of one or more cases.
    type Recording: RecordedKernel;

    /// The function that records cases on the running kernel, or the reason why none can be recorded.
    fn recorder() -> Result<Recorder<Self>, String>;

    /// The cases for emulated kernels, if there are any.
    fn boots(_: &Asked) -> Option<Boots<Self::Recording>> {
        None
    }

    /// Compares each case of a recording with the twin.
    fn judge(
        &mut self,
        subject: &Subject,
        recording: &Self::Recording,
        hearing: &mut Hearing,
    ) -> Result<(), VerifyError>;

    /// Adds the entries of cases that are compared together, after the last recording.
    fn conclude(&mut self, _: &mut Hearing) {}

    /// Sentences about all cases together.
    fn summary(self) -> Vec<String> {
        Vec::new()
    }
}

/// The comparisons so far.
pub struct Hearing<'a> {
    pub progress: Progress<'a>,
    report: Report,
    kernels: Vec<String>,
}

impl Hearing<'_> {
    /// Adds compared counters.
    pub fn enter(&mut self, entries: impl IntoIterator<Item = Entry>) {
        self.report.entries.extend(entries);
    }

    /// Adds remarks, such as which cases were skipped and why.
    pub fn note(&mut self, notes: impl IntoIterator<Item = String>) {
        self.report.notes.extend(notes);
    }

    /// Adds cases that are compared as a whole.
    pub fn count(&mut self, cases: Cases) {
        self.report.cases = Some(self.report.cases.unwrap_or_default() + cases);
    }

    /// Begins the comparison with Linux `kernel`.
    ///
    /// # Errors
    ///
    /// The kernel is not modelled.
    fn subject<'a>(&mut self, name: &'a str, kernel: &str) -> Result<Subject<'a>, VerifyError> {
        let features = features(name, kernel)?;
        if !self.kernels.iter().any(|known| known == kernel) {
            self.kernels.push(kernel.to_string());
        }
        Ok(Subject { name, features })
    }

    fn hear_recording<J: Judge>(
        &mut self,
        judge: &mut J,
        name: &str,
        recording: &J::Recording,
    ) -> Result<(), VerifyError> {
        let subject = self.subject(name, recording.kernel())?;
        (self.progress)(&format!("comparing {name}"));
        judge.judge(&subject, recording, self)
    }

    fn hear_recordings<J: Judge>(
        &mut self,
        judge: &mut J,
        directory: &Path,
        reason: String,
    ) -> Result<(), VerifyError> {
        self.report.fallback = Some(reason);
        for (name, recording) in J::Recording::list(directory)? {
            self.hear_recording(judge, &name, &recording)?;
        }
        Ok(())
    }

    fn hear_running_kernel<J: Judge>(&mut self, judge: &mut J, asked: &Asked) -> Result<(), VerifyError> {
        let on_subject = |recorder| {
            let subject = self.subject(THIS_MACHINE, &snapshot::kernel_release());
            subject.map(|subject| (recorder, subject)).map_err(|error| error.to_string())
        };
        match J::recorder().and_then(on_subject) {
            Ok((recorder, subject)) => recorder(judge, &subject, asked, self),
            Err(reason) => self.hear_recordings(judge, &asked.recordings, reason),
        }
    }

    fn hear_emulated<J: Judge>(
        &mut self,
        judge: &mut J,
        asked: &Asked,
        fresh: bool,
    ) -> Result<(), VerifyError> {
        let Boots { machine, boots, open } = J::boots(asked).ok_or(VerifyError::NotEmulated(J::MECHANISM))?;
        let mut emulation = Emulation::open(machine, fresh)?;
        for bootable in emulation.kernels(&mut self.report, self.progress) {
            for boot in &boots {
                if let Some((release, without)) = boot.not_on
                    && release == bootable.kernel.release
                {
                    let note = format!(
                        "on Linux {release} what needs {without} was left out: Debian builds it without"
                    );
                    if !self.report.notes.contains(&note) {
                        self.report.notes.push(note);
                    }
                    continue;
                }
                (self.progress)(&format!("emulating Linux {}: {}", bootable.kernel.release, boot.name));
                let place = emulation.place(&bootable, boot);
                let of_boot = boot.words.iter().map(String::as_str);
                let words: Vec<&str> = [GUEST, J::MECHANISM.name()].into_iter().chain(of_boot).collect();
                let task = Task { words: &words, given: &boot.given };
                if emulation.boot(&bootable, task, &place, &mut self.report)? {
                    let (name, recording) = open(boot, &bootable.kernel, &place)?;
                    self.hear_recording(judge, &name, &recording)?;
                }
            }
        }
        emulation.note_reused(&mut self.report);
        Ok(())
    }
}

/// How one mechanism is verified.
pub struct Verification {
    pub mechanism: Mechanism,
    pub compared: &'static str,
    pub bound: Bound,
    /// Whether there are cases for emulated kernels.
    pub is_emulated: bool,
    verify: fn(By, &Asked, Progress) -> Result<Report, VerifyError>,
}

impl Verification {
    pub(super) fn of<J: Judge>() -> Verification {
        Verification {
            mechanism: J::MECHANISM,
            compared: J::COMPARED,
            bound: J::BOUND,
            is_emulated: J::boots(&Asked::default()).is_some(),
            verify: verify::<J>,
        }
    }

    /// Compares the twin with the kernels that `by` selects.
    pub fn verify(&self, by: By, asked: &Asked, progress: Progress) -> Result<Report, VerifyError> {
        (self.verify)(by, asked, progress)
    }
}

fn verify<J: Judge>(by: By, asked: &Asked, progress: Progress) -> Result<Report, VerifyError> {
    let mut judge = J::default();
    let mut hearing = Hearing { progress, report: Report::default(), kernels: Vec::new() };
    match by {
        By::RunningKernel => hearing.hear_running_kernel(&mut judge, asked)?,
        By::Recordings => {
            let reason = "asked for with --recorded".into();
            hearing.hear_recordings(&mut judge, &asked.recordings, reason)?;
        }
        By::Emulation { fresh } => hearing.hear_emulated(&mut judge, asked, fresh)?,
    }
    judge.conclude(&mut hearing);
    let Hearing { mut report, kernels, .. } = hearing;
    report.kernel = kernels.join(", ");
    report.notes.extend(judge.summary());
    Ok(report)
}
