//! The benchmark matrix in SQLite.

use std::time::Duration;

use rusqlite::{OptionalExtension, Row, params};

use super::super::benchmarks::{Benchmark, BenchmarkDatabase, BenchmarkRecord, ExpectedTime};
use super::super::{DUE_TO_BE_READ, DatabaseError, DetectorState};
use super::import::refuse_unfinished;
use super::{Sqlite, decoded_digests, engine, signed, unsigned};
use crate::copy::{Expected, FileId, NodeId};
use crate::expectation::{Expectation, Verdict};
use crate::series::Probe;

const RECORD: &str = "r.record, r.node, r.file, r.probe, r.at, r.bytes, r.measured_us, r.expected_s, r.verdict, r.detail";

fn damaged(table: &'static str, what: String) -> DatabaseError {
    DatabaseError::Damaged { table, what }
}

fn decoded_probe(table: &'static str, number: u8) -> Result<Probe, DatabaseError> {
    Probe::from_number(number).ok_or_else(|| damaged(table, format!("no kind of benchmark has the number {number}")))
}

/// Decodes the columns [`RECORD`], of which the first is column `first`.
fn decoded_record(row: &Row<'_>, first: usize) -> Result<BenchmarkRecord, DatabaseError> {
    let read = engine("read a record of a benchmark");
    let number = |column: usize| row.get::<_, i64>(first + column).map(unsigned).map_err(&read);
    let verdict: Option<u8> = row.get(first + 8).map_err(&read)?;
    let decoded =
        |number| Verdict::from_number(number).ok_or_else(|| damaged("benchmark_records", format!("no verdict has the number {number}")));
    Ok(BenchmarkRecord {
        record: number(0)?,
        node: NodeId(row.get(first + 1).map_err(&read)?),
        file: FileId(number(2)?),
        probe: decoded_probe("benchmark_records", row.get(first + 3).map_err(&read)?)?,
        at: number(4)?,
        bytes: number(5)?,
        measured: Duration::from_micros(number(6)?),
        expected_s: row.get(first + 7).map_err(&read)?,
        verdict: verdict.map(decoded).transpose()?,
        detail: row.get::<_, Option<String>>(first + 9).map_err(&read)?.unwrap_or_default(),
    })
}

impl Sqlite {
    fn records(&self, condition: &str, parameters: impl rusqlite::Params) -> Result<Vec<BenchmarkRecord>, DatabaseError> {
        let read = engine("read the records of benchmarks");
        let mut statement =
            self.connection.prepare_cached(&format!("SELECT {RECORD} FROM benchmark_records r WHERE {condition}")).map_err(&read)?;
        let mut rows = statement.query(parameters).map_err(&read)?;
        let mut records = Vec::new();
        while let Some(row) = rows.next().map_err(&read)? {
            records.push(decoded_record(row, 0)?);
        }
        Ok(records)
    }
}

impl BenchmarkDatabase for Sqlite {
    fn benchmarks(&mut self) -> Result<Vec<Benchmark>, DatabaseError> {
        let read = engine("read the benchmarks");
        let sql = format!(
            "SELECT b.node, b.file, b.probe, b.every_s, b.due_at, f.name, coalesce(c.location, f.name), f.bytes, f.digests, {RECORD} \
             FROM benchmarks b JOIN files f ON f.file = b.file JOIN copies c ON c.node = b.node AND c.file = b.file \
             LEFT JOIN benchmark_records r ON r.record = b.last_record ORDER BY f.name, b.node, b.probe"
        );
        let mut statement = self.connection.prepare_cached(&sql).map_err(&read)?;
        let mut rows = statement.query([]).map_err(&read)?;
        let mut benchmarks = Vec::new();
        while let Some(row) = rows.next().map_err(&read)? {
            let number = |column: usize| row.get::<_, i64>(column).map(unsigned).map_err(&read);
            let bytes: Option<i64> = row.get(7).map_err(&read)?;
            let digests: Vec<u8> = row.get(8).map_err(&read)?;
            let last: Option<i64> = row.get(9).map_err(&read)?;
            benchmarks.push(Benchmark {
                node: NodeId(row.get(0).map_err(&read)?),
                file: FileId(number(1)?),
                probe: decoded_probe("benchmarks", row.get(2).map_err(&read)?)?,
                every: Duration::from_secs(number(3)?),
                due_at: number(4)?,
                name: row.get(5).map_err(&read)?,
                location: row.get(6).map_err(&read)?,
                expected: Expected { bytes: bytes.map(unsigned), digests: decoded_digests(&digests)? },
                last: last.map(|_| decoded_record(row, 9)).transpose()?,
            });
        }
        Ok(benchmarks)
    }

    fn set_benchmark(&mut self, node: NodeId, file: FileId, probe: Probe, every: Duration, now: u64) -> Result<(), DatabaseError> {
        refuse_unfinished(&self.connection)?;
        let (every, now) = (signed(every.as_secs()), signed(now));
        let sql = "INSERT INTO benchmarks (node, file, probe, every_s, due_at) VALUES (?1, ?2, ?3, ?4, ?5) \
                   ON CONFLICT (node, file, probe) DO UPDATE SET every_s = excluded.every_s, due_at = min(due_at, ?5 + excluded.every_s)";
        let changed = self.connection.execute(sql, params![node.0, signed(file.0), probe.number(), every, now]);
        changed.map(drop).map_err(engine("add a benchmark"))
    }

    fn remove_benchmark(&mut self, node: NodeId, file: FileId, probe: Probe) -> Result<bool, DatabaseError> {
        let sql = "DELETE FROM benchmarks WHERE node = ?1 AND file = ?2 AND probe = ?3";
        let removed = self.connection.execute(sql, params![node.0, signed(file.0), probe.number()]);
        removed.map(|rows| rows > 0).map_err(engine("remove a benchmark"))
    }

    fn claim_benchmark(&mut self, benchmark: &Benchmark, next: u64) -> Result<bool, DatabaseError> {
        refuse_unfinished(&self.connection)?;
        let sql = "UPDATE benchmarks SET due_at = ?5 WHERE node = ?1 AND file = ?2 AND probe = ?3 AND due_at = ?4";
        let Benchmark { node, file, probe, due_at, .. } = benchmark;
        let moved = self.connection.execute(sql, params![node.0, signed(file.0), probe.number(), signed(*due_at), signed(next)]);
        moved.map(|rows| rows > 0).map_err(engine("claim a benchmark"))
    }

    fn release_benchmark(&mut self, benchmark: &Benchmark, next: u64) -> Result<(), DatabaseError> {
        let sql = "UPDATE benchmarks SET due_at = ?4 WHERE node = ?1 AND file = ?2 AND probe = ?3 AND due_at = ?5";
        let Benchmark { node, file, probe, due_at, .. } = benchmark;
        let moved = self.connection.execute(sql, params![node.0, signed(file.0), probe.number(), signed(*due_at), signed(next)]);
        moved.map(drop).map_err(engine("release a benchmark"))
    }

    fn record_benchmark(&mut self, record: &BenchmarkRecord, detector: Option<&DetectorState>) -> Result<(), DatabaseError> {
        let failed = engine("record a benchmark");
        let transaction = self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(&failed)?;
        let (node, file, probe) = (record.node.0, signed(record.file.0), record.probe.number());
        let detail = (!record.detail.is_empty()).then_some(&record.detail);
        let micros = signed(u64::try_from(record.measured.as_micros()).unwrap_or(u64::MAX));
        let write = || -> rusqlite::Result<()> {
            transaction.execute(
                "INSERT INTO benchmark_records (node, file, probe, at, bytes, measured_us, expected_s, verdict, detail) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                params![
                    node,
                    file,
                    probe,
                    signed(record.at),
                    signed(record.bytes),
                    micros,
                    record.expected_s,
                    record.verdict.map(Verdict::number),
                    detail
                ],
            )?;
            let number = transaction.last_insert_rowid();
            transaction.execute(
                "UPDATE benchmarks SET last_record = ?4 WHERE node = ?1 AND file = ?2 AND probe = ?3",
                params![node, file, probe, number],
            )?;
            if record.verdict == Some(Verdict::Error) {
                let sql = "UPDATE copies SET due_at = ?3 WHERE node = ?1 AND file = ?2 AND due_at > ?3";
                transaction.execute(sql, params![node, file, DUE_TO_BE_READ])?;
            }
            if let Some(detector) = detector {
                let sql = "INSERT OR REPLACE INTO detectors SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM nodes WHERE node = ?1)";
                transaction.execute(sql, params![detector.node.0, detector.series.number(), detector.state])?;
            }
            Ok(())
        };
        write().map_err(&failed)?;
        transaction.commit().map_err(&failed)
    }

    fn benchmark_records(&mut self, after: u64, limit: usize) -> Result<Vec<(BenchmarkRecord, String)>, DatabaseError> {
        let read = engine("read the records of benchmarks");
        let sql = format!(
            "SELECT {RECORD}, f.name FROM benchmark_records r JOIN files f ON f.file = r.file WHERE r.record > ?1 ORDER BY r.record LIMIT ?2"
        );
        let mut statement = self.connection.prepare_cached(&sql).map_err(&read)?;
        let mut rows = statement.query(params![signed(after), signed(limit as u64)]).map_err(&read)?;
        let mut records = Vec::new();
        while let Some(row) = rows.next().map_err(&read)? {
            records.push((decoded_record(row, 0)?, row.get(10).map_err(&read)?));
        }
        Ok(records)
    }

    fn benchmark_records_from(&mut self, at: u64) -> Result<Vec<BenchmarkRecord>, DatabaseError> {
        self.records("r.at >= ?1 ORDER BY r.record", [signed(at)])
    }

    fn benchmark_series(&mut self, node: NodeId, probe: Probe, after: u64, limit: usize) -> Result<Vec<BenchmarkRecord>, DatabaseError> {
        self.records(
            "r.node = ?1 AND r.probe = ?2 AND r.record > ?3 ORDER BY r.record LIMIT ?4",
            params![node.0, probe.number(), signed(after), signed(limit as u64)],
        )
    }

    fn expected_times(&mut self) -> Result<Vec<ExpectedTime>, DatabaseError> {
        let read = engine("read the expected times of benchmarks");
        let mut statement = self
            .connection
            .prepare_cached("SELECT node, probe, base_s, ns_per_byte, is_learned FROM benchmark_times ORDER BY node, probe")
            .map_err(&read)?;
        let mut rows = statement.query([]).map_err(&read)?;
        let mut times = Vec::new();
        while let Some(row) = rows.next().map_err(&read)? {
            let expectation = Expectation::new(row.get(2).map_err(&read)?, row.get(3).map_err(&read)?);
            times.push(ExpectedTime {
                node: NodeId(row.get(0).map_err(&read)?),
                probe: decoded_probe("benchmark_times", row.get(1).map_err(&read)?)?,
                expectation: expectation.map_err(|error| damaged("benchmark_times", error.to_string()))?,
                is_learned: row.get(4).map_err(&read)?,
            });
        }
        Ok(times)
    }

    fn set_expected_time(&mut self, time: &ExpectedTime) -> Result<(), DatabaseError> {
        let sql = "INSERT INTO benchmark_times VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (node, probe) DO UPDATE \
                   SET base_s = excluded.base_s, ns_per_byte = excluded.ns_per_byte, is_learned = excluded.is_learned \
                   WHERE NOT excluded.is_learned";
        let ExpectedTime { node, probe, expectation, is_learned } = time;
        let values = params![node.0, probe.number(), expectation.base_s(), expectation.slope_ns(), is_learned];
        self.connection.execute(sql, values).map(drop).map_err(engine("store an expected time"))
    }

    fn forget_expected_time(&mut self, node: NodeId, probe: Probe) -> Result<bool, DatabaseError> {
        let removed = self
            .connection
            .query_row(
                "DELETE FROM benchmark_times WHERE node = ?1 AND probe = ?2 RETURNING 1",
                params![node.0, probe.number()],
                |_| Ok(()),
            )
            .optional();
        removed.map(|row| row.is_some()).map_err(engine("forget an expected time"))
    }
}
