"""Encodings of what methods of object classes take, and calls that show what came of them."""
import struct

import rados


def u8(v):
    return struct.pack("<B", v)


def u32(v):
    return struct.pack("<I", v)


def u64(v):
    return struct.pack("<Q", v)


def s64(v):
    return struct.pack("<q", v)


def text(v):
    v = v.encode() if isinstance(v, str) else v
    return u32(len(v)) + v


def block(body, version=1, compat=1):
    return struct.pack("<BBI", version, compat, len(body)) + body


def items(encoded):
    return u32(len(encoded)) + b"".join(encoded)


def time(seconds, nanoseconds=0):
    return u32(seconds) + u32(nanoseconds)


class Calls:
    def __init__(self, io):
        self.io = io
        self.last = b""

    def __call__(self, name, cls, method, data=b"", show=lambda out: out.hex()):
        try:
            value, out = self.io.execute(name, cls, method, data)
            self.last = out
            result = f"{value} {show(out)}"
        except rados.Error as error:
            result = f"error {error.errno}"
        if len(result) > 300:
            result = f"{result[:300]}..."
        print(f"{name} {cls}.{method} {data[:40].hex()}: {result}")

    def content(self, name, hidden=()):
        """The object's contents, but for the values of those keys and attributes."""
        try:
            size = self.io.stat(name)[0]
            data = self.io.read(name, size) if size else b""
            print(f"{name}: {size} bytes {data[:100].hex()}")
            for key, value in sorted(self.io.get_xattrs(name)):
                print(f"  attribute {key}: {'...' if key in hidden else value.hex()}")
            with rados.ReadOpCtx() as op:
                values, _ = self.io.get_omap_vals(op, "", "", 1000)
                self.io.operate_read_op(op, name)
                for key, value in sorted(values):
                    is_hidden = any(key.startswith(prefix) for prefix in hidden)
                    value = value or b""
                    print(f"  omap {key}: {len(value) if is_hidden else value.hex()}")
        except rados.Error as error:
            print(f"{name}: error {error.errno}")
