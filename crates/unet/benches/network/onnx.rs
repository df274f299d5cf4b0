//! ONNX Runtime with one thread, in a process of its own.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/network/onnx_runtime.py");

pub(crate) struct OnnxRuntime {
    child: Child,
    answers: BufReader<ChildStdout>,
    pub(crate) version: String,
    /// Its logits, in our order.
    logits: Vec<f32>,
}

impl OnnxRuntime {
    /// Starts it with a model and an image. None, with a line that says so, if it isn't installed.
    pub(crate) fn start(model: &[u8], planes: &[f32], inputs: usize, rows: usize, columns: usize) -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("fulgurite-unet-bench-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("failed to create a folder for the peer");
        let file = |name: &str| folder.join(name);
        fs::write(file("model.safetensors"), model).expect("failed to write the model");
        fs::write(file("planes"), planes.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
            .expect("failed to write planes");

        let python = std::env::var_os("PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from);
        let mut command = Command::new(python);
        command.arg(SCRIPT).arg(&folder).args([inputs, rows, columns].map(|size| size.to_string()));
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let peer = started.ok().and_then(|mut child| {
            let mut answers = BufReader::new(child.stdout.take().expect("its output is piped"));
            let mut version = String::new();
            answers.read_line(&mut version).expect("failed to read from the peer");
            if version.is_empty() {
                let _ = child.wait();
                return None;
            }
            let logits = fs::read(file("logits")).expect("the peer wrote no logits");
            let logits = logits.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
            Some(Self { child, answers, version: version.trim().into(), logits })
        });
        let _ = fs::remove_dir_all(&folder);
        if peer.is_none() {
            println!("  ONNX Runtime: not installed ($PYTHON or python3 needs the packages onnx and onnxruntime)");
        }
        peer
    }

    /// CPU seconds of some runs.
    pub(crate) fn run(&mut self, times: usize) -> f64 {
        let input = self.child.stdin.as_mut().expect("its input is piped");
        writeln!(input, "{times}").expect("the peer exited");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the peer exited");
        answer.trim().parse().expect("the peer's answer is not a number of seconds")
    }

    /// The largest difference between its logits and ours, relative to the largest logit.
    pub(crate) fn difference(&self, logits: &[f32]) -> f32 {
        assert_eq!(logits.len(), self.logits.len(), "logits of the peer");
        let largest = self.logits.iter().fold(0.0f32, |most, logit| most.max(logit.abs()));
        self.logits.iter().zip(logits).fold(0.0f32, |most, (a, b)| most.max((a - b).abs())) / largest
    }
}

impl Drop for OnnxRuntime {
    fn drop(&mut self) {
        // It exits when its input closes.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
