//! Changes of sums that a transaction makes at once.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::Checked;
use super::session::{Fault, Work};
use super::{signed, small};
use crate::copy::{Method, NodeId, State};
use crate::node::DAY_S;

/// Changes of the sums, exact whatever lengths an inventory states.
#[derive(Default)]
pub(super) struct Sums {
    /// Copies and bytes, by node and state.
    totals: BTreeMap<(NodeId, u8), (i64, i128)>,
    /// Copies and bytes, by node and day.
    ages: BTreeMap<(NodeId, i64), (i64, i128)>,
    /// By hour, node, method and state.
    hours: BTreeMap<(i64, NodeId, u8, u8), HourSums>,
}

#[derive(Default)]
struct HourSums {
    count: i64,
    bytes: u128,
    stream_us: u128,
    whole_us: u128,
}

impl Sums {
    /// Adds or takes away a copy.
    pub(super) fn copy(&mut self, node: NodeId, state: State, verified_at: Option<i64>, bytes: Option<i64>, sign: i64) {
        let bytes = i128::from(bytes.unwrap_or(0)) * i128::from(sign);
        let day = verified_at.map_or(-1, |at| at.div_euclid(DAY_S as i64));
        let total = self.totals.entry((node, state.number())).or_default();
        *total = (total.0 + sign, total.1 + bytes);
        let age = self.ages.entry((node, day)).or_default();
        *age = (age.0 + sign, age.1 + bytes);
    }

    pub(super) fn check(&mut self, result: &Checked) {
        let sums = self.hour(result.claim.node, result.method, result.at / 3_600, result.finding.state());
        sums.count += 1;
        sums.bytes += u128::from(result.bytes);
        sums.stream_us += result.stream.as_micros();
    }

    /// Adds the time from the start of checks to their commit.
    pub(super) fn whole_time(&mut self, node: NodeId, method: Method, hour: u64, state: State, whole: Duration) {
        self.hour(node, method, hour, state).whole_us += whole.as_micros();
    }

    fn hour(&mut self, node: NodeId, method: Method, hour: u64, state: State) -> &mut HourSums {
        self.hours.entry((signed(hour), node, method.number(), state.number())).or_default()
    }

    /// Writes all changes. The transaction holds the history lock.
    pub(super) async fn apply(&self, work: &Work<'_>) -> Result<(), Fault> {
        if !self.totals.is_empty() {
            let nodes: Vec<i16> = self.totals.keys().map(|(node, _)| small(*node)).collect();
            let states: Vec<i16> = self.totals.keys().map(|(_, state)| i16::from(*state)).collect();
            let copies: Vec<i64> = self.totals.values().map(|(copies, _)| *copies).collect();
            let bytes: Vec<String> = self.totals.values().map(|(_, bytes)| bytes.to_string()).collect();
            let sql = "INSERT INTO totals AS t SELECT * FROM unnest($1::smallint[], $2::smallint[], $3::bigint[], $4::text[]::numeric[]) \
                       ON CONFLICT (node, state) DO UPDATE SET copies = t.copies + excluded.copies, bytes = t.bytes + excluded.bytes";
            work.execute(sql, &[&nodes, &states, &copies, &bytes]).await?;
        }
        if !self.ages.is_empty() {
            let nodes: Vec<i16> = self.ages.keys().map(|(node, _)| small(*node)).collect();
            let days: Vec<i64> = self.ages.keys().map(|(_, day)| *day).collect();
            let copies: Vec<i64> = self.ages.values().map(|(copies, _)| *copies).collect();
            let bytes: Vec<String> = self.ages.values().map(|(_, bytes)| bytes.to_string()).collect();
            let sql = "INSERT INTO ages AS a SELECT * FROM unnest($1::smallint[], $2::bigint[], $3::bigint[], $4::text[]::numeric[]) \
                       ON CONFLICT (node, day) DO UPDATE SET copies = a.copies + excluded.copies, bytes = a.bytes + excluded.bytes";
            work.execute(sql, &[&nodes, &days, &copies, &bytes]).await?;
            let sql = "DELETE FROM ages a USING unnest($1::smallint[], $2::bigint[]) AS k(node, day) \
                       WHERE a.node = k.node AND a.day = k.day AND a.copies = 0";
            work.execute(sql, &[&nodes, &days]).await?;
        }
        if !self.hours.is_empty() {
            self.apply_hours(work).await?;
        }
        Ok(())
    }

    async fn apply_hours(&self, work: &Work<'_>) -> Result<(), Fault> {
        let hours: Vec<i64> = self.hours.keys().map(|key| key.0).collect();
        let nodes: Vec<i16> = self.hours.keys().map(|key| small(key.1)).collect();
        let methods: Vec<i16> = self.hours.keys().map(|key| i16::from(key.2)).collect();
        let states: Vec<i16> = self.hours.keys().map(|key| i16::from(key.3)).collect();
        let counts: Vec<i64> = self.hours.values().map(|sums| sums.count).collect();
        let of = |sum: fn(&HourSums) -> u128| self.hours.values().map(|sums| sum(sums).to_string()).collect::<Vec<_>>();
        let (bytes, streams, wholes) = (of(|sums| sums.bytes), of(|sums| sums.stream_us), of(|sums| sums.whole_us));
        // Times of checks that were never counted would be an hour without checks.
        let sql = "INSERT INTO hours AS h SELECT u.* FROM unnest($1::bigint[], $2::smallint[], $3::smallint[], $4::smallint[], $5::bigint[], \
                   $6::text[]::numeric[], $7::text[]::numeric[], $8::text[]::numeric[]) AS u(hour, node, method, state, count, b, s, w) \
                   WHERE u.count > 0 OR EXISTS (SELECT FROM hours o WHERE o.hour = u.hour AND o.node = u.node AND o.method = u.method \
                   AND o.state = u.state) \
                   ON CONFLICT (hour, node, method, state) DO UPDATE SET count = h.count + excluded.count, bytes = h.bytes + excluded.bytes, \
                   stream_us = h.stream_us + excluded.stream_us, whole_us = h.whole_us + excluded.whole_us";
        work.execute(sql, &[&hours, &nodes, &methods, &states, &counts, &bytes, &streams, &wholes]).await?;
        Ok(())
    }
}
