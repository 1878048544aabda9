//! Samples: the files of /proc and /sys at several moments, taken here or saved in a directory.
//!
//! ```text
//!   DIR/doctor.toml        format, kernel, seconds of each moment, what could not be read, where it comes from
//!   DIR/begin/proc/...     all files
//!   DIR/1/proc/zoneinfo    in between: zoneinfo alone, once a second
//!   DIR/end/proc/...       all files
//! ```
//!
//! The directory is meant to be copied, trimmed and edited: a file that is missing is one that the kernel did not have.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use workload::output::{self, OutputError};

use super::files::Files;

/// The version of the format of a saved directory.
pub const FORMAT: u32 = 1;
const MANIFEST: &str = "doctor.toml";
const BEGIN: &str = "begin";
const END: &str = "end";
/// How often zoneinfo is read in between.
const EVERY: Duration = Duration::from_secs(1);

/// Why samples cannot be read or saved.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    #[error("{}: {problem}", .path.display())]
    Damaged { path: PathBuf, problem: String },
    #[error("{}: there is none; --from takes a directory that mmtwin doctor --save wrote", .0.display())]
    NotSaved(PathBuf),
    #[error("{}: it is there already; name a new directory, or remove it", .0.display())]
    Exists(PathBuf),
    #[error("{}: {error}", .path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// The files at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Moment {
    /// Seconds since the first moment.
    pub seconds: f64,
    pub files: Files,
}

/// What was seen of a machine: two moments or more.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    pub begin: Moment,
    pub between: Vec<Moment>,
    pub end: Moment,
    /// Where a saved tree comes from, in words.
    pub source: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    format: u32,
    /// Of what machine and kernel this is, and whether anything was taken out or edited.
    source: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    more_cgroups: bool,
    moment: Vec<ManifestMoment>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    unreadable: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ManifestMoment {
    directory: String,
    seconds: f64,
}

/// Reads the files below `root` for so long; `progress` is told the seconds that are left, and says whether to go on.
pub fn sample(root: &Path, seconds: f64, progress: &mut dyn FnMut(f64) -> bool) -> Samples {
    let began = Instant::now();
    let begin = Moment { seconds: 0.0, files: Files::read(root) };
    // What reading takes is before the time that counters are compared over.
    let counted = Instant::now();
    let mut between: Vec<Moment> = Vec::new();
    loop {
        let elapsed = counted.elapsed().as_secs_f64();
        let left = seconds - elapsed;
        if left <= 0.0 || !progress(left) {
            break;
        }
        let taken = between.last().map_or(0.0, |moment| moment.seconds);
        if elapsed - taken >= EVERY.as_secs_f64() {
            between.push(Moment { seconds: elapsed, files: Files::read_between(root) });
        }
        std::thread::sleep(Duration::from_secs_f64(left.clamp(0.001, 0.1)));
    }
    let end = Moment { seconds: counted.elapsed().as_secs_f64(), files: Files::read(root) };
    let of = format!("read in {:.1} s with mmtwin doctor --save", began.elapsed().as_secs_f64());
    Samples { begin, between, end, source: of }
}

impl Samples {
    /// Reads what [`save`](Self::save) wrote.
    pub fn open(directory: &Path) -> Result<Samples, SavedError> {
        let path = directory.join(MANIFEST);
        let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => SavedError::NotSaved(path.clone()),
            _ => SavedError::Io { path: path.clone(), error },
        })?;
        let parsed = Manifest::parse(&text);
        let manifest = parsed.map_err(|problem| SavedError::Damaged { path: path.clone(), problem })?;
        let is_absent = |moment: &&ManifestMoment| !directory.join(&moment.directory).is_dir();
        if let Some(moment) = manifest.moment.iter().find(is_absent) {
            let problem = format!("directory = {:?}: there is none beside this file", moment.directory);
            return Err(SavedError::Damaged { path, problem });
        }
        let mut moments = manifest.moment.into_iter().map(|moment| Moment {
            seconds: moment.seconds,
            files: Files::read(&directory.join(moment.directory)),
        });
        let begin = moments.next().unwrap_or_default();
        let mut between: Vec<Moment> = moments.collect();
        let mut end = between.pop().unwrap_or_default();
        end.files.unreadable.extend(manifest.unreadable);
        end.files.more_cgroups |= manifest.more_cgroups;
        Ok(Samples { begin, between, end, source: manifest.source })
    }

    /// Writes all files into a new directory.
    pub fn save(&self, directory: &Path) -> Result<(), SavedError> {
        make(directory)?;
        let names = (1..=self.between.len()).map(|number| number.to_string());
        let names: Vec<String> =
            [BEGIN.to_string()].into_iter().chain(names).chain([END.to_string()]).collect();
        let moments = [&self.begin].into_iter().chain(&self.between).chain([&self.end]);
        let mut manifest = Manifest {
            format: FORMAT,
            source: self.source.clone(),
            more_cgroups: self.end.files.more_cgroups,
            unreadable: self.end.files.unreadable.clone(),
            moment: Vec::new(),
        };
        for (name, moment) in names.into_iter().zip(moments) {
            for (path, text) in &moment.files.texts {
                let path = directory.join(&name).join(path);
                let parent = path.parent().unwrap_or(directory);
                fs::create_dir_all(parent).map_err(|error| SavedError::Io { path: parent.into(), error })?;
                output::write(path, text.as_bytes())?;
            }
            manifest.moment.push(ManifestMoment { directory: name, seconds: moment.seconds });
        }
        let text = toml::to_string(&manifest).map_err(|error| SavedError::Damaged {
            path: directory.join(MANIFEST),
            problem: error.to_string(),
        })?;
        Ok(output::write(directory.join(MANIFEST), text.as_bytes())?)
    }
}

/// Makes the directory that samples are saved in: before they are taken, so that a place where nothing can be written is told at once.
pub fn make(directory: &Path) -> Result<(), SavedError> {
    let is_empty = fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none());
    if directory.exists() && !is_empty {
        return Err(SavedError::Exists(directory.into()));
    }
    fs::create_dir_all(directory).map_err(|error| SavedError::Io { path: directory.into(), error })
}

impl Manifest {
    fn parse(text: &str) -> Result<Manifest, String> {
        let manifest: Manifest = toml::from_str(text).map_err(|error| error.to_string())?;
        if manifest.format != FORMAT {
            return Err(format!("format = {}: this version reads format = {FORMAT}", manifest.format));
        }
        if manifest.moment.len() < 2 {
            return Err("it has fewer than two [[moment]], and counters say nothing at one".into());
        }
        for ManifestMoment { directory, .. } in &manifest.moment {
            let is_plain = !directory.is_empty() && !directory.contains('/') && directory != "..";
            if !is_plain {
                return Err(format!(
                    "directory = {directory:?}: expected the name of a directory beside this file"
                ));
            }
        }
        let seconds: Vec<f64> = manifest.moment.iter().map(|moment| moment.seconds).collect();
        let is_bad = |pair: &[f64]| !(pair[0].is_finite() && pair[1].is_finite() && pair[0] < pair[1]);
        match seconds.windows(2).find(|pair| is_bad(pair)) {
            Some(pair) => Err(format!(
                "seconds = {} and then {}: each moment is later than the one before",
                pair[0], pair[1]
            )),
            None => Ok(manifest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_read_again() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        fs::create_dir_all(root.join("proc/sys/kernel")).unwrap();
        fs::write(root.join("proc/vmstat"), "pgfault 5\n").unwrap();
        fs::write(root.join("proc/zoneinfo"), "").unwrap();
        let mut told = 0;
        let samples = sample(&root, 0.05, &mut |left| {
            told += 1;
            left <= 0.05
        });
        assert!(told > 0 && samples.end.seconds >= 0.05);
        let between = Moment { seconds: 0.02, files: Files::read_between(&root) };
        let samples = Samples { between: vec![between], ..samples };
        let saved = place.path().join("saved");
        samples.save(&saved).unwrap();
        assert_eq!(Samples::open(&saved).unwrap(), samples);
        assert!(matches!(samples.save(&saved), Err(SavedError::Exists(_))));
    }

    #[test]
    fn sampling_ends_when_it_is_told_to() {
        let place = tempfile::tempdir().unwrap();
        let samples = sample(place.path(), 1000.0, &mut |_| false);
        assert!(samples.end.seconds < 100.0 && samples.between.is_empty());
    }

    #[test]
    fn a_wrong_manifest_says_what_is_wrong() {
        let error = |text: &str| Manifest::parse(text).unwrap_err();
        let two =
            "[[moment]]\ndirectory = \"begin\"\nseconds = 0\n[[moment]]\ndirectory = \"end\"\nseconds = 1\n";
        let whole = |format: u32, moments: &str| format!("format = {format}\nsource = \"\"\n{moments}");
        assert!(Manifest::parse(&whole(1, two)).is_ok());
        assert!(error(&whole(2, two)).contains("format = 2"));
        assert!(error(&whole(1, &two[..43])).contains("fewer than two"));
        assert!(error(&whole(1, &two.replace("seconds = 1", "seconds = 0"))).contains("later"));
        assert!(error(&whole(1, &two.replace("seconds = 1", "seconds = nan"))).contains("later"));
        assert!(error(&whole(1, &two.replace("\"end\"", "\"../end\""))).contains("../end"));
        assert!(error("format = 1\nkernel = 2").contains("unknown field"));
    }
}
