//! A library of tapes in a folder: volumes whose files have positions, and drives that take time to
//! load, locate, read and rewind.
//!
//! ```text
//! FOLDER/library.toml        the drives, and how fast they are
//! FOLDER/T00001/label.xml    the label of a volume: its UUID and block size
//! FOLDER/T00001/index.xml    its index: files, with the blocks that contain them
//! FOLDER/T00001/a, b         the blocks of its partitions, one after another
//! ```
//!
//! Labels and indexes are those of the Linear Tape File System (SNIA, LTFS Format Specification
//! 2.4), so an index that was captured from a real tape tells the same. Only the partitions are
//! emulated: a block is at its number times the block size.
//!
//! A [`TapeLibrary`] is a place to read from, where reading a file waits as long as a drive would.
//! The order of files therefore matters as it does with tapes: by volume, and by block within it.
//!
//! | module | contents |
//! | --- | --- |
//! | [`index`] | reads and writes labels and indexes |
//! | [`motion`] | how long a drive takes to get from one position to another |
//! | [`settings`] | `library.toml` |
//! | [`library`] | the place: volumes, drives, and what the drives did |
//! | [`make`] | writes files to new volumes |
#![forbid(unsafe_code)]

pub mod index;
pub mod library;
pub mod make;
pub mod motion;
pub mod settings;

pub use library::TapeLibrary;
