"""Listing objects, and the namespaces and locator keys that they can have."""
import errno
import threading

import rados
from checks import check, fails_with, main, same


def fill(io, names, content=b"x"):
    slots = threading.Semaphore(256)
    failed = []

    def done(completion):
        if completion.get_return_value() != 0:
            failed.append(completion.get_return_value())
        slots.release()

    completions = []
    for name in names:
        slots.acquire()
        completions.append(io.aio_write_full(name, content, oncomplete=done))
    for completion in completions:
        completion.wait_for_complete_and_cb()
    same(failed, [])


def remove(io, names):
    for completion in [io.aio_remove(name) for name in names]:
        completion.wait_for_complete()


def names_in(io, namespace=""):
    io.set_namespace(namespace)
    names = [o.key for o in io.list_objects()]
    assert len(names) == len(set(names)), "an object is listed twice"
    return set(names)


@check
def every_object_once(io):
    """More objects than a page of one placement group has: 16 groups give 1024 and more each."""
    names = [f"list-{i}" for i in range(18_000)]
    io.set_namespace("many")
    fill(io, names)
    same(names_in(io, "many"), set(names))
    gone = names[::3]
    remove(io, gone)
    same(names_in(io, "many"), set(names) - set(gone))
    remove(io, set(names) - set(gone))
    same(names_in(io, "many"), set())


@check
def namespaces_are_apart(io):
    for namespace in ["", "ns-a", "ns-b", "ns ä/✓"]:
        io.set_namespace(namespace)
        io.write_full("list-same-name", namespace.encode())
    for namespace in ["", "ns-a", "ns-b", "ns ä/✓"]:
        io.set_namespace(namespace)
        same(io.read("list-same-name"), namespace.encode())
        assert "list-same-name" in names_in(io, namespace)
    io.set_namespace("ns-a")
    io.remove_object("list-same-name")
    same(names_in(io, "ns-a"), set())
    fails_with(errno.ENOENT, io.read, "list-same-name")
    io.set_namespace("ns-b")
    same(io.read("list-same-name"), b"ns-b")
    same(names_in(io, "ns-none"), set())


@check
def all_namespaces_at_once(io):
    for namespace in ["", "all-a", "all-b"]:
        io.set_namespace(namespace)
        fill(io, [f"list-all-{namespace}-{i}" for i in range(100)])
    io.set_namespace(rados.LIBRADOS_ALL_NSPACES)
    seen = [(o.nspace, o.key) for o in io.list_objects() if o.key.startswith("list-all-")]
    want = {(namespace, f"list-all-{namespace}-{i}") for namespace in ["", "all-a", "all-b"] for i in range(100)}
    same(len(seen), 300)
    same(set(seen), want)


@check
def locator_keys(io):
    io.set_locator_key("together")
    io.write_full("list-located", b"by key")
    same(io.read("list-located"), b"by key")
    io.set_locator_key("")
    fails_with(errno.ENOENT, io.read, "list-located")
    found = [o for o in io.list_objects() if o.key == "list-located"]
    same(len(found), 1)
    same(found[0].locator_key, "together")
    io.set_locator_key("together")
    io.remove_object("list-located")


@check
def same_name_with_and_without_locator(io):
    io.write_full("list-twice", b"plain")
    io.set_locator_key("elsewhere")
    io.write_full("list-twice", b"located")
    same(io.read("list-twice"), b"located")
    io.set_locator_key("")
    same(io.read("list-twice"), b"plain")
    same(sorted(str(o.locator_key or "") for o in io.list_objects() if o.key == "list-twice"), ["", "elsewhere"])
    io.remove_object("list-twice")
    io.set_locator_key("elsewhere")
    same(io.read("list-twice"), b"located")
    io.remove_object("list-twice")


if __name__ == "__main__":
    main()
