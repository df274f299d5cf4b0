//! The archive over S3: what today's clients speak, on the framework `s3s`.

pub mod state;
