"""Contents of objects, described instead of stored.

A *rope* is a tuple of pieces (tag, offset, length): `length` bytes of the stream that `tag` names, from `offset` on.
Tag 0 is the stream of zeros. Every write has a tag of its own, so bytes tell which write they come from.
"""

import functools
import hashlib

BLOCK_BYTES = 65536
EMPTY = ()


@functools.lru_cache(maxsize=256)
def block(tag, number, count):
    """The first `count` bytes of a block of a stream."""
    return hashlib.shake_128(b"%d:%d" % (tag, number)).digest(count)


def stream(tag, offset, count):
    """Bytes of the stream that a tag names."""
    if tag == 0:
        return bytes(count)
    out = []
    end = offset + count
    while offset < end:
        number, within = divmod(offset, BLOCK_BYTES)
        upto = min(BLOCK_BYTES, within + end - offset)
        out.append(block(tag, number, upto)[within:])
        offset += upto - within
    return b"".join(out) if len(out) != 1 else out[0]


def size(rope):
    return sum(piece[2] for piece in rope)


def cut(rope, start, end):
    """The bytes `start..end` of a rope, as far as it has them."""
    out, at = [], 0
    for tag, offset, length in rope:
        low, high = max(start, at), min(end, at + length)
        if low < high:
            out.append((tag, offset + low - at if tag else 0, high - low))
        at += length
        if at >= end:
            break
    return tuple(out)


def put(rope, start, piece):
    """A rope with a piece laid over it from `start` on; a hole before it reads as zeros."""
    length = size(rope)
    before = cut(rope, 0, start)
    if start > length:
        before += ((0, 0, start - length),)
    return joined(before + (piece,) + cut(rope, start + piece[2], length))


def resized(rope, length):
    has = size(rope)
    return cut(rope, 0, length) if length <= has else joined(rope + ((0, 0, length - has),))


def joined(pieces):
    """Equal bytes with as few pieces as there can be."""
    out = []
    for tag, offset, length in pieces:
        if length == 0:
            continue
        if out and out[-1][0] == tag and (tag == 0 or out[-1][1] + out[-1][2] == offset):
            out[-1] = (tag, out[-1][1], out[-1][2] + length)
        else:
            out.append((tag, offset, length))
    return tuple(out)


def as_bytes(rope):
    return b"".join(stream(*piece) for piece in rope)


def first_difference(rope, data):
    """The offset of the first byte where `data` is not what the rope says; None if all are the same."""
    at = 0
    for tag, offset, length in rope:
        done = 0
        while done < length:
            count = min(length - done, 1 << 20)
            want, have = stream(tag, offset + done, count), data[at : at + count]
            if want != have:
                same = next((n for n, (a, b) in enumerate(zip(want, have)) if a != b), min(len(want), len(have)))
                return at + same
            done += count
            at += count
    return None if at == len(data) else at


def origin(data, offset, tags):
    """Which stream the bytes of `data` at `offset` come from, in words. `tags`: (tag, length) of those in question."""
    sample = data[offset : offset + 16]
    if not sample:
        return "nothing is there"
    if not any(sample):
        return "zeros"
    if len(sample) < 4:
        return "too few bytes to tell"
    for tag, length in tags:
        found = stream(tag, 0, length).find(sample)
        if found >= 0:
            return f"bytes of write {tag} from its offset {found} on"
    return "bytes of no write that is known"
