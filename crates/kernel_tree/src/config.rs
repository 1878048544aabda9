//! A kernel's configuration: which options are set, and whether a condition of the preprocessor holds.
//!
//! Without a `.config` those options are set that every server kernel has. A condition about anything else (a header's guard, an
//! architecture's macro) is neither true nor false: what it holds is there unless it is there twice.

use std::collections::BTreeMap;
use tree_sitter::Node;

/// Options that are y where no configuration is given.
const DEFAULTS: [&str; 16] = [
    "64BIT",
    "COMPACTION",
    "CPUSETS",
    "LRU_GEN",
    "LRU_GEN_ENABLED",
    "LRU_GEN_WALKS_MMU",
    "MEMCG",
    "MIGRATION",
    "MMU",
    "NUMA",
    "NUMA_BALANCING",
    "SMP",
    "SWAP",
    "SYSCTL",
    "TRANSPARENT_HUGEPAGE",
    "VM_EVENT_COUNTERS",
];

/// The options of a kernel's configuration that are set, with their values.
#[derive(Clone, Debug)]
pub struct Config {
    options: BTreeMap<String, String>,
}

/// Whether a condition of the preprocessor holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Truth {
    /// The condition does not hold.
    False,
    /// The configuration does not say.
    Unknown,
    /// The condition holds.
    True,
}

impl Truth {
    /// Whether both hold.
    pub fn and(self, other: Truth) -> Truth {
        self.min(other)
    }

    /// Whether one of both holds.
    fn or(self, other: Truth) -> Truth {
        self.max(other)
    }

    /// Whether it does not hold.
    pub fn not(self) -> Truth {
        match self {
            Truth::False => Truth::True,
            Truth::Unknown => Truth::Unknown,
            Truth::True => Truth::False,
        }
    }
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Truth {
        if holds { Truth::True } else { Truth::False }
    }
}

impl Default for Config {
    fn default() -> Config {
        let set = DEFAULTS.iter().map(|option| (format!("CONFIG_{option}"), "1".to_string()));
        let batch = [("CONFIG_PCP_BATCH_SCALE_MAX", "5"), ("CONFIG_NODES_SHIFT", "10"), ("CONFIG_HZ", "250")];
        let numbers = batch.map(|(option, value)| (option.to_string(), value.to_string()));
        Config { options: set.chain(numbers).collect() }
    }
}

impl Config {
    /// Reads a `.config`. Options of the default that it does not name are not set; numbers stay.
    pub fn parse(text: &str) -> Config {
        let mut options: BTreeMap<String, String> =
            Config::default().options.into_iter().filter(|(_, value)| value != "1").collect();
        for line in text.lines().map(str::trim).filter(|line| line.starts_with("CONFIG_")) {
            if let Some((option, value)) = line.split_once('=') {
                let value = if value == "y" || value == "m" { "1" } else { value };
                options.insert(option.to_string(), value.to_string());
            }
        }
        Config { options }
    }

    /// The value of an option; `1` stands for y.
    pub fn value(&self, option: &str) -> Option<&str> {
        self.options.get(option).map(String::as_str)
    }

    /// Whether `name` is defined.
    pub fn is_defined(&self, name: &str) -> Truth {
        if name.starts_with("CONFIG_") { self.value(name).is_some().into() } else { Truth::Unknown }
    }

    /// Whether the condition of an `#if` holds.
    pub fn holds(&self, condition: Node, text: &str) -> Truth {
        let of = |node: Node| text.get(node.byte_range()).unwrap_or_default();
        let child = |number: u32| condition.named_child(number).map(|node| self.holds(node, text));
        match condition.kind() {
            "parenthesized_expression" => child(0).unwrap_or(Truth::Unknown),
            "preproc_defined" => match condition.named_child(0) {
                Some(name) => self.is_defined(of(name)),
                None => Truth::Unknown,
            },
            "unary_expression" if of(condition).starts_with('!') => {
                child(0).map_or(Truth::Unknown, Truth::not)
            }
            "binary_expression" => {
                let operator = condition.child_by_field_name("operator").map(of).unwrap_or_default();
                match (operator, child(0), child(1)) {
                    ("&&", Some(left), Some(right)) => left.and(right),
                    ("||", Some(left), Some(right)) => left.or(right),
                    _ => Truth::Unknown,
                }
            }
            "call_expression" => self.asks_for_option(of(condition)),
            "identifier" if of(condition).starts_with("CONFIG_") => {
                self.value(of(condition)).is_some_and(|value| value != "0").into()
            }
            "number_literal" => (of(condition) != "0").into(),
            _ => Truth::Unknown,
        }
    }

    fn asks_for_option(&self, call: &str) -> Truth {
        let Some((asks, option)) = call.trim_end_matches(')').split_once('(') else { return Truth::Unknown };
        match asks {
            "IS_ENABLED" | "IS_BUILTIN" | "IS_REACHABLE" => {
                self.value(option).is_some_and(|value| value == "1").into()
            }
            _ => Truth::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_file_says_what_is_set() {
        let config = Config::parse("# CONFIG_NUMA is not set\nCONFIG_SMP=y\nCONFIG_X=m\nCONFIG_HZ=1000\n");
        assert_eq!(
            ["CONFIG_SMP", "CONFIG_X", "CONFIG_HZ"].map(|o| config.value(o)),
            [Some("1"), Some("1"), Some("1000")]
        );
        assert_eq!(config.is_defined("CONFIG_NUMA"), Truth::False);
        assert_eq!(Config::default().is_defined("CONFIG_NUMA"), Truth::True);
        assert_eq!(config.is_defined("_LINUX_MMZONE_H"), Truth::Unknown);
    }

    #[test]
    fn conditions_hold_or_not_or_nobody_knows() {
        let config = Config::default();
        let cases = [
            ("defined(CONFIG_NUMA) && !defined(CONFIG_ODD)", Truth::True),
            ("IS_ENABLED(CONFIG_ODD) || 0", Truth::False),
            ("defined(__x86_64__) || defined(CONFIG_SMP)", Truth::True),
            ("defined(__x86_64__) && defined(CONFIG_SMP)", Truth::Unknown),
            ("!(CONFIG_SMP)", Truth::False),
        ];
        for (condition, expected) in cases {
            let text = format!("#if {condition}\nint x;\n#endif\n");
            let tree = crate::source::parse(&text);
            let directive = tree.root_node().named_child(0).unwrap();
            let condition = directive.child_by_field_name("condition").unwrap();
            assert_eq!(config.holds(condition, &text), expected, "{text}");
        }
    }
}
