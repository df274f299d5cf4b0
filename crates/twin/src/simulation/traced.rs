//! Traces as read by a run: CSV or Parquet, told apart by the first bytes.

use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _};
use std::path::Path;

use fulgurite_table::{Kind, ParquetRows, RowsError, Stored, Value, Wanted, stored};
use fulgurite_workload::{Cell, Header, Read, Trace, TraceError, TraceRows, TraceSettings};

use super::error::RunError;

/// The reads of a trace, one after another, in bounded memory.
pub(super) enum Traced {
    Csv(Box<Trace<BufReader<File>>>),
    Parquet(Box<ParquetTrace>),
}

pub(super) struct ParquetTrace {
    rows: ParquetRows<File>,
    reads: TraceRows,
    /// For each column: if it holds times, their unit in nanoseconds.
    units: Vec<Option<i64>>,
}

impl Traced {
    pub(super) fn open(path: &Path, settings: &TraceSettings) -> Result<Self, RunError> {
        let unreadable = |source| RunError::TraceFile { path: path.into(), source };
        let mut file = File::open(path).map_err(unreadable)?;
        let mut magic = Vec::new();
        (&file).take(4).read_to_end(&mut magic).map_err(unreadable)?;
        file.rewind().map_err(unreadable)?;
        if magic != b"PAR1" {
            let trace = Trace::new(BufReader::new(file), settings).map_err(|source| RunError::Trace { path: path.into(), source })?;
            return Ok(Self::Csv(Box::new(trace)));
        }
        let copy = file.try_clone().map_err(unreadable)?;
        Ok(Self::Parquet(Box::new(ParquetTrace::new(copy, file, settings).map_err(|error| error.of(path))?)))
    }

    pub(super) fn next(&mut self, path: &Path) -> Result<Option<Read>, RunError> {
        match self {
            Self::Csv(trace) => trace.next().transpose().map_err(|source| RunError::Trace { path: path.into(), source }),
            Self::Parquet(trace) => trace.next().map_err(|error| error.of(path)),
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum TraceReadError {
    #[error(transparent)]
    Rows(#[from] RowsError),
    #[error(transparent)]
    Trace(#[from] TraceError),
}

impl TraceReadError {
    fn of(self, path: &Path) -> RunError {
        match self {
            Self::Rows(source) => RunError::TraceRows { path: path.into(), source },
            Self::Trace(source) => RunError::Trace { path: path.into(), source },
        }
    }
}

impl ParquetTrace {
    fn new(schema: File, file: File, settings: &TraceSettings) -> Result<Self, TraceReadError> {
        let columns = stored(schema)?;
        let header = Header::new(columns.iter().map(|column| column.name.as_str()))?;
        // A column of unsupported type is requested as the most common kind, so that opening the
        // file rejects it.
        let wanted = columns.iter().map(|Stored { name, kind, .. }| Wanted::required(name, kind.unwrap_or(Kind::I64)));
        let rows = ParquetRows::new(file, wanted)?;
        Ok(Self { rows, reads: TraceRows::new(header, settings)?, units: columns.iter().map(|column| column.nanoseconds).collect() })
    }

    fn next(&mut self) -> Result<Option<Read>, TraceReadError> {
        loop {
            if let Some(read) = self.reads.next_read() {
                return Ok(Some(read));
            }
            let Some(row) = self.rows.next().transpose()? else {
                return if self.reads.is_empty() { Err(TraceError::NoRows.into()) } else { Ok(None) };
            };
            let cells: Vec<Cell<'_>> = row.values.iter().zip(&self.units).map(|(value, unit)| cell(value, *unit)).collect();
            self.reads.take(row.number + 1, &cells)?;
        }
    }
}

fn cell(value: &Value, nanoseconds: Option<i64>) -> Cell<'_> {
    match value {
        Value::I64(number) => match nanoseconds {
            // A time that doesn't fit 63 bits of microseconds is passed on as a number. The reader
            // takes it for seconds, rejects it as too large, and names the value.
            Some(unit) => i64::try_from(i128::from(*number) * i128::from(unit) / 1_000).map_or(Cell::Whole(*number), Cell::Instant),
            None => Cell::Whole(*number),
        },
        Value::F64(number) => Cell::Real(*number),
        Value::Text(text) => Cell::Text(text),
        Value::Bool(yes) => Cell::Text(if *yes { "true" } else { "false" }),
        Value::Missing => Cell::Missing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_value_whatever_their_unit() {
        assert_eq!(cell(&Value::I64(1_500), Some(1_000_000)), Cell::Instant(1_500_000));
        assert_eq!(cell(&Value::I64(-1_500), Some(1)), Cell::Instant(-1));
        assert_eq!(cell(&Value::I64(7), None), Cell::Whole(7));
        assert_eq!(cell(&Value::Missing, Some(1)), Cell::Missing);
        for beyond in [i64::MAX, i64::MIN, i64::MAX / 1_000 + 1] {
            assert_eq!(cell(&Value::I64(beyond), Some(1_000_000)), Cell::Whole(beyond), "it is no missing value");
        }
    }
}
