//! Pictures that stand alone: whether every kind of chart becomes one, with its marks and its texts.

mod drawings;

use drawings::{drawings, marks};
use report::chart::{Chart, Drawing};
use report::picture;
use resvg::tiny_skia::Pixmap;

fn svg(drawing: Drawing) -> String {
    let chart = Chart { title: "A & <b>".into(), caption: "What it shows".into(), drawing };
    picture::svg(&chart, "What was asked <script>alert(1)</script>").unwrap()
}

#[test]
fn every_kind_of_chart_is_drawn_with_its_marks_and_texts() {
    let pictures: Vec<String> = drawings().into_iter().map(svg).collect();
    for lines in &pictures[..2] {
        assert_eq!((marks(lines, "line"), marks(lines, "text")), (3, 2), "two of the lines are the same");
        assert!(lines.contains("MiB</text>"), "bytes on the axis");
    }
    assert_eq!((marks(&pictures[2], "symbol"), marks(&pictures[2], "text")), (2, 2));
    assert_eq!(marks(&pictures[3], "rect"), 7 + 2, "the smaller parts are one: of ten four, of three two");
    assert_eq!(marks(&pictures[4], "rect"), 6);
    assert_eq!(marks(&pictures[5], "symbol"), 3, "what no logarithmic axis has is left out");
    for picture in &pictures {
        assert!(
            picture.contains("What was asked &lt;script") && picture.contains("What it shows"),
            "{picture}"
        );
        assert!(!picture.contains("<script"), "names are text");
        assert!(!picture.contains("NaN"), "{picture}");
    }
}

#[test]
fn pictures_are_the_same_every_time() {
    let drawn = || drawings().into_iter().map(svg).collect::<Vec<_>>();
    assert!(drawn() == drawn());
}

#[test]
fn pixels_show_what_the_picture_has_and_its_words() {
    for drawing in drawings() {
        let picture = svg(drawing);
        let paper = Pixmap::decode_png(&picture::png(&picture).unwrap()).unwrap();
        let dark = |paper: &Pixmap| paper.pixels().iter().filter(|pixel| pixel.red() < 128).count();
        assert!(paper.width() > 1000 && dark(&paper) > 1000, "{} wide, {} dark", paper.width(), dark(&paper));
        assert!(paper.pixels().iter().all(|pixel| pixel.alpha() == 255), "on paper");
        // Without its words it is another picture: they are drawn.
        let silent = picture.replace("<text", "<desc").replace("</text>", "</desc>");
        let silent = Pixmap::decode_png(&picture::png(&silent).unwrap()).unwrap();
        assert!(dark(&paper) > dark(&silent) + 500);
    }
}

#[test]
fn long_names_are_as_wide_as_they_are() {
    // A label that does not fit is cut; one that fits is whole. Vega alone takes all letters for wide ones.
    let drawing = drawings().into_iter().find(|drawing| matches!(drawing, Drawing::Spans(_))).unwrap();
    let Drawing::Spans(mut spans) = drawing else { unreachable!() };
    let (narrow, wide) = (
        "iiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiii",
        "MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM",
    );
    spans.spans[0].name = narrow.into();
    spans.spans[1].name = wide.into();
    let picture = svg(Drawing::Spans(spans));
    assert!(picture.contains(&format!("{narrow}</text>")) && !picture.contains(&format!("{wide}</text>")));
}
