"""Objects to which several clients append records. Each record says who wrote it, and which of its records it is."""

import random
import struct
import time

import rados

from . import content
from .objects import Violation

HEADER = struct.Struct("<8sQQ")
MARK = b"a record"
LOGS = 3
IN_FLIGHT = 4
# Bytes of a record in a pool of whole copies; in an erasure-coded one it is a stripe.
RECORD_BYTES = 96


def name(round_number, log):
    return f"log-{round_number}-{log}"


def record(client, number, count):
    return HEADER.pack(MARK, client, number) + content.stream(
        client * 1_000_000_007 + number + 1, 0, count - HEADER.size
    )


class Appender:
    """Appends, some at a time. `operations`: those that were answered."""

    def __init__(self, client):
        self.client, self.memory = client, client.memory
        self.io = client.cluster.open_ioctx(client.pool)
        self.random = random.Random(
            f"{client.settings['seed']} appender {client.number} {client.settings['incarnation']}"
        )
        self.operations, self.busy_since, self.busy_with = 0, None, ""
        self.bytes = client.stripe or RECORD_BYTES
        self.names = []

    def begin(self, round_number):
        self.names = [name(round_number, log) for log in range(LOGS)]

    def run(self):
        while True:
            self.client.running.wait()
            self.busy_since, self.busy_with = time.monotonic(), "appends"
            if self.client.running.is_set():
                self.some()
            self.busy_since = None
            time.sleep(self.random.expovariate(1 / self.client.settings["pause_s"]) * 2)

    def some(self):
        log, sent = self.random.choice(self.names), []
        self.busy_with = f"appends to {log}"
        for _ in range(self.random.randint(1, IN_FLIGHT)):
            self.memory.last_append += 1
            number = self.memory.last_append
            self.client.journal.write({"t": "append", "l": log, "n": number})
            self.memory.log.setdefault(log, {})[number] = None
            sent.append((number, self.io.aio_append(log, record(self.client.number, number, self.bytes))))
        for number, completion in sent:
            completion.wait_for_complete()
            code = completion.get_return_value()
            if code != 0:
                raise Violation("an append fails", object=log, pool=self.client.pool, number=number, result=code)
            self.client.journal.write({"t": "appended", "l": log, "n": number, "r": 0})
            self.memory.log[log][number] = 0
            self.operations += 1

    def told(self):
        """Of each log which records were answered, and which perhaps came about."""
        return {
            log: {
                "answered": [n for n, code in entries.items() if code == 0],
                "unknown": [n for n, code in entries.items() if code is None],
            }
            for log, entries in self.memory.log.items()
        }


def check(io, pool, log, told, count):
    """Compares a log with what its clients know. `told`: by client. `count`: bytes of a record.

    Gives how many records there are. Raises a Violation.
    """
    try:
        data = io.read(log, 96 << 20)
    except rados.ObjectNotFound:
        data = b""
    facts = {"object": log, "pool": pool}
    if len(data) % count:
        raise Violation("a log ends within a record", **facts, bytes=len(data), record_bytes=count)
    seen = {}
    for at in range(0, len(data), count):
        have = data[at : at + count]
        mark, client, number = HEADER.unpack(have[: HEADER.size])
        if mark != MARK or have != record(client, number, count):
            raise Violation("a log holds what nobody appended", **facts, offset=at, read=have[:64].hex())
        seen.setdefault(client, []).append(number)
    for client, entries in told.items():
        mine, answered, unknown = seen.pop(client, []), set(entries["answered"]), set(entries["unknown"])
        if len(mine) != len(set(mine)):
            twice = sorted(number for number in set(mine) if mine.count(number) > 1)
            raise Violation("an append was carried out twice", **facts, client=client, records=twice[:20])
        if answered - set(mine):
            raise Violation(
                "an acknowledged append is lost", **facts, client=client, records=sorted(answered - set(mine))[:20]
            )
        if set(mine) - answered - unknown:
            raise Violation(
                "a log holds what nobody appended",
                **facts,
                client=client,
                records=sorted(set(mine) - answered - unknown)[:20],
            )
        if mine != sorted(mine):
            raise Violation(
                "appends of one client were carried out out of order", **facts, client=client, records=mine[:2000]
            )
    if seen:
        raise Violation("a log holds records of clients that appended none", **facts, clients=sorted(seen))
    return len(data) // count
