"""Watching objects, notifying those who do, and clients that are locked out."""
import errno
import json
import os
import queue
import signal
import subprocess
import sys
import time

import rados
from checks import check, fails_with, main, same

# A client in a process of its own, which watches an object until it is told to end, or killed.
OTHER = """
import rados, sys
cluster = rados.Rados(conffile="")
cluster.connect()
io = cluster.open_ioctx(sys.argv[1])
timeout = int(sys.argv[3])
watch = io.watch(sys.argv[2], lambda *a: None, None, timeout or None)
print(cluster.get_instance_id(), flush=True)
for line in sys.stdin:
    try:
        io.write_full(sys.argv[2] + "-other", line.encode())
        print(0, flush=True)
    except rados.Error as e:
        print(e.errno, flush=True)
watch.close()
"""


class Other:
    def __init__(self, pool, name, timeout=0):
        self.process = subprocess.Popen([sys.executable, "-c", OTHER, pool, name, str(timeout)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.id = int(self.process.stdout.readline())

    def write(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


class Heard:
    """Notifications that a watch was told."""

    def __init__(self, io, name, **more):
        self.notes, self.errors = queue.Queue(), queue.Queue()
        self.watch = io.watch(name, lambda *told: self.notes.put(told), lambda *told: self.errors.put(told), **more)

    def note(self):
        return self.notes.get(timeout=60)

    def close(self):
        self.watch.close()


def watchers(pool, name):
    """(client, cookie, address) as `rados listwatchers` shows them."""
    listed = subprocess.run(["rados", "-p", pool, "listwatchers", name], capture_output=True, text=True, timeout=60)
    assert listed.returncode == 0, listed.stderr
    found = []
    for line in listed.stdout.splitlines():
        watcher, client, cookie = line.split()
        parts = [watcher.removeprefix("watcher="), client.removeprefix("client."), cookie.removeprefix("cookie=")]
        same(line, "watcher={} client.{} cookie={}".format(*parts))
        found.append((int(parts[1]), int(parts[2]), parts[0]))
    return found


def clients(pool, name):
    return sorted(client for client, _, _ in watchers(pool, name))


def until(what, seconds=60):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.2)


def notify(io, name, message, timeout_ms=20000):
    """(result, answers, who did not answer)."""
    done = queue.Queue()
    io.aio_notify(name, lambda *told: done.put(told), message, timeout_ms).wait_for_complete()
    _, result, answers, missed = done.get(timeout=60)
    return result, answers or [], missed or []


def pool_of(io):
    return io.io.name


@check
def nobody_watches(io):
    io.write_full("watch-none", b"x")
    same(watchers(pool_of(io), "watch-none"), [])
    same(io.notify("watch-none", "hello"), True)
    same(notify(io, "watch-none", "hello"), (0, [], []))


@check
def what_is_not_there_cannot_be_watched(io):
    fails_with(errno.ENOENT, io.watch, "watch-absent", lambda *told: None)
    fails_with(errno.ENOENT, io.notify, "watch-absent", "hello")


@check
def a_note_reaches_every_watcher(io):
    io.write_full("watch-all", b"x")
    heard = [Heard(io, "watch-all") for _ in range(3)]
    me = io.cluster.get_instance_id()
    same(clients(pool_of(io), "watch-all"), [me] * 3)
    result, answers, missed = notify(io, "watch-all", "hello")
    same((result, missed), (0, []))
    same(sorted(int(client) for client, _, *_ in answers), [me] * 3)
    for each in heard:
        notify_id, notifier, watch_id, data = each.note()
        same((notifier, watch_id, data), (me, each.watch.get_id(), b"hello"))
    heard[0].close()
    result, answers, missed = notify(io, "watch-all", "again")
    same((result, len(answers), missed), (0, 2, []))
    for each in heard[1:]:
        same(each.note()[3], b"again")
        each.close()
    assert heard[0].notes.empty()
    same(watchers(pool_of(io), "watch-all"), [])


@check
def many_watchers(io):
    io.write_full("watch-many", b"x")
    heard = [Heard(io, "watch-many") for _ in range(40)]
    result, answers, missed = notify(io, "watch-many", "hello")
    same((result, len(answers), missed), (0, 40, []))
    for each in heard:
        same(each.note()[3], b"hello")
        each.close()


@check
def a_watch_leaves_the_object_as_it_is(io):
    io.write_full("watch-version", b"x")
    io.stat("watch-version")
    version, stat = io.get_last_version(), io.stat("watch-version")
    heard = Heard(io, "watch-version")
    io.read("watch-version")
    same((io.get_last_version(), io.stat("watch-version")), (version, stat))
    io.write("watch-version", b"longer")
    same(len(watchers(pool_of(io), "watch-version")), 1)
    heard.close()
    same(io.read("watch-version"), b"longer")


@check
def a_removed_object_is_watched_no_more(io):
    io.write_full("watch-removed", b"x")
    heard = Heard(io, "watch-removed")
    io.remove_object("watch-removed")
    assert heard.errors.get(timeout=60)
    io.write_full("watch-removed", b"x")
    same(watchers(pool_of(io), "watch-removed"), [])
    heard.close()


@check
def a_live_watch_is_known_to_be(io):
    io.write_full("watch-check", b"x")
    heard = Heard(io, "watch-check")
    time.sleep(6)
    age = heard.watch.check()
    assert age.total_seconds() < 30, age
    heard.close()


@check
def a_killed_watcher_is_removed_in_time(io):
    pool = pool_of(io)
    io.write_full("watch-killed", b"x")
    other = Other(pool, "watch-killed", 12)
    same(clients(pool, "watch-killed"), [other.id])
    other.kill()
    until(lambda: clients(pool, "watch-killed") == [])


@check
def a_notifier_waits_for_who_is_gone(io):
    pool = pool_of(io)
    io.write_full("watch-gone", b"x")
    other = Other(pool, "watch-gone", 60)
    heard = Heard(io, "watch-gone")
    other.kill()
    result, answers, missed = notify(io, "watch-gone", "hello", 3000)
    same((result, answers, missed), (-errno.ETIMEDOUT, [], []))
    same(heard.note()[3], b"hello")
    heard.close()


def locked_out(io):
    # As text: Ceph's JSON is not one value.
    status, listed, _ = io.cluster.mon_command(json.dumps({"prefix": "osd blocklist ls"}), b"")
    same(status, 0)
    return [line.split()[0] for line in listed.decode().splitlines() if line]


def blocklist(io, *words):
    command = {"prefix": "osd blocklist", "blocklistop": words[0], "addr": words[1]}
    status, _, text = io.cluster.mon_command(json.dumps(command), b"")
    same(status, 0)
    return text


@check
def a_locked_out_client_writes_and_watches_no_more(io):
    pool = pool_of(io)
    io.write_full("watch-locked", b"x")
    other = Other(pool, "watch-locked", 60)
    heard = Heard(io, "watch-locked")
    same(other.write("before"), 0)
    address = next(address for client, _, address in watchers(pool, "watch-locked") if client == other.id)
    io.cluster.blocklist_add(address, 600)
    # This client knows the map that says so, and so does whoever answers it.
    io.stat("watch-locked-other")
    same(other.write("after"), errno.ESHUTDOWN)
    until(lambda: clients(pool, "watch-locked") == [io.cluster.get_instance_id()])
    same(io.read("watch-locked-other"), b"before\n")
    assert address in locked_out(io)
    same(blocklist(io, "rm", address), f"un-blocklisting {address}")
    other.kill()
    heard.close()


@check
def a_lock_out_ends_by_itself(io):
    address = "10.1.2.3:0/4711"
    io.cluster.blocklist_add(address, 10)
    assert address in locked_out(io)
    until(lambda: address not in locked_out(io))


@check
def the_command_line_watches_and_notifies(io):
    pool = pool_of(io)
    io.write_full("watch-command", b"x")
    watching = subprocess.Popen(["rados", "-p", pool, "watch", "watch-command"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                text=True)
    until(lambda: len(watchers(pool, "watch-command")) == 1)
    client, cookie, _ = watchers(pool, "watch-command")[0]
    told = subprocess.run(["rados", "-p", pool, "notify", "watch-command", "hello"], capture_output=True, text=True, timeout=60)
    same(told.returncode, 0)
    assert told.stdout.startswith(f"reply client.{client} cookie {cookie} : "), told.stdout
    watching.communicate("\n", timeout=60)
    same(watching.returncode, 0)
    same(watchers(pool, "watch-command"), [])


if __name__ == "__main__":
    main()
