//! A visitor of source files for all rules that look at functions, expressions or paths.
//!
//! A rule implements the methods of [`Look`] that it needs; each gets the [`Place`], which says what item it
//! is in and whether that is test code. Arguments of macros are visited if they parse as expressions, as in
//! `assert!` and `format!`.

use crate::workspace::{Source, is_under_test};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Expr, Ident, ImplItemConst, ImplItemFn, Item, ItemUse, Local, Macro, Path, Signature, Token,
    TraitItemFn, Type,
};

/// A place in a file.
#[derive(Clone, Default)]
pub struct Place {
    /// The enclosing modules, types and functions, outermost first.
    pub names: Vec<String>,
    /// The type or trait of the enclosing method.
    pub owner: Option<String>,
    pub is_test: bool,
}

impl Place {
    /// The item as a path: `Zone::refill`.
    pub fn item(&self) -> String {
        self.names.join("::")
    }
}

/// The callbacks of a rule.
pub trait Look {
    /// A function; `place` includes its name. `_lines` counts from `fn` to the last brace.
    fn function(&mut self, _place: &Place, _signature: &Signature, _lines: usize) {}
    fn expression(&mut self, _place: &Place, _expression: &Expr) {}
    /// A `let`, before its initialiser is visited.
    fn local(&mut self, _place: &Place, _local: &Local) {}
    fn macro_call(&mut self, _place: &Place, _call: &Macro) {}
    fn path(&mut self, _place: &Place, _path: &Path) {}
    fn import(&mut self, _place: &Place, _import: &ItemUse) {}
    /// Any other item; `place` includes its name, if it has one.
    fn item(&mut self, _place: &Place, _item: &Item) {}
    /// An associated constant.
    fn constant(&mut self, _place: &Place, _name: &Ident) {}
}

/// Visits a file for a rule.
pub fn walk(source: &Source, look: &mut dyn Look) {
    let place = Place { is_test: source.is_test, ..Place::default() };
    Walk { place, look }.visit_file(&source.syntax);
}

/// The line of a syntax node.
pub fn line_of(spanned: &impl syn::spanned::Spanned) -> usize {
    spanned.span().start().line
}

/// The name of a type, without references and generic arguments.
pub fn type_name(written: &Type) -> Option<String> {
    match written {
        Type::Reference(reference) => type_name(&reference.elem),
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    }
}

struct Walk<'a> {
    place: Place,
    look: &'a mut dyn Look,
}

impl Walk<'_> {
    fn within(&mut self, name: Option<String>, attributes: &[Attribute], inside: impl FnOnce(&mut Self)) {
        let before = self.place.clone();
        self.place.names.extend(name);
        self.place.is_test |= is_under_test(attributes);
        inside(self);
        self.place = before;
    }

    fn of_owner(&mut self, name: Option<String>, attributes: &[Attribute], inside: impl FnOnce(&mut Self)) {
        self.within(name.clone(), attributes, |walk| {
            walk.place.owner = name;
            inside(walk);
        });
    }

    fn function(&mut self, signature: &Signature, end: usize) {
        let lines = end + 1 - line_of(signature);
        self.look.function(&self.place, signature, lines);
    }
}

/// The name of an item that is neither a function nor an `impl`.
fn name_of(item: &Item) -> Option<&Ident> {
    match item {
        Item::Const(item) => Some(&item.ident),
        Item::Static(item) => Some(&item.ident),
        Item::Mod(item) => Some(&item.ident),
        Item::Struct(item) => Some(&item.ident),
        Item::Enum(item) => Some(&item.ident),
        Item::Trait(item) => Some(&item.ident),
        Item::Type(item) => Some(&item.ident),
        Item::Macro(item) => item.ident.as_ref(),
        _ => None,
    }
}

fn attributes_of(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = attributes_of(item);
        match item {
            Item::Fn(function) => {
                self.within(Some(function.sig.ident.to_string()), attributes, |walk| {
                    walk.place.owner = None;
                    walk.function(&function.sig, line_of(&function.block.brace_token.span.close()));
                    visit::visit_item(walk, item);
                });
            }
            Item::Impl(of) => {
                self.of_owner(type_name(&of.self_ty), attributes, |walk| visit::visit_item(walk, item));
            }
            Item::Trait(of) => self.of_owner(Some(of.ident.to_string()), attributes, |walk| {
                walk.look.item(&walk.place, item);
                visit::visit_item(walk, item);
            }),
            _ => self.within(name_of(item).map(Ident::to_string), attributes, |walk| {
                walk.look.item(&walk.place, item);
                visit::visit_item(walk, item);
            }),
        }
    }

    fn visit_impl_item_fn(&mut self, method: &'ast ImplItemFn) {
        self.within(Some(method.sig.ident.to_string()), &method.attrs, |walk| {
            walk.function(&method.sig, line_of(&method.block.brace_token.span.close()));
            visit::visit_impl_item_fn(walk, method);
        });
    }

    fn visit_impl_item_const(&mut self, constant: &'ast ImplItemConst) {
        self.look.constant(&self.place, &constant.ident);
        visit::visit_impl_item_const(self, constant);
    }

    fn visit_trait_item_fn(&mut self, method: &'ast TraitItemFn) {
        self.within(Some(method.sig.ident.to_string()), &method.attrs, |walk| {
            let last = method.default.as_ref().map(|block| line_of(&block.brace_token.span.close()));
            walk.function(&method.sig, last.unwrap_or_else(|| line_of(&method.sig)));
            visit::visit_trait_item_fn(walk, method);
        });
    }

    fn visit_expr(&mut self, expression: &'ast Expr) {
        self.look.expression(&self.place, expression);
        visit::visit_expr(self, expression);
    }

    fn visit_local(&mut self, local: &'ast Local) {
        self.look.local(&self.place, local);
        visit::visit_local(self, local);
    }

    fn visit_path(&mut self, path: &'ast Path) {
        self.look.path(&self.place, path);
        visit::visit_path(self, path);
    }

    fn visit_item_use(&mut self, import: &'ast ItemUse) {
        self.look.import(&self.place, import);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.look.macro_call(&self.place, call);
        let arguments = call.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated);
        for argument in arguments.iter().flatten() {
            self.visit_expr(argument);
        }
    }
}

#[test]
fn places_name_items_and_tell_tests_apart() {
    struct Seen(Vec<(String, usize, bool)>);
    impl Look for Seen {
        fn function(&mut self, place: &Place, _: &Signature, lines: usize) {
            self.0.push((place.item(), lines, place.is_test));
        }
    }
    let source = Source {
        path: "crates/a/src/lib.rs".to_string(),
        syntax: syn::parse_file(
            "impl<T> Zone<T> {\n fn refill(&self)\n {\n }\n}\ntrait Program { fn step(); }\n\
             #[cfg(test)]\nmod tests { #[test] fn fails() {} }",
        )
        .unwrap(),
        is_test: false,
    };
    let mut seen = Seen(Vec::new());
    walk(&source, &mut seen);
    let expected = [("Zone::refill", 3, false), ("Program::step", 1, false), ("tests::fails", 1, true)];
    assert_eq!(seen.0, expected.map(|(item, lines, is_test)| (item.to_string(), lines, is_test)));
}
