"""Files of tensors in the format safetensors, by the format's description."""
import json
import struct

from tap_cases import check  # beside this script


def tensors_of(path):
    """{name: (type, shape, bytes)}"""
    with open(path, "rb") as file:
        content = file.read()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    header.pop("__metadata__", None)
    data = content[8 + length:]
    check(max(t["data_offsets"][1] for t in header.values()) == len(data), "bytes that belong to no tensor:", path)
    return {name: (t["dtype"], t["shape"], data[slice(*t["data_offsets"])]) for name, t in header.items()}


def write_tensors(path, tensors):
    """tensors: {name: (shape, floats)}, written as fp32."""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        packed = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
