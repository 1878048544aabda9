//! Changes are undone no matter which process is killed, and when.

use rustix::process::{Pid, Signal, kill_process};

use super::*;

/// A directory with two files that stand for settings.
fn files() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (directory.path().join("first"), directory.path().join("second one"));
    fs::write(&first, "1\n").unwrap();
    fs::write(&second, "a b\n").unwrap();
    (directory, first, second)
}

/// The directory of notes.
fn notes(directory: &Path) -> Directory {
    Directory::open(&directory.join("notes")).unwrap()
}

fn begin(directory: &Path) -> Guard {
    Guard::begin(notes(directory)).unwrap()
}

fn note_of(guard: &Guard) -> &Path {
    guard.kept.as_ref().unwrap().note.path()
}

fn pid_of_shell(guard: &Guard) -> Pid {
    Pid::from_child(&guard.kept.as_ref().unwrap().shell)
}

/// Rewrites a note so that it seems to be from a process that has exited.
fn as_if_killed(note: &str) -> String {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let (first, rest) = note.split_once('\n').unwrap();
    let boot = first.rsplit_once('\t').unwrap().1;
    format!("process\t{}\t1\t{boot}\n{rest}", child.id())
}

#[test]
fn settings_get_their_values_back() {
    let (directory, first, second) = files();
    let guard = begin(directory.path());
    let [one, other] = [&first, &second].map(|path| guard.setting(path).unwrap());
    other.set("c").unwrap();
    one.set("2").unwrap();
    let busy = begin(directory.path()).setting(&first).unwrap_err().to_string();
    assert!(busy.contains("another mmtwin"), "{busy}");
    drop(guard);
    assert_eq!((value(&first).unwrap().as_str(), value(&second).unwrap().as_str()), ("1", "a b"));
    assert_eq!(fs::read_dir(directory.path().join("notes")).unwrap().count(), 0);
}

#[test]
fn a_word_in_brackets_is_chosen() {
    let (_directory, first, second) = files();
    fs::write(&second, "always [madvise] never\n").unwrap();
    assert_eq!((value(&second).unwrap().as_str(), value(&first).unwrap().as_str()), ("madvise", "1"));
}

#[test]
fn a_panic_is_no_obstacle() {
    let (directory, _, second) = files();
    let (place, path) = (directory.path().to_path_buf(), second.clone());
    let thread = std::thread::spawn(move || {
        let guard = begin(&place);
        guard.setting(&path).unwrap().set("c").unwrap();
        panic!("on purpose");
    });
    assert!(thread.join().is_err());
    assert_eq!(value(&second).unwrap(), "a b");
}

#[test]
fn what_was_made_is_removed_and_what_others_made_is_not() {
    let (directory, first, _) = files();
    let guard = begin(directory.path());
    let made = guard.kernel_directory(directory.path()).unwrap();
    let file = guard.file(directory.path()).unwrap().keep().unwrap().1;
    let inner = guard.directory(directory.path()).unwrap();
    fs::write(inner.path().join("content"), "").unwrap();
    let inner = std::mem::ManuallyDrop::new(inner);
    // A symbolic link has been put in place of a file in the note.
    let link = guard.file(directory.path()).unwrap().path().to_path_buf();
    std::os::unix::fs::symlink(&first, &link).unwrap();
    drop(guard);
    assert!(!made.exists() && !file.exists() && !inner.path().exists());
    assert!(link.is_symlink() && first.exists());
}

#[test]
fn a_shell_that_ignores_signals_is_there_before_anything_changes() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::PIPE] {
        let (directory, first, _) = files();
        let guard = begin(directory.path());
        // Immediately, before anything was changed.
        kill_process(pid_of_shell(&guard), signal).unwrap();
        guard.setting(&first).unwrap().set("2").unwrap();
        drop(guard);
        assert_eq!(value(&first).unwrap(), "1", "{signal:?}");
    }
}

#[test]
fn a_shell_that_is_killed_is_replaced() {
    let (directory, first, _) = files();
    let guard = begin(directory.path());
    guard.setting(&first).unwrap().set("2").unwrap();
    kill_process(pid_of_shell(&guard), Signal::KILL).unwrap();
    drop(guard);
    assert_eq!(value(&first).unwrap(), "1");
}

#[test]
fn what_a_killed_process_and_its_shell_left_is_put_back() {
    let (directory, first, second) = files();
    let guard = begin(directory.path());
    let [one, other] = [&first, &second].map(|path| guard.setting(path).unwrap());
    let file = guard.file(directory.path()).unwrap().keep().unwrap().1;
    let text = fs::read_to_string(note_of(&guard)).unwrap();
    // The changes of a process that is alive are not undone.
    one.set("2").unwrap();
    other.set("c").unwrap();
    notes(directory.path()).put_back_left().unwrap();
    assert_eq!(value(&first).unwrap(), "2");
    drop(guard);

    fs::write(&first, "2").unwrap();
    fs::write(&second, "c").unwrap();
    fs::write(&file, "").unwrap();
    let left = directory.path().join("notes/note-left");
    // The process was killed while it wrote the last line.
    fs::write(&left, as_if_killed(&text) + "setting\t/proc/sys/vm/swappiness\t1").unwrap();
    notes(directory.path()).put_back_left().unwrap();
    assert_eq!((value(&first).unwrap().as_str(), value(&second).unwrap().as_str()), ("1", "a b"));
    assert!(!file.exists() && !left.exists());
}

#[test]
fn settings_of_an_earlier_boot_are_not_touched() {
    let (directory, first, _) = files();
    let guard = begin(directory.path());
    guard.setting(&first).unwrap();
    let file = guard.file(directory.path()).unwrap().keep().unwrap().1;
    let text = as_if_killed(&fs::read_to_string(note_of(&guard)).unwrap());
    drop(guard);
    fs::write(&first, "2").unwrap();
    fs::write(&file, "").unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let left = directory.path().join("notes/note-left");
    fs::write(&left, text.replace(boot.trim(), "another")).unwrap();
    notes(directory.path()).put_back_left().unwrap();
    assert_eq!(value(&first).unwrap(), "2");
    assert!(!file.exists() && !left.exists());
}

#[test]
fn what_cannot_be_put_back_is_tried_again() {
    let (directory, first, _) = files();
    let guard = begin(directory.path());
    let made = guard.kernel_directory(directory.path()).unwrap();
    guard.setting(&first).unwrap();
    let text = as_if_killed(&fs::read_to_string(note_of(&guard)).unwrap());
    drop(guard);
    fs::create_dir(&made).unwrap();
    fs::write(made.join("occupant"), "").unwrap();
    fs::write(&first, "2").unwrap();
    let left = directory.path().join("notes/note-left");
    fs::write(&left, text).unwrap();
    notes(directory.path()).put_back_left().unwrap();
    assert!(left.exists() && made.exists());
    assert_eq!(value(&first).unwrap(), "1");
    fs::remove_file(made.join("occupant")).unwrap();
    notes(directory.path()).put_back_left().unwrap();
    assert!(!left.exists() && !made.exists());
}

#[test]
fn what_somebody_else_put_among_the_notes_is_no_note() {
    let (directory, first, _) = files();
    let place = notes(directory.path());
    std::os::unix::fs::symlink(&first, place.path.join("note-link")).unwrap();
    fs::create_dir(place.path.join("note-directory")).unwrap();
    place.put_back_left().unwrap();
    assert_eq!(value(&first).unwrap(), "1");
}
