"""What the network gets to see: the retardance vectors of pixels, and their brightness."""

import math

import torch

# Swing of the microscope's compensator, in radians, and full scale of its pixels.
SWING = 0.2 * math.pi
BRIGHTEST = 255


def planes(frames):
    """Maps pixels [sector, frame, row, column] to [sector, plane, row, column].

    Planes 0 and 1 are the tangent of the retardance times sine and cosine of twice the azimuth,
    less their mean over the sector, which is the background of the glass. Plane 2 is the
    brightness, relative to its mean. Darker pixels than a tenth of that would have huge vectors;
    they are divided by a tenth of it.
    """
    i = frames.float() / BRIGHTEST
    bright = (i[:, 1] + i[:, 2] + i[:, 3] + i[:, 4]) / 2 - 2 * i[:, 0]
    mean = bright.mean((1, 2), keepdim=True)
    divisor = torch.maximum(bright, 0.1 * mean)
    vectors = torch.stack([i[:, 1] - i[:, 2], i[:, 4] - i[:, 3]], 1) * math.tan(SWING / 2) / divisor[:, None]
    vectors = vectors - vectors.mean((2, 3), keepdim=True)
    return torch.cat([vectors, (bright / mean - 1)[:, None]], 1)
