//! What a function of a tree asks for: its parameters by type and name.
//!
//! Releases hand the same things over in another order (`nr_pcp_free` of 6.1 has `high` before `batch`, 6.12 after it, and both
//! are of type `int`), so names count: a decision says which parameters can be given, and the call is written in the tree's order.

use crate::decision::Decision;
use crate::source::{Source, declared_name, function_declarator};
use std::fmt;
use tree_sitter::Node;

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parameter {
    of_type: String,
    name: String,
}

/// What a function answers and asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    answers: String,
    name: String,
    parameters: Vec<Parameter>,
}

impl Signature {
    /// Reads the signature of a function's definition.
    pub fn of(source: &Source, definition: Node) -> Option<Signature> {
        let declarator = function_declarator(definition)?;
        let name = source.text_of(declarator.child_by_field_name("declarator")?).to_string();
        let answers = source.text_of(definition.child_by_field_name("type")?).to_string();
        let list = declarator.child_by_field_name("parameters")?;
        let mut cursor = list.walk();
        let declarations =
            list.named_children(&mut cursor).filter(|node| node.kind() == "parameter_declaration");
        let parameters = declarations.filter_map(|declaration| Parameter::of(source, declaration)).collect();
        Some(Signature { answers, name, parameters })
    }

    /// The call with parameters of the names that they have in the tree, or what of the signature nobody here knows.
    pub fn call(&self, decision: &Decision) -> Result<String, String> {
        let can_be_given = |parameter: &&Parameter| {
            decision.parameters.iter().any(|given| given.0 == parameter.of_type && given.1 == parameter.name)
        };
        let others = self.parameters.iter().filter(|parameter| !can_be_given(parameter));
        let others: Vec<(&str, &str)> =
            others.map(|parameter| (parameter.of_type.as_str(), parameter.name.as_str())).collect();
        if !others.is_empty() {
            return Err(format!("it asks for {}", joined(others.into_iter())));
        }
        if !decision.answers.contains(&self.answers.as_str()) {
            return Err(format!("it answers {}", self.answers));
        }
        let names: Vec<&str> = self.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        Ok(format!("{}({})", self.name, names.join(", ")))
    }
}

impl Parameter {
    /// Nothing for the `void` of a function without parameters.
    fn of(source: &Source, declaration: Node) -> Option<Parameter> {
        let declarator = declaration.child_by_field_name("declarator")?;
        let name = declared_name(declarator)?;
        let before = source.text.get(declarator.start_byte()..name.start_byte()).unwrap_or_default();
        let of_type = format!("{} {before}", source.text_of(declaration.child_by_field_name("type")?));
        Some(Parameter {
            of_type: of_type.split_whitespace().collect::<Vec<_>>().join(" "),
            name: source.text_of(name).to_string(),
        })
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let parameters =
            self.parameters.iter().map(|parameter| (parameter.of_type.as_str(), parameter.name.as_str()));
        write!(f, "{} {}({})", self.answers, self.name, joined(parameters))
    }
}

/// What can be given to a decision, for a message.
pub fn expected(decision: &Decision) -> String {
    let parameters = decision.parameters.iter().copied();
    format!(
        "{} {}({}), any of these by type and name, in any order",
        decision.answers.join(" or "),
        decision.name,
        joined(parameters)
    )
}

fn joined<'p>(parameters: impl Iterator<Item = (&'p str, &'p str)>) -> String {
    let with_name = parameters.map(|(of_type, name)| format!("{of_type} {name}").replace("* ", "*"));
    with_name.collect::<Vec<_>>().join(", ")
}
