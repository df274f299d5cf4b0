//! Nodes and their rules.

use std::time::Duration;

use super::session::{Fault, Work};
use super::{DatabaseError, decoded_method, decoded_node, signed, small, unsigned};
use crate::copy::{NodeId, State};
use crate::node::{Medium, Node, Rules};

const MOST_NODES: u16 = 10_000;

pub(super) async fn nodes(work: &Work<'_>) -> Result<Vec<Node>, Fault> {
    let sql = "SELECT node, name, place, options, medium, interval_s, method, workers, bytes_per_second, files_per_second, all_digests, \
               base_s, ns_per_byte FROM nodes ORDER BY node";
    let damaged = |what: String| DatabaseError::Damaged { table: "nodes", what };
    let decode = |row: &tokio_postgres::Row| {
        let options: String = row.try_get(3)?;
        let split = |line: &str| line.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        let options = options.lines().map(split).collect::<Option<_>>().ok_or_else(|| damaged("an option has no value".to_owned()))?;
        let medium: i16 = row.try_get(4)?;
        let known = u8::try_from(medium).ok().and_then(Medium::from_number);
        let workers: i32 = row.try_get(7)?;
        let optional = |column| Ok::<_, Fault>(row.try_get::<_, Option<i64>>(column)?.map(unsigned));
        let rules = Rules {
            interval: Duration::from_secs(unsigned(row.try_get(5)?)),
            method: decoded_method("nodes", row.try_get(6)?)?,
            workers: u16::try_from(workers).map_err(|_| damaged(format!("it has {workers} workers")))?,
            bytes_per_second: optional(8)?,
            files_per_second: optional(9)?,
            all_digests: row.try_get(10)?,
        };
        let times: (Option<f64>, Option<f64>) = (row.try_get(11)?, row.try_get(12)?);
        Ok(Node {
            id: decoded_node("nodes", row.try_get(0)?)?,
            name: row.try_get(1)?,
            place: row.try_get(2)?,
            options,
            medium: known.ok_or_else(|| damaged(format!("no medium has the number {medium}")))?,
            rules,
            expected_time: times.0.zip(times.1),
        })
    };
    work.rows(sql, &[]).await?.iter().map(decode).collect()
}

pub(super) async fn add(work: &Work<'_>, node: &Node) -> Result<NodeId, Fault> {
    // Two processes may add nodes at once.
    work.batch("LOCK TABLE nodes IN SHARE ROW EXCLUSIVE MODE").await?;
    if work.optional("SELECT 1 FROM nodes WHERE name = $1", &[&node.name]).await?.is_some() {
        return Err(DatabaseError::NodeExists { name: node.name.clone() }.into());
    }
    if work.optional("SELECT 1 FROM removed_nodes WHERE name = $1", &[&node.name]).await?.is_some() {
        return Err(DatabaseError::NodeRemoved { name: node.name.clone() }.into());
    }
    // Numbers are not used again: the history of a removed node would become the new one's.
    let sql = "SELECT 1 + greatest((SELECT coalesce(max(node), 0) FROM nodes), (SELECT coalesce(max(node), 0) FROM hours), \
               (SELECT coalesce(max(node), 0) FROM removed_nodes))::bigint";
    let next = work.number(sql, &[]).await?;
    let id = u16::try_from(next).ok().filter(|id| *id <= MOST_NODES).ok_or(DatabaseError::TooManyNodes { most: MOST_NODES })?;
    insert(work, NodeId(id), node).await
}

/// Adds a node that was removed.
pub(super) async fn add_again(work: &Work<'_>, node: &Node) -> Result<NodeId, Fault> {
    work.batch("LOCK TABLE nodes IN SHARE ROW EXCLUSIVE MODE").await?;
    let removed = work.optional("DELETE FROM removed_nodes WHERE name = $1 RETURNING node", &[&node.name]).await?;
    let removed = removed.ok_or_else(|| DatabaseError::NotRemoved { name: node.name.clone() })?;
    insert(work, decoded_node("removed_nodes", removed.try_get(0)?)?, node).await
}

async fn insert(work: &Work<'_>, id: NodeId, node: &Node) -> Result<NodeId, Fault> {
    let sql = "INSERT INTO nodes (node, name, place, options, medium, interval_s, method, workers, all_digests) \
               VALUES ($1, $2, '', '', 0, 0, 0, 0, false)";
    work.execute(sql, &[&small(id), &node.name]).await?;
    write(work, id, node).await?;
    Ok(id)
}

pub(super) async fn change(work: &Work<'_>, node: &Node) -> Result<(), Fault> {
    let id = small(node.id);
    // Results that need the interval wait, so none is recorded by the earlier one afterwards.
    let earlier = work.optional("SELECT interval_s FROM nodes WHERE node = $1 FOR UPDATE", &[&id]).await?;
    let earlier: i64 = earlier.ok_or(DatabaseError::NoSuchNode { node: node.id.0 })?.try_get(0)?;
    write(work, node.id, node).await?;
    let interval = signed(node.rules.interval.as_secs());
    if interval != earlier {
        // A copy waits for its regular check if it is due one interval after the last one. The date
        // of a look is only in its event.
        let sql = "WITH waiting AS (SELECT file FROM copies WHERE node = $1 AND (due_at = verified_at + $2::bigint \
                       OR state = ANY($4) AND due_at = $2::bigint + (SELECT at FROM events WHERE event = last_event)) ORDER BY file FOR UPDATE) \
                   UPDATE copies c SET due_at = c.due_at - $2::bigint + $3::bigint FROM waiting w WHERE c.node = $1 AND c.file = w.file";
        let looked = [State::HeaderChecked, State::ProviderAttested].map(|state| i16::from(state.number()));
        work.execute(sql, &[&id, &earlier, &interval, &&looked[..]]).await?;
    }
    Ok(())
}

async fn write(work: &Work<'_>, id: NodeId, node: &Node) -> Result<(), Fault> {
    let options: String = node.options.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    let rules = &node.rules;
    let (base, slope) = node.expected_time.unzip();
    let sql = "UPDATE nodes SET name = $2, place = $3, options = $4, medium = $5, interval_s = $6, method = $7, workers = $8, \
               bytes_per_second = $9, files_per_second = $10, all_digests = $11, base_s = $12, ns_per_byte = $13 WHERE node = $1";
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 13] = [
        &small(id),
        &node.name,
        &node.place,
        &options,
        &i16::from(node.medium.number()),
        &signed(rules.interval.as_secs()),
        &i16::from(rules.method.number()),
        &i32::from(rules.workers),
        &rules.bytes_per_second.map(signed),
        &rules.files_per_second.map(signed),
        &rules.all_digests,
        &base,
        &slope,
    ];
    work.execute(sql, &parameters).await?;
    Ok(())
}
