//! The network in as few lines as possible, in f64, which [`Runner`](crate::Runner) must match; and
//! random models to compare them on.

use crate::error::ModelError;
use crate::model::{ARCHITECTURE, Model, Weights};

/// An image; its values are by channel, row and column.
struct Image {
    rows: usize,
    columns: usize,
    values: Vec<f64>,
}

impl Image {
    fn new(channels: usize, rows: usize, columns: usize, value: impl Fn(usize, usize, usize) -> f64) -> Self {
        let mut values = Vec::with_capacity(channels * rows * columns);
        for channel in 0..channels {
            for row in 0..rows {
                values.extend((0..columns).map(|column| value(channel, row, column)));
            }
        }
        Self { rows, columns, values }
    }

    fn channels(&self) -> usize {
        self.values.len() / (self.rows * self.columns)
    }

    fn at(&self, channel: usize, row: usize, column: usize) -> f64 {
        self.values[(channel * self.rows + row) * self.columns + column]
    }

    fn relu(mut self) -> Self {
        self.values.iter_mut().for_each(|value| *value = value.max(0.0));
        self
    }
}

/// Logits of an image, as [`Runner::run`](crate::Runner::run) computes them, for any model file.
///
/// # Errors
/// As [`Network::from_bytes`](crate::Network::from_bytes).
///
/// # Panics
/// If `planes` isn't `rows * columns` values for each input.
pub fn logits(model: &[u8], rows: usize, columns: usize, planes: &[f32]) -> Result<Vec<f64>, ModelError> {
    let model = Model::parse(model)?;
    assert_eq!(planes.len(), model.inputs * rows * columns, "values of the input planes");
    let mut image = Image::new(model.inputs, rows, columns, |plane, row, column| {
        (f64::from(planes[(plane * rows + row) * columns + column]) - f64::from(model.mean[plane])) * f64::from(model.scale[plane])
    });
    let mut skips = Vec::new();
    for (level, [a, b]) in model.down.iter().enumerate() {
        if level > 0 {
            let pooled = pool(&image);
            skips.push(std::mem::replace(&mut image, pooled));
        }
        image = convolve(b, 3, &convolve(a, 3, &image).relu()).relu();
    }
    for up in model.up.iter().rev() {
        let skip = skips.pop().expect("a skip for each way up");
        let joined = join(transpose(&up.transpose, &image), skip);
        let [a, b] = &up.convolutions;
        image = convolve(b, 3, &convolve(a, 3, &joined).relu()).relu();
    }
    let planes = convolve(&model.head, 1, &image);
    let outputs = model.outputs;
    Ok((0..rows * columns * outputs).map(|at| planes.values[at % outputs * rows * columns + at / outputs]).collect())
}

/// Convolution with zeros around the image.
fn convolve(layer: &Weights, side: usize, image: &Image) -> Image {
    Image::new(layer.outputs, image.rows, image.columns, |output, row, column| {
        let mut sum = f64::from(layer.bias[output]);
        for input in 0..layer.inputs {
            for (y, x) in (0..side * side).map(|tap| (tap / side, tap % side)) {
                let (row, column) = (row + y, column + x);
                let border = side / 2;
                if (border..image.rows + border).contains(&row) && (border..image.columns + border).contains(&column) {
                    let weight = layer.weight[((output * layer.inputs + input) * side + y) * side + x];
                    sum += f64::from(weight) * image.at(input, row - border, column - border);
                }
            }
        }
        sum
    })
}

fn transpose(layer: &Weights, image: &Image) -> Image {
    Image::new(layer.outputs, 2 * image.rows, 2 * image.columns, |output, row, column| {
        let weight = |input| layer.weight[((input * layer.outputs + output) * 2 + row % 2) * 2 + column % 2];
        let products = (0..layer.inputs).map(|input| f64::from(weight(input)) * image.at(input, row / 2, column / 2));
        f64::from(layer.bias[output]) + products.sum::<f64>()
    })
}

fn pool(image: &Image) -> Image {
    Image::new(image.channels(), image.rows / 2, image.columns / 2, |channel, row, column| {
        let at = |y, x| image.at(channel, 2 * row + y, 2 * column + x);
        at(0, 0).max(at(0, 1)).max(at(1, 0)).max(at(1, 1))
    })
}

fn join(mut first: Image, second: Image) -> Image {
    first.values.extend(second.values);
    first
}

/// Pseudorandom values from -1.0 to 1.0, exclusive.
pub fn noise(seed: u64, values: usize) -> Vec<f32> {
    // SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    };
    (0..values).map(|_| (next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0).collect()
}

/// The file of a model with random weights, scaled so that activations neither vanish nor explode:
/// uniform up to sqrt(6 / inputs of a sum), after He, Zhang, Ren and Sun, ICCV 2015.
pub fn random_model(seed: u64, inputs: usize, outputs: usize, widths: &[usize]) -> Vec<u8> {
    let mut tensors = vec![("input.mean".to_owned(), vec![inputs], 1.0), ("input.scale".to_owned(), vec![inputs], 1.0)];
    let mut layer = |name: String, shape: [usize; 4], inputs: usize, outputs: usize| {
        // A transposed convolution in steps of its own size sums over one tap.
        let taps = if name.ends_with("transpose") { 1 } else { shape[2] * shape[3] };
        tensors.push((format!("{name}.weight"), shape.to_vec(), (6.0 / (inputs * taps) as f32).sqrt()));
        tensors.push((format!("{name}.bias"), vec![outputs], 0.2));
    };
    for (level, &width) in widths.iter().enumerate() {
        let from = if level == 0 { inputs } else { widths[level - 1] };
        layer(format!("down.{level}.a"), [width, from, 3, 3], from, width);
        layer(format!("down.{level}.b"), [width, width, 3, 3], width, width);
        if let Some(&below) = widths.get(level + 1) {
            layer(format!("up.{level}.transpose"), [below, width, 2, 2], below, width);
            layer(format!("up.{level}.a"), [width, 2 * width, 3, 3], 2 * width, width);
            layer(format!("up.{level}.b"), [width, width, 3, 3], width, width);
        }
    }
    layer("head".into(), [outputs, widths[0], 1, 1], widths[0], outputs);

    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    let widths = widths.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let metadata = serde_json::json!({
        "architecture": ARCHITECTURE, "inputs": inputs.to_string(), "outputs": outputs.to_string(), "widths": widths,
    });
    header.insert("__metadata__".into(), metadata);
    for (number, (name, shape, scale)) in tensors.into_iter().enumerate() {
        let start = data.len();
        let values = noise(seed.wrapping_mul(1000).wrapping_add(number as u64), shape.iter().product());
        data.extend(values.iter().flat_map(|value| (value * scale).to_le_bytes()));
        header.insert(name, serde_json::json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, data.len()] }));
    }
    let header = serde_json::Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.bytes());
    file.extend(data);
    file
}
