//! Goes through a listing page by page.

use fulgurite_domain::VersionId;

use super::{After, UnlistedVersion, VersionRow};

/// A row of a listing that is in the order of its rows' positions.
pub trait Listed {
    /// Where a row is in the listing.
    type Position;

    /// The position of this row.
    fn position(&self) -> Self::Position;
}

impl Listed for VersionRow {
    type Position = After;

    fn position(&self) -> After {
        After::row(self)
    }
}

impl Listed for UnlistedVersion {
    type Position = VersionId;

    fn position(&self) -> VersionId {
        self.id
    }
}

impl<T> Listed for (VersionId, T) {
    type Position = VersionId;

    fn position(&self) -> VersionId {
        self.0
    }
}

/// The pages of a listing. Each is fetched by a call of its own, so that no lock is held and no
/// more than one page is in memory while its rows are processed.
pub struct Pages<R: Listed> {
    after: Option<R::Position>,
}

impl<R: Listed> Default for Pages<R> {
    fn default() -> Self {
        Self::after(None)
    }
}

impl<R: Listed> Pages<R> {
    /// Starts after a position, or with the first row.
    #[must_use]
    pub fn after(position: Option<R::Position>) -> Self {
        Self { after: position }
    }

    /// The next page, which `fetch` reads: some rows after the given position. `None` if there are
    /// none.
    ///
    /// # Errors
    /// The error of `fetch`.
    pub fn next<E>(&mut self, fetch: impl FnOnce(Option<&R::Position>) -> Result<Vec<R>, E>) -> Result<Option<Vec<R>>, E> {
        let page = fetch(self.after.as_ref())?;
        let Some(last) = page.last() else { return Ok(None) };
        self.after = Some(last.position());
        Ok(Some(page))
    }
}
