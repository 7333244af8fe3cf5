"""A program that keeps files, and a journal elsewhere of what it has made durable by fsync.

    file_journal.py write FOLDER JOURNAL    goes on from the journal until the file system fails, which is how this is
                                            to end
    file_journal.py check FOLDER JOURNAL    every file and every block of the table must be as its last fsync left it,
                                            or as a later change that was under way

Lines of the journal: "sent THING GENERATION", "done THING GENERATION". A thing is a file, replaced as a whole by
renaming, or gone in every seventh generation; or a block of the one file that is changed in place.
"""
import errno
import os
import random
import sys

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from pattern import content

FILES = 24
SIZES = [0, 1, 1000, 4096, 70_000, 300_000]
BLOCKS = 64
BLOCK = 4096
FAILED = (errno.EIO, errno.EROFS, errno.ENOTCONN)


def generations(path):
    sent, done = {}, {}
    for line in open(path) if os.path.exists(path) else []:
        word, thing, generation = line.split()
        (sent if word == "sent" else done)[thing] = int(generation)
    return sent, done


def file_of(number, generation):
    """None: there is none in this generation."""
    if generation % 7 == 0:
        return None
    size = SIZES[(number + generation) % len(SIZES)]
    return generation.to_bytes(8, "little") + content(number * 1_000_003 + generation, size)


def block_of(number, generation):
    return generation.to_bytes(8, "little") + content((FILES + number) * 1_000_003 + generation, BLOCK - 8)


class Writer:
    def __init__(self, folder, journal):
        self.folder = folder
        self.sent, self.done = generations(journal)
        self.journal = open(journal, "a", buffering=1)
        self.directory = os.open(folder, os.O_RDONLY)
        self.table = os.open(f"{folder}/table", os.O_RDWR | os.O_CREAT)
        self.durable(self.directory)

    def durable(self, descriptor):
        os.fsync(descriptor)

    def change(self, thing, how):
        generation = self.sent.get(thing, 0) + 1
        self.sent[thing] = generation
        self.journal.write(f"sent {thing} {generation}\n")
        how(generation)
        self.journal.write(f"done {thing} {generation}\n")

    def replace(self, number):
        def how(generation):
            path, data = f"{self.folder}/file-{number}", file_of(number, generation)
            if data is None:
                if os.path.exists(path):
                    os.unlink(path)
            else:
                descriptor = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                try:
                    written = 0
                    while written < len(data):
                        written += os.write(descriptor, data[written:])
                    self.durable(descriptor)
                finally:
                    os.close(descriptor)
                os.rename(path + ".new", path)
            self.durable(self.directory)
        self.change(f"file-{number}", how)

    def overwrite(self, number):
        def how(generation):
            os.pwrite(self.table, block_of(number, generation), number * BLOCK)
            self.durable(self.table)
        self.change(f"block-{number}", how)


def write(folder, journal):
    chance = random.Random(os.path.getsize(journal) if os.path.exists(journal) else 0)
    try:
        writer = Writer(folder, journal)
        print("writing", file=sys.stderr, flush=True)
        while True:
            if chance.random() < 0.5:
                writer.replace(chance.randrange(FILES))
            else:
                writer.overwrite(chance.randrange(BLOCKS))
    except OSError as error:
        print(f"the file system failed: {error}", file=sys.stderr, flush=True)
        os._exit(0 if error.errno in FAILED else 3)


def check(folder, journal):
    sent, done = generations(journal)
    with open(f"{folder}/table", "rb") as table:
        blocks = table.read()
    changes = 0
    for thing, last in sent.items():
        kind, number = thing.split("-")
        number, least = int(number), done.get(thing, 0)
        changes += least
        if kind == "file":
            path = f"{folder}/{thing}"
            have = open(path, "rb").read() if os.path.exists(path) else None
            want = [None if generation == 0 else file_of(number, generation) for generation in range(least, last + 1)]
        else:
            have = blocks[number * BLOCK:(number + 1) * BLOCK]
            # Never written: a hole, or behind the end.
            have = have if have.strip(b"\0") else None
            want = [None if generation == 0 else block_of(number, generation) for generation in range(least, last + 1)]
        if have not in want:
            shown = "absent" if have is None else f"{len(have)} bytes, {have[:12].hex()}"
            sys.exit(f"{thing} is {shown}; generation {least} was durable, {last} sent")
    print(f"{len(sent)} things are as {changes} durable changes left them")


mode, folder, journal = sys.argv[1:]
{"write": write, "check": check}[mode](folder, journal)
