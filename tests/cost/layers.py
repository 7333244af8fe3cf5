"""Which layer of a daemon, a client or the kernel a sampled place in the code belongs to.

A sample is a chain of symbols, the innermost first. In the kernel the first symbol that a rule knows decides: a copy
below `tcp_recvmsg` is a copy, a wake-up below it is scheduling. In a program the innermost symbol decides alone.
"""
import re

# Layers of the kernel in order of their rules; each rule is the beginning of symbols' names.
COPY = "kernel: copies"
SCHEDULING = "kernel: scheduling"
NETWORK = "kernel: network"
BLOCK = "kernel: block, file system"
MEMORY = "kernel: memory"
RING = "kernel: ring"
CALLS = "kernel: calls, interrupts"
OTHER_KERNEL = "kernel: other"

ALLOCATOR = "allocator"
MOVES = "memcpy, memset, memcmp"
LIBRARIES = "libraries"
UNKNOWN = "unknown"

KERNEL_RULES = (
    (COPY, ("rep_movs", "_copy_to_iter", "_copy_from_iter", "copy_user", "_copy_from_user", "_copy_to_user",
            "__copy_", "copy_page", "simple_copy", "memcpy")),
    (SCHEDULING, ("__schedule", "schedule", "try_to_wake_up", "ttwu_", "enqueue_", "dequeue_", "pick_next",
                  "finish_task_switch", "update_curr", "update_load", "select_task", "select_idle", "__wake_up",
                  "autoremove_wake", "default_wake", "wake_up_", "wake_q", "futex_", "__futex", "do_futex", "eventfd_",
                  "prepare_to_wait", "finish_wait", "io_cqring_wait", "ep_", "do_epoll", "hrtimer_", "__hrtimer",
                  "tick_", "sched_", "psi_", "resched_", "native_smp_send", "x2apic_send", "__x64_sys_futex",
                  "io_wqe_worker", "io_wq_worker", "io_queue_iowq", "io_wq_enqueue")),
    (NETWORK, ("tcp_", "__tcp", "ip_", "__ip_", "inet", "__inet", "sock_", "__sock", "skb_", "__skb", "__alloc_skb",
               "alloc_skb", "kfree_skb", "consume_skb", "sk_", "__sk_", "net_rx", "__netif", "netif_",
               "process_backlog", "loopback_", "dev_", "__dev_", "release_sock", "lock_sock", "__lock_sock", "napi_", "__napi",
               "nf_",
               "eth_", "unix_", "io_send", "io_recv", "__sys_sendmsg", "__sys_recvmsg", "___sys_", "validate_xmit",
               "bpf_skops", "ipv4_", "fib_", "rt_", "import_iovec")),
    (BLOCK, ("blk_", "__blk", "bio_", "__bio", "submit_bio", "__submit_bio", "virtblk", "virtio_", "virtqueue",
             "vring", "vp_", "vm_notify", "ext4_", "__ext4", "iomap_", "__iomap", "blkdev_", "bdev_", "dio_",
             "io_write", "io_read", "io_fsync", "vfs_fsync", "vfs_iter", "sync_", "jbd2", "writeback_", "__writeback",
             "write_cache", "do_writepages", "filemap_", "__filemap", "file_write", "dd_", "mq_", "elv_", "xfs_",
             "generic_", "aio_", "io_submit", "vfs_write", "vfs_read", "kiocb_", "sg_", "dma_")),
    (MEMORY, ("handle_mm", "__handle_mm", "do_anonymous", "clear_page", "exc_page_fault", "asm_exc_page",
              "do_user_addr", "madvise", "do_madvise", "pin_user", "gup_", "__gup", "get_user_pages",
              "iov_iter_extract", "__iov_iter_get", "unmap_", "zap_", "mmap", "do_mmap", "vm_mmap", "alloc_pages",
              "__alloc_pages",
              "free_unref", "rmqueue", "get_page_from", "release_pages")),
    (RING, ("io_", "__io_", "__x64_sys_io_uring")),
    (CALLS, ("entry_", "do_syscall", "syscall_", "__x64_sys", "x64_sys", "exit_to_user", "asm_", "irq_", "__irq",
             "handle_irq", "handle_edge", "do_softirq", "__do_softirq", "handle_softirqs", "common_interrupt",
             "sysvec_", "__sysvec", "ksoftirqd", "run_ksoftirqd", "smpboot")),
)

# A C function of the allocator, whatever its linkage.
ALLOCATOR_NAME = re.compile(
    r"^_*mi_|\btcmalloc|^(?:tc_)?(?:malloc|free|calloc|realloc|cfree|_int_malloc|_int_free|malloc_consolidate)(?:$|@)")
MOVES_NAME = re.compile(r"^_*(?:memcpy|memmove|memset|memcmp|bcmp|strlen)")
LIBRARY_NAME = re.compile(r"\b(?:core|alloc|std|hashbrown|bytes|crc_fast|io_uring|rustix|tokio|tracing\w*)::")
# A crate's name in a symbol that the profiler has left mangled: `Cs`, a hash, `_`, the length, the name.
MANGLED_CRATE = re.compile(r"Cs[0-9A-Za-z]*_(\d+)([0-9A-Za-z_]+)")


def of_kernel(chain):
    """The layer of a sample in the kernel. `chain`: symbols, the innermost first."""
    for symbol in chain:
        for layer, beginnings in KERNEL_RULES:
            if symbol.startswith(beginnings):
                return layer
    return OTHER_KERNEL


def crates_of(symbol):
    """Names of crates that a Rust symbol holds, in order, demangled or not."""
    if symbol.startswith("_R"):
        found = MANGLED_CRATE.findall(symbol)
        return [name.lstrip("_")[:int(length)] for length, name in found]
    return re.findall(r"(?<![\w:])([a-z_][a-z0-9_]*)::", symbol)


def of_program(symbol, crates):
    """The layer of a sample in a program. `crates`: names of the workspace's crates, one layer each."""
    if ALLOCATOR_NAME.search(symbol):
        return ALLOCATOR
    if MOVES_NAME.search(symbol):
        return MOVES
    named = crates_of(symbol)
    own = next((name for name in named if name in crates), None)
    if own is not None:
        return own
    if named or LIBRARY_NAME.search(symbol):
        return LIBRARIES
    return UNKNOWN if symbol == "[unknown]" else LIBRARIES
