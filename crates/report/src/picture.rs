//! A chart as a picture that stands alone, for a page, a mail or a slide.
//!
//! ```text
//!   specification ─► Vega, in QuickJS ─► SVG ─► resvg ─► PNG
//!                        └ widths of texts: font/
//! ```
//!
//! The scripts are those that draw a report's charts in a browser, so a picture is what the report shows, on white paper. There is no
//! network and no file that a specification could name: the engine has neither.

use crate::chart::Chart;
use crate::scripts;
use resvg::{tiny_skia, usvg};
use rquickjs::{CatchResultExt, Context, Ctx, Function, Promise, Runtime};
use serde_json::json;
use skrifa::instance::{LocationRef, Size};
use skrifa::{FontRef, MetadataProvider};
use std::sync::Arc;

/// What texts are measured and drawn with; `font/README.md` says where it is from.
const FONT: &[u8] = include_bytes!("../font/LiberationSans-Regular.ttf");

/// The same, and what viewers may use in its place, which is as wide.
const FAMILY: &str = "Liberation Sans";
const FAMILIES: &str = "Liberation Sans, Arial, Helvetica, sans-serif";

/// Pixels of a PNG for one of the SVG: sharp on screens of today, and in print at half the size.
const PIXELS: f32 = 2.0;

/// What Vega needs of the stack, with room: an expression nests, and what is parsed nests with it.
const STACK_BYTES: usize = 4 << 20;

/// Letters of a line of the caption.
const LETTERS: usize = 110;

const DRAW_ALONE: &str = include_str!("../templates/draw_alone.js");

/// Why there is no picture.
#[derive(Debug)]
pub struct Undrawn(String);

impl std::fmt::Display for Undrawn {
    fn fmt(&self, text: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(text, "the chart cannot be drawn: {}", self.0)
    }
}

impl std::error::Error for Undrawn {}

fn undrawn(error: impl std::fmt::Display) -> Undrawn {
    Undrawn(error.to_string())
}

/// The chart as SVG, below a title that says what it is of and the caption.
pub fn svg(chart: &Chart, title: &str) -> Result<String, Undrawn> {
    let mut spec = chart.spec();
    spec["title"] = json!({ "text": title, "subtitle": lines(&chart.caption) });
    spec["config"]["font"] = FAMILIES.into();
    spec["config"]["background"] = "white".into();
    let runtime = Runtime::new().map_err(undrawn)?;
    runtime.set_max_stack_size(STACK_BYTES);
    let context = Context::full(&runtime).map_err(undrawn)?;
    context.with(|context| drawn(&context, &spec.to_string()))
}

/// A text in lines that are as wide as a chart.
fn lines(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => *line = word.into(),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= LETTERS => {
                *line += " ";
                *line += word;
            }
            _ => lines.push(word.into()),
        }
    }
    lines
}

/// What the scripts make of a specification.
fn drawn(context: &Ctx, spec: &str) -> Result<String, Undrawn> {
    let font = FontRef::new(FONT).map_err(undrawn)?;
    let width = move |text: String, size: f32| width(&font, &text, size);
    let global = context.globals();
    global.set("widthOfText", Function::new(context.clone(), width)).catch(context).map_err(undrawn)?;
    for script in [DRAW_ALONE, scripts::VEGA, scripts::VEGA_LITE, &scripts::interpreter()] {
        context.eval::<(), _>(script).catch(context).map_err(undrawn)?;
    }
    let picture: Function = global.get("picture").catch(context).map_err(undrawn)?;
    let promise: Promise = picture.call((spec,)).catch(context).map_err(undrawn)?;
    promise.finish().catch(context).map_err(undrawn)
}

/// How wide a text is, in pixels, at a size in pixels.
fn width(font: &FontRef, text: &str, size: f32) -> f32 {
    let metrics = font.glyph_metrics(Size::new(size), LocationRef::default());
    let letters = font.charmap();
    text.chars()
        .map(|letter| metrics.advance_width(letters.map(letter).unwrap_or_default()).unwrap_or(size))
        .sum()
}

/// An SVG picture as PNG.
pub fn png(svg: &str) -> Result<Vec<u8>, Undrawn> {
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_data(FONT.to_vec());
    fonts.set_sans_serif_family(FAMILY);
    let options =
        usvg::Options { font_family: FAMILY.into(), fontdb: Arc::new(fonts), ..usvg::Options::default() };
    let tree = usvg::Tree::from_str(svg, &options).map_err(undrawn)?;
    let size = tree.size();
    let pixels = |length: f32| (length * PIXELS).ceil() as u32;
    let mut paper = tiny_skia::Pixmap::new(pixels(size.width()), pixels(size.height()))
        .ok_or_else(|| undrawn("it has no size"))?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(PIXELS, PIXELS), &mut paper.as_mut());
    paper.encode_png().map_err(undrawn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    #[test]
    fn the_font_is_that_of_the_list() {
        let sum: String = Sha256::digest(FONT).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(include_str!("../font/SHA256SUMS"), format!("{sum}  LiberationSans-Regular.ttf\n"));
    }
}
