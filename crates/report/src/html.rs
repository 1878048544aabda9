//! A page as one HTML file that needs nothing else: no network, no font, no library, and no `eval`, which its content security policy
//! forbids. It opens from a disk, can be mailed and be put on a server of any policy.
//!
//! Scripts are allowed by their hashes. Everything that a user or a scenario names is text there, never markup: templates escape it, and
//! specifications have no `<`.

use crate::chart::Chart;
use crate::page::{Page, Part};
use crate::scripts;
use askama::Template;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// What draws the charts once the page is there.
const DRAW: &str = include_str!("../templates/draw.js");

#[derive(Template)]
#[template(path = "page.html")]
struct PageTemplate<'a> {
    page: &'a Page,
    policy: String,
    style: &'static str,
    scripts: [String; 4],
    has_charts: bool,
}

/// The page as HTML.
pub fn page(page: &Page) -> Result<String, askama::Error> {
    let scripts = [scripts::VEGA.into(), scripts::VEGA_LITE.into(), scripts::interpreter(), DRAW.to_string()];
    let hashes: Vec<String> = scripts.iter().map(|script| hash(script)).collect();
    let policy = format!(
        "default-src 'none'; script-src {}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'",
        hashes.join(" ")
    );
    let has_charts = page.charts().next().is_some();
    PageTemplate { page, policy, style: include_str!("../templates/style.css"), scripts, has_charts }.render()
}

/// A script's hash as content security policies have it.
fn hash(script: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(script)))
}

impl Chart {
    /// The specification as text that no element can end in.
    fn embedded(&self) -> String {
        self.spec().to_string().replace('<', "\\u003c")
    }
}
