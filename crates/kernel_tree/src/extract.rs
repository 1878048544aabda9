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
use crate::decision::{DECISIONS, Decision, HEADERS, records};
use crate::error::{Error, Place};
use crate::header::{Header, fields};
use crate::signature::{Signature, expected};
use crate::source::{Item, Kind, Source, Use, is_too_deep, macro_parts, names_in_macro, uses, visit};
use crate::tree::{Files, KernelTree};
use std::collections::{BTreeMap, BTreeSet};
use tree_sitter::Node;

/// More than this is no decision any more.
const MOST_ITEMS: usize = 200;

/// A piece of a tree's text.
#[derive(Clone, Debug)]
pub struct Taken {
    /// What it defines.
    pub name: String,
    /// Where it is.
    pub place: Place,
    /// As it is there.
    pub text: String,
}

/// A decision that was found.
pub struct Found {
    /// Which one.
    pub decision: &'static Decision,
    /// Where it is.
    pub place: Place,
    /// How its shim calls it.
    pub call: String,
    /// It and what it needs, as positions in [`Extract::taken`].
    pub needs: Vec<usize>,
}

/// What was taken from a tree.
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
    /// Which one.
    pub decision: &'static Decision,
    /// Where it is and the hash of its text and of all that it needs, or why it cannot be taken.
    pub found: Result<(Place, String), Error>,
}

impl Extract {
    /// Takes `wanted` out of `tree`.
    pub fn of(tree: &KernelTree, wanted: &[&'static Decision]) -> Result<Extract, Error> {
        let mut files = Files::none();
        for decision in wanted {
            files.need(tree, decision.file, decision.name)?;
            decision.others.iter().for_each(|file| files.may_need(tree, file));
        }
        Extract::out_of(&files, &header(), tree, wanted)
    }

    /// What `tree` has of all decisions, each taken by itself. Two trees that are surveyed tell which functions of one are those
    /// of the other.
    pub fn survey(tree: &KernelTree) -> Vec<Surveyed> {
        let mut files = Files::none();
        let header = header();
        let mut surveyed = Vec::new();
        for decision in DECISIONS {
            decision.others.iter().for_each(|file| files.may_need(tree, file));
            let extract = files
                .need(tree, decision.file, decision.name)
                .and_then(|()| Extract::out_of(&files, &header, tree, &[decision]));
            let found = extract.map(|extract| {
                let found = &extract.found[0];
                (found.place.clone(), extract.text_hash(found))
            });
            surveyed.push(Surveyed { decision, found });
        }
        surveyed
    }

    fn out_of(
        files: &Files,
        header: &Header,
        tree: &KernelTree,
        wanted: &[&'static Decision],
    ) -> Result<Extract, Error> {
        let mut taking = Taking {
            tree,
            files,
            header,
            taken: Vec::new(),
            positions: BTreeMap::new(),
            options: BTreeSet::new(),
        };
        let mut found = Vec::new();
        for decision in wanted {
            taking.check_fields(decision)?;
            found.push(taking.decision(decision)?);
        }
        let value =
            |option: String| tree.config().value(&option).map(|value| (option.clone(), value.to_string()));
        let options = taking.options.into_iter().filter_map(value).collect();
        Ok(Extract { taken: taking.taken, found, options })
    }

    /// Those of `wanted` whose function `tree` has. A file that none of the functions is in is missing only if the tree has none
    /// of them all.
    pub fn present(tree: &KernelTree, wanted: &[&'static Decision]) -> Result<Vec<&'static Decision>, Error> {
        let mut files = Files::none();
        let mut present = Vec::new();
        for decision in wanted {
            files.may_need(tree, decision.file);
            let source = files.get(decision.file);
            let has = |source: &Source| source.named(decision.name).any(|item| item.kind == Kind::Function);
            present.extend(source.is_some_and(has).then_some(*decision));
        }
        match wanted.first() {
            Some(first) if present.is_empty() => {
                files.need(tree, first.file, first.name)?;
                let (file, function) = (first.file.to_string(), first.name.to_string());
                Err(Error::NotFound { file, function })
            }
            _ => Ok(present),
        }
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
        let call = signature.call(decision).ok_or_else(|| Error::Signature {
            place: place.clone(),
            function: decision.name.to_string(),
            found: signature.to_string(),
            expected: expected(decision),
        })?;
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
        if self.positions.len() > MOST_ITEMS {
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
            header.drops(function, argument)
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
        let used = uses(node, &source.text, self.tree.config(), &|_, _| false);
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
