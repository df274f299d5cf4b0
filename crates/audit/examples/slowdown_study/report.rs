//! Tables, as CSV for programs and as Markdown for the page.

use std::fs;
use std::path::Path;

use fulgurite_plot::Figure;

/// Failures of the study end it.
pub(crate) type Outcome = Result<(), Box<dyn std::error::Error>>;

pub(crate) struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(columns: &[&str]) -> Self {
        Self { columns: columns.iter().map(|name| (*name).into()).collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(cells);
    }

    /// Writes `<name>.csv`, and prints the table as Markdown.
    pub(crate) fn write(&self, folder: &Path, name: &str) -> Outcome {
        let lines = std::iter::once(&self.columns).chain(&self.rows);
        let quoted = |cell: &String| if cell.contains(',') { format!("\"{cell}\"") } else { cell.clone() };
        let csv: String = lines.clone().map(|row| row.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n").collect();
        fs::write(folder.join(format!("{name}.csv")), csv)?;
        println!("\n{name}\n");
        for (index, row) in lines.enumerate() {
            println!("| {} |", row.join(" | "));
            if index == 0 {
                println!("|{}", " --- |".repeat(row.len()));
            }
        }
        Ok(())
    }
}

/// Writes a figure as `<name>.svg`.
pub(crate) fn draw(figure: &Figure, folder: &Path, name: &str) -> Outcome {
    Ok(fs::write(folder.join(format!("{name}.svg")), figure.svg()?)?)
}

/// A number with few digits; an infinite one is a miss.
pub(crate) fn number(value: f64) -> String {
    match value {
        _ if value.is_infinite() => "-".into(),
        _ if value.fract() == 0.0 || value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}
