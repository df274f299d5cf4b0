"""Writes frames.csv with the package waveorder (BSD-3-Clause), an independent implementation of the
five-frame method: python3 make_frames.py > frames.csv

Angles are in radians. Frames are in the order of polarization.rs, and have the mean 1 of a beam
with intensity 2. The last two columns are what waveorder makes of its frames.
"""

import math
import warnings

import torch
import waveorder
from waveorder.stokes import (
    calculate_intensity_to_stokes_matrix,
    calculate_stokes_to_intensity_matrix,
    estimate_ar_from_stokes012,
    mmul,
    stokes_after_adr,
)

warnings.filterwarnings("ignore")
ORDER = [0, 1, 3, 2, 4]  # waveorder's frames 2 and 3 are ours 3 and 2.

print("# waveorder", waveorder.__version__ if hasattr(waveorder, "__version__") else "3.0.2")
print("swing,retardance,azimuth,frame0,frame1,frame2,frame3,frame4,retardance_back,azimuth_back")
one = torch.tensor(1.0, dtype=torch.double)
for swing in (0.05, 0.1, 0.2):
    # The matrices come in single precision, which is too coarse for a comparison to 1e-6.
    sine, cosine = math.sin(2 * math.pi * swing), math.cos(2 * math.pi * swing)
    rounded = calculate_stokes_to_intensity_matrix(swing).double()
    exact = [[1, 0, 0, -1], [1, sine, 0, -cosine], [1, 0, sine, -cosine], [1, -sine, 0, -cosine], [1, 0, -sine, -cosine]]
    matrix = torch.tensor(exact, dtype=torch.double)
    assert (matrix - rounded).abs().max() < 1e-7
    inverse = torch.linalg.pinv(matrix)
    assert (inverse - calculate_intensity_to_stokes_matrix(swing).double()).abs().max() < 1e-4
    for i in range(1, 12):
        for k in range(12):
            retardance, azimuth = i * math.pi / 24, k * math.pi / 12 + 0.01 * i
            tensors = (torch.tensor(value, dtype=torch.double) for value in (retardance, azimuth))
            stokes = torch.stack([value.double() for value in stokes_after_adr(*tensors, one, one)])
            frames = matrix @ stokes
            s0, s1, s2, _ = inverse @ frames
            back = estimate_ar_from_stokes012(s0, s1, s2)
            values = [2 * math.pi * swing, retardance, azimuth % math.pi]
            values += [float(frames[frame]) for frame in ORDER] + [float(back[0]), float(back[1])]
            print(",".join(f"{value:.12g}" for value in values))
