"""Bytes that differ for every object and at every place."""
import hashlib


def content(number, size):
    block = b"".join(hashlib.sha256(f"{number}:{i}".encode()).digest() for i in range(min(128, size // 32 + 1)))
    out = bytearray()
    index = 0
    while len(out) < size:
        out += index.to_bytes(8, "little") + block
        index += 1
    return bytes(out[:size])
