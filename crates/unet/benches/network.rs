//! Pixels through a network per second of one thread's CPU time, beside the machine's fused
//! multiply-adds and ONNX Runtime in the same run.
//!
//! `cargo bench -p fulgurite-unet [-- [--quick] [CASE]]` prints one table per case whose name
//! contains `CASE`. Each figure is the median over rounds. In each round every competitor runs
//! once, and before each kernel a loop of independent fused multiply-adds measures what the
//! registers of that kernel could do at that moment: clocks and neighbors change.
//!
//! GFLOP/s count two operations for each multiplication and addition that the network's windows
//! define, as for any implementation. Ours does fewer: Winograd's algorithm takes a quarter of the
//! multiplications of most windows. The bound is the peak divided by what is left, and doesn't
//! count transformations, biases, ReLU, pooling and normalization.
//!
//! Built with `--features gpu`, it also measures the machine's graphics processor.
//!
//! ONNX Runtime takes part if `$PYTHON`, or else `python3`, has the packages `onnx` and
//! `onnxruntime`.

use std::hint::black_box;

use fulgurite_unet::{Kernel, Network, reference};

#[path = "network/onnx.rs"]
mod onnx;
#[path = "network/peak.rs"]
mod peak;

use onnx::OnnxRuntime;

const INPUTS: usize = 5;
const OUTPUTS: usize = 16;

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let quick = arguments.iter().any(|argument| argument == "--quick");
    arguments.retain(|argument| !argument.starts_with("--"));
    let filter = arguments.pop().unwrap_or_default();
    let rounds = if quick { 3 } else { 11 };
    println!("kernels: {:?}; rounds: {rounds}", Kernel::available());
    for (widths, rows, columns) in
        [(vec![16, 32, 64], 128, 160), (vec![16, 32, 64], 320, 320), (vec![16, 32], 128, 160), (vec![16, 32, 48, 64], 128, 160)]
    {
        let title = format!("widths {widths:?}, {rows} x {columns} pixels");
        if title.contains(&filter) {
            case(&title, &widths, rows, columns, rounds);
        }
    }
}

/// What one competitor did in all rounds.
#[derive(Default)]
struct Figures {
    pixels_per_second: Vec<f64>,
    gflops: Vec<f64>,
    peak: Vec<f64>,
    /// Pixels per second, relative to the bound at the same moment.
    share: Vec<f64>,
}

impl Figures {
    fn print(mut self, name: &str) {
        let (low, high) = self.pixels_per_second.iter().fold((f64::MAX, 0.0f64), |(low, high), &rate| (low.min(rate), high.max(rate)));
        print!("  {name:<12} {:6.3} M pixels/s  [{:.3}-{:.3}]", median(&mut self.pixels_per_second) / 1e6, low / 1e6, high / 1e6);
        print!("  {:6.1} GFLOP/s", median(&mut self.gflops));
        if !self.peak.is_empty() {
            print!("  peak {:6.1}, {:3.0} % of the bound", median(&mut self.peak), 100.0 * median(&mut self.share));
        }
        println!();
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn case(title: &str, widths: &[usize], rows: usize, columns: usize, rounds: usize) {
    let file = reference::random_model(1, INPUTS, OUTPUTS, widths);
    let network = Network::from_bytes(&file).expect("a random model");
    let pixels = rows * columns;
    let planes = reference::noise(2, INPUTS * pixels);
    let flops = 2.0 * network.multiply_adds(rows, columns) as f64;
    let left = multiply_adds_left(&network);
    println!("\n{title}: {:.0} multiply-adds a pixel, {left:.0} by Winograd's algorithm", flops / 2.0 / pixels as f64);

    let mut runners: Vec<_> =
        Kernel::available().iter().map(|&kernel| (kernel, network.runner_with_kernel(rows, columns, kernel).expect("a shape"))).collect();
    let mut logits = vec![0.0; pixels * OUTPUTS];
    let mut onnx = OnnxRuntime::start(&file, &planes, INPUTS, rows, columns);
    let mut figures: Vec<Figures> = (0..=runners.len()).map(|_| Figures::default()).collect();
    let times = (400_000 / pixels).max(1);
    for round in 0..=rounds {
        for ((kernel, runner), figures) in runners.iter_mut().zip(&mut figures) {
            let times = if *kernel == Kernel::Portable { 1 } else { times };
            let peak = peak::gflops(*kernel);
            let start = thread_cpu_ns();
            for _ in 0..times {
                runner.run(black_box(&planes), &mut logits);
                black_box(&logits);
            }
            let seconds = (thread_cpu_ns() - start) as f64 / 1e9 / times as f64;
            // Skip the first round: it faults pages in.
            if round > 0 {
                figures.pixels_per_second.push(pixels as f64 / seconds);
                figures.gflops.push(flops / seconds / 1e9);
                if let Some(peak) = peak {
                    figures.peak.push(peak);
                    figures.share.push(2.0 * left * pixels as f64 / seconds / 1e9 / peak);
                }
            }
        }
        if let Some(onnx) = &mut onnx {
            let seconds = onnx.run(times) / times as f64;
            if round > 0 {
                let figures = figures.last_mut().expect("one for each kernel and one more");
                figures.pixels_per_second.push(pixels as f64 / seconds);
                figures.gflops.push(flops / seconds / 1e9);
            }
        }
    }
    let peer_figures = figures.pop();
    for ((kernel, _), figures) in runners.iter().zip(figures) {
        figures.print(&format!("{kernel:?}"));
    }
    #[cfg(feature = "gpu")]
    gpu(&network, rows, columns, rounds);
    if let (Some(onnx), Some(figures)) = (onnx, peer_figures) {
        figures.print("ONNX Runtime");
        for (kernel, runner) in &mut runners {
            runner.run(&planes, &mut logits);
            println!(
                "  {kernel:?} and ONNX Runtime {} differ by at most {:.1e} of the largest logit",
                onnx.version,
                onnx.difference(&logits)
            );
        }
    }
}

/// Pixels per second of wall-clock time through a graphics processor, uploads and downloads
/// included, with as many threads as cores.
#[cfg(feature = "gpu")]
fn gpu(network: &Network, rows: usize, columns: usize, rounds: usize) {
    let gpu = match fulgurite_unet::Gpu::open() {
        Ok(gpu) => gpu,
        Err(error) => return println!("  GPU          {error}"),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let images = 64;
    let planes = reference::noise(2, images * INPUTS * rows * columns);
    let mut figures = Figures::default();
    let runner = || fulgurite_unet::GpuRunner::new(network, &gpu, rows, columns).expect("a network for this GPU");
    let mut runners: Vec<_> = (0..threads).map(|_| (runner(), vec![0.0; images * OUTPUTS * rows * columns])).collect();
    for round in 0..=rounds {
        let start = std::time::Instant::now();
        std::thread::scope(|scope| {
            for (runner, logits) in &mut runners {
                scope.spawn(|| runner.run(black_box(&planes), black_box(logits)).expect("a working GPU"));
            }
        });
        if round > 0 {
            let pixels = (threads * images * rows * columns) as f64;
            let per_second = pixels / start.elapsed().as_secs_f64();
            figures.pixels_per_second.push(per_second);
            figures.gflops.push(2.0 * network.multiply_adds(rows, columns) as f64 / (rows * columns) as f64 * per_second / 1e9);
        }
    }
    figures.print("GPU");
    println!("  {}", gpu.name());
}

/// Multiply-adds for a pixel if windows of 3x3 take a quarter, all but those of the first layer.
fn multiply_adds_left(network: &Network) -> f64 {
    let widths = network.widths();
    let transposed = widths.windows(2).enumerate().map(|(level, widths)| (widths[0] * widths[1]) as f64 / 4f64.powi(level as i32));
    let kept = transposed.sum::<f64>() + (widths[0] * (9 * network.inputs() + network.outputs())) as f64;
    let side = 1 << widths.len();
    let all = network.multiply_adds(side, side) as f64 / (side * side) as f64;
    kept + (all - kept) / 4.0
}

fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0, "clock_gettime failed");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
