"""A client's knowledge of its objects, rebuilt from its journal after the client was killed."""

import threading

from .model import State, apply
from .objects import Object

# How many objects of each kind a writer has.
COUNTS = {"small": 16, "middle": 5, "large": 1}


class Memory:
    def __init__(self, client, first_tag, writers, coded):
        self.last_tag = first_tag
        self.tag_lock = threading.Lock()
        self.objects = [
            {
                name: Object(name, kind)
                for kind, count in COUNTS.items()
                for number in range(count)
                for name in [f"c{client}-w{writer}-{kind}{number}"]
            }
            for writer in range(writers)
        ]
        self.snapshots = [{} for _ in range(writers)]
        self.removed_snapshots = [[] for _ in range(writers)]
        # Appends to shared objects: by object those answered, those sent and not answered.
        self.log = {}
        self.last_append = 0

    def next_tag(self):
        with self.tag_lock:
            self.last_tag += 1
            return self.last_tag

    def writer_of(self, name):
        return int(name.split("-")[1][1:])

    def replay(self, records):
        for record in records:
            getattr(self, "take_" + record["t"].replace("-", "_"))(record)

    def take_checkpoint(self, record):
        self.last_tag, self.last_append = record["tag"], record["append"]
        for name, (kind, number, state) in record["objects"].items():
            self.objects[self.writer_of(name)][name] = Object(name, kind, State.from_json(state), number)
        for writer, snapshots in enumerate(record["snapshots"]):
            self.snapshots[writer] = {
                int(snapshot): {name: State.from_json(state) for name, state in states.items()}
                for snapshot, states in snapshots.items()
            }
        self.log = {name: {int(n): result for n, result in entries.items()} for name, entries in record["log"].items()}

    def take_instance(self, record):
        pass

    def take_i(self, record):
        """An update is about to be sent."""
        name, steps = record["o"], record["s"]
        writer = self.writer_of(name)
        thing = self.objects[writer][name]
        state, _ = apply(
            thing.newest, steps, {number: states[name] for number, states in self.snapshots[writer].items()}
        )
        number = thing.sent(state)
        assert number == record["n"], record
        self.last_tag = max(self.last_tag, record["tag"])

    def take_d(self, record):
        """An update was answered."""
        self.objects[self.writer_of(record["o"])][record["o"]].answered(record["n"])

    def take_snap(self, record):
        writer = record["w"]
        self.snapshots[writer][record["id"]] = {name: thing.newest for name, thing in self.objects[writer].items()}

    def take_unsnap(self, record):
        self.snapshots[record["w"]].pop(record["id"], None)
        self.removed_snapshots[record["w"]].append(record["id"])

    def take_append(self, record):
        self.log.setdefault(record["l"], {})[record["n"]] = None
        self.last_append = max(self.last_append, record["n"])

    def take_appended(self, record):
        self.log[record["l"]][record["n"]] = record["r"]

    def to_json(self, objects, snapshots):
        return {
            "t": "checkpoint",
            "tag": self.last_tag,
            "append": self.last_append,
            "log": self.log,
            "objects": {
                name: [thing.kind, thing.states[-1][0], thing.newest.to_json()] for name, thing in objects.items()
            },
            "snapshots": [
                {
                    number: {name: state.to_json() for name, state in states.items()}
                    for number, states in of_writer.items()
                }
                for of_writer in snapshots
            ],
        }
