"""Watches an object and notifies itself, until it is told to end (SIGTERM); fails if the watch is lost.

    watch_on.py POOL OBJECT     SIGUSR1: says so once a notification that began later has come back
"""
import queue
import signal
import sys
import time

import rados

pool, name = sys.argv[1:]
asked = said = 0
ends = False


def ask(*_):
    global asked
    asked += 1


def end(*_):
    global ends
    ends = True


signal.signal(signal.SIGUSR1, ask)
signal.signal(signal.SIGTERM, end)
cluster = rados.Rados(conffile="")
cluster.connect()
io = cluster.open_ioctx(pool)
io.write_full(name, b"x")
notes, errors = queue.Queue(), []
watch = io.watch(name, lambda *told: notes.put(told[3]), lambda *told: errors.append(told))
print("watches", file=sys.stderr, flush=True)
count = 0
while not ends:
    began, count = asked, count + 1
    message = f"note {count}"
    try:
        io.notify(name, message, 20000)
    except rados.Error as error:
        sys.exit(f"notification {count}: {error}")
    # Where the primary went away in between it may come twice.
    while True:
        try:
            have = notes.get(timeout=30)
        except queue.Empty:
            sys.exit(f"{message} was acknowledged and did not come; errors of the watch: {errors}")
        if have == message.encode():
            break
    if errors:
        sys.exit(f"the watch is lost: {errors}")
    if began > said:
        said = began
        print(f"notified after signal {said}", file=sys.stderr, flush=True)
    time.sleep(0.05)
watch.close()
cluster.shutdown()
