//! The generated workload, compared with published figures.

use super::*;
use fulgurite_workload::{
    Arrivals, Demand, Ingest, IngestSpec, Interval, Platters, Published, SHARD_BYTES, Sizes, Source, Spec, StatisticRow, Statistics,
    peak_over_mean,
};

/// Ten orders of magnitude from 100 B (SOSP '23, section 2).
const LARGEST_BYTES: u64 = 1_000_000_000_000;
const MEAN_BYTES: f64 = 100e6;
/// The paper's trace covers six months.
const DAYS: usize = 182;
const WINDOWS: [usize; 8] = [1, 2, 4, 7, 14, 30, 60, 90];
/// Ratios of the rate's 99.9th percentile to its median.
const SPREADS: [f64; 3] = [1e2, 1e4, 1e6];
const MEDIAN_AN_HOUR: f64 = 2.0;
const MIB: f64 = 1_048_576.0;
/// Classes of sizes from 1 B up, ten per decade.
const SIZE_CLASSES: usize = 131;

struct Drawn {
    rows: Vec<StatisticRow>,
    /// Upper ends of size classes, with the share of reads (and of bytes) up to there.
    reads: Vec<(f64, f64)>,
    bytes: Vec<(f64, f64)>,
}

pub(super) fn plan(plan: &mut Plan) -> Report {
    let (quick, first) = (plan.settings().quick, plan.settings().first_seed);
    let count: u64 = if quick { 50_000 } else { 2_000_000 };
    let sizes = plan.task(2.0, move || draw_sizes(first, count));
    let hours = if quick { 24 * 50 } else { 24 * DAYS as u64 };
    let spreads = plan.along(&SPREADS);
    let spreads = if quick { spreads[..1].to_vec() } else { spreads };
    let hourly: Vec<_> = spreads.iter().map(|&spread| (spread, plan.task(3.0, move || hourly(first, spread, hours)))).collect();
    let seeds = if quick { 10 } else { 100 };
    let ingest = plan.task(0.2, move || ingest(first, seeds));
    Box::new(move |results| {
        let mut chapter = Chapter::new("workload", "The workload");
        chapter.add_paragraph(format!(
            "The paper's traces are not public. The workload is derived from its published figures ([workload](workload.md)). The table compares {} million generated requests, with the sizes of stored files, with the published figures.",
            digits(count as f64 / 1e6)
        ));
        let drawn = results.task(sizes);
        let shown = |row: &&StatisticRow| row.published != Published::Nothing && !row.name.starts_with("hourly");
        let figure = |value: f64| if value > 1e6 { format!("{:.0} MB", value / 1e6) } else { digits(value) };
        let rows = drawn.rows.iter().filter(shown).map(|row| {
            vec![row.name.to_owned(), row.generated.map_or("–".into(), figure), row.published.to_string(), row.source.to_owned()]
        });
        chapter.list(["figure", "here", "published", "where"], rows.collect());
        let panel = Panel::new(Axis::bytes("File size").log(), Axis::share("Share up to this size").from(0.0).to(1.0))
            .steps("reads", drawn.reads.iter().copied())
            .steps("bytes", drawn.bytes.iter().copied());
        let panel = lone_points(panel, "published, reads", &[(4.0 * MIB, 0.587), (10.0 * MIB, 0.8), (256.0 * MIB, 0.98)]);
        let panel = lone_points(panel, "published, bytes", &[(4.0 * MIB, 0.012), (256.0 * MIB, 0.15)]);
        chapter.draw(
            "sizes",
            Figure::new("").panel(panel),
            "File sizes by share of requests and of bytes: generated (lines), published (points). Published only as a bound: requests over 256 MiB are under 2 %.",
        );

        chapter.add_paragraph(format!(
            "Published: within a data centre, the 99.9th percentile of the hourly read rate is up to 10^7 times the median. A lognormal rate, drawn anew each hour, can have any such ratio; the choice of this law is ours. Below are {} days for three ratios, at a median of {MEDIAN_AN_HOUR} reads an hour, each hour's reads sorted. The intervals of the experiments have planned bursts instead, so that seeds differ little.",
            hours / 24
        ));
        let mut panel = Panel::new(Axis::share("Share of hours"), Axis::new("Reads in an hour", "").log().from(0.5));
        let mut hourly_table = Table::new([
            Column::f64("spread", "", "Ratio of the 99.9th percentile of the rate to its median, as set."),
            Column::f64("share", "", "Share of hours."),
            Column::f64("reads", "", "Reads in an hour, which this share of the hours doesn't exceed."),
        ]);
        for (spread, task) in &hourly {
            let curve = results.task(*task);
            let shown: Vec<(f64, f64)> = curve.iter().copied().filter(|point| point.1 > 0.0).collect();
            panel = panel.steps(&format!("ratio 10^{:.0}", libm::log10(*spread)), shown);
            for (share, reads) in curve {
                hourly_table.push([(*spread).into(), (*share).into(), (*reads).into()])?;
            }
        }
        chapter.draw(
            "hourly",
            Figure::new("").panel(panel),
            "Reads by the hour, sorted, for three ratios of the 99.9th percentile to the median.",
        );

        let ingest_table = report_ingest(&mut chapter, results.task(ingest).as_slice(), seeds)?;
        chapter.sheet("workload", statistics(&drawn.rows)?);
        chapter.sheet("sizes", curve(drawn)?);
        chapter.sheet("hourly", hourly_table);
        chapter.sheet("ingest", ingest_table);
        chapter.sheet("intervals", intervals()?);
        Ok(chapter)
    })
}

/// Compares the peaks of ingest over windows with the published ones. Returns the table of the
/// ratios.
fn report_ingest(chapter: &mut Chapter, ratios: &[(usize, [f64; 3])], seeds: u64) -> Result<Table, PaperError> {
    let mut table = Table::new([
        Column::i64("days", "d", "Length of the window."),
        Column::f64("peak_over_mean", "", "Largest mean over a window, over the mean of all days: median over seeds."),
        Column::f64("low", "", "Tenth percentile over seeds."),
        Column::f64("high", "", "Ninetieth percentile over seeds."),
    ]);
    for (days, [low, median, high]) in ratios {
        table.push([Value::from(*days as u32), (*median).into(), (*low).into(), (*high).into()])?;
    }
    let points = ratios.iter().map(|(days, [low, median, high])| plot::Point { x: *days as f64, y: *median, within: Some((*low, *high)) });
    let panel =
        Panel::new(Axis::new("Window", "days").log(), Axis::new("Peak over mean", "").log()).line("generated", points.collect::<Vec<_>>());
    let panel = lone_points(panel, "published", &[(1.0, 16.0), (30.0, 2.0)]);
    let at = |days: usize| ratios.iter().find(|row| row.0 == days).map_or(f64::NAN, |row| row.1[1]);
    chapter.add_paragraph(format!(
        "Ingest is bursty by the day and smooth by the month. Over {DAYS} days the peak day has {} times the mean here (median of {seeds} seeds; published: about 16), and the peak 30 days {} times (published: about 2).",
        digits(at(1)),
        digits(at(30)),
    ));
    chapter.draw(
        "ingest",
        Figure::new("").panel(panel),
        "Ingest: peak over mean against the length of the window; whiskers from the 10th to the 90th percentile of seeds.",
    );
    Ok(table)
}

/// Separate marks without a line: nothing is known between them.
fn lone_points(panel: Panel, name: &str, points: &[(f64, f64)]) -> Panel {
    points.iter().fold(panel, |panel, point| panel.line(name, [*point]))
}

fn draw_sizes(seed: u64, count: u64) -> Result<Drawn, PaperError> {
    let sizes = Sizes::Mixture { mean_bytes: MEAN_BYTES, largest_bytes: LARGEST_BYTES };
    let source = Source::plain(Arrivals::Poisson { per_second: 1.0 }, sizes);
    let spec = Spec { platters: Platters::new(4_000), shard_bytes: SHARD_BYTES, until: Micros::NEVER, sources: vec![source] };
    let demand = Demand::new(&spec, seed).expect("a workload of the published sizes is valid");
    let mut statistics = Statistics::default();
    let mut classes = vec![(0_u64, 0.0); SIZE_CLASSES];
    for read in demand {
        if statistics.requests() == count && read.shard == 0 {
            break;
        }
        statistics.observe(&read);
        if read.shard == 0 {
            let class = (libm::log10(read.file_bytes as f64) * 10.0) as usize;
            let class = &mut classes[class.min(SIZE_CLASSES - 1)];
            class.0 += 1;
            class.1 += read.file_bytes as f64;
        }
    }
    let (reads, bytes) = classes.iter().fold((0.0, 0.0), |(reads, bytes), class| (reads + class.0 as f64, bytes + class.1));
    let mut up_to = (0.0, 0.0);
    let mut drawn = Drawn { rows: statistics.rows(), reads: Vec::new(), bytes: Vec::new() };
    // The curve begins at 100 B and ends above 1 TB, the largest size.
    for (index, class) in classes.iter().enumerate().skip(20).take(101) {
        up_to = (up_to.0 + class.0 as f64 / reads, up_to.1 + class.1 / bytes);
        let end = libm::exp10((index + 1) as f64 / 10.0);
        drawn.reads.push((end, up_to.0.min(1.0)));
        drawn.bytes.push((end, up_to.1.min(1.0)));
    }
    Ok(drawn)
}

/// Reads per hour over the share of hours that don't exceed them, at enough shares for a smooth
/// line.
fn hourly(seed: u64, spread: f64, hours: u64) -> Result<Vec<(f64, f64)>, PaperError> {
    let arrivals = Arrivals::Modulated {
        median_per_second: MEDIAN_AN_HOUR / 3_600.0,
        spread,
        period: Micros::HOUR,
        persistence: 0.0,
        // Twice the 99.9th percentile: the law's own peaks would take as long to draw as all the
        // rest.
        most_per_second: MEDIAN_AN_HOUR / 3_600.0 * spread * 2.0,
    };
    let source = Source::plain(arrivals, Sizes::Fixed { bytes: 1_000_000 });
    let until = Micros(hours * Micros::HOUR.0);
    let spec = Spec { platters: Platters::new(4_000), shard_bytes: SHARD_BYTES, until, sources: vec![source] };
    let mut counts = vec![0_u64; hours as usize];
    for read in Demand::new(&spec, seed).expect("a workload with a modulated rate is valid") {
        counts[(read.at.0 / Micros::HOUR.0) as usize] += 1;
    }
    counts.sort_unstable();
    let shares = (1..=100).map(|percent| f64::from(percent) / 100.0).chain([0.995, 0.999]);
    let mut curve: Vec<(f64, f64)> =
        shares.map(|share| (share, counts[((share * hours as f64).ceil() as usize).clamp(1, counts.len()) - 1] as f64)).collect();
    curve.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(curve)
}

/// Peak over mean by window: the 10th, 50th and 90th percentile over seeds.
fn ingest(first: u64, seeds: u64) -> Result<Vec<(usize, [f64; 3])>, PaperError> {
    let interval = Interval::TYPICAL;
    let platters = Platters::new(interval.platters);
    let spec = IngestSpec::beside_reads(interval.requests_per_second * interval.mean_bytes * 86_400.0, platters.platter_bytes());
    let days = |seed| -> Vec<u64> {
        let ingest = Ingest::new(spec, seed).expect("the published ingest is valid");
        ingest.take(DAYS).map(|day| day.bytes).collect()
    };
    let runs: Vec<Vec<u64>> = (first..first + seeds).map(days).collect();
    let row = |&window: &usize| {
        let mut ratios: Vec<f64> = runs.iter().filter_map(|days| peak_over_mean(days, window)).collect();
        ratios.sort_by(f64::total_cmp);
        let at = |part: f64| ratios[((ratios.len() as f64 * part) as usize).min(ratios.len() - 1)];
        (window, [at(0.1), at(0.5), at(0.9)])
    };
    Ok(WINDOWS.iter().map(row).collect())
}

fn statistics(rows: &[StatisticRow]) -> Result<Table, PaperError> {
    let mut table = Table::new([
        Column::text("figure", "The figure."),
        Column::f64("generated", "", "Value in the generated requests."),
        Column::text("published", "Published value."),
        Column::text("source", "Source of the published value."),
    ]);
    for row in rows {
        let generated = row.generated.filter(|value| value.is_finite());
        table.push([row.name.into(), generated.into(), row.published.to_string().into(), row.source.into()])?;
    }
    Ok(table)
}

fn curve(drawn: &Drawn) -> Result<Table, PaperError> {
    let mut table = Table::new([
        Column::f64("size", "B", "Upper end of a class of sizes."),
        Column::f64("reads", "", "Share of reads up to this size."),
        Column::f64("bytes", "", "Share of bytes up to this size."),
    ]);
    for ((size, reads), (_, bytes)) in drawn.reads.iter().zip(&drawn.bytes) {
        table.push([(*size).into(), (*reads).into(), (*bytes).into()])?;
    }
    Ok(table)
}

/// The presets, so that readers can rebuild them.
fn intervals() -> Result<Table, PaperError> {
    let mut table = Table::new([
        Column::text("interval", "The interval."),
        Column::f64("requests", "1/s", "Mean rate of requests, including bursts."),
        Column::f64("mean_size", "B", "Mean size of a read."),
        Column::f64("largest_size", "B", "Largest file."),
        Column::i64("bursts", "", "Bursts in 12 hours."),
        Column::i64("burst_arrivals", "", "Arrivals of a burst."),
        Column::i64("burst_files", "", "Files requested at each arrival."),
    ]);
    for ((_, name), interval) in INTERVALS.into_iter().zip([Interval::TYPICAL, Interval::IOPS, Interval::VOLUME]) {
        let Interval { requests_per_second, mean_bytes, largest_bytes, bursts, .. } = interval;
        let largest = largest_bytes as f64;
        let row: [Value; 7] = [
            name.into(),
            requests_per_second.into(),
            mean_bytes.into(),
            largest.into(),
            bursts.count.into(),
            bursts.arrivals.into(),
            bursts.account_files.into(),
        ];
        table.push(row)?;
    }
    Ok(table)
}
