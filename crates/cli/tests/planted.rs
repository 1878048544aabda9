//! `mmtwin verify --qemu` must not run a program that another user has placed where it looks for its
//! emulator.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Places a program in the emulator's directory below `cache`; if it is run, it creates the file `run`.
fn plant(cache: &Path, run: &Path) {
    let program = cache.join("mmtwin/qemu/bookworm-backports/usr/bin/qemu-system-x86_64");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    fs::write(&program, format!("#!/bin/sh\ntouch {}\necho QEMU emulator version 10.0.2\n", run.display()))
        .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The exit code and stderr of `mmtwin verify --qemu` with an empty PATH.
fn verify(set: impl Fn(&mut Command) -> &mut Command) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmtwin"));
    command
        .args(["verify", "numa", "--qemu"])
        .env_remove("HOME")
        .env_remove("XDG_CACHE_HOME")
        .env("PATH", "/nonexistent");
    set(&mut command);
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn without_a_home_nothing_is_looked_for_among_temporary_files() {
    let place = tempfile::tempdir().unwrap();
    let run = place.path().join("run");
    plant(place.path(), &run);
    for home in ["", "relative"] {
        let (code, said) = verify(|command| command.env("TMPDIR", place.path()).env("HOME", home));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("set XDG_CACHE_HOME to a directory of your own"), "{said}");
    }
    assert!(!run.exists());
}

#[test]
fn a_cache_that_others_can_write_to_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let (cache, run) = (place.path().join("cache"), place.path().join("run"));
    plant(&cache, &run);
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).unwrap();
    let (code, said) = verify(|command| command.env("XDG_CACHE_HOME", &cache));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("others can write to it (mode 0777)"), "{said}");
    assert!(!run.exists());
}

#[test]
fn a_program_without_its_hash_is_not_run() {
    let place = tempfile::tempdir().unwrap();
    let (cache, run) = (place.path().join("cache"), place.path().join("run"));
    plant(&cache, &run);
    fs::set_permissions(cache.join("mmtwin"), fs::Permissions::from_mode(0o700)).unwrap();
    let (code, said) = verify(|command| command.env("XDG_CACHE_HOME", &cache));
    assert_eq!(code, Some(0), "nothing could be emulated, and the report says so: {said}");
    assert!(!run.exists());
}
