// The layers of a U-Net.
//
// Images are [image, block, row, column]; a block is four channels of a pixel, a vec4. A buffer
// has BLOCKS blocks for each image, of which a layer reads or writes some, from block FIRST on, so
// two layers can write the two halves of a concatenation.
//
// Matrices turn four channels of the input into four of the output. A thread computes 16 output
// channels, a group.

override ROWS: u32 = 1u; // of the source
override COLUMNS: u32 = 1u;
override SOURCE_BLOCKS: u32 = 1u;
override SOURCE_FIRST: u32 = 0u;
override SINK_BLOCKS: u32 = 1u;
override SINK_FIRST: u32 = 0u;
// Blocks that a layer reads.
override INPUTS: u32 = 1u;
// Groups that a layer writes.
override GROUPS: u32 = 1u;
// Channels: of the planes for `pack`, of the logits for `head`.
override CHANNELS: u32 = 1u;

@group(0) @binding(0) var<storage, read> source: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> matrices: array<mat4x4<f32>>;
@group(0) @binding(2) var<storage, read> biases: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> sink: array<vec4<f32>>;

@group(0) @binding(0) var<storage, read> planes: array<f32>;
// Mean and scale of each plane.
@group(0) @binding(1) var<storage, read> normalization: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read_write> logits: array<f32>;

fn source_at(image: u32, block: u32, row: u32, column: u32) -> u32 {
    return ((image * SOURCE_BLOCKS + SOURCE_FIRST + block) * ROWS + row) * COLUMNS + column;
}

// Normalizes planes, [image, plane, row, column], and joins them to blocks.
@compute @workgroup_size(16, 4)
fn pack(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= COLUMNS || id.y >= ROWS { return; }
    let image = id.z / SINK_BLOCKS;
    let block = id.z % SINK_BLOCKS;
    var cell = vec4<f32>();
    for (var lane = 0u; lane < 4u; lane++) {
        let plane = 4u * block + lane;
        if plane < CHANNELS {
            let value = planes[((image * CHANNELS + plane) * ROWS + id.y) * COLUMNS + id.x];
            cell[lane] = (value - normalization[plane].x) * normalization[plane].y;
        }
    }
    sink[(id.z * ROWS + id.y) * COLUMNS + id.x] = cell;
}

// 16 x 16 pixels of a block, and the pixels around them.
const SIDE: u32 = 18u;
var<workgroup> tile: array<vec4<f32>, 324>;

// A convolution of 3x3 with zeros around the image, and ReLU. A thread computes a group of 2x2
// pixels: the columns of `sums` are pixels, their rows channels.
@compute @workgroup_size(8, 8)
fn convolve(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let image = id.z / GROUPS;
    let group = id.z % GROUPS;
    let top = 16u * id.y;
    let left = 16u * id.x;
    var sums0 = mat4x4<f32>(biases[4u * group], biases[4u * group], biases[4u * group], biases[4u * group]);
    var sums1 = mat4x4<f32>(biases[4u * group + 1u], biases[4u * group + 1u], biases[4u * group + 1u], biases[4u * group + 1u]);
    var sums2 = mat4x4<f32>(biases[4u * group + 2u], biases[4u * group + 2u], biases[4u * group + 2u], biases[4u * group + 2u]);
    var sums3 = mat4x4<f32>(biases[4u * group + 3u], biases[4u * group + 3u], biases[4u * group + 3u], biases[4u * group + 3u]);
    for (var input = 0u; input < INPUTS; input++) {
        for (var at = thread; at < SIDE * SIDE; at += 64u) {
            // One more than the row and the column, which may be -1.
            let row = top + at / SIDE;
            let column = left + at % SIDE;
            var cell = vec4<f32>();
            if row >= 1u && row <= ROWS && column >= 1u && column <= COLUMNS {
                cell = source[source_at(image, input, row - 1u, column - 1u)];
            }
            tile[at] = cell;
        }
        workgroupBarrier();
        for (var tap = 0u; tap < 9u; tap++) {
            let at = (2u * local.y + tap / 3u) * SIDE + 2u * local.x + tap % 3u;
            let pixels = mat4x4<f32>(tile[at], tile[at + 1u], tile[at + SIDE], tile[at + SIDE + 1u]);
            let matrix = ((group * INPUTS + input) * 9u + tap) * 4u;
            sums0 += matrices[matrix] * pixels;
            sums1 += matrices[matrix + 1u] * pixels;
            sums2 += matrices[matrix + 2u] * pixels;
            sums3 += matrices[matrix + 3u] * pixels;
        }
        workgroupBarrier();
    }
    let first = image * SINK_BLOCKS + SINK_FIRST + 4u * group;
    let row = top + 2u * local.y;
    let column = left + 2u * local.x;
    store(first, row, column, sums0[0], sums1[0], sums2[0], sums3[0]);
    store(first, row, column + 1u, sums0[1], sums1[1], sums2[1], sums3[1]);
    store(first, row + 1u, column, sums0[2], sums1[2], sums2[2], sums3[2]);
    store(first, row + 1u, column + 1u, sums0[3], sums1[3], sums2[3], sums3[3]);
}

// Stores four blocks of a pixel, from block `first` of the sink on.
fn store(first: u32, row: u32, column: u32, a: vec4<f32>, b: vec4<f32>, c: vec4<f32>, d: vec4<f32>) {
    if row >= ROWS || column >= COLUMNS { return; }
    let at = (first * ROWS + row) * COLUMNS + column;
    let block = ROWS * COLUMNS;
    sink[at] = max(a, vec4<f32>());
    sink[at + block] = max(b, vec4<f32>());
    sink[at + 2u * block] = max(c, vec4<f32>());
    sink[at + 3u * block] = max(d, vec4<f32>());
}

// The largest of each 2x2 pixels.
@compute @workgroup_size(16, 4)
fn pool(@builtin(global_invocation_id) id: vec3<u32>) {
    let columns = COLUMNS / 2u;
    let rows = ROWS / 2u;
    if id.x >= columns || id.y >= rows { return; }
    let at = source_at(id.z / SINK_BLOCKS, id.z % SINK_BLOCKS, 2u * id.y, 2u * id.x);
    let largest = max(max(source[at], source[at + 1u]), max(source[at + COLUMNS], source[at + COLUMNS + 1u]));
    sink[(id.z * rows + id.y) * columns + id.x] = largest;
}

// A transposed convolution of 2x2 in steps of 2: each pixel becomes 2x2 pixels.
@compute @workgroup_size(16, 4)
fn transposed(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= COLUMNS || id.y >= ROWS { return; }
    let image = id.z / GROUPS;
    let group = id.z % GROUPS;
    let columns = 2u * COLUMNS;
    let rows = 2u * ROWS;
    for (var block = 0u; block < 4u; block++) {
        let output = 4u * group + block;
        // The columns are the 2x2 pixels.
        var sums = mat4x4<f32>(biases[output], biases[output], biases[output], biases[output]);
        for (var input = 0u; input < INPUTS; input++) {
            let cell = source[source_at(image, input, id.y, id.x)];
            let matrix = (output * INPUTS + input) * 4u;
            sums += mat4x4<f32>(matrices[matrix] * cell, matrices[matrix + 1u] * cell, matrices[matrix + 2u] * cell, matrices[matrix + 3u] * cell);
        }
        let at = ((image * SINK_BLOCKS + SINK_FIRST + output) * rows + 2u * id.y) * columns + 2u * id.x;
        sink[at] = sums[0];
        sink[at + 1u] = sums[1];
        sink[at + columns] = sums[2];
        sink[at + columns + 1u] = sums[3];
    }
}

// A convolution of 1x1 to the logits, [image, row, column, channel].
@compute @workgroup_size(16, 4)
fn head(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= COLUMNS || id.y >= ROWS { return; }
    let image = id.z / GROUPS;
    let group = id.z % GROUPS;
    for (var block = 0u; block < 4u; block++) {
        let output = 4u * group + block;
        var sum = biases[output];
        for (var input = 0u; input < INPUTS; input++) {
            sum += matrices[output * INPUTS + input] * source[source_at(image, input, id.y, id.x)];
        }
        let at = ((image * ROWS + id.y) * COLUMNS + id.x) * CHANNELS;
        for (var lane = 0u; lane < 4u; lane++) {
            if 4u * output + lane < CHANNELS {
                logits[at + 4u * output + lane] = sum[lane];
            }
        }
    }
}
