//! Lines over an axis, as a picture.
//!
//! ```text
//!   FILE.svg   lines and text, scaled by whoever shows it
//!   FILE.png   the same drawing in pixels, text in DejaVu Sans, which comes with the program: no font and no library
//!              of the system is needed, and the picture is the same everywhere
//! ```

use crate::failure::Failure;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::register_font;
use std::fs::File;
use std::io::BufWriter;
use std::ops::Range;
use std::path::{Path, PathBuf};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Width and height, pixels.
const SIZE: (u32, u32) = (900, 560);

const BYTES_A_PIXEL: usize = 3;

/// A file that a plot can be written to.
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

/// A picture of lines.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// What is along the horizontal axis.
    pub x: &'static str,
    /// Whether that axis is logarithmic.
    pub is_x_logarithmic: bool,
    /// What is along the vertical axis.
    pub y: &'static str,
    /// From where to where it reaches.
    pub y_range: Range<f64>,
    /// Where the names of lines hide none of them.
    pub legend: SeriesLabelPosition,
    /// The lines.
    pub lines: Vec<Line>,
}

/// A line through points.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
    /// Intervals: where, from, to.
    pub bars: Vec<(f64, f64, f64)>,
}

impl PlotFile {
    /// Draws `chart` into the file.
    pub fn draw(&self, chart: &Chart) -> Result<(), Failure> {
        self.try_to_draw(chart).map_err(|error| {
            Failure::Other(anyhow::anyhow!("{}: cannot write the plot: {error}", self.path.display()))
        })
    }

    fn try_to_draw(&self, chart: &Chart) -> Result<(), Error> {
        register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular())
            .map_err(|_| "the font that comes with the program is damaged")?;
        match self.kind {
            Kind::Svg => {
                let mut svg = String::new();
                draw(SVGBackend::with_string(&mut svg, SIZE), chart)?;
                std::fs::write(&self.path, svg)?;
            }
            Kind::Png => {
                let mut pixels = vec![0; SIZE.0 as usize * SIZE.1 as usize * BYTES_A_PIXEL];
                draw(BitMapBackend::with_buffer(&mut pixels, SIZE), chart)?;
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

fn draw<B: DrawingBackend>(backend: B, chart: &Chart) -> Result<(), Error>
where
    B::ErrorType: 'static,
{
    let area = backend.into_drawing_area();
    let places = || chart.lines.iter().flat_map(|line| &line.points).map(|&(x, _)| x);
    let (least, most) = (places().fold(f64::MAX, f64::min), places().fold(1.0, f64::max));
    let drawn = match chart.is_x_logarithmic {
        // A single place still is in the middle of an axis.
        true if least < most => draw_lines(&area, chart, (least..most).log_scale()),
        true => draw_lines(&area, chart, (least / 2.0..most * 2.0).log_scale()),
        false => draw_lines(&area, chart, 0.0..most),
    };
    drawn.map_err(|error| error.to_string())?;
    Ok(area.present().map_err(|error| error.to_string())?)
}

fn draw_lines<B: DrawingBackend, X: AsRangedCoord<Value = f64>>(
    area: &DrawingArea<B, Shift>,
    Chart { title, x, y, y_range, legend, lines, .. }: &Chart,
    x_range: X,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>>
where
    X::CoordDescType: ValueFormatter<f64>,
{
    area.fill(&WHITE)?;
    let decimals = usize::from(y_range.end <= 1.0);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
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
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), color.stroke_width(2)))?
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color.stroke_width(2)));
        let bar = |&(x, low, high): &(f64, f64, f64)| {
            PathElement::new([(x, low), (x, high)], color.stroke_width(1))
        };
        chart.draw_series(line.bars.iter().map(bar))?;
    }
    chart
        .configure_series_labels()
        .position(legend.clone())
        .background_style(WHITE)
        .border_style(BLACK.mix(0.3))
        .draw()
}
