//! Bulk gets with objects that can't be read to their end.
//!
//! If the server fails in the middle of a large object, it can only end the response. So does a
//! connection that breaks off, but hardly twice within the same object: such an object is left out
//! of the next request and reported as failed, so that it doesn't cost the others.

use std::collections::{BTreeMap, BTreeSet};

use fulgurite_client::{BULK_GET_QUERY, BulkGetLine, BulkGetReport, Requested, bulk_get_body};

use crate::exchange::{Exchange, ExchangeError, Response};
use crate::tar_part;

/// The code of an object that can't be read to its end.
const CODE: &str = "InternalError";

/// Why an attempt failed.
pub(crate) struct Ended {
    pub(crate) error: ExchangeError,
    /// The name of the entry that was arriving.
    pub(crate) entry: Option<String>,
}

impl From<ExchangeError> for Ended {
    fn from(error: ExchangeError) -> Self {
        Self { error, entry: None }
    }
}

/// What a response had.
pub(crate) struct Received<T> {
    pub(crate) report: BulkGetReport,
    /// The entries, with the bytes of their content.
    pub(crate) entries: BTreeMap<String, u64>,
    pub(crate) content: T,
}

/// Sends a bulk get and passes each response to `take`. Returns what it makes of the complete one;
/// the report has a line for each of `objects`.
pub(crate) fn bulk_get<T>(
    exchange: &Exchange<'_>,
    objects: &[Requested],
    mut take: impl FnMut(&mut Response<'_>) -> Result<Received<T>, Ended>,
) -> Result<(BulkGetReport, T), ExchangeError> {
    let mut left_out: BTreeSet<usize> = BTreeSet::new();
    let mut cut: Option<String> = None;
    loop {
        let wanted: Vec<Requested> =
            objects.iter().enumerate().filter(|(index, _)| !left_out.contains(index)).map(|(_, object)| object.clone()).collect();
        // `Err` has the numbers of the objects to leave out.
        let received = exchange.post(BULK_GET_QUERY, &bulk_get_body(&wanted), |response| {
            let Ended { error, entry } = match take(response) {
                Ok(received) => {
                    received.report.check(&wanted, &received.entries)?;
                    return Ok(Ok((received.report, received.content)));
                }
                Err(ended) => ended,
            };
            let Some(entry) = entry.filter(|_| matches!(error, ExchangeError::Failed(_))) else { return Err(error) };
            if cut.as_ref() == Some(&entry) {
                let named = objects.iter().enumerate().filter(|(_, object)| tar_part::is_entry_of(&entry, object));
                let named: Vec<usize> = named.map(|(index, _)| index).collect();
                if !named.is_empty() {
                    return Ok(Err(named));
                }
            }
            let error = naming(&entry, error);
            cut = Some(entry);
            Err(error)
        })?;
        match received {
            Ok((report, content)) => return Ok((completed(report, objects, &left_out), content)),
            Err(more) => left_out.extend(more),
        }
    }
}

/// Adds lines for the objects that were left out.
fn completed(report: BulkGetReport, objects: &[Requested], left_out: &BTreeSet<usize>) -> BulkGetReport {
    if left_out.is_empty() {
        return report;
    }
    let mut lines = report.objects.into_iter();
    let line = |(index, object): (usize, &Requested)| match left_out.contains(&index) {
        false => lines.next().expect("the report was checked"),
        true => BulkGetLine {
            key: object.key.clone(),
            version_id: None,
            entry: None,
            size: None,
            code: Some(CODE.to_owned()),
            message: Some("It can't be read to its end: the response ended twice within it.".to_owned()),
        },
    };
    BulkGetReport { objects: objects.iter().enumerate().map(line).collect() }
}

/// Adds the key of the entry that was cut off.
fn naming(entry: &str, error: ExchangeError) -> ExchangeError {
    match error {
        ExchangeError::Failed(why) => {
            let key = tar_part::key_of(entry).unwrap_or_else(|| entry.to_owned());
            ExchangeError::Failed(format!("{why} while receiving {key:?}"))
        }
        error => error,
    }
}
