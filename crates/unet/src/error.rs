//! Errors of models and of their use.

use thiserror::Error;

/// Why a file isn't a model that this crate can run.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum ModelError {
    #[error("the model file ends after {bytes} bytes, but its header needs {needed}: it is truncated, or not safetensors")]
    Truncated { bytes: usize, needed: u64 },
    #[error("the model's header has {bytes} bytes, more than {limit}: the file is not safetensors, or not a U-Net")]
    HeaderTooLarge { bytes: u64, limit: u64 },
    #[error("the model's header can't be parsed: {source}")]
    Header {
        #[from]
        source: serde_json::Error,
    },
    #[error(
        "tensor {tensor} occupies bytes {start} to {end} of the model's {data_bytes} bytes of data: \
         the file is truncated, or its tensors overlap or leave gaps"
    )]
    Offsets { tensor: String, start: u64, end: u64, data_bytes: usize },
    #[error("the model has {unused} bytes after its last tensor: the file is damaged")]
    UnusedBytes { unused: u64 },
    #[error("the model's metadata lack {key:?}: it was not exported for Fulgurite")]
    MetadataMissing { key: &'static str },
    #[error("the model's architecture is {found:?}, but this version runs {expected:?} only")]
    Architecture { found: String, expected: &'static str },
    #[error("the model's metadata have {key} = {value:?}: {expected}")]
    Metadata { key: &'static str, value: String, expected: &'static str },
    #[error("the model lacks tensor {tensor}")]
    TensorMissing { tensor: String },
    #[error("the model has a tensor {tensor}, which its architecture doesn't use: it was exported from another network")]
    TensorUnexpected { tensor: String },
    #[error("tensor {tensor} has type {found}: export it as F32")]
    TensorType { tensor: String, found: String },
    #[error("tensor {tensor} has shape {found:?}, but the model's metadata require {expected:?}")]
    TensorShape { tensor: String, found: Vec<u64>, expected: Vec<u64> },
    #[error("tensor {tensor} has {bytes} bytes of data, but its shape needs {expected}: the file is damaged")]
    TensorBytes { tensor: String, bytes: usize, expected: usize },
    #[error("tensor {tensor} has {value} at position {position}: its training failed, or the file is damaged")]
    NotFinite { tensor: String, position: usize, value: f32 },
}

/// Why a GPU can't run a network.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum GpuError {
    #[error("this program was built without support for GPUs: build it with `--features gpu`")]
    NotBuilt,
    #[error("no GPU was found: {why}")]
    NotFound { why: String },
    #[error("the only GPU is a software renderer, {name}, which is slower than decoding on the CPU")]
    Software { name: String },
    #[error("the GPU {name} can't be opened: {why}")]
    NotOpened { name: String, why: String },
    #[error(transparent)]
    Shape(#[from] ShapeError),
    #[error("images of {rows} x {columns} pixels need a buffer of {bytes} bytes, but the GPU allows {limit}: split them")]
    TooLarge { rows: usize, columns: usize, bytes: usize, limit: u64 },
    #[error("the GPU {name} failed: {why}")]
    Failed { name: String, why: String },
    #[error("the GPU {name} computes other logits than the CPU: its driver is faulty")]
    Wrong { name: String },
}

/// Why a network can't process images of a size.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum ShapeError {
    #[error("images of {rows} x {columns} pixels: a network of this depth needs positive multiples of {multiple}; pad them")]
    Multiple { rows: usize, columns: usize, multiple: usize },
    #[error("images of {rows} x {columns} pixels have more than {limit} pixels: split them")]
    TooLarge { rows: usize, columns: usize, limit: usize },
}
