//! MD5 and SHA-256 of one content and of many in parallel: `cargo bench -p fulgurite-digest --bench
//! parallel`.
//!
//! The peers are the crates `md-5` and `aws-lc-rs`, one content after another, in the same round.
//! Figures are medians over rounds, in GB of content per second.

use std::time::Instant;

use aws_lc_rs::digest::{SHA256, digest};
use fulgurite_digest::{Kernel, Md5, Parallel, Sha256, Update, update_all_on};
use md5::Digest as _;

const CONTENT: usize = 128 << 10;
const ROUNDS: usize = 41;

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// Compares a digest with the peer's.
fn compare<D: Parallel + Default>(name: &str, finish: fn(D) -> Vec<u8>, peer: fn(&[u8]) -> Vec<u8>) {
    println!("{:>10} {:>10} {name:>10} {:>10}", "contents", "kernel", "peer");
    for count in [1, 2, 3, 4, 5, 6, 8, 16, 64] {
        let contents: Vec<Vec<u8>> = (0..count).map(|i| vec![i as u8; CONTENT]).collect();
        for &kernel in Kernel::available() {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                let mut digests: Vec<D> = (0..count).map(|_| D::default()).collect();
                let begin = Instant::now();
                let mut updates: Vec<_> = digests
                    .iter_mut()
                    .zip(&contents)
                    .map(|(digest, content)| Update { digest, pieces: std::slice::from_ref(content) })
                    .collect();
                update_all_on(kernel, &mut updates);
                ours.push(begin.elapsed().as_secs_f64());
                let begin = Instant::now();
                let expected: Vec<_> = contents.iter().map(|content| peer(content)).collect();
                theirs.push(begin.elapsed().as_secs_f64());
                assert_eq!(expected, digests.into_iter().map(finish).collect::<Vec<_>>());
            }
            let rate = |seconds| (count * CONTENT) as f64 / median(seconds) / 1e9;
            println!("{count:>10} {:>10} {:>10.2} {:>10.2}", format!("{kernel:?}"), rate(ours), rate(theirs));
        }
    }
}

fn main() {
    compare::<Md5>("MD5", |md5| md5.finish().to_vec(), |content| md5::Md5::digest(content).to_vec());
    compare::<Sha256>("SHA-256", |sha256| sha256.finish().to_vec(), |content| digest(&SHA256, content).as_ref().to_vec());
}
