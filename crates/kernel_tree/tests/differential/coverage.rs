//! Which branches of the tree's C were taken, as gcov says.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// What gcov says of the tree's files.
pub struct Report {
    pub branches: usize,
    pub reached: usize,
    /// File, line and which of its branches.
    pub missed: Vec<String>,
}

/// Of the objects in `directory`, once they have written what was taken.
pub fn report(directory: &Path) -> Report {
    let notes = std::fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path());
    let notes = notes.filter(|path| path.extension().is_some_and(|extension| extension == "gcno"));
    let mut report = Report { branches: 0, reached: 0, missed: Vec::new() };
    for note in notes {
        let output = Command::new("gcov")
            .args(["--json-format", "--stdout", "--branch-probabilities"])
            .arg(&note)
            .current_dir(directory)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        // Our own header and shims are not what is judged.
        let of_tree = |file: &&Value| file["file"].as_str().is_some_and(|name| !name.starts_with("mmtwin/"));
        json["files"].as_array().unwrap().iter().filter(of_tree).for_each(|file| report.add(file));
    }
    report
}

impl Report {
    fn add(&mut self, file: &Value) {
        for line in file["lines"].as_array().unwrap() {
            for (number, branch) in line["branches"].as_array().unwrap().iter().enumerate() {
                self.branches += 1;
                if branch["count"].as_u64() > Some(0) {
                    self.reached += 1;
                } else {
                    let name = file["file"].as_str().unwrap();
                    self.missed.push(format!("{name}:{} branch {number}", line["line_number"]));
                }
            }
        }
    }
}
