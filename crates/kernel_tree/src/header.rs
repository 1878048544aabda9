//! The header that decisions find instead of the kernel's: which names it has, and which of them lose or declare a call's arguments.

use crate::config::Config;
use crate::source::{Argument, Kind, Source, macro_parts, names_declared_in_macro, names_in_macro, visit};
use std::collections::{BTreeMap, BTreeSet};

/// Names that every C compiler has.
const OF_THE_COMPILER: [&str; 36] = [
    "__VA_ARGS__",
    "__auto_type",
    "__func__",
    "__typeof__",
    "auto",
    "break",
    "case",
    "char",
    "const",
    "continue",
    "default",
    "defined",
    "do",
    "double",
    "else",
    "enum",
    "extern",
    "float",
    "for",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "switch",
    "typeof",
    "union",
    "unsigned",
    "void",
    "while",
];

/// A structure's field as it is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StructField {
    /// The name of the field.
    pub name: String,
    /// Type and declarator, the name included, with single blanks.
    pub declared: String,
    /// The line of the declaration, from 1.
    pub line: usize,
}

/// What decisions find in the header.
pub struct Header {
    names: BTreeSet<String>,
    /// Of macros, what their body makes of each parameter.
    parameters: BTreeMap<String, Vec<Argument>>,
    structs: BTreeMap<String, Vec<StructField>>,
    /// Macros that are another name for something.
    aliases: BTreeMap<String, String>,
}

impl Header {
    /// Reads the texts that it consists of.
    pub fn of(texts: &[&str]) -> Header {
        let mut header = Header {
            names: OF_THE_COMPILER.iter().map(|name| name.to_string()).collect(),
            parameters: BTreeMap::new(),
            structs: BTreeMap::new(),
            aliases: BTreeMap::new(),
        };
        for text in texts {
            header.add(&Source::of("header", text.to_string(), &Config::default()));
        }
        header
    }

    fn add(&mut self, source: &Source) {
        for item in &source.items {
            self.names.insert(item.name.clone());
            let Some(node) = source.node(item) else { continue };
            if item.kind == Kind::Macro {
                let (parameters, body) = macro_parts(node, &source.text);
                if parameters.is_empty()
                    && body.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
                {
                    self.aliases.insert(item.name.clone(), body.to_string());
                }
                let (used, declared) = (names_in_macro(body), names_declared_in_macro(body));
                let argument =
                    |parameter: &&str| match (declared.contains(*parameter), used.contains(*parameter)) {
                        (true, _) => Argument::Declared,
                        (false, true) => Argument::Used,
                        (false, false) => Argument::Dropped,
                    };
                self.parameters.insert(item.name.clone(), parameters.iter().map(argument).collect());
            }
            if item.kind == Kind::Type {
                self.structs.insert(item.name.clone(), fields(source, node));
            }
        }
    }

    /// Whether the header, or the compiler, has a name.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name) || name.starts_with("__builtin_") || name.starts_with("__atomic_")
    }

    /// What becomes of a call's argument, from 0: of a function's, all are used.
    pub fn argument(&self, function: &str, argument: usize) -> Argument {
        let of_macro = self.parameters.get(function).and_then(|parameters| parameters.get(argument));
        of_macro.copied().unwrap_or(Argument::Used)
    }

    /// A declaration of a tree in the words of the header.
    pub fn renamed(&self, declared: &str) -> String {
        let words = declared.split(' ').map(|word| self.aliases.get(word).map_or(word, String::as_str));
        words.collect::<Vec<_>>().join(" ")
    }

    /// All structures of the header with their fields.
    pub fn structs(&self) -> impl Iterator<Item = (&str, &[StructField])> {
        self.structs.iter().map(|(name, fields)| (name.as_str(), fields.as_slice()))
    }
}

/// The fields of the structure at `node`.
pub fn fields(source: &Source, node: tree_sitter::Node) -> Vec<StructField> {
    let mut fields = Vec::new();
    visit(node, &mut |node| {
        if node.kind() != "field_declaration" {
            return true;
        }
        let of_type = node.child_by_field_name("type").map(|node| source.text_of(node)).unwrap_or_default();
        let mut cursor = node.walk();
        for declarator in node.children_by_field_name("declarator", &mut cursor) {
            if let Some(name) = crate::source::declared_name(declarator) {
                let declared = format!("{of_type} {}", source.text_of(declarator));
                fields.push(StructField {
                    name: source.text_of(name).to_string(),
                    declared: declared.split_whitespace().collect::<Vec<_>>().join(" "),
                    line: declarator.start_position().row + 1,
                });
            }
        }
        false
    });
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_which_names_it_has_and_what_becomes_of_arguments() {
        let header = Header::of(&[
            "#define count(event, number) ((void)(number))\n#define STATE(name, of) struct zone name = { of }\n\
             #define container_of(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))\n",
            "enum mark { LOW, HIGH };\nstruct zone { int a, *b; unsigned long marks[HIGH]; };\nstatic inline int f(int x) { return x; }\n",
        ]);
        assert!(["count", "LOW", "zone", "f", "__builtin_clz"].iter().all(|name| header.has(name)));
        assert!(!header.has("number") && !header.has("a"));
        let of = |name| [0, 1, 2].map(|argument| header.argument(name, argument));
        assert_eq!(of("count"), [Argument::Dropped, Argument::Used, Argument::Used]);
        assert_eq!(of("STATE"), [Argument::Declared, Argument::Used, Argument::Used]);
        assert_eq!(
            of("container_of"),
            [Argument::Used, Argument::Used, Argument::Dropped],
            "a field is no name"
        );
        let declared: Vec<_> =
            header.structs().flat_map(|(_, fields)| fields).map(|field| field.declared.as_str()).collect();
        assert_eq!(declared, ["int a", "int *b", "unsigned long marks[HIGH]"]);
    }
}
