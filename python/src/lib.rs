//! The extension module of the Python package `fulgurite`: what needs Rust, with plain types. The
//! package's Python code puts its interface on top.
//!
//! ```text
//! fulgurite (Python): Archive, Bucket, files, Arrow, NumPy, fsspec, data frames
//!     '--> fulgurite._native (this crate): archive, selection -> crate archive
//!                                          server -> crates client, retrieval
//!                                          twin, policy -> crates twin, library
//! ```
//!
//! Reading releases the interpreter's lock, and content is read into the memory of the `bytes` that
//! Python gets.

#![forbid(unsafe_code)]

mod archive;
mod entry;
mod errors;
mod interrupt;
mod name;
mod of_process;
mod open_archive;
mod policy;
mod selection;
mod server;
mod twin;

use pyo3::prelude::*;

/// The module `fulgurite._native`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<archive::Archive>()?;
    module.add_class::<archive::Cursor>()?;
    module.add_class::<archive::OpenObject>()?;
    module.add_class::<entry::Entry>()?;
    module.add_class::<selection::Selection>()?;
    module.add_class::<server::Server>()?;
    module.add_class::<server::ServerSelection>()?;
    module.add_class::<policy::View>()?;
    module.add_class::<policy::IdleShuttle>()?;
    module.add_class::<policy::ReadDrive>()?;
    module.add_class::<policy::WaitingPlatter>()?;
    module.add_class::<policy::Fetch>()?;
    module.add_class::<policy::Collect>()?;
    module.add_function(wrap_pyfunction!(twin::scenario, module)?)?;
    module.add_function(wrap_pyfunction!(twin::run, module)?)?;
    module.add_function(wrap_pyfunction!(twin::run_policy, module)?)?;
    module.add_function(wrap_pyfunction!(twin::sweep, module)?)?;
    Ok(())
}
