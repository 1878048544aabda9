//! Miss-ratio curves as a picture.
//!
//! ```text
//!   FILE.svg   lines and text, scaled by whoever shows it
//!   FILE.png   the same drawing in pixels, text in DejaVu Sans, which comes with the program: no font and no library
//!              of the system is needed, and the picture is the same everywhere
//! ```
//!
//! Memory is on a logarithmic axis. Where ratios were estimated, bars show their 95 % intervals.

use lab::rulers::{Point, Policy};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::register_font;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Width and height, pixels.
const SIZE: (u32, u32) = (900, 560);

const BYTES_A_PIXEL: usize = 3;

/// A file that a plot can be written to.
#[derive(Clone, Debug)]
pub struct PlotFile {
    /// Its path.
    pub path: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Svg,
    Png,
}

/// Takes the path of a plot, whose ending says what kind it is.
pub fn file(path: &str) -> Result<PlotFile, String> {
    let path = PathBuf::from(path);
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    let kind = match ending.as_ref().and_then(|ending| ending.to_str()) {
        Some("svg") => Kind::Svg,
        Some("png") => Kind::Png,
        _ => return Err("a plot is an SVG or PNG file; let its name end in .svg or .png".into()),
    };
    Ok(PlotFile { path, kind })
}

impl PlotFile {
    /// Draws the curves of `policies` into the file.
    pub fn draw(&self, title: &str, policies: &[&'static Policy], points: &[Point]) -> Result<(), Error> {
        register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular())
            .map_err(|_| "the font that comes with the program is damaged")?;
        match self.kind {
            Kind::Svg => {
                let mut svg = String::new();
                draw(SVGBackend::with_string(&mut svg, SIZE), title, policies, points)?;
                std::fs::write(&self.path, svg)?;
            }
            Kind::Png => {
                let mut pixels = vec![0; SIZE.0 as usize * SIZE.1 as usize * BYTES_A_PIXEL];
                draw(BitMapBackend::with_buffer(&mut pixels, SIZE), title, policies, points)?;
                write_png(&self.path, &pixels)?;
            }
        }
        Ok(())
    }
}

fn write_png(path: &Path, pixels: &[u8]) -> Result<(), Error> {
    let mut encoder = png::Encoder::new(BufWriter::new(File::create(path)?), SIZE.0, SIZE.1);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    Ok(writer.finish()?)
}

fn draw<B: DrawingBackend>(
    backend: B,
    title: &str,
    policies: &[&'static Policy],
    points: &[Point],
) -> Result<(), Error>
where
    B::ErrorType: 'static,
{
    let area = backend.into_drawing_area();
    draw_curves(&area, title, policies, points).map_err(|error| error.to_string())?;
    Ok(area.present().map_err(|error| error.to_string())?)
}

fn draw_curves<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    title: &str,
    policies: &[&'static Policy],
    points: &[Point],
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    area.fill(&WHITE)?;
    let sizes = || points.iter().map(|point| point.size_pages as f64);
    let (least, most) = (sizes().fold(f64::MAX, f64::min), sizes().fold(1.0, f64::max));
    // A single size still is in the middle of an axis.
    let range = if least < most { least..most } else { least / 2.0..most * 2.0 };
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(range.log_scale(), 0.0..1.0)?;
    chart
        .configure_mesh()
        .x_desc("memory, pages of 4 KiB")
        .y_desc("miss ratio")
        .x_label_formatter(&|pages| crate::number::number(*pages))
        .y_label_formatter(&|ratio| format!("{ratio:.1}"))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (index, policy) in policies.iter().enumerate() {
        let color = Palette99::pick(index).to_rgba();
        let curve = || points.iter().filter(|point| point.policy == policy.name);
        let line = curve().map(|point| (point.size_pages as f64, point.miss_ratio));
        chart
            .draw_series(LineSeries::new(line, color.stroke_width(2)))?
            .label(policy.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color.stroke_width(2)));
        let bars = curve().filter_map(|point| {
            let (size, low, high) = (point.size_pages as f64, point.miss_ratio_low?, point.miss_ratio_high?);
            Some(PathElement::new([(size, low), (size, high)], color.stroke_width(1)))
        });
        chart.draw_series(bars)?;
    }
    chart.configure_series_labels().background_style(WHITE).border_style(BLACK.mix(0.3)).draw()
}
