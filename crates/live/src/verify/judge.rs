//! Who judges the twin, and the one way in which that goes.
//!
//! ```text
//!   By::RunningKernel ─► what stands in the way? ─► recorder: cases on this kernel ──────────┐
//!                              └ something ──┐                                               │
//!   By::Recordings ──────────────────────────┴► list: what comes with the source ─► judge ───┤
//!   By::Emulation ─────► boots: each case in a boot of its own (emulation) ───────► judge ───┤
//!                                                                                            ▼
//!                                                       Hearing: entries, notes, kernels ─► Report
//! ```
//!
//! A mechanism's [`Judge`] knows how its cases are recorded and what of them is compared. Which kernel is asked, whether the
//! twin models it, and what is said where it cannot be asked, is the same for all and is here.

use std::path::{Path, PathBuf};

use mm::{Features, Mechanism};

use super::emulation::{Boots, Emulation, GUEST};
use super::pcp::programs::Program;
use super::{Bound, Cases, Entry, Report, VerifyError, features};
use crate::recordings::RecordingError;
use crate::snapshot;

/// The kernel that runs here, in errors.
const THIS_MACHINE: &str = "this machine";

/// Which kernels judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The one that runs here, or recordings where it cannot be asked.
    RunningKernel,
    /// Those in recordings.
    Recordings,
    /// Those that are booted in emulation.
    Emulation {
        /// What was booted before is booted again.
        fresh: bool,
    },
}

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// This program, which is called again to do what is watched.
    pub program: PathBuf,
    /// The workloads to run, of mechanisms that have some to choose from; all that can run here if there are none.
    pub workloads: Vec<Program>,
    /// Where recordings are.
    pub recordings: PathBuf,
}

impl Asked {
    /// This program, and the word that leads it to something else.
    pub(super) fn words(&self, word: &str) -> Vec<String> {
        vec![self.program.display().to_string(), word.to_string()]
    }
}

/// Told what is being done.
pub type Progress<'a> = &'a mut dyn FnMut(&str);

/// Records the kernel that runs here and has it judge.
pub type Recorder<J> = fn(&mut J, &Subject, &Asked, &mut Hearing) -> Result<(), VerifyError>;

/// A kernel that is heard, or a recording of one.
pub struct Subject<'a> {
    /// What it is called.
    pub name: &'a str,
    /// The kernel's features, which the twin has too.
    pub features: Features,
}

/// A recording of a kernel, on disk.
pub trait RecordedKernel: Sized {
    /// All of its kind below a directory, with their names, by name.
    fn list(directory: &Path) -> Result<Vec<(String, Self)>, RecordingError>;

    /// The release of the kernel that was recorded.
    fn kernel(&self) -> &str;
}

/// Judges the twin in one mechanism.
pub trait Judge: Default {
    /// Which.
    const MECHANISM: Mechanism;
    /// What is compared, in a line.
    const COMPARED: &'static str;
    /// How far the twin may be off.
    const BOUND: Bound;
    /// What a kernel did in one or more cases.
    type Recording: RecordedKernel;

    /// What records the kernel that runs here, or what stands in the way.
    fn recorder() -> Result<Recorder<Self>, String>;

    /// What is booted in emulation, if anything.
    fn boots() -> Option<Boots<Self::Recording>> {
        None
    }

    /// Compares each case of a recording with the twin.
    fn judge(
        &mut self,
        subject: &Subject,
        recording: &Self::Recording,
        hearing: &mut Hearing,
    ) -> Result<(), VerifyError>;

    /// What all cases come to, in words.
    fn summary(self) -> Vec<String> {
        Vec::new()
    }
}

/// What was said so far.
pub struct Hearing<'a> {
    /// Told what is being done.
    pub progress: Progress<'a>,
    report: Report,
    kernels: Vec<String>,
}

impl Hearing<'_> {
    /// More numbers.
    pub fn enter(&mut self, entries: impl IntoIterator<Item = Entry>) {
        self.report.entries.extend(entries);
    }

    /// More that is said of cases in words: what was skipped, and why.
    pub fn note(&mut self, notes: impl IntoIterator<Item = String>) {
        self.report.notes.extend(notes);
    }

    /// More cases that are judged as a whole.
    pub fn count(&mut self, cases: Cases) {
        self.report.cases = Some(self.report.cases.unwrap_or_default() + cases);
    }

    /// From here on Linux `kernel` is heard, if that is modelled.
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
        (self.progress)(&format!("judging {name}"));
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

    fn hear_emulated<J: Judge>(&mut self, judge: &mut J, fresh: bool) -> Result<(), VerifyError> {
        let Boots { machine, boots, open } = J::boots().ok_or(VerifyError::NotEmulated(J::MECHANISM))?;
        let mut emulation = Emulation::open(machine, fresh)?;
        for bootable in emulation.kernels(&mut self.report, self.progress) {
            for boot in &boots {
                (self.progress)(&format!("emulating Linux {}: {}", bootable.kernel.release, boot.name));
                let place = emulation.place(&bootable, boot);
                let words = [&[GUEST, J::MECHANISM.name()], &boot.words[..]].concat();
                if emulation.boot(&bootable, &words, &place, &mut self.report)? {
                    let (name, recording) = open(boot, &bootable.kernel, &place)?;
                    self.hear_recording(judge, &name, &recording)?;
                }
            }
        }
        emulation.note_reused(&mut self.report);
        Ok(())
    }
}

/// How the twin is judged in one mechanism.
pub struct Verification {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// What is compared.
    pub compared: &'static str,
    /// How far the twin may be off.
    pub bound: Bound,
    /// Kernels in emulation can be asked.
    pub is_emulated: bool,
    verify: fn(By, &Asked, Progress) -> Result<Report, VerifyError>,
}

impl Verification {
    pub(super) fn of<J: Judge>() -> Verification {
        Verification {
            mechanism: J::MECHANISM,
            compared: J::COMPARED,
            bound: J::BOUND,
            is_emulated: J::boots().is_some(),
            verify: verify::<J>,
        }
    }

    /// Judges the twin; `progress` is told what is going on.
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
        By::Emulation { fresh } => hearing.hear_emulated(&mut judge, fresh)?,
    }
    let Hearing { mut report, kernels, .. } = hearing;
    report.kernel = kernels.join(", ");
    report.notes.extend(judge.summary());
    Ok(report)
}
