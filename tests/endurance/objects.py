"""Objects of one client, each with the states that it may be in."""

import threading

from . import content
from .model import ABSENT, value_bytes

SHOWN = 48


class Violation(Exception):
    """The cluster has broken a promise. `facts`: expected and read."""

    def __init__(self, what, **facts):
        super().__init__(what)
        self.facts = {"violation": what, **facts}


class Object:
    """States in the order in which updates were sent; `acked`: up to which number they were answered.

    `seen`: a state that a read showed; no later read may show an older one.
    """

    def __init__(self, name, kind, state=ABSENT, number=0):
        self.name, self.kind = name, kind
        self.lock = threading.Lock()
        self.states = [(number, state)]
        self.acked = self.seen = number
        self.readers = 0

    @property
    def newest(self):
        return self.states[-1][1]

    def sent(self, state):
        """An update is about to be sent that leads to this state. Gives its number."""
        with self.lock:
            number = self.states[-1][0] + 1
            self.states.append((number, state))
            return number

    def answered(self, number):
        with self.lock:
            self.acked = max(self.acked, number)
            if not self.readers:
                self.states = [entry for entry in self.states if entry[0] >= self.acked]

    def begin_read(self):
        with self.lock:
            self.readers += 1
            return max(self.acked, self.seen)

    def end_read(self, since, matches):
        """The states that a read which began at `since` may show, and the first of them that `matches` holds of.

        Gives a pair of the candidates and the number found, which is None if there is none.
        """
        with self.lock:
            candidates = [entry for entry in self.states if entry[0] >= since]
            self.readers -= 1
        found = next((number for number, state in candidates if matches(state)), None)
        if found is not None:
            with self.lock:
                self.seen = max(self.seen, found)
        return candidates, found

    def settle(self, number):
        """Of several states that it may be in it is in this one."""
        with self.lock:
            state = next(state for at, state in self.states if at == number)
            self.states = [(number, state)]
            self.acked = self.seen = number


def data_is(data):
    """Tells of a state whether an object in it reads as `data`; None: it is not there."""

    def matches(state):
        if data is None or not state.exists:
            return data is None and not state.exists
        return state.size == len(data) and content.first_difference(state.data, data) is None

    return matches


def range_is(data, offset, length):
    def matches(state):
        if data is None or not state.exists:
            return data is None and not state.exists
        return content.as_bytes(content.cut(state.data, offset, offset + length)) == data

    return matches


def values_are(values, which):
    """`which`: `xattrs` or `omap`."""

    def matches(state):
        if values is None or not state.exists:
            return values is None and not state.exists
        wanted = getattr(state, which)
        return wanted.keys() == values.keys() and all(value_bytes(wanted[name]) == values[name] for name in wanted)

    return matches


def size_is(length):
    return lambda state: (state.size if state.exists else None) == length


def all_are(tests):
    return lambda state: all(test(state) for test in tests)


def why_not(state, read, tags):
    """How what was read differs from a state, in words. `read`: `data`, `xattrs`, `omap` as far as they were read."""
    out = []
    for what, have in read.items():
        if have is None or not state.exists:
            if (have is None) == state.exists:
                out.append(
                    f"{what}: expected {'an object' if state.exists else 'no object'}, "
                    f"read {'none' if have is None else 'one'}"
                )
            continue
        if what == "data":
            if len(have) != state.size:
                out.append(f"data: expected {state.size} bytes, read {len(have)}")
            at = content.first_difference(state.data, have)
            if at is not None:
                want = content.as_bytes(content.cut(state.data, at, at + SHOWN))
                piece = content.cut(state.data, at, at + 1)
                whence = f"write {piece[0][0]} from its offset {piece[0][1]} on" if piece else "the end"
                out.append(
                    f"data: at byte {at} expected {want.hex()} ({whence}), read {bytes(have[at:at + SHOWN]).hex()} "
                    f"({content.origin(have, at, tags)})"
                )
        elif what == "size":
            if have != state.size:
                out.append(f"size: expected {state.size}, read {have}")
        else:
            wanted = getattr(state, what)
            for name in sorted(wanted.keys() | have.keys()):
                want = value_bytes(wanted[name]) if name in wanted else None
                if want != have.get(name):
                    brief = lambda value: "nothing" if value is None else f"{len(value)} bytes {value[:24].hex()}"
                    out.append(f"{what} {name}: expected {brief(want)}, read {brief(have.get(name))}")
    return "; ".join(out) or "nothing differs"


def tags_of(records, name):
    """(tag, length) of what the journal says was written to an object."""
    out = []
    for record in records:
        if record.get("o") != name:
            continue
        for words in record.get("s", []):
            if words[0] in ("write_full", "append"):
                out.append((words[1], words[2]))
            elif words[0] == "write":
                out.append((words[2], words[3]))
    return out
