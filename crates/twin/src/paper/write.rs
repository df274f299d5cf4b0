//! Writes a paper to files.
//!
//! ```text
//! paper-results/            docs/
//!   paper.md                  paper.md         the same page, with links to the figures
//!   paper/<figure>.svg        paper/<figure>.svg
//!   paper/<figure>.png
//!   <table>.csv, <table>.columns.csv, <table>.parquet
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use fulgurite_table::Table;

use super::{Paper, PaperError};

/// The folder of the figures, next to the page.
pub(super) const FIGURES: &str = "paper";

impl Paper {
    /// Writes all files into a folder, creating it if needed, and returns their paths. Existing
    /// files are replaced.
    ///
    /// # Errors
    /// [`PaperError::Write`], [`PaperError::Plot`] or [`PaperError::Table`].
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, PaperError> {
        let figures = folder.join(FIGURES);
        fs::create_dir_all(&figures).map_err(|source| PaperError::Write { path: figures.clone(), source })?;
        let mut written = Vec::new();
        for drawing in self.chapters.iter().flat_map(|chapter| &chapter.drawings) {
            let files = drawing.figure.write(&figures, &drawing.name);
            written.extend(files.map_err(|source| PaperError::Plot { figure: drawing.name.clone(), source })?);
        }
        for sheet in self.chapters.iter().flat_map(|chapter| &chapter.sheets) {
            let mut put = |ending: &str, bytes: Vec<u8>| put(folder, &format!("{}.{ending}", sheet.name), &bytes, &mut written);
            put("csv", csv(&sheet.table))?;
            put("columns.csv", csv(&sheet.table.dictionary()))?;
            let mut bytes = Vec::new();
            let noted = sheet.table.clone().note("version", env!("CARGO_PKG_VERSION")).note("seeds", self.seeds_text());
            noted.write_parquet(&mut bytes)?;
            put("parquet", bytes)?;
        }
        put(folder, "paper.md", self.page().as_bytes(), &mut written)?;
        Ok(written)
    }

    /// Writes the page and its figures as SVG into the docs folder of a source tree. Removes all
    /// figures there that this paper doesn't have.
    ///
    /// # Errors
    /// [`PaperError::Incomplete`] if the paper doesn't have all chapters, [`PaperError::Write`],
    /// [`PaperError::Read`] or [`PaperError::Plot`].
    pub fn write_docs(&self, folder: &Path) -> Result<Vec<PathBuf>, PaperError> {
        if !self.settings.only.is_empty() {
            return Err(PaperError::Incomplete { only: self.settings.only.clone() });
        }
        let figures = folder.join(FIGURES);
        fs::create_dir_all(&figures).map_err(|source| PaperError::Write { path: figures.clone(), source })?;
        let mut written = Vec::new();
        for drawing in self.chapters.iter().flat_map(|chapter| &chapter.drawings) {
            let svg = drawing.figure.svg().map_err(|source| PaperError::Plot { figure: drawing.name.clone(), source })?;
            put(&figures, &format!("{}.svg", drawing.name), svg.as_bytes(), &mut written)?;
        }
        let unreadable = |source| PaperError::Read { path: figures.clone(), source };
        for entry in fs::read_dir(&figures).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.extension().is_some_and(|ending| ending == "svg") && !written.contains(&path) {
                fs::remove_file(&path).map_err(|source| PaperError::Write { path, source })?;
            }
        }
        put(folder, "paper.md", self.page().as_bytes(), &mut written)?;
        Ok(written)
    }

    /// The seeds as text: "1 to 10".
    pub(super) fn seeds_text(&self) -> String {
        let first = self.settings.first_seed;
        match u64::from(self.settings.seeds) {
            1 => first.to_string(),
            count => format!("{first} to {}", first + count - 1),
        }
    }
}

fn csv(table: &Table) -> Vec<u8> {
    let mut bytes = Vec::new();
    table.write_csv(&mut bytes).expect("memory takes all");
    bytes
}

fn put(folder: &Path, name: &str, bytes: &[u8], written: &mut Vec<PathBuf>) -> Result<(), PaperError> {
    let path = folder.join(name);
    fs::write(&path, bytes).map_err(|source| PaperError::Write { path: path.clone(), source })?;
    written.push(path);
    Ok(())
}
