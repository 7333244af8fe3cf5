"""The state that an object must have after each operation, by the rules of RADOS.

A state is never changed, so histories and snapshots share them. Values of attributes and omap keys are (tag, length).
"""

from dataclasses import dataclass, field, replace

from .content import EMPTY, put, resized, size, stream

ENOENT, EEXIST, ERANGE, EOVERFLOW = -2, -17, -34, -75
# Error of a comparison of bytes that differ, less the place.
MISMATCH = -4095


@dataclass(frozen=True)
class State:
    """An object: whether it is there, its bytes as a rope, attributes and omap."""

    exists: bool = False
    data: tuple = EMPTY
    xattrs: dict = field(default_factory=dict)
    omap: dict = field(default_factory=dict)

    @property
    def size(self):
        return size(self.data)

    def to_json(self):
        return [self.data, self.xattrs, self.omap] if self.exists else None

    @staticmethod
    def from_json(value):
        if value is None:
            return ABSENT
        data, xattrs, omap = value
        pairs = lambda values: {name: tuple(pair) for name, pair in values.items()}
        return State(True, tuple(tuple(piece) for piece in data), pairs(xattrs), pairs(omap))


ABSENT = State()


def without(values, names):
    return {name: value for name, value in values.items() if name not in names}


def step(state, words, snapshots):
    """One step of an update. Gives the state behind it, or an error as a negative number."""
    kind, *rest = words
    if kind == "cmpext":
        offset, _, wrong_at = rest
        return state if wrong_at < 0 else MISMATCH - wrong_at
    if kind == "version":
        ahead = rest[0]
        return state if ahead == 0 else (EOVERFLOW if ahead > 0 else ERANGE)
    if kind == "create":
        if state.exists:
            return EEXIST if rest[0] else state
        return State(True)
    if kind == "remove":
        return ABSENT if state.exists else ENOENT
    if kind == "rollback":
        return snapshots[rest[0]]
    there = state if state.exists else State(True)
    if kind == "write":
        offset, tag, length = rest
        return replace(there, data=put(there.data, offset, (tag, 0, length)))
    if kind == "write_full":
        tag, length = rest
        return replace(there, data=((tag, 0, length),) if length else EMPTY)
    if kind == "append":
        tag, length = rest
        return replace(there, data=put(there.data, there.size, (tag, 0, length)))
    if kind == "setxattr":
        name, tag, length = rest
        return replace(there, xattrs={**there.xattrs, name: (tag, length)})
    if kind == "omap_set":
        return replace(there, omap={**there.omap, **{key: (tag, length) for key, tag, length in rest[0]}})
    # The operations below are given only to objects that are there.
    assert state.exists, words
    if kind == "truncate":
        return replace(state, data=resized(state.data, rest[0]))
    if kind == "zero":
        offset, length = rest
        if offset + length >= state.size:
            # Zeros up to the end are a truncation, for Ceph, too.
            return replace(state, data=resized(state.data, offset))
        return replace(state, data=put(state.data, offset, (0, 0, length)))
    if kind == "rmxattr":
        return replace(state, xattrs=without(state.xattrs, rest))
    if kind == "omap_rm":
        return replace(state, omap=without(state.omap, rest[0]))
    if kind == "omap_clear":
        return replace(state, omap={})
    raise ValueError(words)


def apply(state, steps, snapshots):
    """An update of several steps, which come about all or not at all. Gives the state behind it and the result.

    `snapshots`: states of the object by snapshot, for a roll-back.
    """
    now = state
    for words in steps:
        now = step(now, words, snapshots)
        if not isinstance(now, State):
            return state, now
    return now, 0


def value_bytes(pair):
    return stream(pair[0], 0, pair[1])
