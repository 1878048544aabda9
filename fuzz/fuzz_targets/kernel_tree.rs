//! Any text in place of a kernel's file has decisions in it or there is an error; nothing of it is compiled or run.

#![no_main]

use kernel_tree::{Config, DECISIONS, Extract, KernelTree};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|content: &[u8]| {
    let text = String::from_utf8_lossy(content);
    // Options of a configuration come first, in lines of their own.
    let config = Config::parse(&text);
    let place = tempfile::tempdir().expect("a directory for temporary files");
    for decision in DECISIONS {
        let file = place.path().join(decision.file);
        let parent = file.parent().expect("a file is in a directory");
        std::fs::create_dir_all(parent).expect("a directory of our own");
        std::fs::write(&file, content).expect("a file of our own");
    }
    let tree = KernelTree::new(place.path(), config);
    for decision in DECISIONS {
        let _ = Extract::of(&tree, &[decision]);
    }
});
