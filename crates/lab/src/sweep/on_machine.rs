//! How what a sweep recommends is tried on the real machine, and taken back. Nothing here is done: these are texts.
//!
//! ```text
//!   vm.swappiness                  sysctl -w vm.swappiness=100
//!   transparent_hugepage/enabled   echo never > /sys/kernel/mm/transparent_hugepage/enabled
//!   queue/read_ahead_kb            echo 4096 > /sys/block/DEVICE/queue/read_ahead_kb
//!   thp_anon                       the kernel's command line
//! ```

use mm::sysctl::{is_of_command_line, module_of};
use schemars::JsonSchema;
use serde::Serialize;

/// A value that a sweep chose for a key.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Chosen {
    pub key: String,
    pub value: String,
    /// What it is by default, where that is the same in the whole fleet.
    pub default: Option<String>,
}

/// Where a key is on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Sysctl,
    File(String),
    CommandLine,
    /// It is none of a running kernel's.
    Nowhere,
}

/// Directories of settings whose names lack them: below which directory a file is.
const DIRECTORIES: [(&str, &str); 6] = [
    ("transparent_hugepage/", "/sys/kernel/mm/"),
    ("lru_gen/", "/sys/kernel/mm/"),
    ("swap/", "/sys/kernel/mm/"),
    ("numa/", "/sys/kernel/mm/"),
    ("queue/", "/sys/block/DEVICE/"),
    ("numa_balancing/", "/sys/kernel/debug/sched/"),
];

fn place(key: &str) -> Place {
    if let Some((module, parameter)) = module_of(key) {
        return Place::File(format!("/sys/module/{module}/parameters/{parameter}"));
    }
    let directory = DIRECTORIES.iter().find(|(prefix, _)| key.starts_with(prefix));
    match (key, directory) {
        _ if key.starts_with("vm.") || key.starts_with("kernel.") => Place::Sysctl,
        (_, Some((_, directory))) => Place::File(format!("{directory}{key}")),
        ("tlb_single_page_flush_ceiling", _) => Place::File(format!("/sys/kernel/debug/x86/{key}")),
        _ if is_of_command_line(key) => Place::CommandLine,
        _ => Place::Nowhere,
    }
}

impl Chosen {
    /// Whether it is a setting of a running kernel, or of its boot.
    pub fn is_setting(&self) -> bool {
        place(&self.key) != Place::Nowhere
    }

    /// Whether a file for sysctl.d can set it.
    pub fn is_of_sysctl(&self) -> bool {
        place(&self.key) == Place::Sysctl
    }

    /// The command that sets it on a running kernel.
    pub fn command(&self) -> String {
        command(&self.key, &self.value)
    }

    /// The command that shows what it is now; none if no file does.
    pub fn read(&self) -> Option<String> {
        match place(&self.key) {
            Place::Sysctl => Some(format!("sysctl {}", self.key)),
            Place::File(path) => Some(format!("cat {path}")),
            Place::CommandLine | Place::Nowhere => None,
        }
    }

    /// The command that takes it back.
    pub fn undo(&self) -> String {
        match &self.default {
            Some(default) if default != "computed" => {
                format!("{}   # or what you noted", command(&self.key, default))
            }
            _ => format!("# {}: write back what it was before", self.key),
        }
    }
}

fn command(key: &str, value: &str) -> String {
    match place(key) {
        Place::Sysctl if value.contains(' ') => format!("sysctl -w '{key}={value}'"),
        Place::Sysctl => format!("sysctl -w {key}={value}"),
        Place::File(path) => format!("echo {value} > {path}"),
        Place::CommandLine => format!("# {key}={value}: on the kernel's command line, at the next boot"),
        Place::Nowhere => format!("# {key}={value}: not a setting of a running kernel"),
    }
}

/// A file for /etc/sysctl.d: `notes` as comments, then what is chosen. Settings that sysctl does not know are comments with the command.
pub fn sysctl_file(notes: &[String], chosen: &[Chosen]) -> String {
    let comment = |text: &str| if text.is_empty() { "#\n".to_string() } else { format!("# {text}\n") };
    let mut file: String = notes.iter().flat_map(|note| note.lines()).map(comment).collect();
    for chosen in chosen {
        file += &match (place(&chosen.key), &chosen.value) {
            (Place::Sysctl, value) => format!("{} = {value}\n", chosen.key),
            _ => comment(&format!("not of sysctl: {}", chosen.command().trim_start_matches("# "))),
        };
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use mm::SETTINGS;

    fn chosen(key: &str, value: &str, default: &str) -> Chosen {
        Chosen { key: key.into(), value: value.into(), default: Some(default.into()) }
    }

    #[test]
    fn every_setting_of_a_directory_has_a_place() {
        // Injected failures and histories of the twin are set up, not chosen.
        let nowhere = SETTINGS.iter().filter(|setting| place(setting.name) == Place::Nowhere);
        let nowhere: Vec<&str> = nowhere.map(|setting| setting.name).collect();
        let of_the_twin = ["zswap_ever_enabled", "fail_page_alloc/", "failslab/"];
        assert!(
            nowhere.iter().all(|name| of_the_twin.iter().any(|prefix| name.starts_with(prefix))),
            "{nowhere:?}"
        );
    }

    #[test]
    fn commands_set_and_take_back() {
        let swappiness = chosen("vm.swappiness", "100", "60");
        assert_eq!(swappiness.command(), "sysctl -w vm.swappiness=100");
        assert_eq!(swappiness.undo(), "sysctl -w vm.swappiness=60   # or what you noted");
        let thp = chosen("transparent_hugepage/enabled", "never", "madvise");
        assert_eq!(thp.command(), "echo never > /sys/kernel/mm/transparent_hugepage/enabled");
        let computed = chosen("vm.min_free_kbytes", "65536", "computed");
        assert!(computed.undo().contains("what it was before"));
        let file = sysctl_file(&["gains 5 %\n\nof 2 seeds".into()], &[swappiness, thp]);
        let expected = "# gains 5 %\n#\n# of 2 seeds\nvm.swappiness = 100\n\
                        # not of sysctl: echo never > /sys/kernel/mm/transparent_hugepage/enabled\n";
        assert_eq!(file, expected);
    }
}
