//! Models: the architecture and the weights of a file, checked.

use std::collections::BTreeMap;

use crate::error::ModelError;
use crate::image::BLOCK;
use crate::safetensors::{Container, Tensor};

/// The value of `architecture` in the metadata of files that this crate runs.
pub const ARCHITECTURE: &str = "fulgurite-unet-1";

const WIDTH_MAX: usize = 1024;
/// Limit on inputs and outputs: more than any use needs, but few enough that products of sizes
/// don't overflow.
const PLANES_MAX: usize = 1024;

/// A model as its file describes it, with weights in the layouts of PyTorch.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) widths: Vec<usize>,
    /// Subtracted from each input plane.
    pub(crate) mean: Vec<f32>,
    /// Multiplies each input plane after that.
    pub(crate) scale: Vec<f32>,
    /// Both convolutions of each level on the way down.
    pub(crate) down: Vec<[Weights; 2]>,
    /// The layers of each level on the way up; the last level has none.
    pub(crate) up: Vec<Up>,
    /// `[out, in, 1, 1]`.
    pub(crate) head: Weights,
}

/// The layers of a level on the way up.
#[derive(Debug, Clone)]
pub(crate) struct Up {
    /// `[in, out, 2, 2]`.
    pub(crate) transpose: Weights,
    pub(crate) convolutions: [Weights; 2],
}

/// A layer's weights, in the layout of its file, and its biases.
#[derive(Debug, Clone)]
pub(crate) struct Weights {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) weight: Vec<f32>,
    pub(crate) bias: Vec<f32>,
}

impl Model {
    pub(crate) fn parse(file: &[u8]) -> Result<Self, ModelError> {
        let Container { metadata, tensors } = Container::parse(file)?;
        let text = |key| metadata.get(key).map(String::as_str).ok_or(ModelError::MetadataMissing { key });
        let architecture = text("architecture")?;
        if architecture != ARCHITECTURE {
            return Err(ModelError::Architecture { found: architecture.into(), expected: ARCHITECTURE });
        }
        let inputs = parse_planes("inputs", text("inputs")?)?;
        let outputs = parse_planes("outputs", text("outputs")?)?;
        let widths = parse_widths(text("widths")?)?;

        let mut tensors = Tensors(tensors);
        let mean = tensors.take("input.mean".into(), &[inputs])?;
        let scale = tensors.take("input.scale".into(), &[inputs])?;
        let mut down = Vec::new();
        let mut up = Vec::new();
        for (level, &width) in widths.iter().enumerate() {
            let from = if level == 0 { inputs } else { widths[level - 1] };
            down.push([
                tensors.convolution(&format!("down.{level}.a"), from, width, 3)?,
                tensors.convolution(&format!("down.{level}.b"), width, width, 3)?,
            ]);
            if let Some(&below) = widths.get(level + 1) {
                let name = format!("up.{level}.transpose");
                let weight = tensors.take(format!("{name}.weight"), &[below, width, 2, 2])?;
                let bias = tensors.take(format!("{name}.bias"), &[width])?;
                up.push(Up {
                    transpose: Weights { inputs: below, outputs: width, weight, bias },
                    convolutions: [
                        tensors.convolution(&format!("up.{level}.a"), 2 * width, width, 3)?,
                        tensors.convolution(&format!("up.{level}.b"), width, width, 3)?,
                    ],
                });
            }
        }
        let head = tensors.convolution("head", widths[0], outputs, 1)?;
        if let Some((tensor, _)) = tensors.0.pop_first() {
            return Err(ModelError::TensorUnexpected { tensor });
        }
        Ok(Self { metadata, inputs, outputs, widths, mean, scale, down, up, head })
    }
}

/// The tensors of a file that no layer has taken yet.
struct Tensors<'a>(BTreeMap<String, Tensor<'a>>);

impl Tensors<'_> {
    fn convolution(&mut self, name: &str, inputs: usize, outputs: usize, side: usize) -> Result<Weights, ModelError> {
        let weight = self.take(format!("{name}.weight"), &[outputs, inputs, side, side])?;
        let bias = self.take(format!("{name}.bias"), &[outputs])?;
        Ok(Weights { inputs, outputs, weight, bias })
    }

    fn take(&mut self, tensor: String, expected: &[usize]) -> Result<Vec<f32>, ModelError> {
        let Some(Tensor { data_type, shape, data }) = self.0.remove(&tensor) else {
            return Err(ModelError::TensorMissing { tensor });
        };
        if data_type != "F32" {
            return Err(ModelError::TensorType { tensor, found: data_type });
        }
        if !shape.iter().copied().eq(expected.iter().map(|&size| size as u64)) {
            return Err(ModelError::TensorShape { tensor, found: shape, expected: expected.iter().map(|&size| size as u64).collect() });
        }
        // Less than 2^25, by the limits on widths and planes.
        let values: usize = expected.iter().product();
        if data.len() != 4 * values {
            return Err(ModelError::TensorBytes { tensor, bytes: data.len(), expected: 4 * values });
        }
        let values: Vec<f32> = data.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        match values.iter().position(|value| !value.is_finite()) {
            None => Ok(values),
            Some(position) => Err(ModelError::NotFinite { tensor, position, value: values[position] }),
        }
    }
}

fn parse_planes(key: &'static str, value: &str) -> Result<usize, ModelError> {
    match value.parse() {
        Ok(planes @ 1..=PLANES_MAX) => Ok(planes),
        _ => Err(ModelError::Metadata { key, value: value.into(), expected: "it must be 1 to 1024" }),
    }
}

fn parse_widths(value: &str) -> Result<Vec<usize>, ModelError> {
    let expected = "2 to 4 multiples of 16 up to 1024, separated by commas";
    let wrong = || ModelError::Metadata { key: "widths", value: value.into(), expected };
    let widths = value.split(',').map(|width| width.trim().parse::<usize>()).collect::<Result<Vec<_>, _>>().map_err(|_| wrong())?;
    let is_width = |width: &usize| width.is_multiple_of(BLOCK) && (BLOCK..=WIDTH_MAX).contains(width);
    if (2..=4).contains(&widths.len()) && widths.iter().all(is_width) { Ok(widths) } else { Err(wrong()) }
}
