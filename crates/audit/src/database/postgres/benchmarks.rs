//! The benchmark matrix on PostgreSQL.

use std::time::Duration;

use tokio_postgres::Row;

use super::super::benchmarks::{Benchmark, BenchmarkDatabase, BenchmarkRecord, ExpectedTime};
use super::super::{DUE_TO_BE_READ, DatabaseError, DetectorState};
use super::session::{ANSWER, Fault, HISTORY_LOCK, Work};
use super::{Postgres, decoded_digests, decoded_node, signed, small, storable, unsigned};
use crate::copy::{Expected, FileId, NodeId};
use crate::expectation::{Expectation, Verdict};
use crate::series::Probe;

/// The columns of a record, as [`decoded_record`] takes them.
macro_rules! record_columns {
    () => {
        "r.record, r.node, r.file, r.probe, r.at, r.bytes, r.measured_us, r.expected_s, r.verdict, r.detail"
    };
}

fn damaged(table: &'static str, what: String) -> Fault {
    DatabaseError::Damaged { table, what }.into()
}

fn decoded_probe(table: &'static str, number: i16) -> Result<Probe, Fault> {
    let known = u8::try_from(number).ok().and_then(Probe::from_number);
    known.ok_or_else(|| damaged(table, format!("no kind of benchmark has the number {number}")))
}

/// Decodes the columns of a record, of which the first is column `first`.
fn decoded_record(row: &Row, first: usize) -> Result<BenchmarkRecord, Fault> {
    let number = |column: usize| Ok::<_, Fault>(unsigned(row.try_get(first + column)?));
    let decoded = |number: i16| {
        let known = u8::try_from(number).ok().and_then(Verdict::from_number);
        known.ok_or_else(|| damaged("benchmark_records", format!("no verdict has the number {number}")))
    };
    Ok(BenchmarkRecord {
        record: number(0)?,
        node: decoded_node("benchmark_records", row.try_get(first + 1)?)?,
        file: FileId(number(2)?),
        probe: decoded_probe("benchmark_records", row.try_get(first + 3)?)?,
        at: number(4)?,
        bytes: number(5)?,
        measured: Duration::from_micros(number(6)?),
        expected_s: row.try_get(first + 7)?,
        verdict: row.try_get::<_, Option<i16>>(first + 8)?.map(decoded).transpose()?,
        detail: row.try_get::<_, Option<String>>(first + 9)?.unwrap_or_default(),
    })
}

fn decoded_records(rows: &[Row]) -> Result<Vec<BenchmarkRecord>, Fault> {
    rows.iter().map(|row| decoded_record(row, 0)).collect()
}

async fn benchmarks(work: &Work<'_>) -> Result<Vec<Benchmark>, Fault> {
    let sql = concat!(
        "SELECT b.node, b.file, b.probe, b.every_s, b.due_at, f.name, coalesce(c.location, f.name), f.bytes, f.digests, ",
        record_columns!(),
        " FROM benchmarks b JOIN files f ON f.file = b.file JOIN copies c ON c.node = b.node AND c.file = b.file \
         LEFT JOIN benchmark_records r ON r.record = b.last_record ORDER BY f.name, b.node, b.probe"
    );
    let benchmark = |row: &Row| {
        let last: Option<i64> = row.try_get(9)?;
        Ok(Benchmark {
            node: decoded_node("benchmarks", row.try_get(0)?)?,
            file: FileId(unsigned(row.try_get(1)?)),
            probe: decoded_probe("benchmarks", row.try_get(2)?)?,
            every: Duration::from_secs(unsigned(row.try_get(3)?)),
            due_at: unsigned(row.try_get(4)?),
            name: row.try_get(5)?,
            location: row.try_get(6)?,
            expected: Expected { bytes: row.try_get::<_, Option<i64>>(7)?.map(unsigned), digests: decoded_digests(row.try_get(8)?)? },
            last: last.map(|_| decoded_record(row, 9)).transpose()?,
        })
    };
    work.rows(sql, &[]).await?.iter().map(benchmark).collect()
}

async fn record(work: &Work<'_>, record: &BenchmarkRecord, detector: Option<&DetectorState>) -> Result<(), Fault> {
    // Numbers of records follow the order of commits.
    work.lock(HISTORY_LOCK).await?;
    let (node, file, probe) = (small(record.node), signed(record.file.0), i16::from(record.probe.number()));
    let (at, bytes) = (signed(record.at), signed(record.bytes));
    let micros = signed(u64::try_from(record.measured.as_micros()).unwrap_or(u64::MAX));
    let verdict = record.verdict.map(|verdict| i16::from(verdict.number()));
    let detail = (!record.detail.is_empty()).then(|| storable(&record.detail));
    let sql = "INSERT INTO benchmark_records (node, file, probe, at, bytes, measured_us, expected_s, verdict, detail) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING record";
    let number = work.number(sql, &[&node, &file, &probe, &at, &bytes, &micros, &record.expected_s, &verdict, &detail]).await?;
    let sql = "UPDATE benchmarks SET last_record = $4 WHERE node = $1 AND file = $2 AND probe = $3";
    work.execute(sql, &[&node, &file, &probe, &number]).await?;
    if record.verdict == Some(Verdict::Error) {
        let sql = "UPDATE copies SET due_at = $3 WHERE node = $1 AND file = $2 AND due_at > $3";
        work.execute(sql, &[&node, &file, &DUE_TO_BE_READ]).await?;
    }
    if let Some(detector) = detector {
        let sql = "INSERT INTO detectors SELECT $1, $2, $3 WHERE EXISTS (SELECT FROM nodes WHERE node = $1) ON CONFLICT (node, series) DO UPDATE SET state = excluded.state";
        work.execute(sql, &[&small(detector.node), &i16::from(detector.series.number()), &detector.state]).await?;
    }
    Ok(())
}

async fn expected_times(work: &Work<'_>) -> Result<Vec<ExpectedTime>, Fault> {
    let time = |row: &Row| {
        let expectation = Expectation::new(row.try_get(2)?, row.try_get(3)?);
        Ok(ExpectedTime {
            node: decoded_node("benchmark_times", row.try_get(0)?)?,
            probe: decoded_probe("benchmark_times", row.try_get(1)?)?,
            expectation: expectation.map_err(|error| damaged("benchmark_times", error.to_string()))?,
            is_learned: row.try_get(4)?,
        })
    };
    let sql = "SELECT node, probe, base_s, ns_per_byte, is_learned FROM benchmark_times ORDER BY node, probe";
    work.rows(sql, &[]).await?.iter().map(time).collect()
}

impl BenchmarkDatabase for Postgres {
    fn benchmarks(&mut self) -> Result<Vec<Benchmark>, DatabaseError> {
        self.session.read("read the benchmarks", async |work| benchmarks(work).await)
    }

    fn set_benchmark(&mut self, node: NodeId, file: FileId, probe: Probe, every: Duration, now: u64) -> Result<(), DatabaseError> {
        let sql = "INSERT INTO benchmarks (node, file, probe, every_s, due_at) VALUES ($1, $2, $3, $4, $5) \
                   ON CONFLICT (node, file, probe) DO UPDATE \
                   SET every_s = excluded.every_s, due_at = least(benchmarks.due_at, $5 + excluded.every_s)";
        let (node, file, probe) = (small(node), signed(file.0), i16::from(probe.number()));
        let (every, now) = (signed(every.as_secs()), signed(now));
        self.session
            .change("add a benchmark", ANSWER, async |work, _| work.execute(sql, &[&node, &file, &probe, &every, &now]).await.map(drop))
    }

    fn remove_benchmark(&mut self, node: NodeId, file: FileId, probe: Probe) -> Result<bool, DatabaseError> {
        let sql = "DELETE FROM benchmarks WHERE node = $1 AND file = $2 AND probe = $3";
        let (node, file, probe) = (small(node), signed(file.0), i16::from(probe.number()));
        self.session.change("remove a benchmark", ANSWER, async |work, _| Ok(work.execute(sql, &[&node, &file, &probe]).await? > 0))
    }

    fn claim_benchmark(&mut self, benchmark: &Benchmark, next: u64) -> Result<bool, DatabaseError> {
        let sql = "UPDATE benchmarks SET due_at = $5 WHERE node = $1 AND file = $2 AND probe = $3 AND due_at = $4";
        let (node, file, probe) = (small(benchmark.node), signed(benchmark.file.0), i16::from(benchmark.probe.number()));
        let (due, next) = (signed(benchmark.due_at), signed(next));
        self.session
            .change("claim a benchmark", ANSWER, async |work, _| Ok(work.execute(sql, &[&node, &file, &probe, &due, &next]).await? > 0))
    }

    fn release_benchmark(&mut self, benchmark: &Benchmark, next: u64) -> Result<(), DatabaseError> {
        let sql = "UPDATE benchmarks SET due_at = $4 WHERE node = $1 AND file = $2 AND probe = $3 AND due_at = $5";
        let (node, file, probe) = (small(benchmark.node), signed(benchmark.file.0), i16::from(benchmark.probe.number()));
        let (due, next) = (signed(benchmark.due_at), signed(next));
        self.session
            .change("release a benchmark", ANSWER, async |work, _| work.execute(sql, &[&node, &file, &probe, &due, &next]).await.map(drop))
    }

    fn record_benchmark(&mut self, found: &BenchmarkRecord, detector: Option<&DetectorState>) -> Result<(), DatabaseError> {
        self.session.change("record a benchmark", ANSWER, async |work, _| record(work, found, detector).await)
    }

    fn benchmark_records(&mut self, after: u64, limit: usize) -> Result<Vec<(BenchmarkRecord, String)>, DatabaseError> {
        let sql = concat!(
            "SELECT ",
            record_columns!(),
            ", f.name FROM benchmark_records r JOIN files f ON f.file = r.file WHERE r.record > $1 ORDER BY r.record LIMIT $2"
        );
        let (after, limit) = (signed(after), signed(limit as u64));
        self.session.read("read the records of benchmarks", async |work| {
            let rows = work.rows(sql, &[&after, &limit]).await?;
            rows.iter().map(|row| Ok((decoded_record(row, 0)?, row.try_get(10)?))).collect()
        })
    }

    fn benchmark_records_from(&mut self, at: u64) -> Result<Vec<BenchmarkRecord>, DatabaseError> {
        let sql = concat!("SELECT ", record_columns!(), " FROM benchmark_records r WHERE r.at >= $1 ORDER BY r.record");
        let at = signed(at);
        self.session.read("read the records of benchmarks", async |work| decoded_records(&work.rows(sql, &[&at]).await?))
    }

    fn benchmark_series(&mut self, node: NodeId, probe: Probe, after: u64, limit: usize) -> Result<Vec<BenchmarkRecord>, DatabaseError> {
        let sql = concat!(
            "SELECT ",
            record_columns!(),
            " FROM benchmark_records r WHERE r.node = $1 AND r.probe = $2 AND r.record > $3 ORDER BY r.record LIMIT $4"
        );
        let (node, probe, after, limit) = (small(node), i16::from(probe.number()), signed(after), signed(limit as u64));
        self.session
            .read("read the records of benchmarks", async |work| decoded_records(&work.rows(sql, &[&node, &probe, &after, &limit]).await?))
    }

    fn expected_times(&mut self) -> Result<Vec<ExpectedTime>, DatabaseError> {
        self.session.read("read the expected times of benchmarks", async |work| expected_times(work).await)
    }

    fn set_expected_time(&mut self, time: &ExpectedTime) -> Result<(), DatabaseError> {
        let sql = "INSERT INTO benchmark_times (node, probe, base_s, ns_per_byte, is_learned) VALUES ($1, $2, $3, $4, $5) \
                   ON CONFLICT (node, probe) DO UPDATE \
                   SET base_s = excluded.base_s, ns_per_byte = excluded.ns_per_byte, is_learned = excluded.is_learned \
                   WHERE NOT excluded.is_learned";
        let (node, probe) = (small(time.node), i16::from(time.probe.number()));
        let (base_s, slope_ns) = (time.expectation.base_s(), time.expectation.slope_ns());
        self.session.change("store an expected time", ANSWER, async |work, _| {
            work.execute(sql, &[&node, &probe, &base_s, &slope_ns, &time.is_learned]).await.map(drop)
        })
    }

    fn forget_expected_time(&mut self, node: NodeId, probe: Probe) -> Result<bool, DatabaseError> {
        let sql = "DELETE FROM benchmark_times WHERE node = $1 AND probe = $2";
        let (node, probe) = (small(node), i16::from(probe.number()));
        self.session.change("forget an expected time", ANSWER, async |work, _| Ok(work.execute(sql, &[&node, &probe]).await? > 0))
    }
}
