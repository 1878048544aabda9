//! What is taken from a tree: decisions, and what of the tree they need.
//!
//! ```text
//!   free_unref_page_commit ─► nr_pcp_high ─► (READ_ONCE, clamp: the header's)
//!                        ├──► nr_pcp_free
//!                        └──► (free_pcppages_bulk: the header's, noted instead of done)
//!
//!   emitted from the bottom up, each piece of text once
//! ```
//!
//! A name is the header's, or of the file that uses it, or of one of the files that the decision names, in this order. Functions of
//! that file are taken along with all that they need; macros' bodies are no C yet, so a name in one that nobody knows is the compiler's
//! to complain about.

use crate::compiler::hash;
use crate::config::Truth;
use crate::decision::{Decision, HEADERS, records};
use crate::error::{Error, Place};
use crate::header::{Header, fields};
use crate::signature::{Signature, expected};
use crate::source::{
    Argument, Item, Kind, Source, Use, is_too_deep, macro_parts, names_in_macro, uses, visit,
};
use crate::tree::{Files, KernelTree};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use tree_sitter::Node;

/// More than this is no decision any more.
const MOST_ITEMS: usize = 200;

/// A piece of a tree's text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Taken {
    /// What the piece defines.
    pub name: String,
    /// Where the piece begins.
    pub place: Place,
    /// The text as it is in the tree.
    pub text: String,
}

/// A decision that was found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Found {
    /// The decision.
    #[serde(with = "by_name")]
    pub decision: &'static Decision,
    /// Where its function begins.
    pub place: Place,
    /// How its shim calls it.
    pub call: String,
    /// The function and what it needs, as positions in [`Extract::taken`].
    pub needs: Vec<usize>,
}

/// Decisions in a file have their function's name.
mod by_name {
    use super::{Decision, Deserialize};
    use serde::de::Error;
    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(decision: &&'static Decision, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(decision.name)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static Decision, D::Error> {
        let name = String::deserialize(deserializer)?;
        Decision::named(&name).ok_or_else(|| D::Error::custom(format!("{name} is no decision")))
    }
}

/// What was taken from a tree.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Extract {
    /// Pieces of text, each after what it needs.
    pub taken: Vec<Taken>,
    /// The decisions among them.
    pub found: Vec<Found>,
    /// Options of the configuration that these mention and that are set.
    pub options: BTreeMap<String, String>,
}

/// What a tree has of a decision.
pub struct Surveyed {
    /// The decision.
    pub decision: &'static Decision,
    /// The decision with all that it needs and nothing else, or why it cannot be taken.
    pub found: Result<Extract, Error>,
}

impl Surveyed {
    /// Where the function is and the hash of its text and of all that it needs.
    pub fn place_and_hash(&self) -> Option<(&Place, String)> {
        let extract = self.found.as_ref().ok()?;
        let found = extract.found(self.decision)?;
        Some((&found.place, extract.text_hash(found)))
    }

    /// Whether the tree has no such function.
    pub fn is_missing(&self) -> bool {
        self.found.as_ref().is_err_and(Error::is_missing)
    }
}

/// A tree whose files are parsed once, whatever is taken out of it.
pub struct Survey<'t> {
    tree: &'t KernelTree,
    files: Files,
    header: Header,
}

impl<'t> Survey<'t> {
    /// Parses the files that some decisions and what they need may be in.
    pub fn of(tree: &'t KernelTree, wanted: &[&'static Decision]) -> Survey<'t> {
        let mut files = Files::none();
        let names = wanted.iter().flat_map(|decision| decision.files());
        names.for_each(|file| files.may_need(tree, file));
        Survey { tree, files, header: header() }
    }

    /// What the tree has of some decisions, each taken by itself.
    pub fn each(&self, wanted: &[&'static Decision]) -> Vec<Surveyed> {
        wanted.iter().map(|decision| Surveyed { decision, found: self.take(&[decision]) }).collect()
    }

    /// Takes some decisions together out of the tree.
    pub fn take(&self, wanted: &[&'static Decision]) -> Result<Extract, Error> {
        let mut taking = Taking {
            tree: self.tree,
            files: &self.files,
            header: &self.header,
            taken: Vec::new(),
            positions: BTreeMap::new(),
            before: 0,
            options: BTreeSet::new(),
        };
        let mut found = Vec::new();
        for decision in wanted {
            self.files.need(self.tree, decision.file, decision.name)?;
            taking.check_fields(decision)?;
            found.push(taking.decision(decision)?);
        }
        let value = |option: String| {
            self.tree.config().value(&option).map(|value| (option.clone(), value.to_string()))
        };
        let options = taking.options.into_iter().filter_map(value).collect();
        Ok(Extract { taken: taking.taken, found, options })
    }
}

impl Extract {
    /// Takes `wanted` out of `tree`.
    pub fn of(tree: &KernelTree, wanted: &[&'static Decision]) -> Result<Extract, Error> {
        Survey::of(tree, wanted).take(wanted)
    }

    /// What was taken of a decision.
    pub fn found(&self, decision: &Decision) -> Option<&Found> {
        self.found.iter().find(|found| found.decision.name == decision.name)
    }

    /// Hash of the text of a decision and of all that it needs.
    pub fn text_hash(&self, found: &Found) -> String {
        let texts: Vec<&[u8]> =
            found.needs.iter().map(|&position| self.taken[position].text.as_bytes()).collect();
        hash(&texts)
    }

    /// Some of the decisions, with what they need and nothing else.
    pub fn only(&self, wanted: &[&'static Decision]) -> Extract {
        let is_wanted = |found: &&Found| wanted.iter().any(|one| one.name == found.decision.name);
        let mut found: Vec<Found> = self.found.iter().filter(is_wanted).cloned().collect();
        let kept: BTreeSet<usize> = found.iter().flat_map(|found| found.needs.iter().copied()).collect();
        let kept: Vec<usize> = kept.into_iter().filter(|&at| at < self.taken.len()).collect();
        for found in &mut found {
            found.needs = found.needs.iter().filter_map(|at| kept.binary_search(at).ok()).collect();
        }
        let taken = kept.iter().map(|&at| self.taken[at].clone()).collect();
        Extract { taken, found, options: self.options.clone() }
    }
}

/// Our header, as it is read for its names.
fn header() -> Header {
    let records = records();
    let texts: Vec<&str> = HEADERS.iter().map(|file| file.text).chain([records.as_str()]).collect();
    Header::of(&texts)
}

struct Taking<'t> {
    tree: &'t KernelTree,
    files: &'t Files,
    header: &'t Header,
    taken: Vec<Taken>,
    /// What is taken already or being taken, by file and text, with what it needs.
    positions: BTreeMap<(String, usize), Vec<usize>>,
    /// How many of these were there before the present decision.
    before: usize,
    options: BTreeSet<String>,
}

impl<'t> Taking<'t> {
    fn decision(&mut self, decision: &'static Decision) -> Result<Found, Error> {
        let not_found =
            || Error::NotFound { file: decision.file.to_string(), function: decision.name.to_string() };
        let source = self.files.get(decision.file).ok_or_else(not_found)?;
        let functions = source.named(decision.name).filter(|item| item.kind == Kind::Function);
        let item = the_one(source, functions)?.ok_or_else(not_found)?;
        let place = place_of(source, item.line);
        let node = source.node(item).ok_or_else(not_found)?;
        let signature = Signature::of(source, node).ok_or_else(not_found)?;
        let call = signature.call(decision).map_err(|problem| Error::Signature {
            place: place.clone(),
            problem,
            function: decision.name.to_string(),
            found: signature.to_string().into(),
            expected: expected(decision).into(),
        })?;
        self.before = self.positions.len();
        let needs = self.take(decision, source, item)?;
        Ok(Found { decision, place, call, needs })
    }

    /// Takes an item after what it needs; which pieces that are.
    fn take(
        &mut self,
        decision: &'static Decision,
        source: &'t Source,
        item: &Item,
    ) -> Result<Vec<usize>, Error> {
        let key = (source.path.clone(), item.range.start);
        if let Some(needs) = self.positions.get(&key) {
            return Ok(needs.clone());
        }
        self.positions.insert(key.clone(), Vec::new());
        if self.positions.len() - self.before > MOST_ITEMS {
            return Err(Error::TooMuch { decision, most: MOST_ITEMS, last: item.name.clone() });
        }
        let mut needs = BTreeSet::new();
        if let Some(node) = source.node(item) {
            refuse(source, item, node)?;
            for (used, is_certain) in self.names(source, item, node) {
                needs.extend(self.need(decision, source, item, &used, is_certain)?);
            }
        }
        needs.insert(self.taken.len());
        self.taken.push(Taken {
            name: item.name.clone(),
            place: place_of(source, item.line),
            text: whole_text(source, item),
        });
        let needs: Vec<usize> = needs.into_iter().collect();
        self.positions.insert(key, needs.clone());
        Ok(needs)
    }

    /// The names that an item uses, and whether each is certainly one of C.
    fn names(&mut self, source: &Source, item: &Item, node: Node) -> Vec<(Use, bool)> {
        if item.kind == Kind::Macro {
            let (parameters, body) = macro_parts(node, &source.text);
            let names = names_in_macro(body).into_iter().filter(|name| !parameters.contains(&name.as_str()));
            return names.map(|name| (Use { name, line: item.line }, false)).collect();
        }
        let header = self.header;
        visit(node, &mut |node| {
            let text = source.text_of(node);
            if node.kind() == "identifier" && text.starts_with("CONFIG_") {
                self.options.insert(text.to_string());
            }
            true
        });
        let found = uses(node, &source.text, self.tree.config(), &|function, argument| {
            header.argument(function, argument)
        });
        found.into_iter().map(|used| (used, item.kind == Kind::Function)).collect()
    }

    fn need(
        &mut self,
        decision: &'static Decision,
        source: &'t Source,
        item: &Item,
        used: &Use,
        is_certain: bool,
    ) -> Result<Vec<usize>, Error> {
        let name = used.name.as_str();
        if name.starts_with("CONFIG_") {
            self.options.insert(name.to_string());
            return Ok(Vec::new());
        }
        if self.header.has(name) || name == item.name {
            return Ok(Vec::new());
        }
        let files = self.files;
        let others = decision.files().filter_map(|file| files.get(file));
        for other in [source].into_iter().chain(others) {
            if let Some(needed) = the_one(other, other.named(name))? {
                self.refuse_shared(other, needed, item)?;
                return self.take(decision, other, needed);
            }
        }
        if !is_certain || self.is_of_a_macro(decision, source, item, name) {
            return Ok(Vec::new());
        }
        Err(Error::Unknown {
            place: place_of(source, used.line),
            function: item.name.clone(),
            name: name.to_string(),
            decision,
        })
    }

    /// Whether a macro that an item uses has that name in it: it may declare it.
    fn is_of_a_macro(&self, decision: &Decision, source: &Source, item: &Item, name: &str) -> bool {
        let Some(node) = source.node(item) else { return false };
        let used = uses(node, &source.text, self.tree.config(), &|_, _| Argument::Used);
        let files = decision.files().filter_map(|file| self.files.get(file));
        [source].into_iter().chain(files).any(|file| {
            let is_used =
                |item: &&Item| item.kind == Kind::Macro && used.iter().any(|used| used.name == item.name);
            let mut nodes = file.items.iter().filter(is_used).filter_map(|item| file.node(item));
            nodes.any(|node| names_in_macro(macro_parts(node, &file.text).1).contains(name))
        })
    }

    /// Decisions of several runs are made at once, so a variable that one of them writes is refused.
    fn refuse_shared(&self, source: &Source, needed: &Item, user: &Item) -> Result<(), Error> {
        if needed.kind != Kind::Variable || source.text[needed.range.clone()].contains("const") {
            return Ok(());
        }
        let mut written = None;
        for item in source.items.iter().filter(|item| item.kind == Kind::Function && item.name == user.name) {
            if let Some(node) = source.node(item) {
                visit(node, &mut |node| {
                    if is_write(source, node, &needed.name) {
                        written = Some(node.start_position().row + 1);
                    }
                    true
                });
            }
        }
        match written {
            None => Ok(()),
            Some(line) => Err(Error::Refused {
                place: place_of(source, line),
                function: user.name.clone(),
                what: format!("writes the variable {}", needed.name),
            }),
        }
    }

    /// Fields that the header and the tree have are of the same type in both.
    fn check_fields(&self, decision: &Decision) -> Result<(), Error> {
        for (name, ours) in self.header.structs() {
            for source in decision.others.iter().filter_map(|file| self.files.get(file)) {
                let Some(item) = source.named(name).find(|item| item.kind == Kind::Type) else { continue };
                let Some(node) = source.node(item) else { continue };
                for theirs in fields(source, node) {
                    let expected = ours.iter().find(|field| field.name == theirs.name);
                    if let Some(expected) = expected.filter(|expected| {
                        !is_same_field(&expected.declared, &self.header.renamed(&theirs.declared))
                    }) {
                        return Err(Error::FieldType {
                            place: place_of(source, theirs.line),
                            field: format!("{} of struct {name}", theirs.name),
                            found: theirs.declared,
                            expected: expected.declared.clone(),
                        });
                    }
                }
            }
        }
        Ok(())
    }
}

/// Arrays may be shorter in the header, which has no use for most of them.
fn is_same_field(ours: &str, theirs: &str) -> bool {
    let element = |declared: &str| declared.split('[').next().unwrap_or_default().trim().to_string();
    element(ours) == element(theirs)
}

fn is_write(source: &Source, node: Node, name: &str) -> bool {
    let of = |field| node.child_by_field_name(field).is_some_and(|node| source.text_of(node) == name);
    match node.kind() {
        "assignment_expression" => of("left"),
        "update_expression" => of("argument"),
        "pointer_expression" => of("argument") && source.text_of(node).starts_with('&'),
        _ => false,
    }
}

/// The item that is meant: one whose conditions hold, else one about which nobody knows.
fn the_one<'s>(source: &Source, items: impl Iterator<Item = &'s Item>) -> Result<Option<&'s Item>, Error> {
    let items: Vec<&Item> = items.collect();
    let certain = items.iter().filter(|item| item.holds == Truth::True);
    let candidates: Vec<&Item> =
        if certain.clone().next().is_some() { certain.copied().collect() } else { items.clone() };
    match candidates.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        [first, rest @ ..] if rest.iter().all(|other| other.range == first.range) => Ok(Some(first)),
        several => Err(Error::Twice {
            name: several[0].name.clone(),
            places: several.iter().map(|item| place_of(source, item.line)).collect(),
        }),
    }
}

/// Refuses what a decision may not do: assembly, state of its own, what runs before it is called.
fn refuse(source: &Source, item: &Item, node: Node) -> Result<(), Error> {
    let mut found = None;
    let mut look = |node: Node, text: &str| {
        let what = match node.kind() {
            "gnu_asm_expression" => "has inline assembly",
            "attribute_specifier"
                if ["constructor", "destructor", "ifunc"].iter().any(|word| text.contains(word)) =>
            {
                "runs before it is called"
            }
            "declaration"
                if item.kind == Kind::Function && text.starts_with("static") && !text.contains("const") =>
            {
                "has a static variable"
            }
            _ => return true,
        };
        found = Some((what, node.start_position().row + 1));
        false
    };
    if item.kind == Kind::Macro {
        let body = format!("void f(void) {{ {}; }}", macro_parts(node, &source.text).1);
        let parsed = crate::source::parse(&body);
        if is_too_deep(&parsed) {
            return Err(refused(source, item, item.line, "is nested deeper than anybody writes C"));
        }
        visit(parsed.root_node(), &mut |node| look(node, &body[node.byte_range()]));
        found = found.map(|(what, _)| (what, item.line));
    } else {
        visit(node, &mut |node| look(node, source.text_of(node)));
    }
    match found {
        None => Ok(()),
        Some((what, line)) => Err(refused(source, item, line, what)),
    }
}

fn refused(source: &Source, item: &Item, line: usize, what: &str) -> Error {
    Error::Refused { place: place_of(source, line), function: item.name.clone(), what: what.to_string() }
}

/// The text of an item; a structure's needs the semicolon that is not part of it.
fn whole_text(source: &Source, item: &Item) -> String {
    let text = &source.text[item.range.clone()];
    let is_bare = item.kind != Kind::Function && text.ends_with('}');
    if is_bare { format!("{text};") } else { text.to_string() }
}

fn place_of(source: &Source, line: usize) -> Place {
    Place { file: source.path.clone(), line }
}
