//! Debian's kernel packages.
//!
//! ```text
//!   cache/apt/           apt's lists, downloads and state, separate from the machine's own
//!   cache/kernels/linux-image-6.12.95+deb12-cloud-amd64/
//!     vmlinuz            the kernel
//!     brd.ko, brd.ko.xz  the module of the RAM disk, as packaged
//!     SHA256SUMS         their checksums
//! ```
//!
//! The archive's address is taken from the machine's own apt sources; the suites are those that had the
//! kernels. apt verifies downloads by the signed lists of the archive; files that are kept are verified by
//! their checksums.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Cache, QemuError, file_error, find, output};

/// The files kept of a package: the kernel, and the module of the RAM disk, compressed or not.
const VMLINUZ: &str = "vmlinuz";
const MODULES: [&str; 2] = ["brd.ko", "brd.ko.xz"];
const FLAVOUR: &str = "-cloud-amd64";
/// The list of installed packages, as dpkg maintains it.
const INSTALLED: &str = "/var/lib/dpkg/status";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// The suites that have the kernels below; the first is Debian's security archive.
const SUITES: [&str; 4] = ["bookworm-security", "bookworm", "bookworm-backports", "trixie-backports"];

/// A kernel release in Debian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    pub release: &'static str,
    /// The package that the recordings were made with; if it is gone, the newest one of the release is used.
    pub package: &'static str,
    /// Prefix of the package names of this release.
    prefix: &'static str,
}

pub const KERNELS: [Kernel; 3] = [
    Kernel { release: "6.1", package: "linux-image-6.1.0-56-cloud-amd64", prefix: "linux-image-6.1.0-" },
    Kernel { release: "6.12", package: "linux-image-6.12.95+deb12-cloud-amd64", prefix: "linux-image-6.12." },
    Kernel { release: "6.18", package: "linux-image-6.18.15+deb13-cloud-amd64", prefix: "linux-image-6.18." },
];

/// The files needed to boot a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFiles {
    /// The package that they are from.
    pub package: String,
    pub vmlinuz: PathBuf,
    /// The module of the RAM disk.
    pub brd: PathBuf,
}

impl Kernel {
    /// The files of the kernel, from `cache`, or else downloaded.
    pub fn files(&self, cache: &Cache, progress: &mut dyn FnMut(&str)) -> Result<KernelFiles, QemuError> {
        let kernels = cache.directory("kernels")?;
        if let Some(files) = self.cached(&kernels) {
            return Ok(files);
        }
        progress(&format!("looking for Linux {} in Debian's archive", self.release));
        let apt = Apt::open(cache)?;
        let names = apt.run("apt-cache", &["pkgnames", self.prefix], cache.path())?;
        let names = names.lines().filter(|name| name.ends_with(FLAVOUR));
        let newest = names.max_by_key(|name| (*name == self.package, numbers(name)));
        let package = newest.ok_or_else(|| QemuError::NoPackage {
            release: self.release,
            prefix: self.prefix,
            directory: kernels.join(self.package),
        })?;
        progress(&format!("downloading {package}"));
        let [unpacked, kept] = [cache.unfinished()?, cache.unfinished()?];
        download(&apt, package, unpacked.path(), cache)?;
        pick(unpacked.path(), kept.path())?;
        cache.keep(kept.path(), &kernels.join(package))?;
        self.cached(&kernels).ok_or_else(|| QemuError::Failed {
            program: "dpkg".into(),
            message: format!("{package} lacks {VMLINUZ} or {}", MODULES[0]),
        })
    }

    /// The kernel's files in `kernels` whose checksums are correct, preferably those of [`Self::package`].
    fn cached(&self, kernels: &Path) -> Option<KernelFiles> {
        let found = entries(kernels).into_iter().filter_map(|directory| {
            let package = directory.file_name()?.to_str()?.to_string();
            let brd = MODULES.iter().map(|name| directory.join(name)).find(|path| path.is_file())?;
            let files = KernelFiles { package, vmlinuz: directory.join(VMLINUZ), brd };
            let is_one = files.package.starts_with(self.prefix) && files.vmlinuz.is_file();
            (is_one && Cache::check(&directory).is_ok()).then_some(files)
        });
        found.max_by_key(|files| (files.package == self.package, numbers(&files.package)))
    }
}

/// Downloads and unpacks a package, given as `NAME` or `NAME=VERSION`, into `directory`.
pub(super) fn download(apt: &Apt, package: &str, directory: &Path, cache: &Cache) -> Result<(), QemuError> {
    let place = cache.unfinished()?;
    apt.run("apt-get", &["download", package], place.path())?;
    let archive = entries(place.path()).into_iter().next();
    let archive = archive.ok_or_else(|| QemuError::Failed {
        program: "apt-get".into(),
        message: format!("it downloaded no file of {package}"),
    })?;
    output(Command::new(find("dpkg", "dpkg")?).arg("-x").arg(archive).arg(directory)).map(|_| ())
}

/// The numbers in a name, for comparing versions.
fn numbers(name: &str) -> Vec<u64> {
    name.split(|letter: char| !letter.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// The entries of a directory, sorted by name; empty if it does not exist.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// The packages that a simulated installation would add: `NAME=NEW` for each line `Inst NAME [OLD] (NEW
/// ORIGIN [amd64])`.
fn new_packages(simulation: &str) -> Vec<String> {
    let package = |line: &str| {
        let (name, rest) = line.strip_prefix("Inst ")?.split_once(' ')?;
        let version = rest.split_once('(')?.1.split(' ').next()?;
        Some(format!("{name}={version}"))
    };
    simulation.lines().filter_map(package).collect()
}

/// Moves the needed files out of an unpacked package.
fn pick(unpacked: &Path, directory: &Path) -> Result<(), QemuError> {
    let mut pending = vec![unpacked.to_path_buf()];
    while let Some(path) = pending.pop() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let kept = match MODULES.iter().find(|module| **module == name) {
            Some(module) => module,
            None if name.starts_with("vmlinuz-") => VMLINUZ,
            None => {
                if path.is_dir() && !path.is_symlink() {
                    pending.extend(entries(&path));
                }
                continue;
            }
        };
        fs::rename(&path, directory.join(kept)).map_err(file_error(&path))?;
    }
    Ok(())
}

/// apt with its own lists and state.
pub(super) struct Apt {
    options: Vec<String>,
    place: PathBuf,
}

impl Apt {
    pub fn open(cache: &Cache) -> Result<Apt, QemuError> {
        let place = cache.directory("apt")?;
        for directory in ["lists/partial", "archives/partial"] {
            let path = place.join(directory);
            fs::create_dir_all(&path).map_err(file_error(&path))?;
        }
        let sources = place.join("sources.list");
        fs::write(&sources, Apt::sources()?).map_err(file_error(&sources))?;
        let status = place.join("status");
        fs::write(&status, "").map_err(file_error(&status))?;
        let at = place.display();
        let options = [
            format!("Dir::State={at}"),
            format!("Dir::State::lists={at}/lists"),
            format!("Dir::State::status={at}/status"),
            format!("Dir::Cache={at}"),
            format!("Dir::Etc::sourcelist={at}/sources.list"),
            "Acquire::AllowInsecureRepositories=false".into(),
            "APT::Get::AllowUnauthenticated=false".into(),
            "Dir::Etc::sourceparts=/dev/null".into(),
            "APT::Architecture=amd64".into(),
            "APT::Sandbox::User=root".into(),
        ];
        let options = options.into_iter().flat_map(|option| ["-o".into(), option]).collect();
        let apt = Apt { options, place };
        apt.run("apt-get", &["-q", "update"], &apt.place)?;
        Ok(apt)
    }

    /// The lines of sources.list: the suites, in the archives from which the machine's own apt gets Debian
    /// packages.
    fn sources() -> Result<String, QemuError> {
        let mut command = Command::new(find("apt-get", "apt")?);
        command.args([
            "indextargets",
            "--format",
            "$(ORIGIN) $(RELEASE) $(REPO_URI)",
            "Created-By: Packages",
        ]);
        let targets = output(&mut command)?;
        let archive = |security: bool| {
            let mut archives = targets.lines().filter_map(|line| {
                let (release, uri) = line.strip_prefix("Debian ")?.split_once(' ')?;
                (release.ends_with("-security") == security).then_some(uri)
            });
            archives.next()
        };
        let lines = SUITES.iter().filter_map(|suite| {
            let uri = archive(suite.ends_with("-security"))?;
            Some(format!("deb [arch=amd64 signed-by={KEYRING}] {uri} {suite} main\n"))
        });
        Ok(lines.collect())
    }

    /// The packages that installing `package` of `suite` would add to this machine, including dependencies,
    /// each as `NAME=VERSION`.
    pub fn would_install(&self, package: &str, suite: &str) -> Result<Vec<String>, QemuError> {
        let installed = format!("Dir::State::status={INSTALLED}");
        let words =
            ["install", "--simulate", "--no-install-recommends", "-o", &installed, "-t", suite, package];
        Ok(new_packages(&self.run("apt-get", &words, &self.place)?))
    }

    fn run(&self, program: &'static str, words: &[&str], directory: &Path) -> Result<String, QemuError> {
        output(Command::new(find(program, "apt")?).args(&self.options).args(words).current_dir(directory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksums;

    #[test]
    fn the_newest_kernel_is_taken_unless_that_of_the_recordings_is_there() {
        let cache = tempfile::tempdir().unwrap();
        let put = |package: &str, module: &str| {
            let directory = cache.path().join(package);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join(VMLINUZ), "").unwrap();
            fs::write(directory.join(module), "").unwrap();
            checksums::note(&directory).unwrap();
        };
        let found = || KERNELS[1].cached(cache.path()).map(|files| files.package);
        put("linux-image-6.1.0-56-cloud-amd64", "brd.ko");
        assert_eq!(found(), None);
        put("linux-image-6.12.100+deb12-cloud-amd64", "brd.ko.xz");
        put("linux-image-6.12.98+deb12-cloud-amd64", "brd.ko.xz");
        put("linux-image-6.12.101+deb12-cloud-amd64", "loop.ko.xz");
        assert_eq!(found().as_deref(), Some("linux-image-6.12.100+deb12-cloud-amd64"));
        put(KERNELS[1].package, "brd.ko.xz");
        assert_eq!(found().as_deref(), Some(KERNELS[1].package));
        // A file that was replaced by another one is not booted.
        fs::write(cache.path().join(KERNELS[1].package).join(VMLINUZ), "planted").unwrap();
        assert_eq!(found().as_deref(), Some("linux-image-6.12.100+deb12-cloud-amd64"));
    }

    #[test]
    fn what_would_be_installed_is_read_from_a_simulation() {
        let simulation = "NOTE: This is only a simulation!\n\
            Inst libaio1 (0.3.113-4 Debian:12.15/oldstable [amd64])\n\
            Inst qemu-system-x86 [1:7.2+dfsg-7] (1:10.0.2+ds-2~bpo12+1 Debian Backports:oldstable-backports [amd64])\n\
            Conf libaio1 (0.3.113-4 Debian:12.15/oldstable [amd64])\n";
        assert_eq!(new_packages(simulation), ["libaio1=0.3.113-4", "qemu-system-x86=1:10.0.2+ds-2~bpo12+1"]);
    }

    #[test]
    fn what_is_needed_is_kept() {
        let place = tempfile::tempdir().unwrap();
        let modules = place.path().join("new/usr/lib/modules/6.12/kernel/drivers/block");
        fs::create_dir_all(&modules).unwrap();
        fs::write(modules.join("brd.ko.xz"), "module").unwrap();
        fs::create_dir_all(place.path().join("new/boot")).unwrap();
        fs::write(place.path().join("new/boot/vmlinuz-6.12"), "kernel").unwrap();
        fs::write(place.path().join("new/boot/config-6.12"), "config").unwrap();
        let kept = place.path().join("kept");
        fs::create_dir(&kept).unwrap();
        pick(&place.path().join("new"), &kept).unwrap();
        assert_eq!(entries(&kept), [kept.join("brd.ko.xz"), kept.join("vmlinuz")]);
        assert_eq!(fs::read_to_string(kept.join("vmlinuz")).unwrap(), "kernel");
    }
}
