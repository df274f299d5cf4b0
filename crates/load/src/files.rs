//! Objects as files, written as a careful program writes them.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;

use crate::Operation;
use crate::content::{Checker, PIECE};
use crate::objects::Task;

/// The client of a folder.
pub(crate) struct Files {
    folder: PathBuf,
    buffer: Vec<u8>,
}

impl Files {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, buffer: vec![0; PIECE as usize] }
    }

    pub(crate) fn perform(&mut self, task: &Task, key: &str) -> io::Result<u64> {
        let path = self.folder.join(key);
        let content = task.content;
        match task.operation {
            Operation::Ingest | Operation::Update => {
                let folder = path.parent().unwrap_or(&self.folder);
                fs::create_dir_all(folder)?;
                // Two clients may replace one file.
                let temporary = folder.join(format!("{:012}-{}.part", content.number, content.revision));
                let mut file = File::create(&temporary)?;
                let mut at = 0;
                while at < content.bytes {
                    let length = PIECE.min(content.bytes - at);
                    file.write_all(&content.piece(at, length))?;
                    at += length;
                }
                file.sync_all()?;
                fs::rename(&temporary, &path)?;
                File::open(folder)?.sync_all()?;
            }
            Operation::Access => {
                let mut file = File::open(&path)?;
                let mut checker = Checker::new(content.number, content.bytes);
                loop {
                    match file.read(&mut self.buffer)? {
                        0 => break,
                        read => checker.take(&self.buffer[..read]),
                    };
                }
                if !checker.is_complete() {
                    return Err(io::Error::other("wrong bytes"));
                }
            }
            Operation::Delete => {
                fs::remove_file(&path)?;
                File::open(path.parent().unwrap_or(&self.folder))?.sync_all()?;
                return Ok(0);
            }
        }
        Ok(content.bytes)
    }
}
