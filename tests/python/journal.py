"""A client that keeps a journal of what it wrote and what was acknowledged, and reads all the time.

    journal.py write POOL FILE    writes and reads until it is told to end (SIGTERM); a stale or wrong read ends it at
                                  once
    journal.py check POOL FILE    reads every object of the journal: each must be as its last acknowledged write left
                                  it, or as a later one that was not acknowledged

Lines of the journal: "sent OBJECT GENERATION", "done OBJECT GENERATION".
"""
import os, random, signal, sys, threading, time
import rados

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from pattern import content

OBJECTS = 96
IN_FLIGHT = 12
SIZES = [16, 4096, 5000, 65536, 262144]
SIZE_MAX = 1 << 20


def bytes_of(number, generation):
    size = SIZES[(number + generation) % len(SIZES)]
    head = number.to_bytes(8, "little") + generation.to_bytes(8, "little")
    return head + content(number * 1_000_003 + generation, size)


def generation_of(number, data):
    """Which write these bytes are, or why they are none."""
    if len(data) < 16 or int.from_bytes(data[:8], "little") != number:
        return None, f"object-{number} has {len(data)} bytes of something else"
    generation = int.from_bytes(data[8:16], "little")
    if data != bytes_of(number, generation):
        return None, f"object-{number} begins as write {generation} and goes on as something else"
    return generation, None


def end(words):
    print(words, flush=True)
    os._exit(3)


class Writer:
    def __init__(self, io, path):
        self.io = io
        self.journal = open(path, "a", buffering=1)
        self.lock = threading.Lock()
        self.sent = [0] * OBJECTS
        self.done = [0] * OBJECTS
        self.busy = set()
        self.random = random.Random(7)
        self.stop = False

    def write_next(self):
        """Under the lock: a write of an object that none is under way of."""
        if self.stop:
            return
        number = self.random.choice([n for n in range(OBJECTS) if n not in self.busy])
        self.busy.add(number)
        self.sent[number] += 1
        generation = self.sent[number]
        self.journal.write(f"sent {number} {generation}\n")
        self.io.aio_write_full(f"object-{number}", bytes_of(number, generation), oncomplete=self.written(number, generation))

    def written(self, number, generation):
        def call(completion):
            result = completion.get_return_value()
            if result != 0:
                end(f"write {generation} of object-{number} fails: {result}")
            with self.lock:
                self.journal.write(f"done {number} {generation}\n")
                self.done[number] = generation
                self.busy.discard(number)
                self.write_next()
        return call

    def read_all_the_time(self):
        chance = random.Random(8)
        while not self.stop:
            number = chance.randrange(OBJECTS)
            with self.lock:
                before = self.done[number]
            if before == 0:
                time.sleep(0.01)
                continue
            data = self.io.read(f"object-{number}", SIZE_MAX)
            found, why = generation_of(number, data)
            with self.lock:
                sent = self.sent[number]
            if why:
                end(why)
            if not before <= found <= sent:
                end(f"object-{number} shows write {found}, though {before} was acknowledged before (sent: {sent})")


def write(io, path):
    writer = Writer(io, path)
    signal.signal(signal.SIGTERM, lambda *_: setattr(writer, "stop", True))
    with writer.lock:
        for _ in range(IN_FLIGHT):
            writer.write_next()
    threading.Thread(target=writer.read_all_the_time, daemon=True).start()
    print("writing", file=sys.stderr, flush=True)
    while not writer.stop:
        time.sleep(0.1)
    limit = time.time() + 60
    while writer.busy and time.time() < limit:
        time.sleep(0.1)
    print(f"{sum(writer.done)} writes acknowledged, {len(writer.busy)} not answered", flush=True)
    os._exit(0)


def check(io, path):
    sent, done = {}, {}
    for line in open(path):
        word, number, generation = line.split()
        (sent if word == "sent" else done)[int(number)] = int(generation)
    for number, generation in done.items():
        try:
            data = io.read(f"object-{number}", SIZE_MAX)
        except rados.ObjectNotFound:
            end(f"object-{number} is lost, of which write {generation} was acknowledged")
        found, why = generation_of(number, data)
        if why:
            end(why)
        if not generation <= found <= sent[number]:
            end(f"object-{number} is as write {found} left it, of which {generation} was acknowledged")
    print(f"{len(done)} objects are as their {sum(done.values())} acknowledged writes left them")


mode, pool, path = sys.argv[1:]
cluster = rados.Rados(conffile="")
cluster.connect()
io = cluster.open_ioctx(pool)
{"write": write, "check": check}[mode](io, path)
