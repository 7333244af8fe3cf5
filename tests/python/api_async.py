"""Many operations in flight."""
import errno
import threading

from checks import check, main, same


@check
def thousands_in_flight(io):
    count = 4_000
    results = {}
    lock = threading.Lock()

    def written(i):
        def done(completion):
            with lock:
                results[i] = completion.get_return_value()
        return done

    completions = [io.aio_write_full(f"aio-{i}", b"%d" % i * 50, oncomplete=written(i)) for i in range(count)]
    for completion in completions:
        completion.wait_for_complete_and_cb()
    same(set(results.values()), {0})
    same(len(results), count)
    read = {}

    def got(i):
        def done(completion, data):
            with lock:
                read[i] = data
        return done

    completions = [io.aio_read(f"aio-{i}", 1000, 0, oncomplete=got(i)) for i in range(count)]
    for completion in completions:
        completion.wait_for_complete_and_cb()
    same([i for i in range(count) if read.get(i) != b"%d" % i * 50], [])
    for completion in [io.aio_remove(f"aio-{i}") for i in range(count)]:
        completion.wait_for_complete()
        same(completion.get_return_value(), 0)


@check
def writes_to_an_object_keep_their_order(io):
    order = {name: [] for name in range(20)}
    lock = threading.Lock()

    def acknowledged(name, i):
        def done(_):
            with lock:
                order[name].append(i)
        return done

    for i in range(100):
        for name in range(20):
            io.aio_write_full(f"aio-order-{name}", b"%d" % i, oncomplete=acknowledged(name, i))
    io.aio_flush()
    for name in range(20):
        same(io.read(f"aio-order-{name}"), b"99")


@check
def appends_are_neither_lost_nor_doubled_nor_mixed_up(io):
    io.write_full("aio-append", b"")
    completions = [io.aio_append("aio-append", b"%05d " % i) for i in range(2_000)]
    for completion in completions:
        completion.wait_for_complete()
        same(completion.get_return_value(), 0)
    same(io.read("aio-append", 20_000), b"".join(b"%05d " % i for i in range(2_000)))


@check
def a_read_sees_the_write_before_it(io):
    """On one object, of one client, without waiting for the write's acknowledgement."""
    for i in range(50):
        got = []
        io.aio_write_full("aio-rw", b"%d" % i)
        io.aio_read("aio-rw", 100, 0, oncomplete=lambda _, data: got.append(data)).wait_for_complete_and_cb()
        same(got, [b"%d" % i])


@check
def large_writes_in_flight(io):
    completions = [io.aio_write_full(f"aio-large-{i}", bytes([i]) * (4 << 20)) for i in range(24)]
    for completion in completions:
        completion.wait_for_complete()
        same(completion.get_return_value(), 0)
    for i in range(24):
        same(io.read(f"aio-large-{i}", 5 << 20) == bytes([i]) * (4 << 20), True)
        io.remove_object(f"aio-large-{i}")


@check
def errors_arrive_too(io):
    got = []
    completion = io.aio_read("aio-none", 10, 0, oncomplete=lambda c, data: got.append((c.get_return_value(), data)))
    completion.wait_for_complete_and_cb()
    same(got, [(-errno.ENOENT, None)])
    completion = io.aio_remove("aio-none")
    completion.wait_for_complete()
    same(completion.get_return_value(), -errno.ENOENT)


@check
def attributes_stat_and_comparison(io):
    io.write_full("aio-attr", b"0123456789")
    for completion in [io.aio_setxattr("aio-attr", f"k{i}", b"%d" % i) for i in range(50)]:
        completion.wait_for_complete()
        same(completion.get_return_value(), 0)
    same(len(list(io.get_xattrs("aio-attr"))), 50)
    got = []
    io.aio_stat("aio-attr", lambda c, size, when: got.append(size)).wait_for_complete_and_cb()
    same(got, [10])
    completion = io.aio_cmpext("aio-attr", b"345", 3)
    completion.wait_for_complete()
    same(completion.get_return_value(), 0)


if __name__ == "__main__":
    main()
