//! Other implementations, run on the same sizes.

use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use crate::bench::{Competitor, Pool};

const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peers");

pub(crate) fn simd_encode(pool: &Pool, information: usize, redundancy: usize) -> Competitor<'_> {
    let shard_bytes = pool.shards()[0].len();
    let mut encoder = reed_solomon_simd::ReedSolomonEncoder::new(information, redundancy, shard_bytes).expect("a code of this size");
    Competitor::on_this_thread("reed-solomon-simd", move || {
        for group in pool.shards().chunks(information) {
            for shard in group {
                encoder.add_original_shard(shard).expect("a shard of the code");
            }
            black_box(encoder.encode().expect("all shards were added").recovery(0));
        }
    })
}

pub(crate) fn simd_repair(pool: &Pool, information: usize, redundancy: usize, lost: Vec<usize>) -> Competitor<'_> {
    let shard_bytes = pool.shards()[0].len();
    let mut decoder = reed_solomon_simd::ReedSolomonDecoder::new(information, redundancy, shard_bytes).expect("a code of this size");
    Competitor::on_this_thread("reed-solomon-simd", move || {
        for (i, shard) in pool.shards()[..information].iter().enumerate() {
            if lost.binary_search(&i).is_err() {
                decoder.add_original_shard(i, shard).expect("a shard of the code");
            }
        }
        for row in 0..lost.len() {
            decoder.add_recovery_shard(row, &pool.shards()[information + row]).expect("a shard of the code");
        }
        black_box(decoder.decode().expect("enough shards were added").restored_original(lost[0]));
    })
}

/// klauspost/reedsolomon; `code` is gf8 (matrix), leo8 or leo16.
pub(crate) fn klauspost<'a>(
    code: &str,
    information: usize,
    redundancy: usize,
    shard_bytes: usize,
    groups: usize,
    lost: usize,
) -> Option<Competitor<'a>> {
    static BINARY: OnceLock<Option<String>> = OnceLock::new();
    let binary = BINARY.get_or_init(|| {
        let binary = format!("{}/fulgurite-peer-klauspost", std::env::temp_dir().display());
        let built = Command::new("go").args(["build", "-o", &binary, "."]).current_dir(format!("{PEERS}/klauspost")).status();
        if built.is_ok_and(|status| status.success()) {
            return Some(binary);
        }
        println!("klauspost/reedsolomon: not installed (needs Go and its modules)");
        None
    });
    let sizes = [information, redundancy, shard_bytes, groups, lost].map(|size| size.to_string());
    let mut command = Command::new(binary.as_ref()?);
    command.arg(code).args(sizes);
    Some(process(&format!("klauspost {code}"), command))
}

/// ISA-L, in the version of the system's libisal.
pub(crate) fn isal<'a>(information: usize, redundancy: usize, shard_bytes: usize, groups: usize, lost: usize) -> Option<Competitor<'a>> {
    static BINARY: OnceLock<Option<String>> = OnceLock::new();
    let binary = BINARY.get_or_init(|| {
        let binary = format!("{}/fulgurite-peer-isal", std::env::temp_dir().display());
        let source = format!("{PEERS}/isal/peer.c");
        let built = Command::new("cc").args(["-O2", "-o", &binary, &source, "-lisal"]).stderr(Stdio::null()).status();
        if built.is_ok_and(|status| status.success()) {
            return Some(binary);
        }
        println!("ISA-L: not installed (needs a C compiler and libisal with its headers)");
        None
    });
    let sizes = [information, redundancy, shard_bytes, groups, lost].map(|size| size.to_string());
    let mut command = Command::new(binary.as_ref()?);
    command.args(sizes);
    Some(process("ISA-L of the system", command))
}

struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        // A peer exits when its input closes.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A process that runs once per input line and answers with its CPU nanoseconds.
fn process<'a>(name: &str, mut command: Command) -> Competitor<'a> {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("failed to start the peer");
    let mut peer = Peer(child);
    let mut answers = BufReader::new(peer.0.stdout.take().expect("its output is piped"));
    let run = Box::new(move || {
        let input = peer.0.stdin.as_mut().expect("its input is piped");
        input.write_all(b"run\n").expect("the peer exited");
        let mut answer = String::new();
        answers.read_line(&mut answer).expect("the peer exited");
        answer.trim().parse().expect("the peer's answer is not a number of nanoseconds")
    });
    Competitor { name: name.into(), run, repeats: false }
}
