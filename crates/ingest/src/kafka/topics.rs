//! Which topics were deleted and created again.
//!
//! librdkafka goes on at the old position in the new topic, if that is long enough, and has no
//! call that says so. It asks for ids before it reads on, though, and logs those that changed.

use std::collections::{BTreeSet, HashMap};

/// The part of `debug` that has these lines.
pub(super) const DEBUG: &str = "metadata";
/// The id that a topic has before librdkafka asked for it.
const UNKNOWN: &str = "AAAAAAAAAAAAAAAAAAAAAA";

/// The ids of topics, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct Topics {
    ids: HashMap<String, String>,
    /// Topics whose id has changed since the last question.
    changed: BTreeSet<String>,
}

impl Topics {
    /// Takes in a line of librdkafka's log, which it writes before it reads from a topic with a new
    /// id.
    pub(super) fn heard(&mut self, line: &str) {
        let Some((topic, earlier, id)) = changed_id(line) else { return };
        let known = self.ids.insert(topic.to_owned(), id.to_owned());
        let is_other = match &known {
            Some(known) => known != id,
            None => earlier != UNKNOWN,
        };
        if is_other {
            self.changed.insert(topic.to_owned());
        }
    }

    /// Topics that were created again since the last question.
    pub(super) fn take_changed(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.changed)
    }
}

/// The topic, its earlier id and its id, of a line such as
/// `[thrd:main]: Topic ztf changed id from uLLvyO5JTU2RK9hQSEC5Pw to 8hbnUD6CTKKxJCAVZaZCyw`.
fn changed_id(line: &str) -> Option<(&str, &str, &str)> {
    let (_, line) = line.split_once("Topic ")?;
    let (topic, ids) = line.split_once(" changed id from ")?;
    let (earlier, id) = ids.split_once(" to ")?;
    Some((topic, earlier, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_with_another_id_is_another_one() {
        let mut topics = Topics::default();
        let changed = |topics: &mut Topics| topics.take_changed().into_iter().collect::<Vec<_>>();
        topics.heard("[thrd:main]: Topic ztf changed id from AAAAAAAAAAAAAAAAAAAAAA to uLLvyO5JTU2RK9hQSEC5Pw");
        topics.heard("[thrd:main]: Topic lsst changed id from AAAAAAAAAAAAAAAAAAAAAA to 3bLvyO5JTU2RK9hQSEC5Pw");
        topics.heard("[thrd:main]: 127.0.0.1:9092/1: Request metadata for 1 topic(s)");
        assert!(changed(&mut topics).is_empty());
        topics.heard("[thrd:main]: Topic ztf changed id from uLLvyO5JTU2RK9hQSEC5Pw to 8hbnUD6CTKKxJCAVZaZCyw");
        assert_eq!(changed(&mut topics), ["ztf"]);
        assert!(changed(&mut topics).is_empty());
        // librdkafka forgot the topic meanwhile.
        topics.heard("Topic ztf changed id from AAAAAAAAAAAAAAAAAAAAAA to 8hbnUD6CTKKxJCAVZaZCyw");
        assert!(changed(&mut topics).is_empty());
        topics.heard("Topic lsst changed id from AAAAAAAAAAAAAAAAAAAAAA to 9zzzUD6CTKKxJCAVZaZCyw");
        assert_eq!(changed(&mut topics), ["lsst"]);
    }
}
