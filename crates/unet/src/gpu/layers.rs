//! The layers of a model as dispatches of the kernels.

use super::Gpu;
use crate::model::{Model, Weights};

/// Channels of a block.
const LANES: usize = 4;
/// Channels of a group.
const GROUP: usize = 16;
/// Rows and columns of the pixels that a workgroup of `convolve` computes.
const TILE: usize = 16;
/// Columns and rows of the threads of a workgroup of the other kernels.
const THREADS: [usize; 2] = [16, 4];

/// A dispatch of a kernel.
pub(super) struct Layer {
    pub(super) pipeline: wgpu::ComputePipeline,
    pub(super) bindings: wgpu::BindGroup,
    /// Workgroups along columns and rows.
    pub(super) workgroups: [u32; 2],
    /// Workgroups along the third axis for each image.
    pub(super) depth: u32,
}

/// Buffers that the host writes and reads, and the layers between them.
pub(super) struct Layers {
    pub(super) planes: wgpu::Buffer,
    pub(super) logits: wgpu::Buffer,
    pub(super) layers: Vec<Layer>,
}

/// Some blocks of an image of many channels.
#[derive(Clone, Copy)]
struct View<'a> {
    buffer: &'a wgpu::Buffer,
    /// Blocks of the whole image.
    blocks: usize,
    first: usize,
}

/// The images of a level, as in `runner` for CPUs.
struct Level {
    rows: usize,
    columns: usize,
    width: usize,
    input: wgpu::Buffer,
    middle: wgpu::Buffer,
    result: wgpu::Buffer,
    /// The first block of the skip connection; 0 on the last level, which has none.
    skip: usize,
}

impl Level {
    fn middle(&self) -> View<'_> {
        View { buffer: &self.middle, blocks: self.width / LANES, first: 0 }
    }

    /// The result from block `first` on.
    fn result(&self, first: usize) -> View<'_> {
        View { buffer: &self.result, blocks: self.width / LANES + self.skip, first }
    }
}

/// Makes layers for some images of one size.
struct Builder<'a> {
    gpu: &'a Gpu,
    images: usize,
    layers: Vec<Layer>,
}

impl Layers {
    /// The most workgroups of a layer along rows or columns.
    pub(super) fn workgroups(rows: usize, columns: usize) -> usize {
        rows.div_ceil(THREADS[1].min(TILE)).max(columns.div_ceil(THREADS[0].min(TILE)))
    }

    /// Bytes of the largest buffer for one image.
    pub(super) fn largest_buffer(model: &Model, rows: usize, columns: usize) -> usize {
        let channels = model.widths.iter().enumerate().map(|(level, width)| (2 * width) >> (2 * level)).max().unwrap_or(0);
        4 * rows * columns * channels.max(model.outputs).max(model.inputs.next_multiple_of(LANES))
    }

    pub(super) fn new(gpu: &Gpu, model: &Model, rows: usize, columns: usize, images: usize) -> Self {
        let mut builder = Builder { gpu, images, layers: Vec::new() };
        let upload = wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::STORAGE;
        let planes = builder.buffer(model.inputs, rows, columns, upload);
        let logits = builder.buffer(model.outputs, rows, columns, wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::STORAGE);
        let levels: Vec<Level> = (0..model.widths.len()).map(|level| builder.level(model, level, rows, columns)).collect();

        builder.pack(model, &planes, &levels[0]);
        for (number, (level, [a, b])) in levels.iter().zip(&model.down).enumerate() {
            let input = View { buffer: &level.input, blocks: a.inputs.div_ceil(LANES), first: 0 };
            builder.convolve(level, a, input, level.middle());
            builder.convolve(level, b, level.middle(), level.result(level.skip));
            if let Some(below) = levels.get(number + 1) {
                builder.pool(level, below);
            }
        }
        for (number, up) in model.up.iter().enumerate().rev() {
            let (level, below) = (&levels[number], &levels[number + 1]);
            builder.transposed(&up.transpose, below, level);
            let [a, b] = &up.convolutions;
            builder.convolve(level, a, level.result(0), level.middle());
            builder.convolve(level, b, level.middle(), level.result(0));
        }
        builder.head(&model.head, &levels[0], &logits);
        let layers = builder.layers;
        Self { planes, logits, layers }
    }
}

impl Builder<'_> {
    fn buffer(&self, channels: usize, rows: usize, columns: usize, usage: wgpu::BufferUsages) -> wgpu::Buffer {
        let size = (4 * self.images * channels * rows * columns) as u64;
        self.gpu.0.device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false })
    }

    fn constants(&self, values: &[f32]) -> wgpu::Buffer {
        let (size, usage) = (size_of_val(values) as u64, wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::STORAGE);
        let buffer = self.gpu.0.device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false });
        self.gpu.0.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(values));
        buffer
    }

    fn level(&self, model: &Model, number: usize, rows: usize, columns: usize) -> Level {
        let (rows, columns, width) = (rows >> number, columns >> number, model.widths[number]);
        let inputs = if number == 0 { model.inputs.next_multiple_of(LANES) } else { model.widths[number - 1] };
        let skip = if number + 1 < model.widths.len() { width / LANES } else { 0 };
        let image = |channels| self.buffer(channels, rows, columns, wgpu::BufferUsages::STORAGE);
        Level { rows, columns, width, input: image(inputs), middle: image(width), result: image(width + skip * LANES), skip }
    }

    fn pack(&mut self, model: &Model, planes: &wgpu::Buffer, level: &Level) {
        let normalization: Vec<f32> = model.mean.iter().zip(&model.scale).flat_map(|(&mean, &scale)| [mean, scale]).collect();
        let blocks = model.inputs.div_ceil(LANES);
        let constants = [
            ("ROWS", level.rows as f64),
            ("COLUMNS", level.columns as f64),
            ("SINK_BLOCKS", blocks as f64),
            ("CHANNELS", model.inputs as f64),
        ];
        let normalization = self.constants(&normalization);
        let buffers = [(0, planes), (1, &normalization), (3, &level.input)];
        self.add("pack", &constants, &buffers, threads(level), blocks);
    }

    fn convolve(&mut self, level: &Level, weights: &Weights, source: View<'_>, sink: View<'_>) {
        let inputs = weights.inputs.div_ceil(LANES);
        let mut matrices = Vec::with_capacity(9 * inputs * LANES * weights.outputs);
        for group in 0..weights.outputs / GROUP {
            for (input, tap, block) in product(inputs, 9, GROUP / LANES) {
                let weight = |output: usize, input: usize| weights.weight[(output * weights.inputs + input) * 9 + tap];
                push_matrix(&mut matrices, weights, input, group * GROUP / LANES + block, weight);
            }
        }
        let constants = [
            ("ROWS", level.rows as f64),
            ("COLUMNS", level.columns as f64),
            ("SOURCE_BLOCKS", source.blocks as f64),
            ("SOURCE_FIRST", source.first as f64),
            ("SINK_BLOCKS", sink.blocks as f64),
            ("SINK_FIRST", sink.first as f64),
            ("INPUTS", inputs as f64),
            ("GROUPS", (weights.outputs / GROUP) as f64),
        ];
        let (matrices, biases) = (self.constants(&matrices), self.constants(&weights.bias));
        let buffers = [(0, source.buffer), (1, &matrices), (2, &biases), (3, sink.buffer)];
        let workgroups = [level.columns.div_ceil(TILE) as u32, level.rows.div_ceil(TILE) as u32];
        self.add("convolve", &constants, &buffers, workgroups, weights.outputs / GROUP);
    }

    fn pool(&mut self, level: &Level, below: &Level) {
        let (source, blocks) = (level.result(level.skip), level.width / LANES);
        let constants = [
            ("ROWS", level.rows as f64),
            ("COLUMNS", level.columns as f64),
            ("SOURCE_BLOCKS", source.blocks as f64),
            ("SOURCE_FIRST", source.first as f64),
            ("SINK_BLOCKS", blocks as f64),
        ];
        self.add("pool", &constants, &[(0, source.buffer), (3, &below.input)], threads(below), blocks);
    }

    /// From the level below to the first blocks of a level's result.
    fn transposed(&mut self, weights: &Weights, below: &Level, level: &Level) {
        let inputs = weights.inputs / LANES;
        let mut matrices = Vec::with_capacity(4 * weights.inputs * weights.outputs);
        for (block, input, pixel) in product(weights.outputs / LANES, inputs, 4) {
            let weight = |output: usize, input: usize| weights.weight[(input * weights.outputs + output) * 4 + pixel];
            push_matrix(&mut matrices, weights, input, block, weight);
        }
        let (source, sink, groups) = (below.result(0), level.result(0), weights.outputs / GROUP);
        let constants = [
            ("ROWS", below.rows as f64),
            ("COLUMNS", below.columns as f64),
            ("SOURCE_BLOCKS", source.blocks as f64),
            ("SINK_BLOCKS", sink.blocks as f64),
            ("INPUTS", inputs as f64),
            ("GROUPS", groups as f64),
        ];
        let (matrices, biases) = (self.constants(&matrices), self.constants(&weights.bias));
        let buffers = [(0, source.buffer), (1, &matrices), (2, &biases), (3, sink.buffer)];
        self.add("transposed", &constants, &buffers, threads(below), groups);
    }

    fn head(&mut self, weights: &Weights, level: &Level, logits: &wgpu::Buffer) {
        let (inputs, groups) = (weights.inputs / LANES, weights.outputs.div_ceil(GROUP));
        let mut matrices = Vec::new();
        for (block, input, _) in product(groups * GROUP / LANES, inputs, 1) {
            push_matrix(&mut matrices, weights, input, block, |output, input| weights.weight[output * weights.inputs + input]);
        }
        let mut biases = weights.bias.clone();
        biases.resize(groups * GROUP, 0.0);
        let source = level.result(0);
        let constants = [
            ("ROWS", level.rows as f64),
            ("COLUMNS", level.columns as f64),
            ("SOURCE_BLOCKS", source.blocks as f64),
            ("INPUTS", inputs as f64),
            ("GROUPS", groups as f64),
            ("CHANNELS", weights.outputs as f64),
        ];
        let (matrices, biases) = (self.constants(&matrices), self.constants(&biases));
        let buffers = [(0, source.buffer), (1, &matrices), (2, &biases), (3, logits)];
        self.add("head", &constants, &buffers, threads(level), groups);
    }

    fn add(&mut self, kernel: &str, constants: &[(&str, f64)], buffers: &[(u32, &wgpu::Buffer)], workgroups: [u32; 2], depth: usize) {
        let device = &self.gpu.0.device;
        // The kernels write all memory of a workgroup before they read it.
        let compilation_options = wgpu::PipelineCompilationOptions { constants, zero_initialize_workgroup_memory: false };
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(kernel),
            layout: None,
            module: &self.gpu.0.kernels,
            entry_point: Some(kernel),
            compilation_options,
            cache: None,
        });
        let entries: Vec<_> =
            buffers.iter().map(|&(binding, buffer)| wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() }).collect();
        let layout = pipeline.get_bind_group_layout(0);
        let bindings = device.create_bind_group(&wgpu::BindGroupDescriptor { label: Some(kernel), layout: &layout, entries: &entries });
        self.layers.push(Layer { pipeline, bindings, workgroups, depth: depth as u32 });
    }
}

/// Workgroups of one thread for each pixel of a level.
fn threads(level: &Level) -> [u32; 2] {
    [level.columns.div_ceil(THREADS[0]) as u32, level.rows.div_ceil(THREADS[1]) as u32]
}

fn product(a: usize, b: usize, c: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..a * b * c).map(move |index| (index / (b * c), index / c % b, index % c))
}

/// Appends the matrix from a block of inputs to a block of outputs, by columns; zeros for channels
/// that the layer doesn't have.
fn push_matrix(matrices: &mut Vec<f32>, layer: &Weights, input: usize, output: usize, weight: impl Fn(usize, usize) -> f32) {
    for (input, output) in (0..LANES * LANES).map(|at| (input * LANES + at / LANES, output * LANES + at % LANES)) {
        let is_in_layer = input < layer.inputs && output < layer.outputs;
        matrices.push(if is_in_layer { weight(output, input) } else { 0.0 });
    }
}
