"""Block images through librbd: what each step gives is printed, one line per case.

    rbd_images.py POOL

What is printed must be the same on Nacre and on Ceph: ids, times and addresses are left out of it.
"""
import sys
import time
import zlib

import rados
import rbd

MIB = 1 << 20
FEATURES = 0x3d  # what `rbd create` takes
ORDER = 20  # objects of 1 MiB: more of them in less data


def pattern(seed, length):
    block = (seed.to_bytes(4, "little") * 1024)[:4096]
    return (block * (length // 4096 + 1))[:length]


def shown(value):
    if isinstance(value, bytes):
        return f"{len(value)} bytes, crc {zlib.crc32(value):08x}" if len(value) > 40 else repr(value)
    if isinstance(value, dict):
        hidden = ("id", "block_name_prefix", "parent_id", "deletion_time", "deferment_end_time", "image_id", "addr", "client")
        return "{" + ", ".join(f"{k}: {shown(v)}" for k, v in sorted(value.items()) if k not in hidden) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(shown(v) for v in value) + "]"
    return repr(value)


class Suite:
    def __init__(self, cluster, pool):
        self.cluster, self.pool = cluster, pool
        self.io = cluster.open_ioctx(pool)
        self.rbd = rbd.RBD()
        self.count = 0

    def say(self, name, function, *args, **kwargs):
        """Calls and prints what came of it. Gives the result, or nothing if it failed."""
        self.count += 1
        result = None
        try:
            result = function(*args, **kwargs)
            text = shown(result)
        except (rbd.Error, rados.Error, KeyError) as error:
            text = f"error {type(error).__name__} {getattr(error, 'errno', '')}".rstrip()
        print(f"{self.count:03} {name}: {text}", flush=True)
        return result

    def image(self, name, **kwargs):
        return rbd.Image(self.io, name, **kwargs)

    def create(self, name, size=8 * MIB, features=None, **kwargs):
        features = FEATURES if features is None else features
        self.rbd.create(self.io, name, size, ORDER, old_format=False, features=features, **kwargs)

    def extents(self, image, offset, length, from_snapshot, whole_object=False):
        found = []
        image.diff_iterate(offset, length, from_snapshot, lambda at, size, exists: found.append((at, size, exists)),
                           include_parent=True, whole_object=whole_object)
        return found


def life(s):
    """Made, listed, looked at, resized, renamed, removed."""
    s.say("list of nothing", s.rbd.list, s.io)
    s.say("create", s.create, "a")
    s.say("create again", s.create, "a")
    s.say("create without a size", s.create, "empty", size=0)
    s.say("order too small", s.rbd.create, s.io, "b", MIB, 11, False)
    s.say("order too large", s.rbd.create, s.io, "b", MIB, 26, False)
    s.say("fast-diff without object map", s.create, "b", features=rbd.RBD_FEATURE_LAYERING | rbd.RBD_FEATURE_FAST_DIFF)
    s.say("object map without lock", s.create, "b2", features=rbd.RBD_FEATURE_OBJECT_MAP)
    s.say("unknown feature", s.create, "b3", features=1 << 40)
    s.say("striped", s.create, "striped", features=rbd.RBD_FEATURE_LAYERING | rbd.RBD_FEATURE_STRIPINGV2,
          stripe_unit=65536, stripe_count=4)
    s.say("list", lambda: sorted(s.rbd.list(s.io)))
    s.say("open what is not there", s.image, "nothing")
    with s.image("a") as image:
        s.say("stat", image.stat)
        s.say("size", image.size)
        s.say("features", image.features)
        s.say("flags", image.flags)
        s.say("old format", image.old_format)
        s.say("overlap", image.overlap)
        s.say("stripe unit", image.stripe_unit)
        s.say("stripe count", image.stripe_count)
        s.say("data pool", lambda: image.data_pool_id() == s.io.get_pool_id())
        s.say("no parent", image.parent_info)
        s.say("larger", image.resize, 12 * MIB + 5)
        s.say("size then", image.size)
        s.say("smaller, not allowed", image.resize, MIB, allow_shrink=False)
        s.say("smaller", image.resize, 3 * MIB)
        s.say("size then", image.size)
        s.say("back", image.resize, 8 * MIB)
        s.say("access time is there", lambda: image.access_timestamp().year > 2000)
        s.say("create time is there", lambda: image.create_timestamp().year > 2000)
    with s.image("striped") as image:
        s.say("striped stat", image.stat)
        s.say("stripe unit", image.stripe_unit)
        s.say("stripe count", image.stripe_count)
        s.say("striped write", image.write, pattern(9, 3 * MIB + 777), 12345)
        s.say("striped read", image.read, 12345, 3 * MIB + 777)
    s.say("rename", s.rbd.rename, s.io, "a", "c")
    s.say("rename what is not there", s.rbd.rename, s.io, "a", "d")
    s.say("rename onto another", s.rbd.rename, s.io, "c", "empty")
    s.say("list", lambda: sorted(s.rbd.list(s.io)))
    s.say("list2", lambda: sorted(i["name"] for i in s.rbd.list2(s.io)))
    s.say("open read only", lambda: s.image("c", read_only=True).close())
    for name in sorted(s.rbd.list(s.io)):
        s.say(f"remove {name}", s.rbd.remove, s.io, name)
    s.say("remove again", s.rbd.remove, s.io, "c")
    s.say("list", s.rbd.list, s.io)


def data(s):
    """Bytes written, read, discarded."""
    s.create("d")
    with s.image("d") as image:
        s.say("read of nothing", image.read, 0, 10)
        s.say("write", image.write, pattern(1, 100), 0)
        s.say("write over objects", image.write, pattern(2, 2 * MIB), MIB // 2)
        s.say("read", image.read, 0, 3 * MIB)
        s.say("write to the end", image.write, pattern(3, 4096), 8 * MIB - 4096)
        s.say("write over the end", image.write, pattern(3, 4097), 8 * MIB - 4096)
        s.say("write beyond the end", image.write, b"x", 9 * MIB)
        s.say("read over the end", image.read, 8 * MIB - 10, 20)
        s.say("read beyond the end", image.read, 9 * MIB, 1)
        s.say("discard", image.discard, MIB, MIB)
        s.say("read what was discarded", image.read, MIB - 10, MIB + 20)
        s.say("discard a part", image.discard, 0, 5000)
        s.say("read", image.read, 0, 8192)
        s.say("discard over the end", image.discard, 7 * MIB, 2 * MIB)
        s.say("flush", image.flush)
        s.say("write zeroes", image.write_zeroes, 2 * MIB, MIB // 4)
        s.say("read zeroes", image.read, 2 * MIB - 10, 100)
        s.say("extents", s.extents, image, 0, 8 * MIB, None)
        s.say("whole objects", s.extents, image, 0, 8 * MIB, None, True)
        s.say("cache", image.invalidate_cache)
        s.say("all", image.read, 0, 8 * MIB)
        s.say("shrink", image.resize, MIB + 100)
        s.say("grow", image.resize, 4 * MIB)
        s.say("what came back", image.read, MIB, 1000)
        s.say("extents", s.extents, image, 0, 4 * MIB, None)
    with s.image("d", read_only=True) as image:
        s.say("write to what is read only", image.write, b"x", 0)
        s.say("resize of it", image.resize, MIB)
        s.say("snapshot of it", image.create_snap, "s")
        s.say("read of it", image.read, 0, 100)
    s.rbd.remove(s.io, "d")


def features(s):
    """Features switched, object maps checked and made anew."""
    s.create("f", features=rbd.RBD_FEATURE_LAYERING)
    with s.image("f") as image:
        image.write(pattern(1, MIB), 0)
        s.say("features", image.features)
        s.say("object map needs a lock", image.update_features, rbd.RBD_FEATURE_OBJECT_MAP, True)
        s.say("lock", image.update_features, rbd.RBD_FEATURE_EXCLUSIVE_LOCK, True)
        s.say("again", image.update_features, rbd.RBD_FEATURE_EXCLUSIVE_LOCK, True)
        s.say("object map", image.update_features, rbd.RBD_FEATURE_OBJECT_MAP, True)
        s.say("fast-diff", image.update_features, rbd.RBD_FEATURE_FAST_DIFF, True)
        s.say("flags", image.flags)
        s.say("made anew", image.rebuild_object_map)
        s.say("flags", image.flags)
        s.say("extents", s.extents, image, 0, 8 * MIB, None, True)
        s.say("lock cannot go", image.update_features, rbd.RBD_FEATURE_EXCLUSIVE_LOCK, False)
        s.say("deep-flatten cannot come", image.update_features, rbd.RBD_FEATURE_DEEP_FLATTEN, True)
        s.say("layering cannot go", image.update_features, rbd.RBD_FEATURE_LAYERING, False)
        s.say("all go", image.update_features,
              rbd.RBD_FEATURE_FAST_DIFF | rbd.RBD_FEATURE_OBJECT_MAP | rbd.RBD_FEATURE_EXCLUSIVE_LOCK, False)
        s.say("features", image.features)
    s.rbd.remove(s.io, "f")
    for mask in [0x1, 0x5, 0xd, 0x1d, 0x3d]:
        name = f"f{mask:x}"
        s.say(f"create with {mask:#x}", s.create, name, features=mask)
        with s.image(name) as image:
            s.say("features", image.features)
            s.say("write", image.write, pattern(mask, 10000), MIB - 5000)
            s.say("read", image.read, MIB - 5000, 10000)
        s.say("remove", s.rbd.remove, s.io, name)


def metadata(s):
    s.create("m")
    with s.image("m") as image:
        s.say("nothing", lambda: list(image.metadata_list()))
        s.say("get what is not there", image.metadata_get, "k")
        s.say("set", image.metadata_set, "k", "value")
        s.say("set again", image.metadata_set, "k", "another")
        s.say("get", image.metadata_get, "k")
        for n in range(70):
            image.metadata_set(f"many{n:02}", "x" * n)
        s.say("many", lambda: len(list(image.metadata_list())))
        s.say("remove", image.metadata_remove, "k")
        s.say("remove again", image.metadata_remove, "k")
        s.say("option", image.metadata_set, "conf_rbd_cache", "false")
        s.say("unknown option", image.metadata_set, "conf_rbd_nothing", "1")
    s.rbd.remove(s.io, "m")
    s.say("pool's", s.rbd.pool_metadata_set, s.io, "p", "q")
    s.say("pool's", s.rbd.pool_metadata_get, s.io, "p")
    s.say("pool's", lambda: list(s.rbd.pool_metadata_list(s.io)))
    s.say("pool's", s.rbd.pool_metadata_remove, s.io, "p")
    s.say("pool's", s.rbd.pool_metadata_get, s.io, "p")


def names(image):
    return [(snap["name"], snap["size"]) for snap in image.list_snaps()]


def snapshots(s):
    s.create("s")
    with s.image("s") as image:
        image.write(pattern(1, 3 * MIB), 0)
        s.say("no snapshots", names, image)
        s.say("snapshot", image.create_snap, "one")
        s.say("again", image.create_snap, "one")
        image.write(pattern(2, MIB), MIB)
        image.write(pattern(2, 100), 6 * MIB)
        s.say("snapshot", image.create_snap, "two")
        image.discard(0, MIB)
        s.say("larger", image.resize, 10 * MIB)
        image.write(pattern(3, MIB), 9 * MIB)
        s.say("snapshot", image.create_snap, "three")
        s.say("snapshots", names, image)
        s.say("since the beginning", s.extents, image, 0, 10 * MIB, None)
        s.say("since one", s.extents, image, 0, 10 * MIB, "one")
        s.say("since one, objects", s.extents, image, 0, 10 * MIB, "one", True)
        s.say("since two", s.extents, image, 0, 10 * MIB, "two")
        s.say("since three", s.extents, image, 0, 10 * MIB, "three")
        s.say("rename", image.rename_snap, "three", "drei")
        s.say("rename onto another", image.rename_snap, "drei", "two")
        s.say("protected?", image.is_protected_snap, "one")
        s.say("protect", image.protect_snap, "one")
        s.say("protect again", image.protect_snap, "one")
        s.say("protected?", image.is_protected_snap, "one")
        s.say("remove what is protected", image.remove_snap, "one")
        s.say("unprotect", image.unprotect_snap, "one")
        s.say("unprotect again", image.unprotect_snap, "one")
        s.say("time", lambda: image.get_snap_timestamp(list(image.list_snaps())[0]["id"]).year > 2000)
        s.say("limit", image.get_snap_limit)
        s.say("limit of three", image.set_snap_limit, 3)
        s.say("one too many", image.create_snap, "four")
        s.say("limit", image.get_snap_limit)
        s.say("no limit", image.remove_snap_limit)
        s.say("limit then", image.get_snap_limit)
    s.say("open a snapshot that is not there", s.image, "s", snapshot="four")
    for name in ["one", "two", "drei"]:
        with s.image("s", snapshot=name) as image:
            s.say(f"{name}: size", image.size)
            s.say(f"{name}: bytes", image.read, 0, image.size())
            s.say(f"{name}: write", image.write, b"x", 0)
            s.say(f"{name}: extents", s.extents, image, 0, image.size(), None)
    with s.image("s") as image:
        s.say("set a snapshot", image.set_snap, "one")
        s.say("bytes", image.read, 0, 4 * MIB)
        s.say("head", image.set_snap, None)
        s.say("bytes", image.read, 0, 4 * MIB)
        s.say("back to one", image.rollback_to_snap, "one")
        s.say("size", image.size)
        s.say("bytes", image.read, 0, 8 * MIB)
        s.say("back to what is not there", image.rollback_to_snap, "eins")
        s.say("back to drei", image.rollback_to_snap, "drei")
        s.say("size", image.size)
        s.say("bytes", image.read, 0, 10 * MIB)
    s.say("remove an image with snapshots", s.rbd.remove, s.io, "s")
    with s.image("s") as image:
        s.say("remove two", image.remove_snap, "two")
        s.say("snapshots", names, image)
        s.say("remove two again", image.remove_snap, "two")
        s.say("since one", s.extents, image, 0, 10 * MIB, "one")
        s.say("remove the others", lambda: [image.remove_snap(name) for name, _ in names(image)])
        s.say("bytes", image.read, 0, 10 * MIB)
    s.say("remove", s.rbd.remove, s.io, "s")


def clones(s):
    for version in [1, 2]:
        s.cluster.conf_set("rbd_default_clone_format", str(version))
        s.create("parent")
        with s.image("parent") as image:
            image.write(pattern(5, 5 * MIB), 0)
            image.create_snap("base")
            if version == 1:
                s.say("clone of what is not protected", s.rbd.clone, s.io, "parent", "base", s.io, "child",
                      FEATURES, ORDER)
                image.protect_snap("base")
            image.write(pattern(6, MIB), 0)
        v = f"v{version}"
        s.say(f"{v}: clone", s.rbd.clone, s.io, "parent", "base", s.io, "child",
              FEATURES, ORDER)
        s.say(f"{v}: clone again", s.rbd.clone, s.io, "parent", "base", s.io, "child",
              FEATURES, ORDER)
        s.say(f"{v}: clone of what is not there", s.rbd.clone, s.io, "parent", "bass", s.io, "other")
        with s.image("parent", snapshot="base") as image:
            s.say(f"{v}: children", lambda: [(c["image"], c["trash"]) for c in image.list_children2()])
        with s.image("child") as image:
            s.say(f"{v}: parent", lambda: image.parent_info())
            s.say(f"{v}: overlap", image.overlap)
            s.say(f"{v}: op features", image.op_features)
            s.say(f"{v}: bytes of the parent", image.read, 0, 8 * MIB)
            s.say(f"{v}: copied up", image.write, b"child", 2 * MIB + 10)
            s.say(f"{v}: bytes", image.read, 2 * MIB, 100)
            s.say(f"{v}: discard", image.discard, 3 * MIB, MIB)
            s.say(f"{v}: discarded", image.read, 3 * MIB - 10, 1000)
            s.say(f"{v}: snapshot of the child", image.create_snap, "kid")
            s.say(f"{v}: write", image.write, b"later", 4 * MIB)
            s.say(f"{v}: extents", s.extents, image, 0, 8 * MIB, None)
            s.say(f"{v}: extents since kid", s.extents, image, 0, 8 * MIB, "kid")
            s.say(f"{v}: smaller", image.resize, 4 * MIB + 9)
            s.say(f"{v}: overlap", image.overlap)
            s.say(f"{v}: larger", image.resize, 8 * MIB)
            s.say(f"{v}: what came back", image.read, 4 * MIB, MIB)
        with s.image("child", snapshot="kid") as image:
            s.say(f"{v}: bytes of kid", image.read, 0, 8 * MIB)
        with s.image("parent") as image:
            s.say(f"{v}: remove base", image.remove_snap, "base")
            if version == 1:
                s.say(f"{v}: unprotect base", image.unprotect_snap, "base")
        s.say(f"{v}: remove the parent", s.rbd.remove, s.io, "parent")
        with s.image("child") as image:
            s.say(f"{v}: flatten", image.flatten)
            s.say(f"{v}: parent", lambda: image.parent_info())
            s.say(f"{v}: bytes", image.read, 0, 8 * MIB)
            s.say(f"{v}: flatten again", image.flatten)
            s.say(f"{v}: back to kid", image.rollback_to_snap, "kid")
            s.say(f"{v}: bytes", image.read, 0, 8 * MIB)
            s.say(f"{v}: remove kid", image.remove_snap, "kid")
        with s.image("parent") as image:
            left = [snap for snap in image.list_snaps()]
            s.say(f"{v}: snapshots of the parent", lambda: [(snap["name"] == "base", snap["namespace"]) for snap in left])
            if version == 1:
                s.say(f"{v}: unprotect base", image.unprotect_snap, "base")
                s.say(f"{v}: remove base", image.remove_snap, "base")
        s.say(f"{v}: remove the child", s.rbd.remove, s.io, "child")
        s.say(f"{v}: remove the parent", s.rbd.remove, s.io, "parent")
        s.say(f"{v}: list", s.rbd.list, s.io)


def copies(s):
    s.create("from")
    with s.image("from") as image:
        image.write(pattern(1, 2 * MIB), 0)
        image.create_snap("first")
        image.write(pattern(2, 2 * MIB), MIB)
        image.metadata_set("k", "v")
        s.say("copy", image.copy, s.io, "to")
        s.say("copy again", image.copy, s.io, "to")
        s.say("deep copy", image.deep_copy, s.io, "deep")
    for name in ["to", "deep"]:
        with s.image(name) as image:
            s.say(f"{name}: stat", image.stat)
            s.say(f"{name}: snapshots", names, image)
            s.say(f"{name}: bytes", image.read, 0, 8 * MIB)
            s.say(f"{name}: metadata", lambda: list(image.metadata_list()))
    with s.image("deep", snapshot="first") as image:
        s.say("deep: bytes of first", image.read, 0, 8 * MIB)
    for name in ["from", "to", "deep"]:
        with s.image(name) as image:
            for snap, _ in names(image):
                image.remove_snap(snap)
        s.say(f"remove {name}", s.rbd.remove, s.io, name)


def trash(s):
    s.create("t")
    with s.image("t") as image:
        image.write(b"kept", 0)
        ident = image.id()
    s.say("to the trash", s.rbd.trash_move, s.io, "t", 0)
    s.say("list", s.rbd.list, s.io)
    s.say("trash", lambda: [(t["name"], t["source"]) for t in s.rbd.trash_list(s.io)])
    s.say("info", lambda: s.rbd.trash_get(s.io, ident)["name"])
    s.say("back", s.rbd.trash_restore, s.io, ident, "u")
    s.say("list", s.rbd.list, s.io)
    with s.image("u") as image:
        s.say("bytes", image.read, 0, 4)
    s.say("to the trash for long", s.rbd.trash_move, s.io, "u", 3600)
    s.say("remove too early", s.rbd.trash_remove, s.io, ident)
    s.say("remove by force", s.rbd.trash_remove, s.io, ident, force=True)
    s.say("trash", lambda: list(s.rbd.trash_list(s.io)))
    s.say("info of nothing", s.rbd.trash_get, s.io, ident)
    s.say("back from nothing", s.rbd.trash_restore, s.io, ident, "u")
    s.say("to the trash what is not there", s.rbd.trash_move, s.io, "u", 0)
    s.create("p1")
    s.rbd.trash_move(s.io, "p1", 0)
    s.say("purge", s.rbd.trash_purge, s.io)
    s.say("trash", lambda: list(s.rbd.trash_list(s.io)))


def namespaces(s):
    s.say("none", s.rbd.namespace_list, s.io)
    s.say("create", s.rbd.namespace_create, s.io, "n")
    s.say("again", s.rbd.namespace_create, s.io, "n")
    s.say("exists", s.rbd.namespace_exists, s.io, "n")
    s.say("does not", s.rbd.namespace_exists, s.io, "x")
    s.say("list", s.rbd.namespace_list, s.io)
    s.create("here")
    s.io.set_namespace("n")
    s.say("list there", s.rbd.list, s.io)
    s.say("create there", s.create, "here")
    with s.image("here") as image:
        s.say("write there", image.write, b"there", 0)
        s.say("namespace", image.get_name)
    s.io.set_namespace("x")
    s.say("create where there is none", s.create, "here")
    s.io.set_namespace("")
    with s.image("here") as image:
        s.say("bytes here", image.read, 0, 5)
    s.say("remove what is in use", s.rbd.namespace_remove, s.io, "n")
    s.io.set_namespace("n")
    s.say("remove there", s.rbd.remove, s.io, "here")
    s.io.set_namespace("")
    s.say("remove", s.rbd.namespace_remove, s.io, "n")
    s.say("remove again", s.rbd.namespace_remove, s.io, "n")
    s.rbd.remove(s.io, "here")


def another_client():
    return rados.Rados(conffile="")


def closed(image):
    """Closes an image of a client that was shut out."""
    try:
        image.close()
    except rbd.Error:
        pass


def removed_at_last(s, name):
    """Removes an image that somebody who was shut out may still seem to watch."""
    for _ in range(60):
        try:
            return s.rbd.remove(s.io, name)
        except rbd.ImageBusy:
            time.sleep(1)
    raise AssertionError(f"somebody watches {name} for ever")


def locks(s):
    """Advisory locks, the exclusive lock handed over, broken, and its owner fenced."""
    s.create("l", features=rbd.RBD_FEATURE_LAYERING)
    with s.image("l") as image:
        s.say("none", image.list_lockers)
        s.say("lock", image.lock_exclusive, "cookie")
        s.say("again", image.lock_exclusive, "cookie")
        s.say("another", image.lock_exclusive, "other")
        s.say("lockers", lambda: [(l[1],) for l in image.list_lockers()["lockers"]])
        s.say("unlock another", image.unlock, "other")
        s.say("unlock", image.unlock, "cookie")
        s.say("shared", image.lock_shared, "one", "tag")
        s.say("shared", image.lock_shared, "two", "tag")
        s.say("another tag", image.lock_shared, "three", "gat")
        s.say("lockers", lambda: sorted(l[1] for l in image.list_lockers()["lockers"]))
        s.say("unlock", image.unlock, "one")
        s.say("unlock", image.unlock, "two")
        s.say("break nothing", lambda: image.break_lock("client.1", "one"))
        with another_client() as other, other.open_ioctx(s.pool) as io:
            theirs = rbd.Image(io, "l")
            s.say("theirs", theirs.lock_exclusive, "theirs")
            s.say("ours", image.lock_exclusive, "ours")
            s.say("broken", lambda: image.break_lock(image.list_lockers()["lockers"][0][0], "theirs"))
            s.say("they are shut out", theirs.write, b"x", 0)
            s.say("ours then", image.lock_exclusive, "ours")
            s.say("unlock", image.unlock, "ours")
            closed(theirs)
    removed_at_last(s, "l")

    s.create("x")
    with another_client() as other, other.open_ioctx(s.pool) as io:
        first, second = s.image("x"), rbd.Image(io, "x")
        s.say("watchers", lambda: len(list(first.watchers_list())))
        s.say("nobody owns", first.is_exclusive_lock_owner)
        s.say("first writes", first.write, b"first", 0)
        s.say("first owns", first.is_exclusive_lock_owner)
        s.say("second does not", second.is_exclusive_lock_owner)
        s.say("owners", lambda: [owner["mode"] for owner in first.lock_get_owners()])
        s.say("second writes", second.write, b"second", 10)
        s.say("first lost it", first.is_exclusive_lock_owner)
        s.say("second owns", second.is_exclusive_lock_owner)
        s.say("first reads", first.read, 0, 20)
        s.say("second grows it", second.resize, 9 * MIB)
        s.say("first sees it", first.size)
        s.say("first makes a snapshot", first.create_snap, "snap")
        s.say("second sees it", names, second)
        s.say("first keeps it", first.lock_acquire, rbd.RBD_LOCK_MODE_EXCLUSIVE)
        s.say("first writes", first.write, b"mine", 0)
        s.say("second cannot take it", second.lock_acquire, rbd.RBD_LOCK_MODE_EXCLUSIVE)
        s.say("first lets go", first.lock_release)
        s.say("second takes it", second.lock_acquire, rbd.RBD_LOCK_MODE_EXCLUSIVE)
        s.say("first breaks it", lambda: first.lock_break(rbd.RBD_LOCK_MODE_EXCLUSIVE, next(iter(first.lock_get_owners()))["owner"]))
        s.say("first takes it", first.lock_acquire, rbd.RBD_LOCK_MODE_EXCLUSIVE)
        s.say("first writes", first.write, b"again", 0)
        s.say("second is shut out", second.write, b"never", 0)
        s.say("first reads", first.read, 0, 20)
        s.say("remove what is open", s.rbd.remove, s.io, "x")
        first.close()
        closed(second)
    with s.image("x") as image:
        s.say("what stays", image.read, 0, 20)
        image.remove_snap("snap")
    removed_at_last(s, "x")
    s.say("all is gone", s.rbd.list, s.io)


def left_over(s):
    """Objects that stay when all images are gone; but for what trimming has still to remove."""
    s.say("objects", lambda: sorted(o.key for o in s.io.list_objects() if not o.key.startswith("rbd_data.")))


def main():
    cluster = rados.Rados(conffile="")
    cluster.connect()
    suite = Suite(cluster, sys.argv[1])
    suite.rbd.pool_init(suite.io, True)
    chosen = sys.argv[2:]
    for part in [life, data, features, metadata, snapshots, clones, copies, trash, namespaces, locks, left_over]:
        if not chosen or part.__name__ in chosen:
            print(f"== {part.__name__}", flush=True)
            part(suite)


main()
