use super::ticks::{Quantity, Ticks, ticks};
use super::*;

/// The mean of 1, 1.1 and 1.3, and half the width of its 95 % confidence interval.
const MEAN: f64 = 3.4 / 3.0;
const HALF_WIDTH: f64 = 0.379_459_2;

fn lines() -> Figure {
    let points = |scale: f64| {
        [30.0, 60.0, 120.0].map(|x| Point {
            x,
            y: scale * MEAN / x,
            within: Some((scale * (MEAN - HALF_WIDTH) / x, scale * (MEAN + HALF_WIDTH) / x)),
        })
    };
    let panel = Panel::new(Axis::new("Drive throughput", "MB/s"), Axis::seconds("Tail <&> µ").log())
        .line("partitioned", points(1e5))
        .line("shortest paths", points(3e5))
        .bound("no shuttles", [(30.0, 600.0), (120.0, 200.0)])
        .level(54_000.0, "15 h");
    Figure::new("Small").panel(panel).width(240.0).plot_height(110.0)
}

/// One figure for each kind of panel.
fn gallery() -> Vec<Figure> {
    let names = ["Typical", "IOPS", "a policy with a long name of many words", "Averylongnamewithoutanyspaces"];
    let categories = || Axis::categories("Workload", names);
    let bars = Panel::new(categories(), Axis::share("Lost"))
        .bars("one", [0.1, 0.2, 0.3, 0.0])
        .bars("two", [Point { x: 0.0, y: 0.15, within: Some((-0.485, 0.785)) }; 4]);
    let stack = Panel::new(categories(), Axis::share("Time")).stack("a", [0.5; 4]).stack("b", [0.25; 4]);
    let grid = Grid::new(Axis::new("Platters", ""), [vec![Some(1.0), None], vec![Some(3.0), Some(0.0)]]);
    let grid = Panel::grid(Axis::categories("Rack", ["1", "2"]), Axis::categories("Shelf", ["1", "2"]), grid);
    let steps = Panel::new(Axis::seconds("Time"), Axis::new("Waiting", ""))
        .steps("queue", (0..50).map(|x| (f64::from(x), f64::from(x * 7 % 5))))
        .series(Series::line("mean", (0..50).map(|x| Point { x: x.into(), y: 2.0, within: Some((1.0, 3.0)) })))
        .mark(25.0, "warm-up ends");
    let ecdf = Panel::new(Axis::seconds("Completion time").log(), Axis::share("Requests")).ecdf("x", [(1.0, 0.2), (60.0, 0.7), (7e3, 1.0)]);
    vec![
        lines(),
        Figure::new("Bars").panel(bars.clone()),
        Figure::new("Stack").panel(stack.clone()).width(200.0),
        Figure::new("Grid").panel(grid),
        Figure::new("Two").panel(steps).panel(ecdf.titled("(b)")),
        Figure::new("Three").panel(bars.clone()).panel(bars.clone()).panel(bars).one_scale().width(600.0),
    ]
}

#[test]
fn a_small_figure_matches_the_golden_file() {
    let svg = lines().svg().unwrap();
    let golden = include_str!("../tests/golden/small-figure.svg");
    if svg != golden {
        let found = std::env::temp_dir().join("small-figure.svg");
        std::fs::write(&found, &svg).unwrap();
        panic!("the figure differs from crates/plot/tests/golden/small-figure.svg; if it should, look at {} and copy it", found.display());
    }
}

#[test]
fn every_kind_of_figure_is_drawn_the_same_each_time() {
    for figure in gallery() {
        let (svg, png) = (figure.svg().unwrap(), figure.png().unwrap());
        assert_eq!((&svg, &png), (&figure.svg().unwrap(), &figure.png().unwrap()), "{}", figure.title);
        assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png.len() > 2_000);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", figure.title);
    }
}

#[test]
fn all_text_and_shapes_stay_inside_the_picture() {
    let font = font::Font::embedded();
    for figure in gallery() {
        let scene = layout::scene(&figure, &font).unwrap();
        let page = scene::Area { left: 0.0, top: 0.0, right: scene.width, bottom: scene.height };
        for item in &scene.items {
            match item {
                scene::Item::Shape { contours, .. } => {
                    assert!(contours.iter().flatten().all(|&place| page.holds(place)), "{}: {contours:?}", figure.title);
                }
                scene::Item::Circle { centre, .. } => assert!(page.holds(*centre)),
                scene::Item::Text(text) => {
                    for corner in text_corners(text, &font) {
                        assert!(page.holds(corner), "{}: {text:?} reaches {corner:?} of {page:?}", figure.title);
                    }
                }
            }
        }
    }
}

fn text_corners(text: &scene::Text, font: &font::Font) -> [scene::Coordinates; 4] {
    let width = font.width(&text.text, text.size, text.weight);
    let left = match text.anchor {
        scene::Anchor::Start => 0.0,
        scene::Anchor::Middle => -0.5 * width,
        scene::Anchor::End => -width,
    };
    let angle = text.turned * std::f64::consts::PI / 180.0;
    let (sine, cosine) = (libm::sin(angle), libm::cos(angle));
    [(left, 0.0), (left + width, 0.0), (left + width, -0.75 * text.size), (left, -0.75 * text.size)]
        .map(|(x, y)| (text.at.0 + x * cosine - y * sine, text.at.1 + x * sine + y * cosine))
}

#[test]
fn horizontal_texts_do_not_overlap() {
    let font = font::Font::embedded();
    for figure in gallery() {
        let scene = layout::scene(&figure, &font).unwrap();
        let boxes: Vec<(String, scene::Area)> = scene
            .items
            .iter()
            .filter_map(|item| match item {
                scene::Item::Text(text) if text.turned == 0.0 => {
                    let [from, _, to, _] = text_corners(text, &font);
                    Some((text.text.clone(), scene::Area { left: from.0, top: to.1, right: to.0, bottom: from.1 }))
                }
                _ => None,
            })
            .collect();
        for (at, (text, area)) in boxes.iter().enumerate() {
            for (other, beside) in &boxes[..at] {
                let apart =
                    area.left >= beside.right || beside.left >= area.right || area.top >= beside.bottom || beside.top >= area.bottom;
                assert!(apart, "{}: `{text}` overlaps `{other}`", figure.title);
            }
        }
    }
}

#[test]
fn write_creates_both_the_svg_and_the_png() {
    let folder = tempfile::tempdir().unwrap();
    let [svg, png] = lines().write(folder.path(), "figure-5a").unwrap();
    assert_eq!(std::fs::read_to_string(svg).unwrap(), lines().svg().unwrap());
    assert_eq!(std::fs::read(png).unwrap(), lines().png().unwrap());
    let error = lines().write(&folder.path().join("not there"), "x").unwrap_err();
    assert!(matches!(error, PlotError::Write { .. }));
}

#[test]
fn a_name_keeps_its_colour_in_every_panel() {
    let panel = |names: [&str; 2]| {
        names.into_iter().fold(Panel::new(Axis::new("x", ""), Axis::new("y", "")), |panel, name| panel.line(name, [(0.0, 1.0), (1.0, 2.0)]))
    };
    let svg = Figure::new("").panel(panel(["a", "b"])).panel(panel(["b", "c"])).svg().unwrap();
    // Markers: one in the legend, two in each panel that has the name.
    let squares = svg.matches("fill=\"#d55e00\"").count();
    assert_eq!((svg.matches("<circle").count(), squares), (3, 5));
}

#[test]
fn invalid_figures_are_rejected_with_the_offending_name_and_value() {
    let panel = |x: Axis, y: Axis, points: Vec<(f64, f64)>| Figure::new("").panel(Panel::new(x, y).line("a line", points)).svg();
    let (x, y) = (|| Axis::new("x", ""), || Axis::new("y", ""));
    let error = |result: Result<String, PlotError>| result.unwrap_err().to_string();
    assert_eq!(
        error(panel(x(), y(), vec![(0.0, 1.0), (1.0, f64::NAN)])),
        "`a line` has the value NaN at 1, but only finite values can be drawn"
    );
    assert!(error(panel(x(), y(), vec![(f64::INFINITY, 1.0)])).contains("value inf at 0"));
    assert!(error(panel(x(), y().log(), vec![(0.0, 0.0)])).contains("only values above zero"));
    assert_eq!(error(panel(x(), y(), vec![])), "panel `` has no data");
    assert_eq!(error(panel(x(), y().from(3.0).to(2.0), vec![(0.0, 1.0)])), "the axis `y` can't go from 3 to 2");
    assert!(error(panel(x(), y(), vec![(0.0, -f64::MAX), (1.0, f64::MAX)])).contains("can't go from"));
    let within = Series::line("s", [Point { x: 0.0, y: 1.0, within: Some((f64::NAN, 2.0)) }]);
    assert!(error(Figure::new("").panel(Panel::new(x(), y()).series(within)).svg()).contains("NaN"));
    let bars = |x: Axis| Figure::new("").panel(Panel::new(x, y()).bars("b", [1.0, 2.0])).svg();
    assert_eq!(error(bars(Axis::categories("", ["a"]))), "`b` has 2 values, but its axis has 1 categories");
    assert_eq!(error(bars(x())), "the axis `x` needs categories, since it has bars");
    assert_eq!(error(Figure::new("").svg()), "a figure has one to three panels side by side, not 0");
    assert!(error(lines().width(80.0).svg()).contains("make the figure wider"));
}

#[test]
fn an_interval_that_reaches_zero_still_fits_a_logarithmic_axis() {
    let point = Point { x: 1.0, y: 10.0, within: Some((-5.0, 25.0)) };
    let svg = Figure::new("").panel(Panel::new(Axis::new("x", ""), Axis::new("y", "").log()).line("s", [point])).svg().unwrap();
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}

fn labels(quantity: Quantity, log: bool, range: (f64, f64), most: usize) -> Vec<String> {
    ticks(&quantity, log, range, |ticks| ticks.len() <= most).major.into_iter().map(|tick| tick.1).collect()
}

#[test]
fn ticks_have_round_values_and_conventional_labels() {
    use Quantity::{BinaryBytes, Bytes, Number, Seconds, Share};
    type Case = (Quantity, bool, (f64, f64), &'static [&'static str]);
    let cases: [Case; 21] = [
        (Number, false, (0.0, 210.0), &["0", "50", "100", "150", "200"]),
        (Number, false, (-0.31, 0.32), &["−0.3", "−0.2", "−0.1", "0", "0.1", "0.2", "0.3"]),
        (Number, false, (0.0, 60_000.0), &["0", "10,000", "20,000", "30,000", "40,000", "50,000", "60,000"]),
        (Number, false, (0.0, 3.1e7), &["0", "0.5×10⁷", "1.0×10⁷", "1.5×10⁷", "2.0×10⁷", "2.5×10⁷", "3.0×10⁷"]),
        (Number, false, (-4e-9, 3e-9), &["−4×10⁻⁹", "−2×10⁻⁹", "0", "2×10⁻⁹"]),
        (Number, true, (0.5, 2e3), &["1", "10", "100", "1000"]),
        (Number, true, (1e-12, 1e12), &["10⁻¹⁰", "10⁻⁵", "1", "10⁵", "10¹⁰"]),
        (Number, true, (90.0, 110.0), &["90", "95", "100", "105", "110"]),
        (Seconds, false, (0.0, 1_000.0), &["0", "5 min", "10 min", "15 min"]),
        (Seconds, false, (0.0, 12.5 * 3_600.0), &["0", "2 h", "4 h", "6 h", "8 h", "10 h", "12 h"]),
        (Seconds, false, (0.0, 9_000.0), &["0", "0.5 h", "1.0 h", "1.5 h", "2.0 h", "2.5 h"]),
        (Seconds, true, (50.0, 60_000.0), &["1 min", "5 min", "15 min", "1 h", "4 h", "15 h"]),
        (Seconds, true, (0.5, 60_000.0), &["1 s", "10 s", "1 min", "10 min", "1 h", "10 h"]),
        (Seconds, true, (1e-6, 4e6), &["1 µs", "1 ms", "1 s", "1 min", "1 h", "1 d", "30 d"]),
        (Seconds, true, (200.0, 2_000.0), &["5 min", "10 min", "20 min", "30 min"]),
        (Share, false, (0.0, 1.0), &["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]),
        (Share, true, (1e-4, 1.0), &["0.01 %", "0.1 %", "1 %", "10 %", "100 %"]),
        (Bytes, true, (100.0, 1e13), &["1 kB", "1 MB", "1 GB", "1 TB"]),
        (BinaryBytes, false, (0.0, 3.0 * 1_048_576.0), &["0", "0.5 MiB", "1.0 MiB", "1.5 MiB", "2.0 MiB", "2.5 MiB", "3.0 MiB"]),
        (BinaryBytes, false, (0.0, 1_000.0), &["0", "200 B", "400 B", "600 B", "800 B", "1000 B"]),
        (BinaryBytes, true, (100.0, 1e13), &["1 kB", "1 MB", "1 GB", "1 TB"]),
    ];
    for (quantity, log, range, wanted) in cases {
        let found = labels(quantity.clone(), log, range, 7);
        assert_eq!(found, wanted, "{quantity:?}, logarithmic: {log}, {range:?}");
    }
}

#[test]
fn every_range_has_ordered_ticks_inside_it() {
    use Quantity::{BinaryBytes, Bytes, Number, Seconds, Share};
    for quantity in [Number, Seconds, Share, Bytes, BinaryBytes] {
        for low_power in (-12..12).step_by(2) {
            for high_power in (low_power..=12).step_by(3) {
                for (part, whole) in [(1.0, 1.7), (3.3, 9.9), (1.0, 1.01)] {
                    let range = (part * libm::exp10(f64::from(low_power)), whole * libm::exp10(f64::from(high_power)));
                    for (log, range) in [(true, range), (false, range), (false, (-range.1, -range.0)), (false, (-range.0, range.1))] {
                        let Ticks { major, minor } = ticks(&quantity, log, range, |ticks| ticks.len() <= 7);
                        let case = format!("{quantity:?}, logarithmic: {log}, {range:?}: {major:?}");
                        let slack = 1e-8 * (range.1 - range.0).max(range.1.abs() * if log { 1.0 } else { 0.0 });
                        let inside = |value: f64| value >= range.0 - slack && value <= range.1 + slack;
                        assert!(!major.is_empty() || log && range.1 / range.0 < 10.0, "no ticks: {case}");
                        assert!(major.len() <= 11, "{case}");
                        assert!(major.iter().all(|tick| inside(tick.0)) && minor.iter().all(|&value| inside(value)), "{case}");
                        assert!(major.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 != pair[1].1), "{case}");
                    }
                }
            }
        }
    }
}

#[test]
fn degenerate_ranges_are_widened() {
    let range = |axis: Axis, values: &[f64]| axis.range(values.iter().copied(), false, false).unwrap();
    let (linear, log) = (|| Axis::new("y", ""), || Axis::new("y", "").log());
    for values in [vec![0.0], vec![5.0], vec![-5.0], vec![1e12], vec![1e-12], vec![1e12, 1e12 + 1e-3], vec![-3.0, 4.0], vec![1e-12, 1e12]] {
        let (low, high) = range(linear(), &values);
        assert!(values.iter().all(|&value| low <= value && value <= high) && low < high, "{values:?}: {low} to {high}");
        assert!(values.iter().any(|&value| value < 0.0) || low >= 0.0, "{values:?}: {low}");
        if values.iter().all(|&value| value > 0.0) {
            let (low, high) = range(log(), &values);
            assert!(values.iter().all(|&value| low < value && value < high) && low > 0.0, "{values:?}: {low} to {high}");
        }
    }
    assert_eq!(range(linear().from(1.0).to(2.0), &[5.0]), (1.0, 2.0));
    assert_eq!(range(linear(), &[0.0, 100.0]).0, 0.0);
    assert!(range(linear(), &[99.0, 100.0]).0 > 98.0);
}
