//! Inference of small U-Nets: a [`Network`] is read from a model file, a [`Runner`] applies it to
//! images of one size on a CPU, and a [`GpuRunner`] on a GPU if the crate is built with the feature
//! `gpu`.
//!
//! ```text
//! planes -> normalize -> [conv, conv] ----------------- skip ----------------> [conv, conv] -> head -> logits
//!                             '-> pool -> [conv, conv] -- skip --> [conv, conv] -> transpose -'
//!                                             '-> pool -> [conv, conv] -> transpose -'
//! ```
//!
//! - Input: planes of f32, normalized by plane: `(x - mean) * scale`.
//! - Level i on the way down: two convolutions of 3x3 with ReLU to `widths[i]` channels, with zeros
//!   around the image; then the largest of each 2x2 pixels goes to the next level.
//! - Level i on the way up: a transposed convolution of 2x2 in steps of 2 to `widths[i]` channels,
//!   joined with level i's channels from the way down, which come second; two convolutions of 3x3
//!   with ReLU.
//! - Head: a convolution of 1x1, without ReLU.
//!
//! # Model files
//! Safetensors, with at least these texts in `__metadata__`; [`Network::metadata`] returns any of
//! them:
//!
//! | key | value |
//! | --- | --- |
//! | `architecture` | [`ARCHITECTURE`] |
//! | `inputs`, `outputs` | planes of an image, logits of a pixel: 1 to 1024 |
//! | `widths` | channels of each of 2 to 4 levels: multiples of 16 up to 1024, as in `16,32,64` |
//!
//! and these tensors of F32, in the layouts of PyTorch:
//!
//! | tensor | shape |
//! | --- | --- |
//! | `input.mean`, `input.scale` | inputs |
//! | `down.0.a.weight` | widths\[0\], inputs, 3, 3 |
//! | `down.i.a.weight` | widths\[i\], widths\[i-1\], 3, 3 |
//! | `down.i.b.weight`, `up.i.b.weight` | widths\[i\], widths\[i\], 3, 3 |
//! | `up.i.transpose.weight` | widths\[i+1\], widths\[i\], 2, 2 |
//! | `up.i.a.weight` | widths\[i\], 2 widths\[i\], 3, 3 |
//! | `head.weight` | outputs, widths\[0\], 1, 1 |
//! | a `bias` for each `weight` | outputs of the layer |
//!
//! A missing tensor, an additional one, or another shape or type is a [`ModelError`].
//!
//! # Use
//! ```
//! # use fulgurite_unet::{Network, reference};
//! # let file = reference::random_model(1, 5, 16, &[16, 32]);
//! let network = Network::from_bytes(&file)?;
//! let mut runner = network.runner(8, 12)?;
//! let planes = vec![0.5; 5 * 8 * 12];
//! let mut logits = vec![0.0; 8 * 12 * 16];
//! runner.run(&planes, &mut logits);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it is fast
//! - A register holds 16, 8 or 4 output channels of a pixel; the sums of up to 28 pixels stay in
//!   registers, so weights are loaded once for all of them.
//! - All convolutions of 3x3 but the first take a quarter of the multiplications, by Winograd's
//!   algorithm (`winograd`). All arithmetic is in f32; logits differ from those in f64 by less than
//!   1e-5 of the largest.
//! - The layers of a level follow each other by a few rows, so that a layer finds its input in the
//!   cache (`runner`). Nothing is copied for skip connections.
//!
//! Convolutions run on the machine's fastest [`Kernel`]. Only the kernels, the loops that they
//! share, and the checked calls into them contain `unsafe`. [`reference`](mod@reference) is the
//! same network in plain f64.

mod direct;
mod error;
#[cfg(feature = "gpu")]
mod gpu;
#[cfg(not(feature = "gpu"))]
#[path = "no_gpu.rs"]
mod gpu;
mod image;
mod kernel;
mod lanes;
mod model;
#[cfg(all(target_arch = "aarch64", not(miri)))]
mod neon;
mod network;
mod portable;
pub mod reference;
mod runner;
mod safetensors;
mod winograd;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86;

pub use error::{GpuError, ModelError, ShapeError};
pub use gpu::{Gpu, GpuRunner};
pub use kernel::Kernel;
pub use model::ARCHITECTURE;
pub use network::Network;
pub use runner::Runner;
