//! Line plots as SVG or PNG files.
//!
//! ```text
//!            title
//!    y │   lines          ── name      the legend is beside the lines, so that it hides none
//!      └──────────── x    ── name
//!
//!   FILE.svg   lines and text as vectors
//!   FILE.png   the same drawing as pixels, with text in the built-in DejaVu Sans: it needs no font or library of the
//!              system and is the same everywhere
//! ```

use crate::failure::Failure;
use crate::terminal::harmless;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::register_font;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;
use std::path::PathBuf;
use workload::output;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Width and height of the image in pixels.
const SIZE: (u32, u32) = (900, 560);

const BYTES_A_PIXEL: usize = 3;

/// Margin around the image and between its parts, in pixels.
const MARGIN: u32 = 12;

/// Height of the title in pixels.
const TITLE: u32 = 18;

/// The legend, in pixels: height of a name, distance between names where there is room, length of the line
/// before a name.
const NAME: u32 = 12;
const NAME_DISTANCE: u32 = 18;
const KEY: u32 = 20;

/// An output file of `--plot` and its format.
#[derive(Clone, Debug)]
pub struct PlotFile {
    path: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Svg,
    Png,
}

/// A clap value parser for the path of a plot; the file extension determines the format.
pub fn file(path: &str) -> Result<PlotFile, String> {
    let path = PathBuf::from(path);
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    let kind = match ending.as_ref().and_then(|ending| ending.to_str()) {
        Some("svg") => Kind::Svg,
        Some("png") => Kind::Png,
        _ => return Err("a plot is an SVG or PNG file; its name must end in .svg or .png".into()),
    };
    Ok(PlotFile { path, kind })
}

/// A line plot.
#[derive(Clone, Debug)]
pub struct Chart {
    pub title: String,
    /// Label of the horizontal axis.
    pub x: &'static str,
    pub is_x_logarithmic: bool,
    /// Label of the vertical axis.
    pub y: &'static str,
    /// Range of the vertical axis.
    pub y_range: Range<f64>,
    pub lines: Vec<Line>,
}

/// One curve of a [`Chart`].
#[derive(Clone, Debug)]
pub struct Line {
    /// The label in the legend.
    pub name: String,
    /// `(x, y)`.
    pub points: Vec<(f64, f64)>,
    /// Vertical error bars: `(x, low, high)`.
    pub bars: Vec<(f64, f64, f64)>,
}

impl PlotFile {
    /// Refuses a place that cannot be written to, before anything is computed for it.
    pub fn check(&self) -> Result<(), Failure> {
        Ok(output::Output::at(&self.path, output::Existing::Replace).map(drop)?)
    }

    pub fn draw(&self, chart: &Chart) -> Result<(), Failure> {
        let picture = self.picture(chart).map_err(|error| {
            Failure::Other(anyhow::anyhow!("{}: cannot draw the plot: {error}", self.path.display()))
        })?;
        Ok(output::write(&self.path, &picture)?)
    }

    fn picture(&self, chart: &Chart) -> Result<Vec<u8>, Error> {
        register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular())
            .map_err(|_| "the built-in font is damaged")?;
        match self.kind {
            Kind::Svg => {
                let mut svg = String::new();
                draw(SVGBackend::with_string(&mut svg, SIZE), chart)?;
                Ok(svg.into_bytes())
            }
            Kind::Png => {
                let mut pixels = vec![0; SIZE.0 as usize * SIZE.1 as usize * BYTES_A_PIXEL];
                draw(BitMapBackend::with_buffer(&mut pixels, SIZE), chart)?;
                png(&pixels)
            }
        }
    }
}

fn png(pixels: &[u8]) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, SIZE.0, SIZE.1);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(bytes)
}

fn draw<B: DrawingBackend>(backend: B, chart: &Chart) -> Result<(), Error>
where
    B::ErrorType: 'static,
{
    let area = backend.into_drawing_area();
    let places = || chart.lines.iter().flat_map(|line| &line.points).map(|&(x, _)| x);
    let (least, most) = (places().fold(f64::MAX, f64::min), places().fold(1.0, f64::max));
    let drawn = match chart.is_x_logarithmic {
        // A logarithmic axis must not be empty: a single point is put into the middle of one.
        true if least < most => draw_lines(&area, chart, (least..most).log_scale()),
        true => draw_lines(&area, chart, (least / 2.0..most * 2.0).log_scale()),
        false => draw_lines(&area, chart, 0.0..most),
    };
    drawn.map_err(|error| error.to_string())?;
    Ok(area.present().map_err(|error| error.to_string())?)
}

fn draw_lines<B: DrawingBackend, X: AsRangedCoord<Value = f64>>(
    area: &DrawingArea<B, Shift>,
    Chart { title, x, y, y_range, lines, .. }: &Chart,
    x_range: X,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>>
where
    X::CoordDescType: ValueFormatter<f64>,
{
    area.fill(&WHITE)?;
    let font = ("sans-serif", NAME).into_text_style(area);
    let mut widest = 0;
    for line in lines {
        widest = widest.max(area.estimate_text_size(&line.name, &font)?.0);
    }
    let legend_width = KEY + MARGIN + widest + MARGIN;
    let (picture, legend) = area.split_horizontally(area.dim_in_pixel().0.saturating_sub(legend_width));
    let room = area.dim_in_pixel().1.saturating_sub(3 * MARGIN + TITLE);
    let distance = NAME_DISTANCE.min(room / lines.len().max(1) as u32);
    let decimals = usize::from(y_range.end <= 1.0);
    let mut chart = ChartBuilder::on(&picture)
        .caption(harmless(title), ("sans-serif", TITLE))
        .margin(MARGIN)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(x_range, y_range.clone())?;
    chart
        .configure_mesh()
        .x_desc(*x)
        .y_desc(*y)
        .x_label_formatter(&|x| crate::number::number(*x))
        .y_label_formatter(&|y| format!("{y:.decimals$}"))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (index, line) in lines.iter().enumerate() {
        let color = Palette99::pick(index).to_rgba();
        chart.draw_series(LineSeries::new(line.points.iter().copied(), color.stroke_width(2)))?;
        let y = (2 * MARGIN + TITLE + index as u32 * distance) as i32;
        legend.draw(&PathElement::new([(0, y), (KEY as i32, y)], color.stroke_width(2)))?;
        let place = ((KEY + MARGIN) as i32, y);
        let style = font.pos(Pos::new(HPos::Left, VPos::Center));
        legend.draw(&Text::new(line.name.as_str(), place, style))?;
        let bar = |&(x, low, high): &(f64, f64, f64)| {
            PathElement::new([(x, low), (x, high)], color.stroke_width(1))
        };
        chart.draw_series(line.bars.iter().map(bar))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The legend is to the right of all lines, so that it hides none of them.
    #[test]
    fn names_hide_no_line() {
        let line = |name: &str| Line {
            name: name.into(),
            points: vec![(1.0, 1.0), (1000.0, 1.0)],
            bars: vec![(1000.0, 0.9, 1.0)],
        };
        let chart = Chart {
            title: "a".into(),
            x: "x",
            is_x_logarithmic: true,
            y: "y",
            y_range: 0.0..1.0,
            lines: vec![line("lru"), line("w-tiny-lfu")],
        };
        let mut svg = String::new();
        register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular()).ok().unwrap();
        draw(SVGBackend::with_string(&mut svg, SIZE), &chart).unwrap();
        let places = |line: &str, key: &str| -> Vec<f64> {
            let values = line.split(&format!(" {key}=\"")).nth(1).and_then(|rest| rest.split('"').next());
            let pairs = values.into_iter().flat_map(str::split_whitespace);
            pairs.filter_map(|pair| pair.split(',').next()?.parse().ok()).collect()
        };
        let lines: Vec<&str> = svg.lines().collect();
        let end =
            lines.iter().filter(|line| line.contains("<polyline") && line.contains("stroke-width=\"2\""));
        let ends: Vec<f64> = end.map(|line| places(line, "points").into_iter().fold(0.0, f64::max)).collect();
        assert_eq!(ends.len(), 4, "{svg}");
        let names: Vec<f64> = ["lru", "w-tiny-lfu"]
            .iter()
            .map(|name| {
                let at = lines.iter().position(|line| line.trim() == *name).unwrap();
                places(lines[at - 1], "x")[0]
            })
            .collect();
        assert!(names.iter().all(|&name| ends.iter().all(|&end| end < name)), "{names:?} {ends:?}");
    }
}
