//! Reads rows at both ends of each node, and compares their number with the sums.

use rusqlite::Connection;

use super::super::counts::{ROWS, compare};
use super::{DatabaseError, engine, signed, unsigned};
use crate::copy::NodeId;

pub(super) fn check(connection: &Connection) -> Result<(), DatabaseError> {
    let failed = engine("read the copies");
    // All from one state of the database, which other processes may change.
    let transaction = connection.unchecked_transaction().map_err(&failed)?;
    let mut nodes = transaction
        .prepare_cached("SELECT node, coalesce((SELECT sum(copies) FROM totals t WHERE t.node = n.node), 0) FROM nodes n ORDER BY node")
        .map_err(&failed)?;
    let nodes: Vec<(u16, i64)> = nodes.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).and_then(Iterator::collect).map_err(&failed)?;
    for (node, counted) in nodes {
        for order in ["ASC", "DESC"] {
            let sql = format!(
                "SELECT count(*) FROM (SELECT c.state, f.bytes FROM copies c NOT INDEXED CROSS JOIN files f ON f.file = c.file \
                 WHERE c.node = ?1 ORDER BY c.file {order} LIMIT ?2)"
            );
            let found: i64 = transaction
                .prepare_cached(&sql)
                .and_then(|mut statement| statement.query_row((node, signed(ROWS)), |row| row.get(0)))
                .map_err(&failed)?;
            compare(NodeId(node), unsigned(counted), unsigned(found))?;
        }
    }
    Ok(())
}
