"""Trains the decoder of voxels on emulated sectors, and exports it for the Rust program.

    python3 train.py --fulgurite ../target/release/fulgurite --minutes 30

Images come from `fulgurite channel frames`; nothing of the medium is emulated here. Training uses
the preset `nominal` at strengths up to --strength, so it never sees the noise of the preset
`harsh`; the test uses other seeds.
"""

import argparse
import json
import math
import pathlib
import queue
import random
import subprocess
import tempfile
import threading
import time

import numpy as np
import safetensors.torch
import torch

from unet import UNet

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE.parent / "crates/glass/models/desk.safetensors"
PARITY = HERE.parent / "crates/glass/tests/unet"
# Seeds of training images count upward from the first number; a test uses the second.
TRAINING_SEED, TEST_SEED = 1_000_000, 1
SECTORS_PER_FILE = 96


def main():
    options = parse()
    torch.manual_seed(options.seed)
    random.seed(options.seed)
    torch.set_num_threads(options.threads)
    source = Source(options)
    network, steps, loss = train(options, source)
    network.eval().cpu()
    card = {
        "architecture": "fulgurite-unet-1",
        "inputs": 5,
        "outputs": 16,
        "widths": ",".join(map(str, options.widths)),
        # The program compares this text: `UNet::trained_for` in crates/glass/src/decoder/unet.rs.
        "medium": "5 frames with swing 0.6283 and light from 0.02 to 0.9, 8 azimuths, retardances 0.25 and 0.5",
        "emulator": f"nominal at strengths 0 to {options.strength}, seeds from {TRAINING_SEED + 10_000 * options.seed}",
        "training": f"{steps} steps of {options.batch} sectors, seed {options.seed}, PyTorch {torch.__version__}",
        "test": json.dumps(test(options, network)),
        "commit": commit(),
    }
    export(network, card, options.out)
    print(json.dumps(card, indent=2))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fulgurite", required=True, help="the program, built with --release")
    parser.add_argument("--minutes", type=float, default=30, help="time to train")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--widths", type=lambda text: [int(part) for part in text.split(",")], default=[16, 32, 64])
    parser.add_argument("--batch", type=int, default=4, help="sectors in a step")
    parser.add_argument("--rate", type=float, default=4e-3, help="largest learning rate")
    parser.add_argument("--strength", type=float, default=1.2, help="most noise, relative to the preset nominal")
    parser.add_argument("--seed", type=int, default=1, help="seed of weights and order")
    parser.add_argument("--start", help="a model to go on from, as saved by --save")
    parser.add_argument("--save", help="where to save the unfolded weights")
    parser.add_argument("--out", type=pathlib.Path, default=MODEL)
    return parser.parse_args()


class Source:
    """Files of images, made ahead in the background. Keeps the latest ones for several uses."""

    def __init__(self, options, kept=8):
        self.options, self.kept, self.files = options, kept, []
        self.fresh = queue.Queue(2)
        threading.Thread(target=self.produce, daemon=True).start()

    def produce(self):
        seed, strength = TRAINING_SEED + 10_000 * self.options.seed, self.options.strength
        while True:
            # Half of the files have all effects equally strong, half mix weak and strong ones.
            mixed = seed % 2 == 1
            self.fresh.put(frames(self.options, seed, SECTORS_PER_FILE, f"0..{strength}" if mixed else f"{strength / 3}..{strength}", mixed))
            seed += 1

    def batch(self):
        while not self.files or not self.fresh.empty():
            self.files = (self.files + [self.fresh.get()])[-self.kept :]
        images, symbols = random.choice(self.files)
        chosen = torch.randperm(len(images))[: self.options.batch]
        return images[chosen], symbols[chosen]


def frames(options, seed, sectors, strength, mixed=False, preset="nominal"):
    """Images and symbols of emulated sectors."""
    with tempfile.TemporaryDirectory() as folder:
        command = [options.fulgurite, "--quiet", "channel", "frames", "--into", folder, "--preset", preset]
        command += ["--seed", str(seed), "--sectors", str(sectors), "--strength", strength]
        subprocess.run(command + ["--independent"] * mixed, check=True)
        return tuple(torch.from_numpy(np.load(f"{folder}/{name}.npy")) for name in ("frames", "symbols"))


def normal(images):
    """Pixels from 0 to 1."""
    return images.float() / np.iinfo(images.numpy().dtype).max


def train(options, source):
    images, _ = source.batch()
    pixels = normal(images)
    network = UNet(options.widths, pixels.mean((0, 2, 3)), 1 / pixels.std((0, 2, 3)))
    if options.start:
        network.load_state_dict(torch.load(options.start))
    network = network.to(options.device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(network.parameters(), lr=options.rate, weight_decay=1e-4)
    started, step, smooth = time.monotonic(), 0, None
    while (done := (time.monotonic() - started) / (60 * options.minutes)) < 1:
        for group in optimizer.param_groups:
            group["lr"] = options.rate * min(1, step / 50 + 0.02) * (0.5 + 0.5 * math.cos(math.pi * done)) + 1e-5
        images, symbols = source.batch()
        inputs = normal(images).to(options.device, memory_format=torch.channels_last)
        loss = torch.nn.functional.cross_entropy(network(inputs), symbols.long().to(options.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        smooth = loss.item() if smooth is None else 0.98 * smooth + 0.02 * loss.item()
        if step % 100 == 0:
            print(f"{time.monotonic() - started:.0f} s, step {step}: loss {smooth:.4f} nats a voxel", flush=True)
    if options.save:
        torch.save(network.state_dict(), options.save)
    return network, step, smooth


def test(options, network):
    """Symbol error rates at seeds that training never uses."""
    results = {}
    for preset in ("clean", "nominal", "harsh"):
        images, symbols = frames(options, TEST_SEED, 48, "1..1", preset=preset)
        with torch.no_grad():
            wrong = network(normal(images)).argmax(1) != symbols
        results[preset] = round(wrong.float().mean().item(), 5)
    return results


def commit():
    return subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True).stdout.strip()


def export(network, card, path):
    """Writes the model, and frames of 32 x 32 voxels with the logits that it has for them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file(network.folded(), path, metadata={key: str(value) for key, value in card.items()})
    PARITY.mkdir(parents=True, exist_ok=True)
    images = np.random.default_rng(1).integers(0, 256, (5, 32, 32), dtype=np.uint8)
    with torch.no_grad():
        logits = network(normal(torch.from_numpy(images)[None]))[0].permute(1, 2, 0).contiguous()
    np.save(PARITY / "frames.npy", images)
    np.save(PARITY / "logits.npy", logits.numpy())


if __name__ == "__main__":
    main()
