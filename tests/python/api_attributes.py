"""Extended attributes and the ordered keys and values (omap) of objects."""
import errno

from checks import check, fails_with, main, same


def write_op(io, name, *steps):
    op = io.create_write_op()
    for step in steps:
        step(op)
    io.operate_write_op(op, name)
    op.release()


def set_omap(io, name, pairs):
    write_op(io, name, lambda op: io.set_omap(op, tuple(pairs), tuple(pairs.values())))


def omap_vals(io, name, after="", prefix="", limit=1000):
    op = io.create_read_op()
    iterator, result = io.get_omap_vals(op, after, prefix, limit)
    same(result, 0)
    io.operate_read_op(op, name)
    pairs = list(iterator)
    op.release()
    return pairs


@check
def attributes_are_set_got_listed_removed(io):
    io.write_full("attr-a", b"data")
    values = {"one": b"1", "two": b"", "three": bytes(range(256)), "ümlaut": b"u", "long": b"v" * 60_000}
    for name, value in values.items():
        io.set_xattr("attr-a", name, value)
    for name, value in values.items():
        if value:
            same(io.get_xattr("attr-a", name), value)
    same({name: value for name, value in io.get_xattrs("attr-a")}, values)
    io.set_xattr("attr-a", "one", b"again")
    same(io.get_xattr("attr-a", "one"), b"again")
    io.rm_xattr("attr-a", "one")
    fails_with(errno.ENODATA, io.get_xattr, "attr-a", "one")
    same(sorted(name for name, _ in io.get_xattrs("attr-a")), sorted(set(values) - {"one"}))
    same(io.read("attr-a"), b"data")


@check
def attribute_of_nothing_makes_the_object(io):
    io.set_xattr("attr-new", "k", b"v")
    same(io.stat("attr-new")[0], 0)


@check
def attributes_that_are_not_there(io):
    io.write_full("attr-none", b"")
    fails_with(errno.ENODATA, io.get_xattr, "attr-none", "missing")
    # Removing what is not there is no error, if the object is there.
    io.rm_xattr("attr-none", "missing")
    same(list(io.get_xattrs("attr-none")), [])
    fails_with(errno.ENOENT, io.rm_xattr, "attr-no-object", "missing")


@check
def attributes_may_be_large(io):
    io.set_xattr("attr-sizes", "n" * 90, b"x")
    io.set_xattr("attr-sizes", "large", b"x" * 200_000)
    same(len(io.get_xattr("attr-sizes", "large")), 200_000)


@check
def attributes_survive_write_full(io):
    io.set_xattr("attr-keep", "k", b"v")
    io.write_full("attr-keep", b"new content")
    same(io.get_xattr("attr-keep", "k"), b"v")


@check
def omap_is_set_and_listed_in_order(io):
    pairs = {f"key{i:04}": f"value {i}".encode() for i in range(300)}
    set_omap(io, "omap-a", pairs)
    same(omap_vals(io, "omap-a"), sorted(pairs.items()))
    op = io.create_read_op()
    iterator, _ = io.get_omap_keys(op, "", 1000)
    io.operate_read_op(op, "omap-a")
    same([key for key, _ in iterator], sorted(pairs))


@check
def omap_pages(io):
    pairs = {f"key{i:04}": b"x" for i in range(100)}
    set_omap(io, "omap-pages", pairs)
    same([k for k, _ in omap_vals(io, "omap-pages", limit=7)], sorted(pairs)[:7])
    same([k for k, _ in omap_vals(io, "omap-pages", after="key0006", limit=7)], sorted(pairs)[7:14])
    # A start that is no key; the last page; behind the end.
    same([k for k, _ in omap_vals(io, "omap-pages", after="key0006~", limit=2)], sorted(pairs)[7:9])
    same([k for k, _ in omap_vals(io, "omap-pages", after="key0097", limit=7)], sorted(pairs)[98:])
    same(omap_vals(io, "omap-pages", after="zzz"), [])


@check
def omap_prefixes(io):
    set_omap(io, "omap-prefix", {k: k.encode() for k in ["a", "b", "b1", "b2", "b\x7f", "c", "bé"]})
    same(sorted(k for k, _ in omap_vals(io, "omap-prefix", prefix="b")), sorted(["b", "b1", "b2", "b\x7f", "bé"]))
    same([k for k, _ in omap_vals(io, "omap-prefix", after="b", prefix="b", limit=2)], ["b1", "b2"])
    same([k for k, _ in omap_vals(io, "omap-prefix", after="a", prefix="b", limit=1)], ["b"])
    same(omap_vals(io, "omap-prefix", prefix="x"), [])
    same(omap_vals(io, "omap-prefix", after="c", prefix="b"), [])


@check
def omap_by_keys(io):
    set_omap(io, "omap-by", {"a": b"1", "b": b"2", "c": b"3"})
    op = io.create_read_op()
    iterator, _ = io.get_omap_vals_by_keys(op, ("c", "a", "missing"))
    io.operate_read_op(op, "omap-by")
    same(list(iterator), [("a", b"1"), ("c", b"3")])


@check
def omap_keys_are_removed(io):
    set_omap(io, "omap-rm", {k: b"v" for k in "abcdefgh"})
    write_op(io, "omap-rm", lambda op: io.remove_omap_keys(op, ("a", "d", "missing")))
    same([k for k, _ in omap_vals(io, "omap-rm")], list("bcefgh"))
    write_op(io, "omap-rm", lambda op: io.remove_omap_range2(op, "c", "g"))
    same([k for k, _ in omap_vals(io, "omap-rm")], list("bgh"))
    write_op(io, "omap-rm", lambda op: io.clear_omap(op))
    same(omap_vals(io, "omap-rm"), [])
    set_omap(io, "omap-rm", {"new": b"1"})
    same(omap_vals(io, "omap-rm"), [("new", b"1")])


@check
def omap_values_of_any_bytes(io):
    pairs = {"empty": b"", "all": bytes(range(256)), "large": b"L" * 300_000}
    set_omap(io, "omap-bytes", pairs)
    # The bindings give None for an empty value.
    same({key: value or b"" for key, value in omap_vals(io, "omap-bytes")}, pairs)
    set_omap(io, "omap-bytes", {"all": b"replaced"})
    same(dict(omap_vals(io, "omap-bytes"))["all"], b"replaced")


@check
def omap_goes_with_its_object(io):
    set_omap(io, "omap-gone", {"k": b"v"})
    io.remove_object("omap-gone")
    io.write_full("omap-gone", b"")
    same(omap_vals(io, "omap-gone"), [])


@check
def omap_of_nothing(io):
    op = io.create_read_op()
    io.get_omap_vals(op, "", "", 10)
    fails_with(errno.ENOENT, io.operate_read_op, op, "omap-no-object")


@check
def many_keys(io):
    total = 20_000
    for start in range(0, total, 2_000):
        set_omap(io, "omap-many", {f"k{i:06}": b"v%d" % i for i in range(start, start + 2_000)})
    after, seen = "", []
    while True:
        page = omap_vals(io, "omap-many", after=after, limit=999)
        if not page:
            break
        # A server may give fewer than were asked for.
        seen += page
        after = page[-1][0]
    same(len(seen), total)
    same(seen, [(f"k{i:06}", b"v%d" % i) for i in range(total)])
    write_op(io, "omap-many", lambda op: io.remove_omap_range2(op, "k000100", "k019900"))
    same(len(omap_vals(io, "omap-many", limit=1000)), 200)
    io.remove_object("omap-many")


if __name__ == "__main__":
    main()
