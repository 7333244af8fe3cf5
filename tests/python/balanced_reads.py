"""Reads that any member of a placement group may answer, while objects are written.

    balanced_reads.py POOL SECONDS

Every read must show what was acknowledged, or seen by anybody, before it was asked for, whoever answers. Prints how
many reads there were of each kind.
"""
import ctypes, sys, threading, time

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from c_api import Handle, byte, library, must, pointer, size, u64

FLAGS = {"balanced": 1, "localized": 2, "ordinary": 0}
OBJECTS = 24
WORDS = 512
library.rados_read_op_operate.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
library.rados_read_op_read.argtypes = [ctypes.c_void_p, u64, size, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
library.rados_read_op_stat.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
library.rados_release_read_op.argtypes = [ctypes.c_void_p]
library.rados_write_full.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, size]


def words(number, generation):
    # As many as it is old, so that size and content must come from one state.
    word = (generation << 16 | number).to_bytes(8, "little")
    return word * (1 + (number + generation) % WORDS)


def read(handle, name, flags):
    """Size and bytes of an object, by one operation."""
    op = library.rados_create_read_op()
    data, length = ctypes.create_string_buffer(8 * WORDS), size(0)
    read_result, stat_result = ctypes.c_int(0), ctypes.c_int(0)
    stated, mtime = u64(0), ctypes.c_long(0)
    library.rados_read_op_stat(op, pointer(stated), pointer(mtime), pointer(stat_result))
    library.rados_read_op_read(op, 0, len(data), data, pointer(length), pointer(read_result))
    try:
        must(library.rados_read_op_operate(op, handle.io, name, flags))
    finally:
        library.rados_release_read_op(op)
    must(read_result.value)
    must(stat_result.value)
    return stated.value, data.raw[: length.value]


class Objects:
    def __init__(self):
        self.lock = threading.Lock()
        # The state that every later read must show at least.
        self.least = [0] * OBJECTS
        self.reads = dict.fromkeys(FLAGS, 0)
        self.wrong = None
        self.end = False

    def shown(self, number, generation):
        with self.lock:
            self.least[number] = max(self.least[number], generation)

    def fail(self, why):
        self.wrong, self.end = self.wrong or why, True


def name(number):
    return b"object-%d" % number


def write_on(objects, pool, numbers):
    handle, generation = Handle(pool), 0
    try:
        while not objects.end:
            generation += 1
            for number in numbers:
                data = words(number, generation)
                must(library.rados_write_full(handle.io, name(number), data, len(data)))
                objects.shown(number, generation)
    except OSError as error:
        objects.fail(f"a write fails: {error}")
    handle.close()


def read_on(objects, pool, kind, turn):
    handle = Handle(pool)
    number = turn
    try:
        while not objects.end:
            number = (number + 1) % OBJECTS
            least = objects.least[number]
            if least == 0:
                # It need not be there.
                time.sleep(0.01)
                continue
            stated, data = read(handle, name(number), FLAGS[kind])
            word = int.from_bytes(data[:8], "little")
            generation = word >> 16
            if data != words(number, generation) or stated != len(data):
                objects.fail(f"{kind}: object {number} has {len(data)} bytes, {stated} by its size, of no one write")
            if generation < least:
                objects.fail(f"{kind}: object {number} shows write {generation} after {least} had been shown")
            objects.shown(number, generation)
            objects.reads[kind] += 1
    except OSError as error:
        objects.fail(f"a read fails: {error}")
    handle.close()


def main(pool, seconds):
    objects = Objects()
    writers = [(write_on, (objects, pool, range(at, OBJECTS, 2))) for at in range(2)]
    readers = [(read_on, (objects, pool, kind, 7 * turn)) for turn, kind in enumerate(FLAGS)]
    threads = [threading.Thread(target=what, args=args) for what, args in writers + readers]
    [thread.start() for thread in threads]
    until = time.time() + seconds
    while time.time() < until and not objects.end:
        time.sleep(0.1)
    objects.end = True
    [thread.join() for thread in threads]
    if objects.wrong:
        sys.exit(objects.wrong)
    print(", ".join(f"{count} {kind}" for kind, count in objects.reads.items()), "reads;", sum(objects.least), "writes")


main(sys.argv[1], float(sys.argv[2]))
