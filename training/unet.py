"""The network: a small U-Net from the frames of a sector to logits of each voxel's symbols."""

import torch
from torch import nn


class Convolutions(nn.Module):
    """Two 3x3 convolutions, each followed by batch normalization and ReLU."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.a = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.a_norm = nn.BatchNorm2d(outputs)
        self.b = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.b_norm = nn.BatchNorm2d(outputs)

    def forward(self, x):
        x = torch.relu(self.a_norm(self.a(x)))
        return torch.relu(self.b_norm(self.b(x)))


class UNet(nn.Module):
    """Maps [sector, frame, row, column] to logits [sector, symbol, row, column].

    `mean` and `scale` normalize the frames: (x - mean) * scale.
    """

    def __init__(self, widths, mean, scale, symbols=16):
        super().__init__()
        self.widths = list(widths)
        self.register_buffer("mean", torch.as_tensor(mean, dtype=torch.float32))
        self.register_buffer("scale", torch.as_tensor(scale, dtype=torch.float32))
        inputs = [len(self.mean)] + self.widths[:-1]
        self.down = nn.ModuleList(Convolutions(i, o) for i, o in zip(inputs, self.widths))
        pairs = list(zip(self.widths[:-1], self.widths[1:]))
        self.transpose = nn.ModuleList(nn.ConvTranspose2d(below, width, 2, stride=2) for width, below in pairs)
        self.up = nn.ModuleList(Convolutions(2 * width, width) for width, _ in pairs)
        self.head = nn.Conv2d(self.widths[0], symbols, 1)

    def forward(self, frames):
        x = (frames - self.mean[:, None, None]) * self.scale[:, None, None]
        skips = []
        for level, convolutions in enumerate(self.down):
            x = convolutions(x if level == 0 else nn.functional.max_pool2d(x, 2))
            skips.append(x)
        for level in reversed(range(len(self.up))):
            x = self.up[level](torch.cat([self.transpose[level](x), skips[level]], 1))
        return self.head(x)

    def folded(self):
        """Weights by name, with batch normalization folded into the convolutions."""
        tensors = {"input.mean": self.mean, "input.scale": self.scale}

        def fold(name, convolution, norm):
            gain = norm.weight / torch.sqrt(norm.running_var + norm.eps)
            tensors[f"{name}.weight"] = convolution.weight * gain[:, None, None, None]
            tensors[f"{name}.bias"] = norm.bias - norm.running_mean * gain

        for direction, blocks in (("down", self.down), ("up", self.up)):
            for level, block in enumerate(blocks):
                fold(f"{direction}.{level}.a", block.a, block.a_norm)
                fold(f"{direction}.{level}.b", block.b, block.b_norm)
        for level, transpose in enumerate(self.transpose):
            tensors[f"up.{level}.transpose.weight"] = transpose.weight
            tensors[f"up.{level}.transpose.bias"] = transpose.bias
        tensors["head.weight"] = self.head.weight
        tensors["head.bias"] = self.head.bias
        return {name: tensor.detach().float().contiguous() for name, tensor in tensors.items()}
