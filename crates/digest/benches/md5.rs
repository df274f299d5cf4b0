//! MD5 of one content and of many in parallel: `cargo bench -p fulgurite-digest --bench md5`.
//!
//! The peer is the `md-5` crate, one content after another, in the same round. Figures are medians
//! over rounds, in GB of content per second.

use std::time::Instant;

use fulgurite_digest::{Kernel, Md5, Update, update_all_on};
use md5::Digest as _;

const CONTENT: usize = 128 << 10;
const ROUNDS: usize = 41;

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

fn main() {
    println!("{:>10} {:>10} {:>10} {:>10}", "contents", "kernel", "GB/s", "md-5 GB/s");
    for count in [1, 2, 3, 4, 5, 8, 16, 64] {
        let contents: Vec<Vec<u8>> = (0..count).map(|i| vec![i as u8; CONTENT]).collect();
        for &kernel in Kernel::available() {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                let mut states = vec![Md5::new(); count];
                let begin = Instant::now();
                let mut updates: Vec<_> =
                    states.iter_mut().zip(&contents).map(|(md5, content)| Update { md5, pieces: std::slice::from_ref(content) }).collect();
                update_all_on(kernel, &mut updates);
                ours.push(begin.elapsed().as_secs_f64());
                let begin = Instant::now();
                let digests: Vec<[u8; 16]> = contents.iter().map(|content| md5::Md5::digest(content).into()).collect();
                theirs.push(begin.elapsed().as_secs_f64());
                assert_eq!(digests, states.into_iter().map(Md5::finish).collect::<Vec<_>>());
            }
            let rate = |seconds| (count * CONTENT) as f64 / median(seconds) / 1e9;
            println!("{count:>10} {:>10} {:>10.2} {:>10.2}", format!("{kernel:?}"), rate(ours), rate(theirs));
        }
    }
}
