//! `inspect --health`: a map of the margins of all sectors.

use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use fulgurite_archive::watch::Watcher;
use fulgurite_domain::PhysicalTrack;
use fulgurite_glass::SectorQuality;
use fulgurite_plot::{Axis, Figure, Grid, Panel};
use serde_json::{Value, json};

use super::{Glass, write_new};
use crate::progress::Progress;
use crate::text::{count, phrase};
use crate::{Outcome, Session};

/// Side of a sector on the map at most, in points.
const CELL: f64 = 11.0;
/// Width of the figure at most, in points, and the part of it beside the map.
const WIDTH_MOST: f64 = 530.0;
const WIDTH_BESIDE: f64 = 110.0;
/// Height of the map at most, in points; more tracks are drawn smaller.
const HEIGHT_MOST: f64 = 6_000.0;
/// Lost sectors that are named.
const NAMED: usize = 10;

type Tracks = Vec<Vec<io::Result<SectorQuality>>>;

pub(super) fn health(session: &Session, glass: &Glass, file: &Path) -> Result<Outcome> {
    let progress = Progress::new(session.quiet);
    let tracks = read(glass, &progress);
    progress.finish();
    write_new(file, &map(glass, &tracks)?)?;
    let summary = Summary::of(glass, &tracks);
    session.answer(|| {
        let mut value = glass.to_json();
        value.as_object_mut().expect("an object").extend(summary.to_json(file).as_object().expect("an object").clone());
        value
    });
    glass.say(session);
    summary.say(session, glass);
    session.say(&format!("map       {}", file.display()));
    let outcome = Outcome::troubled_if(!summary.lost.is_empty());
    Ok(outcome.worst(if summary.unreadable.is_empty() { Outcome::Good } else { Outcome::Unreadable }))
}

/// Reads a platter and writes its map to a new file.
pub(crate) fn draw_health(glass: &Glass, file: &Path, progress: &Progress) -> Result<()> {
    write_new(file, &map(glass, &read(glass, progress))?)
}

/// Reads all tracks, on several threads.
fn read(glass: &Glass, progress: &Progress) -> Tracks {
    let head = glass.platter.head();
    let track_bytes = u64::from(head.track_sectors) * u64::from(head.sector_bytes);
    progress.stage("reading", Some(u64::from(head.tracks) * track_bytes));
    let next = AtomicU32::new(0);
    let tracks: Mutex<Vec<(u32, _)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..glass.threads.min(head.tracks as usize) {
            scope.spawn(|| {
                loop {
                    let track = next.fetch_add(1, Ordering::Relaxed);
                    if track >= head.tracks {
                        break;
                    }
                    let sectors = glass.platter.track_quality(PhysicalTrack(track));
                    tracks.lock().expect("no panic holds this lock").push((track, sectors));
                    progress.done(0, track_bytes);
                }
            });
        }
    });
    let mut tracks = tracks.into_inner().expect("no panic holds this lock");
    tracks.sort_by_key(|(track, _)| *track);
    tracks.into_iter().map(|(_, sectors)| sectors).collect()
}

/// The map as PNG. Tracks go down, sectors to the right.
fn map(glass: &Glass, tracks: &Tracks) -> Result<Vec<u8>> {
    let needed = glass.medium().needed_information();
    let margin = |sector: &io::Result<SectorQuality>| {
        let quality = sector.as_ref().ok()?;
        quality.decoded.is_ok().then_some(quality.information - needed)
    };
    let rows = tracks.iter().rev().map(|sectors| sectors.iter().map(margin).collect());
    let columns = tracks.first().map_or(0, Vec::len);
    let cell = CELL.min((WIDTH_MOST - WIDTH_BESIDE) / columns as f64);
    let measure = Axis::new("Margin", "").from(0.0).to(1.0 - needed);
    let names = |count: usize| (0..count).map(|number| number.to_string());
    let panel = Panel::grid(
        Axis::categories("Sector; lost ones are crossed out", names(columns)),
        Axis::categories("Track", names(tracks.len()).rev()),
        Grid::new(measure, rows).alarming(),
    );
    let title = format!("Margins of platter {}", &glass.platter.head().platter.to_string()[..8]);
    let height = (cell * tracks.len() as f64).min(HEIGHT_MOST);
    let figure = Figure::new(&title).panel(panel).width(WIDTH_BESIDE + cell * columns as f64).plot_height(height);
    figure.png().context("can't draw the map")
}

/// What the tracks of a platter add up to.
#[derive(Default)]
struct Summary {
    sectors: usize,
    /// Margins of good sectors, the least first, with their track and sector.
    good: Vec<(f64, [usize; 2])>,
    /// Lost sectors, and why.
    lost: Vec<([usize; 2], String)>,
    /// Sectors that the system refused to read.
    unreadable: Vec<([usize; 2], String)>,
    /// Good sectors that took several images.
    again: usize,
}

impl Summary {
    fn of(glass: &Glass, tracks: &Tracks) -> Self {
        let needed = glass.medium().needed_information();
        let mut summary = Self::default();
        for (track, sectors) in tracks.iter().enumerate() {
            for (sector, found) in sectors.iter().enumerate() {
                let at = [track, sector];
                summary.sectors += 1;
                match found {
                    Ok(SectorQuality { decoded: Ok(_), information, attempts, .. }) => {
                        summary.good.push((information - needed, at));
                        summary.again += usize::from(*attempts > 1);
                    }
                    Ok(SectorQuality { decoded: Err(why), .. }) => summary.lost.push((at, why.to_string())),
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        summary.lost.push((at, "the file ends before it".to_owned()));
                    }
                    Err(error) => summary.unreadable.push((at, error.to_string())),
                }
            }
        }
        summary.good.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        summary
    }

    fn least(&self) -> Option<(f64, [usize; 2])> {
        self.good.first().copied()
    }

    fn median(&self) -> Option<f64> {
        Some(self.good.get(self.good.len() / 2)?.0)
    }

    fn say(&self, session: &Session, glass: &Glass) {
        let head = glass.platter.head();
        session.say(&format!(
            "sectors   {} in {} of {}: {} good, {} lost",
            self.sectors,
            phrase(head.tracks.into(), "track", "tracks"),
            head.track_sectors,
            self.good.len(),
            self.lost.len()
        ));
        if let (Some((least, [track, sector])), Some(median)) = (self.least(), self.median()) {
            let most = 1.0 - glass.medium().needed_information();
            session.say(&format!("margin    least {least:.3} (track {track}, sector {sector}), median {median:.3}, of at most {most:.3}"));
        }
        if self.again > 0 {
            session.say(&format!(
                "again     {} decoded from the first images",
                phrase(self.again as u64, "sector was not", "sectors were not")
            ));
        }
        for (word, sectors) in [("lost      ", &self.lost), ("unread    ", &self.unreadable)] {
            for ([track, sector], why) in sectors.iter().take(NAMED) {
                session.say(&format!("{word}track {track}, sector {sector}: {why}"));
            }
            if let Some(more @ 1..) = sectors.len().checked_sub(NAMED) {
                session.say(&format!("          and {}", count(more as u64, "more sector")));
            }
        }
    }

    fn to_json(&self, file: &Path) -> Value {
        let sectors = |sectors: &[([usize; 2], String)]| -> Vec<Value> {
            sectors.iter().map(|([track, sector], why)| json!({ "track": track, "sector": sector, "why": why })).collect()
        };
        json!({
            "sectors": self.sectors, "good": self.good.len(), "lost": sectors(&self.lost), "unreadable": sectors(&self.unreadable),
            "read_again": self.again, "least_margin": self.least().map(|(margin, _)| margin), "median_margin": self.median(),
            "map": file,
        })
    }
}
