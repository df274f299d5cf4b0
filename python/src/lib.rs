//! The extension module of the Python package `fulgurite`: what needs Rust, with plain types. The
//! package's Python code puts its interface on top.
//!
//! ```text
//! fulgurite (Python): Archive, Bucket, files, Arrow, NumPy, fsspec, data frames
//!     '--> fulgurite._native (this crate): archive, selection -> crate archive
//!                                          server -> crates client, retrieval
//! ```
//!
//! Reading releases the interpreter's lock, and content is read into the memory of the `bytes` that
//! Python gets.

#![forbid(unsafe_code)]

mod archive;
mod entry;
mod errors;
mod name;
mod selection;
mod server;

use pyo3::prelude::*;

/// The module `fulgurite._native`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<archive::Archive>()?;
    module.add_class::<archive::Cursor>()?;
    module.add_class::<entry::Entry>()?;
    module.add_class::<selection::Selection>()?;
    module.add_class::<server::Server>()?;
    module.add_class::<server::ServerSelection>()?;
    Ok(())
}
