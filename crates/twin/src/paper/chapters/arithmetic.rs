//! Results without simulation: Table 1, the overheads of the codes, and their failure rates.

use super::*;
use crate::overheads::{
    LARGE_GROUP, LOG10_TRACK_FAILURE, SECTOR_FAILURE, SETS, TRACK, least_redundancy, storage_overheads, track_failures,
};
use crate::placement_program::{largest_set, table_1};
use fulgurite_library::placement::{ZoneShape, Zones};

const SHELVES: u8 = 10;
/// Information sectors of the drawn tracks.
const DRAWN: [u32; 3] = [100, 150, 200];

pub(super) fn plan(plan: &mut Plan) -> Report {
    let zones = Zones::default();
    let sets = plan.task(0.1, move || {
        let zones = Zones::default();
        let rows = table_1(SHELVES, &zones)?;
        // One rack fewer, to show that it is too few.
        let smaller =
            rows.iter().map(|row| Ok(largest_set(row.racks - 1, SHELVES, &zones)?.len())).collect::<Result<Vec<_>, PaperError>>()?;
        Ok((rows, smaller))
    });
    let count_of = |count: u8, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    let shape_text =
        |shape: &ZoneShape| format!("{} of {}", count_of(shape.shelves, "shelf", "shelves"), count_of(shape.racks, "rack", "racks"));
    let shapes = zones.shapes.iter().map(shape_text).collect::<Vec<_>>().join(", or ");
    Box::new(move |results| {
        let (sets, smaller) = results.task(sets);
        let mut chapter = Chapter::new("overheads", "Table 1, overheads and failures of tracks");
        chapter.add_paragraph(format!(
            "Table 1 gives the number of storage racks that a set needs so that no two of its platters share a blast zone. The paper computes it by binary integer programming, and so do we. It gives no shapes of zones; ours are chosen to fit its table: {shapes} ([placement](placement.md)). This table is therefore calibrated, not predicted."
        ));
        let rows = sets.iter().zip(smaller).map(|(row, smaller)| {
            vec![
                format!("{}+{}", row.information, row.redundancy),
                format!("{:.1} %", row.overhead * 100.0),
                row.racks.to_string(),
                format!("{smaller} of {}", row.information + row.redundancy),
            ]
        });
        chapter.list(["set", "overhead at the write drive", "fewest storage racks", "one fewer holds at most"], rows.collect());
        let mut table = Table::new([
            Column::i64("information", "", "Information platters of a set."),
            Column::i64("redundancy", "", "Redundancy platters of a set."),
            Column::f64("overhead", "", "Redundancy divided by information: the additional share that the write drive writes."),
            Column::i64("racks", "", "The fewest storage racks that hold a set."),
            Column::i64("most_in_one_fewer", "", "Platters of the largest set that one rack fewer holds."),
        ]);
        for (row, smaller) in sets.iter().zip(smaller) {
            table.push([row.information.into(), row.redundancy.into(), row.overhead.into(), row.racks.into(), (*smaller as u32).into()])?;
        }
        chapter.sheet("table-1", table);
        overheads(&mut chapter)?;
        failures(&mut chapter)?;
        Ok(chapter)
    })
}

fn overheads(chapter: &mut Chapter) -> Result<(), PaperError> {
    const LEVELS: [(&str, &str); 3] =
        [("track", "100–200 + 10–16, about 8 %"), ("large group", "O(100) + O(10), about 2 %"), ("set", "16+3, 18.8 %")];
    let rows = storage_overheads(TRACK, LARGE_GROUP, SETS[1]);
    chapter.add_paragraph("Overheads of this archive's codes, compared with the paper's:");
    let listed = LEVELS.iter().zip(rows).map(|((name, published), row)| {
        vec![
            (*name).to_owned(),
            format!("{}+{}", row.code.information, row.code.redundancy),
            format!("{:.1} %", row.overhead * 100.0),
            (*published).to_owned(),
            format!("{:.3}", row.write_amplification),
        ]
    });
    chapter.list(["level", "code", "overhead", "published", "bytes written per byte, up to this level"], listed.collect());
    let mut table = Table::new([
        Column::text("level", "What the code works on."),
        Column::i64("information", "", "Symbols with content."),
        Column::i64("redundancy", "", "Symbols that may be lost."),
        Column::f64("overhead", "", "Redundancy over information."),
        Column::f64("write_amplification", "", "Bytes written per byte of content, by this level and those before it."),
    ]);
    for ((name, _), row) in LEVELS.into_iter().zip(rows) {
        let (code, amplification) = (row.code, row.write_amplification);
        table.push([name.into(), code.information.into(), code.redundancy.into(), row.overhead.into(), amplification.into()])?;
    }
    chapter.sheet("overheads", table);
    Ok(())
}

fn failures(chapter: &mut Chapter) -> Result<(), PaperError> {
    let rows = track_failures(SECTOR_FAILURE);
    let mut panel = Panel::new(Axis::share("Overhead within a track"), Axis::new("Probability that a track fails, log10", ""));
    for information in DRAWN {
        let line = rows.iter().filter(|row| row.code.information == information).map(|row| (row.overhead, row.log10_failure));
        panel = panel.line(&format!("{information} information sectors"), line.collect::<Vec<_>>());
    }
    panel = panel.level(LOG10_TRACK_FAILURE, "1e-24");
    let least: Vec<String> = DRAWN
        .iter()
        .filter_map(|&information| least_redundancy(information, SECTOR_FAILURE))
        .map(|row| format!("{}+{} ({})", row.code.information, row.code.redundancy, percent(row.overhead)))
        .collect();
    chapter.add_paragraph(format!(
        "A track of I+R sectors fails when more than R of them fail; sectors fail independently with a probability of 1e-3 (Project Silica, section 5). In the paper, tracks fail with a probability below 1e-24 at about 8 % overhead. The smallest codes that achieve this are {}; this archive's {}+{} fails with a probability of 1e{:.0}.",
        least.join(", "),
        TRACK.information,
        TRACK.redundancy,
        TRACK.log10_failure(SECTOR_FAILURE),
    ));
    chapter.draw(
        "track-failures",
        Figure::new("").panel(panel),
        "Probability that a track fails against its overhead, for 8 to 16 redundancy sectors.",
    );
    let mut table = Table::new([
        Column::i64("information", "", "Information sectors of a track."),
        Column::i64("redundancy", "", "Redundancy sectors of a track."),
        Column::f64("overhead", "", "Redundancy over information."),
        Column::f64("log10_failure", "", "Decimal logarithm of the probability that the track fails."),
    ]);
    for row in rows {
        let values: [Value; 4] = [row.code.information.into(), row.code.redundancy.into(), row.overhead.into(), row.log10_failure.into()];
        table.push(values)?;
    }
    chapter.sheet("track-failures", table);
    Ok(())
}
