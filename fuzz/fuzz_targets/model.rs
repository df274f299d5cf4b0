//! Loads a model, as it is or with the data that its header asks for, and runs it on a small image.
#![no_main]

use fulgurite_unet::Network;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = Network::from_bytes(data);
    let Some((&[low, high, value], header)) = data.split_first_chunk() else { return };
    let mut model = (header.len() as u64).to_le_bytes().to_vec();
    model.extend(header);
    // Up to 1 MiB; sizes of tensors are multiples of 4 bytes, and sums of them mostly of 16.
    let data_bytes = usize::from(u16::from_le_bytes([low, high])) * 16;
    model.resize(model.len() + data_bytes, value);
    let Ok(network) = Network::from_bytes(&model) else { return };
    let side = network.multiple();
    let mut runner = network.runner(side, 2 * side).expect("sides are multiples");
    let planes: Vec<f32> = (0..network.inputs() * 2 * side * side).map(|at| at as f32).collect();
    let mut logits = vec![0.0; network.outputs() * 2 * side * side];
    runner.run(&planes, &mut logits);
    assert!(network.runner(side, side + 1).is_err());
});
