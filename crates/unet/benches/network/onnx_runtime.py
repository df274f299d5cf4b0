"""A model of fulgurite-unet in ONNX Runtime with one thread, as a peer of the bench.

    onnx_runtime.py FOLDER INPUTS ROWS COLUMNS

FOLDER has `model.safetensors` and `planes`. Builds the graph, runs it once, writes `logits` as [row, column, output], and prints the version. Then
each line of input is a number of runs, answered by the CPU seconds they took.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def read_safetensors(file: bytes) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Metadata and tensors, all of them F32."""
    size = int.from_bytes(file[:8], "little")
    header = json.loads(file[8 : 8 + size])
    metadata = header.pop("__metadata__")
    tensors = {}
    for name, place in header.items():
        start, end = place["data_offsets"]
        tensors[name] = np.frombuffer(file[8 + size + start : 8 + size + end], dtype="<f4").reshape(place["shape"])
    return metadata, tensors


class Graph:
    """Nodes and weights; methods take and return names of values."""

    def __init__(self, tensors: dict[str, np.ndarray]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights = [numpy_helper.from_array(tensor, name) for name, tensor in tensors.items()]

    def add(self, operation: str, *inputs: str, **attributes: object) -> str:
        output = f"value{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, list(inputs), [output], **attributes))
        return output

    def convolve(self, name: str, image: str) -> str:
        image = self.add("Conv", image, f"{name}.weight", f"{name}.bias", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        return self.add("Relu", image)


def build(model: bytes, inputs: int, rows: int, columns: int) -> onnx.ModelProto:
    metadata, tensors = read_safetensors(model)
    levels = len(metadata["widths"].split(","))
    for name in ("input.mean", "input.scale"):
        tensors[name] = tensors[name].reshape(1, inputs, 1, 1)
    graph = Graph(tensors)
    image = graph.add("Mul", graph.add("Sub", "planes", "input.mean"), "input.scale")
    skips = []
    for level in range(levels):
        if level > 0:
            skips.append(image)
            image = graph.add("MaxPool", image, kernel_shape=[2, 2], strides=[2, 2])
        image = graph.convolve(f"down.{level}.b", graph.convolve(f"down.{level}.a", image))
    for level in reversed(range(levels - 1)):
        name = f"up.{level}.transpose"
        image = graph.add("ConvTranspose", image, f"{name}.weight", f"{name}.bias", kernel_shape=[2, 2], strides=[2, 2])
        image = graph.add("Concat", image, skips.pop(), axis=1)
        image = graph.convolve(f"up.{level}.b", graph.convolve(f"up.{level}.a", image))
    image = graph.add("Conv", image, "head.weight", "head.bias", kernel_shape=[1, 1])
    planes = helper.make_tensor_value_info("planes", TensorProto.FLOAT, [1, inputs, rows, columns])
    logits = helper.make_tensor_value_info(image, TensorProto.FLOAT, [1, int(metadata["outputs"]), rows, columns])
    built = helper.make_graph(graph.nodes, "unet", [planes], [logits], graph.weights)
    # The version of the container that came with opset 17.
    return helper.make_model(built, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main() -> None:
    folder, sizes = Path(sys.argv[1]), [int(size) for size in sys.argv[2:]]
    inputs, rows, columns = sizes
    model = build((folder / "model.safetensors").read_bytes(), inputs, rows, columns)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    planes = np.fromfile(folder / "planes", dtype="<f4").reshape(1, inputs, rows, columns)

    def run() -> np.ndarray:
        return session.run(None, {"planes": planes})[0]

    np.ascontiguousarray(run()[0].transpose(1, 2, 0)).tofile(folder / "logits")
    print(onnxruntime.__version__, flush=True)
    for line in sys.stdin:
        start = time.process_time()
        for _ in range(int(line)):
            run()
        print(time.process_time() - start, flush=True)


if __name__ == "__main__":
    main()
