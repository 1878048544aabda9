//! Inside the guest: this program runs as init of a kernel that has no other userspace.
//!
//! ```text
//!   mount proc, sysfs, debugfs, devtmpfs, cgroup2
//!   load brd, copy the disk into it, mount it      /mnt: a file system with a page cache
//!   run the task
//!   send its files, one per line, to the second serial line
//!   restart, which ends the emulation
//! ```
//!
//! A line is `file NAME HEX`, or `error MESSAGE` if the task failed; the last line is `end`.

use crate::notice::say;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, finit_module, reboot};

use super::initramfs::{DISK, DISK_KIB, MODULE};
use super::machine::GuestFile;

const LINE: &str = "/dev/ttyS1";
const BLOCK_DEVICE: &str = "/dev/ram0";
const CGROUPS: &str = "/sys/fs/cgroup";
/// Mount point of the disk.
pub const DIRECTORY: &str = "/mnt";
/// `MODULE_INIT_COMPRESSED_FILE`: the kernel decompresses the module.
const COMPRESSED: i32 = 4;

/// Prepares the machine, runs `work`, sends the files in the directory that it returns, and restarts.
pub fn serve(work: impl FnOnce() -> Result<PathBuf, String>) -> io::Result<()> {
    let done = prepare()
        .map_err(|error| error.to_string())
        .and_then(|()| work())
        .and_then(|directory| lines(&directory).map_err(|error| format!("{}: {error}", directory.display())));
    let text = done.unwrap_or_else(|message| {
        say(&message);
        format!("error {}\n", message.replace('\n', ", "))
    });
    let mut line = File::options().write(true).open(LINE)?;
    line.write_all(text.as_bytes())?;
    line.write_all(b"end\n")?;
    // Closing the tty waits until everything is sent.
    drop(line);
    Ok(reboot(RebootCommand::Restart)?)
}

/// Mounts file systems and loads the module.
fn prepare() -> io::Result<()> {
    let kinds = [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("debugfs", "/sys/kernel/debug"),
        ("devtmpfs", "/dev"),
        ("cgroup2", CGROUPS),
    ];
    for (kind, place) in kinds {
        mount_at(kind, kind, place)?;
    }
    fs::write(Path::new(CGROUPS).join("cgroup.subtree_control"), "+memory")?;
    let module = File::open(MODULE)?;
    let parameters = std::ffi::CString::new(format!("rd_nr=1 rd_size={DISK_KIB}"))?;
    // If the kernel does not recognise the module, it is compressed.
    finit_module(&module, &parameters, 0).or_else(|_| finit_module(&module, &parameters, COMPRESSED))?;
    let mut disk = File::options().write(true).open(BLOCK_DEVICE)?;
    io::copy(&mut File::open(DISK)?, &mut disk)?;
    disk.sync_all()?;
    mount_at(BLOCK_DEVICE, "ext4", DIRECTORY)
}

fn mount_at(source: &str, kind: &str, place: &str) -> io::Result<()> {
    fs::create_dir_all(place)?;
    mount(source, place, kind, MountFlags::empty(), None)
        .map_err(|error| io::Error::other(format!("cannot mount {kind} at {place}: {error}")))
}

/// The lines for the files in `directory`.
fn lines(directory: &Path) -> io::Result<String> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.sort();
    let mut text = String::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        text += &format!("file {name} ");
        fs::read(&path)?.iter().for_each(|byte| text += &format!("{byte:02x}"));
        text.push('\n');
    }
    Ok(text)
}

/// Parses the files from the lines that a guest sent.
pub(super) fn files(text: &str) -> Result<Vec<GuestFile>, String> {
    let mut files = Vec::new();
    for line in text.lines().map(|line| line.trim_end_matches('\r')) {
        let wrong = || format!("sent `{:.40}`, which is not a line with a file", line);
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["file", name, digits] if !name.contains('/') => {
                let content = digits.as_bytes().chunks(2).map(|pair| {
                    let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
                    u8::from_str_radix(pair, 16).ok()
                });
                let content = content.collect::<Option<Vec<u8>>>().ok_or_else(wrong)?;
                files.push(GuestFile { name: name.to_string(), content });
            }
            ["end"] => return Ok(files),
            ["error", ..] => return Err(line.trim_start_matches("error ").to_string()),
            _ => return Err(wrong()),
        }
    }
    Err("it ended before it had sent everything".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_arrives() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("b.zst"), [0, 255, 10]).unwrap();
        fs::write(directory.path().join("a"), []).unwrap();
        let text = lines(directory.path()).unwrap().replace('\n', "\r\n") + "end\r\n";
        let expected = [("a", vec![]), ("b.zst", vec![0, 255, 10])];
        let expected = expected.map(|(name, content)| GuestFile { name: name.into(), content }).to_vec();
        assert_eq!(files(&text), Ok(expected));
    }

    #[test]
    fn what_is_damaged_is_refused() {
        let error = |text: &str| files(text).unwrap_err();
        assert_eq!(error("file a 00\r\n"), "it ended before it had sent everything");
        assert_eq!(error("error no disk, nothing\r\nend\r\n"), "no disk, nothing");
        assert_eq!(error("file a 0x\nend"), "sent `file a 0x`, which is not a line with a file");
        assert_eq!(error("file a 000\nend"), "sent `file a 000`, which is not a line with a file");
        assert_eq!(error("file ../a 00\nend"), "sent `file ../a 00`, which is not a line with a file");
        assert_eq!(error("file a é0\nend"), "sent `file a é0`, which is not a line with a file");
    }
}
