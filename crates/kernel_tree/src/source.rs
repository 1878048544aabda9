//! One C file: what it defines at its top level, under which conditions of the preprocessor, and which names a piece of it uses.
//!
//! ```text
//!   #ifdef CONFIG_NUMA ─┬─ static int zone_x(...) {...}   Item { name: zone_x, kind: Function, holds: True }
//!   #else              ─┴─ ...                            not an item
//!   enum { A, B };                                        Item A and Item B, of the same piece of text
//! ```
//!
//! Annotations of the kernel (`noinline`, `__init`) are no C, and a C grammar takes them for types. They are blanked before the file
//! is parsed; the text that is handed on to the compiler has them still.

use crate::config::{Config, Truth};
use std::collections::BTreeSet;
use std::ops::Range;
use tree_sitter::{Node, Parser, Tree};

/// What stands before a function or variable and would be taken for its type.
const ANNOTATIONS: [&str; 18] = [
    "noinline",
    "noinline_for_stack",
    "__always_inline",
    "__always_unused",
    "__bitwise",
    "__cold",
    "__force",
    "__init",
    "__initdata",
    "__maybe_unused",
    "__meminit",
    "__meminitdata",
    "__must_check",
    "__read_mostly",
    "__ref",
    "__ro_after_init",
    "__sched",
    "__user",
];

/// How often a file is parsed again without what was torn.
const MOST_PASSES: usize = 16;

/// Levels of nesting; kernel sources have some dozens.
const MOST_DEPTH: usize = 500;

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A function with its body.
    Function,
    /// A macro.
    Macro,
    /// A constant of an enumeration.
    Constant,
    /// A structure, union or enumeration with its fields, or a `typedef`.
    Type,
    /// A variable.
    Variable,
}

/// Something that a file defines at its top level.
#[derive(Clone, Debug)]
pub struct Item {
    /// The name of the item; of a structure, its tag.
    pub name: String,
    /// What kind of item it is.
    pub kind: Kind,
    /// Where the text of the item is in the file.
    pub range: Range<usize>,
    /// The first line of the item, from 1.
    pub line: usize,
    /// Whether the conditions of the preprocessor around the item hold.
    pub holds: Truth,
}

/// A C file and what it defines.
pub struct Source {
    /// The path of the file from the root of the tree.
    pub path: String,
    /// The text of the file as it is.
    pub text: String,
    /// What the file defines, without what conditions exclude.
    pub items: Vec<Item>,
    parsed: Tree,
}

/// A name that a piece of text uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    /// The name.
    pub name: String,
    /// The line on which it is used, from 1.
    pub line: usize,
}

/// What becomes of a macro's argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// The names in it are used.
    Used,
    /// The macro has no use for it.
    Dropped,
    /// The macro declares a variable of that name.
    Declared,
}

/// Parses C.
pub fn parse(text: &str) -> Tree {
    let mut parser = Parser::new();
    parser
        .set_language(&tree_sitter_c::LANGUAGE.into())
        .expect("grammar and parser are of versions that fit");
    parser.parse(text, None).expect("a parser with a language and without a time limit parses")
}

/// Whether C is nested deeper than anybody writes it. What goes through a tree calls itself for each level.
pub fn is_too_deep(tree: &Tree) -> bool {
    let mut cursor = tree.walk();
    let mut depth = 0;
    loop {
        if cursor.goto_first_child() {
            depth += 1;
            if depth > MOST_DEPTH {
                return true;
            }
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return false;
            }
            depth -= 1;
        }
    }
}

/// The text with annotations blanked.
fn without_annotations(text: &str, tree: &Tree) -> String {
    let mut bytes = text.as_bytes().to_vec();
    visit(tree.root_node(), &mut |node| {
        let is_name = matches!(node.kind(), "identifier" | "type_identifier");
        if is_name && ANNOTATIONS.contains(&&text[node.byte_range()]) && !is_macro_name(node) {
            bytes[node.byte_range()].fill(b' ');
        }
        true
    });
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_string())
}

/// Parses C that is not preprocessed. Where braces do not match as they stand there (`#ifdef` around half an `if`), a function seems to
/// go on into the next ones; its own text is blanked then, as nothing can be said about it, and what follows is found.
fn parse_all(mut text: String) -> Tree {
    for _ in 0..MOST_PASSES {
        let tree = parse(&text);
        let torn = torn_functions(tree.root_node(), &text);
        if torn.is_empty() {
            return tree;
        }
        let mut bytes = text.into_bytes();
        for byte in torn.into_iter().flat_map(|range| range.into_iter()) {
            bytes[byte] = if bytes[byte] == b'\n' { b'\n' } else { b' ' };
        }
        text = String::from_utf8_lossy(&bytes).into_owned();
    }
    parse(&text)
}

/// Functions that go on behind a brace in the first column, which ends every function of the kernel; up to that brace.
fn torn_functions(root: Node, text: &str) -> Vec<Range<usize>> {
    let mut torn = Vec::new();
    visit(root, &mut |node| {
        let is_function = node.kind() == "function_definition";
        let within = &text[node.byte_range()];
        if let Some(end) = within.find("\n}\n").filter(|end| is_function && end + 3 < within.len()) {
            torn.push(node.start_byte()..node.start_byte() + end + 2);
        }
        !is_function
    });
    torn
}

fn is_macro_name(node: Node) -> bool {
    node.parent().is_some_and(|parent| parent.kind().starts_with("preproc_"))
}

/// Goes through a node and, where `enter` says so, through those in it.
pub fn visit<'t>(node: Node<'t>, enter: &mut impl FnMut(Node<'t>) -> bool) {
    if !enter(node) {
        return;
    }
    let mut cursor = node.walk();
    for child in node.named_children(&mut cursor) {
        visit(child, enter);
    }
}

impl Source {
    /// Reads a file's text. What is nested too deep is as if it were not there.
    pub fn of(path: &str, text: String, config: &Config) -> Source {
        let raw = parse(&text);
        let parsed = if is_too_deep(&raw) { parse("") } else { parse_all(without_annotations(&text, &raw)) };
        let mut items = Vec::new();
        let found = Find { text: &text, config, items: &mut items };
        found.all(parsed.root_node(), Truth::True);
        Source { path: path.to_string(), text, items, parsed }
    }

    /// The items of that name.
    pub fn named<'s>(&'s self, name: &str) -> impl Iterator<Item = &'s Item> {
        self.items.iter().filter(move |item| item.name == name)
    }

    /// The node of an item.
    pub fn node(&self, item: &Item) -> Option<Node<'_>> {
        self.parsed.root_node().named_descendant_for_byte_range(item.range.start, item.range.end)
    }

    /// The text of a node.
    pub fn text_of(&self, node: Node) -> &str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }
}

/// Finds items. Handed by value, as each level has its own condition.
struct Find<'f> {
    text: &'f str,
    config: &'f Config,
    items: &'f mut Vec<Item>,
}

impl Find<'_> {
    fn all(mut self, node: Node, holds: Truth) {
        self.children(node, holds);
    }

    fn children(&mut self, node: Node, holds: Truth) {
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            self.one(child, holds);
        }
    }

    fn one(&mut self, node: Node, holds: Truth) {
        if holds == Truth::False {
            return;
        }
        match node.kind() {
            "preproc_ifdef" | "preproc_if" | "preproc_elif" | "preproc_elifdef" => self.branches(node, holds),
            "preproc_else" | "ERROR" | "linkage_specification" | "declaration_list" => {
                self.children(node, holds)
            }
            "function_definition" => self.function(node, holds),
            "preproc_def" | "preproc_function_def" => self.named(node, "name", Kind::Macro, node, holds),
            "struct_specifier" | "union_specifier" | "enum_specifier" => self.tagged(node, node, holds),
            "declaration" => self.declaration(node, holds),
            "type_definition" => self.type_definition(node, holds),
            _ => {}
        }
    }

    fn branches(&mut self, node: Node, holds: Truth) {
        let condition = condition_of(node, self.text, self.config);
        let alternative = node.child_by_field_name("alternative");
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor).filter(|child| Some(*child) != alternative) {
            self.one(child, holds.and(condition));
        }
        if let Some(alternative) = alternative {
            self.one(alternative, holds.and(condition.not()));
        }
    }

    fn function(&mut self, node: Node, holds: Truth) {
        if let Some(declarator) = function_declarator(node) {
            self.named(declarator, "declarator", Kind::Function, node, holds);
        }
    }

    fn declaration(&mut self, node: Node, holds: Truth) {
        if let Some(of_type) = node.child_by_field_name("type") {
            self.tagged(of_type, node, holds);
        }
        let text = self.text;
        let is_extern = text.get(node.byte_range()).is_some_and(|text| text.starts_with("extern"));
        let mut cursor = node.walk();
        for declarator in node.children_by_field_name("declarator", &mut cursor).filter(|_| !is_extern) {
            if let Some(name) = declared_name(declarator) {
                self.enter(&text[name.byte_range()], Kind::Variable, node, holds);
            }
        }
    }

    fn type_definition(&mut self, node: Node, holds: Truth) {
        if let Some(of_type) = node.child_by_field_name("type") {
            self.tagged(of_type, node, holds);
        }
        self.named(node, "declarator", Kind::Type, node, holds);
    }

    /// A structure, union or enumeration with a body, which `whole` is to be taken for.
    fn tagged(&mut self, node: Node, whole: Node, holds: Truth) {
        let Some(body) = node.child_by_field_name("body") else { return };
        self.named(node, "name", Kind::Type, whole, holds);
        if node.kind() == "enum_specifier" {
            let mut cursor = body.walk();
            for constant in body.named_children(&mut cursor).filter(|child| child.kind() == "enumerator") {
                self.named(constant, "name", Kind::Constant, whole, holds);
            }
        }
    }

    fn named(&mut self, node: Node, field: &str, kind: Kind, whole: Node, holds: Truth) {
        if let Some(name) = node.child_by_field_name(field) {
            let text = self.text;
            self.enter(&text[name.byte_range()], kind, whole, holds);
        }
    }

    fn enter(&mut self, name: &str, kind: Kind, whole: Node, holds: Truth) {
        self.items.push(Item {
            name: name.to_string(),
            kind,
            range: whole.byte_range(),
            line: whole.start_position().row + 1,
            holds,
        });
    }
}

/// Whether the condition of an `#if`, `#ifdef` or `#elif` holds.
fn condition_of(node: Node, text: &str, config: &Config) -> Truth {
    if let Some(condition) = node.child_by_field_name("condition") {
        return config.holds(condition, text);
    }
    let Some(name) = node.child_by_field_name("name") else { return Truth::Unknown };
    let defined = config.is_defined(&text[name.byte_range()]);
    let asks_not = text[node.start_byte()..name.start_byte()].contains("ndef");
    if asks_not { defined.not() } else { defined }
}

/// The declarator with the parameters of a function's definition or declaration, behind any `*`.
pub fn function_declarator(node: Node) -> Option<Node> {
    let mut declarator = node.child_by_field_name("declarator")?;
    while declarator.kind() != "function_declarator" {
        declarator = declarator.child_by_field_name("declarator")?;
    }
    Some(declarator)
}

/// The name that a declarator declares, unless it is that of a function.
pub fn declared_name(mut declarator: Node) -> Option<Node> {
    loop {
        match declarator.kind() {
            "identifier" | "field_identifier" | "type_identifier" => return Some(declarator),
            "function_declarator" => return None,
            _ => {
                declarator = declarator.child_by_field_name("declarator").or_else(|| {
                    (declarator.kind() == "parenthesized_declarator").then(|| declarator.named_child(0))?
                })?
            }
        }
    }
}

/// The names that C code uses, without those that it or a macro of the header declares, branches that are not compiled, and arguments
/// that a macro of the header drops (`argument(macro, number)`).
pub fn uses(
    node: Node,
    text: &str,
    config: &Config,
    argument: &dyn Fn(&str, usize) -> Argument,
) -> BTreeSet<Use> {
    let mut found = BTreeSet::new();
    let mut own = BTreeSet::new();
    collect(node, &Collecting { text, config, argument }, &mut found, &mut own);
    found.retain(|one| !own.contains(&one.name));
    found
}

struct Collecting<'c> {
    text: &'c str,
    config: &'c Config,
    argument: &'c dyn Fn(&str, usize) -> Argument,
}

fn collect(node: Node, on: &Collecting, found: &mut BTreeSet<Use>, own: &mut BTreeSet<String>) {
    let text_of = |node: Node| on.text.get(node.byte_range()).unwrap_or_default().to_string();
    let mut skipped = Vec::new();
    match node.kind() {
        "identifier" | "type_identifier" => {
            found.insert(Use { name: text_of(node), line: node.start_position().row + 1 });
        }
        "preproc_ifdef" | "preproc_if" | "preproc_elif" | "preproc_elifdef" => {
            let condition = condition_of(node, on.text, on.config);
            let alternative = node.child_by_field_name("alternative");
            skipped.extend(node.child_by_field_name("condition").or(node.child_by_field_name("name")));
            skipped.extend(alternative.filter(|_| condition == Truth::True));
            if condition == Truth::False {
                alternative.into_iter().for_each(|node| collect(node, on, found, own));
                return;
            }
        }
        "declaration" | "parameter_declaration" => {
            let mut cursor = node.walk();
            let declarators = node.children_by_field_name("declarator", &mut cursor);
            own.extend(declarators.filter_map(declared_name).map(text_of));
        }
        _ => {}
    }
    let mut cursor = node.walk();
    for child in node.named_children(&mut cursor).filter(|child| !skipped.contains(child)) {
        match of_argument(node, child, on) {
            Argument::Used => collect(child, on, found, own),
            Argument::Dropped => {}
            Argument::Declared => drop(own.insert(text_of(child))),
        }
    }
}

/// What becomes of an argument, if `list` is the arguments of a call.
fn of_argument(list: Node, argument: Node, on: &Collecting) -> Argument {
    let of_call = || {
        let call = list.parent().filter(|parent| parent.kind() == "call_expression")?;
        let function = call.child_by_field_name("function")?;
        let mut cursor = list.walk();
        let before = list.children(&mut cursor).take_while(|child| *child != argument);
        // A type is no argument of C, so there may be two nodes for one.
        let number = before.filter(|child| child.kind() == ",").count();
        Some((on.argument)(on.text.get(function.byte_range())?, number))
    };
    let found = if list.kind() == "argument_list" { of_call() } else { None };
    found.unwrap_or(Argument::Used)
}

/// The parameters of a macro, and its body.
pub fn macro_parts<'s>(node: Node, text: &'s str) -> (Vec<&'s str>, &'s str) {
    let of = |node: Node| text.get(node.byte_range()).unwrap_or_default();
    let mut cursor = node.walk();
    let parameters = node.child_by_field_name("parameters");
    let names = parameters.map(|list| list.named_children(&mut cursor).map(of).collect());
    (names.unwrap_or_default(), node.child_by_field_name("value").map(of).unwrap_or_default())
}

/// The names in a macro's body, which is no C before it is expanded.
pub fn names_in_macro(body: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    in_macro(body, &mut |node, text| {
        if matches!(node.kind(), "identifier" | "type_identifier") {
            names.insert(text[node.byte_range()].to_string());
        }
    });
    names.remove("f");
    names
}

/// The names of the variables that a macro's body declares.
pub fn names_declared_in_macro(body: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    in_macro(body, &mut |node, text| {
        if node.kind() == "declaration" {
            let mut cursor = node.walk();
            let declarators = node.children_by_field_name("declarator", &mut cursor);
            names.extend(
                declarators.filter_map(declared_name).map(|name| text[name.byte_range()].to_string()),
            );
        }
    });
    names
}

/// Looks at all nodes of a macro's body, which is taken for statements.
fn in_macro(body: &str, look: &mut dyn FnMut(Node, &str)) {
    let text = format!("void f(void) {{ {body}; }}").replace("\\\n", " \n");
    let parsed = parse(&text);
    if is_too_deep(&parsed) {
        return;
    }
    visit(parsed.root_node(), &mut |node| {
        look(node, &text);
        true
    });
}
