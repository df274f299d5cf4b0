//! Reads a listing page by page.

use fulgurite_domain::VersionId;

use crate::catalogue::{ListCursor, UnlistedVersion, VersionRow};

/// A row of a listing whose pages are fetched by cursor.
pub trait Paged {
    /// Place of a row in the listing, from which a later call continues.
    type Cursor;

    /// The cursor after this row.
    fn cursor(&self) -> Self::Cursor;
}

impl Paged for VersionRow {
    type Cursor = ListCursor;

    fn cursor(&self) -> ListCursor {
        ListCursor::after_row(self)
    }
}

impl Paged for UnlistedVersion {
    type Cursor = VersionId;

    fn cursor(&self) -> VersionId {
        self.id
    }
}

/// Keys, and archived tombstones with their sets.
impl<T> Paged for (VersionId, T) {
    type Cursor = VersionId;

    fn cursor(&self) -> VersionId {
        self.0
    }
}

/// Reads the pages of a listing. Each is fetched by its own call: while its rows are processed, no
/// lock is held, and only one page is in memory.
pub struct Pager<R: Paged> {
    after: Option<R::Cursor>,
}

impl<R: Paged> Default for Pager<R> {
    fn default() -> Self {
        Self::after(None)
    }
}

impl<R: Paged> Pager<R> {
    /// Starts after `cursor`, or with the first row.
    #[must_use]
    pub fn after(cursor: Option<R::Cursor>) -> Self {
        Self { after: cursor }
    }

    /// The next page, which `fetch` reads: some rows after the cursor passed to it. `None` if there
    /// are none.
    ///
    /// # Errors
    /// The error of `fetch`.
    pub fn next<E>(&mut self, fetch: impl FnOnce(Option<&R::Cursor>) -> Result<Vec<R>, E>) -> Result<Option<Vec<R>>, E> {
        let page = fetch(self.after.as_ref())?;
        let Some(last) = page.last() else { return Ok(None) };
        self.after = Some(last.cursor());
        Ok(Some(page))
    }
}
