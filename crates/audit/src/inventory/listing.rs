//! A node's own listing as an inventory.
//!
//! It says what is there, not what should be there: no file is known to be missing, and digests are
//! recorded by the first reading. It is a beginning where no inventory exists.

use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use fulgurite_places::{Listed, Place, Refusal};

use super::{InventoryError, Row, check_name};
use crate::copy::{Expected, NodeId};

/// Files that may wait to be imported.
const AHEAD: usize = 1_000;

enum Message {
    File(Listed),
    Failed(Refusal),
}

/// Lists a place on a thread of its own, and passes the rows, all for `node`, to `import`.
///
/// # Errors
/// What `import` returns; its rows end with an error if the listing is incomplete.
pub fn listing<T>(
    place: &dyn Place,
    node: NodeId,
    import: impl FnOnce(&mut dyn Iterator<Item = Result<Row, InventoryError>>) -> Result<T, InventoryError>,
) -> Result<T, InventoryError> {
    let (sender, receiver) = sync_channel(AHEAD);
    thread::scope(|scope| {
        scope.spawn(move || {
            // A send fails if the import has ended; then nothing is listed for anyone.
            let listed =
                place.connect().and_then(|mut connection| connection.list(&mut |listed| sender.send(Message::File(listed)).is_ok()));
            if let Err(refusal) = listed {
                let _ = sender.send(Message::Failed(refusal));
            }
        });
        import(&mut rows(receiver, node))
    })
}

fn rows(receiver: Receiver<Message>, node: NodeId) -> impl Iterator<Item = Result<Row, InventoryError>> {
    let mut count = 0;
    receiver.into_iter().map(move |message| {
        count += 1;
        match message {
            Message::File(listed) => {
                check_name(&listed.location).map_err(|problem| InventoryError::Line {
                    path: "the listing".into(),
                    line: count,
                    problem,
                })?;
                let expected = Expected { bytes: listed.bytes, digests: Vec::new() };
                Ok(Row { name: listed.location, expected, location: None, node: Some(node) })
            }
            Message::Failed(refusal) => Err(refusal.into()),
        }
    })
}
