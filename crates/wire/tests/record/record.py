#!/usr/bin/env python3
"""Records messages between Ceph's clients and a running Ceph as fixtures for the tests of this crate.

    record.py FIRST_PORT LAST_PORT OUT_DIR -- COMMAND...

Listens on the loopback device (needs root) while COMMAND runs, follows the msgr v2.1 sessions (crc mode) whose
accepting side uses a port from FIRST_PORT to LAST_PORT and whose connecting side is a client, and writes the first
small message of each kind to OUT_DIR/NAME.hex: one file per message type, direction and list of operations.
"""
import os
import socket
import struct
import subprocess
import sys
import threading

OP_NAMES = {}
CLIENT = 8
HELLO, MESSAGE = 1, 17
MAX_BYTES = 6000

KINDS = {
    2: "ping", 4: "mon_map", 5: "mon_get_map", 6: "mon_get_osd_map", 13: "statfs", 14: "statfs_reply",
    15: "mon_subscribe", 16: "mon_subscribe_ack", 19: "mon_get_version", 20: "mon_get_version_reply", 41: "osd_map",
    42: "osd_op", 43: "osd_op_reply", 44: "watch_notify", 45: "fs_map", 48: "pool_op_reply", 49: "pool_op",
    50: "mon_command", 51: "mon_command_ack", 52: "log", 53: "log_ack", 58: "get_pool_stats",
    59: "get_pool_stats_reply", 61: "osd_backoff", 62: "config", 63: "get_config", 97: "command",
    98: "command_reply", 103: "fs_map_user", 0x704: "mgr_map", 0x707: "service_map", 0x709: "mgr_command",
    0x70a: "mgr_command_reply",
}
# Messages that clients may exchange too, but that are easier to catch from daemons.
FROM_ANYBODY = {6, 45, 52, 53, 63, 0x707}


class Stream:
    """One direction of a TCP connection: bytes in order, cut into frames."""

    def __init__(self, on_frame):
        self.next_seq, self.early, self.buf, self.banner_seen = None, {}, bytearray(), False
        self.on_frame, self.broken = on_frame, False

    def segment(self, seq, payload, syn):
        if syn:
            self.next_seq = (seq + 1) & 0xffffffff
            return
        if self.next_seq is None or not payload or self.broken:
            return
        self.early[seq] = payload
        while self.next_seq in self.early:
            piece = self.early.pop(self.next_seq)
            self.next_seq = (self.next_seq + len(piece)) & 0xffffffff
            self.buf += piece
        self.cut()

    def cut(self):
        if not self.banner_seen:
            if len(self.buf) < 26:
                return
            if bytes(self.buf[:8]) != b"ceph v2\n":
                self.broken = True
                return
            del self.buf[:26]
            self.banner_seen = True
        while len(self.buf) >= 32:
            tag, count = self.buf[0], self.buf[1]
            if not 1 <= count <= 4:
                self.broken = True
                return
            lengths = [struct.unpack_from("<I", self.buf, 2 + 6 * i)[0] for i in range(count)]
            total = 32 + lengths[0] + (4 if lengths[0] else 0)
            if count > 1:
                total += sum(lengths[1:]) + 13
            if len(self.buf) < total:
                return
            at, segments = 32, []
            for i, length in enumerate(lengths):
                segments.append(bytes(self.buf[at:at + length]))
                at += length + (4 if i == 0 and length else 0)
            segments += [b""] * (4 - count)
            del self.buf[:total]
            self.on_frame(tag, segments)


class Session:
    def __init__(self, recorder):
        self.recorder, self.connector_kind = recorder, None
        self.to_server = Stream(lambda tag, segments: self.frame(True, tag, segments))
        self.to_client = Stream(lambda tag, segments: self.frame(False, tag, segments))

    def frame(self, from_connector, tag, segments):
        if tag == HELLO and from_connector:
            self.connector_kind = segments[0][0]
        if tag == MESSAGE and len(segments[0]) >= 41:
            kind = struct.unpack_from("<H", segments[0], 16)[0]
            if self.connector_kind == CLIENT or kind in FROM_ANYBODY:
                self.recorder.message(segments)


class Recorder:
    def __init__(self, first, last, out):
        self.ports, self.out, self.sessions, self.seen = (first, last), out, {}, {}
        os.makedirs(out, exist_ok=True)

    def packet(self, packet):
        ihl = (packet[0] & 15) * 4
        if packet[9] != 6:
            return
        total = struct.unpack_from(">H", packet, 2)[0] or len(packet)
        tcp = packet[ihl:max(total, ihl)] if total >= ihl else packet[ihl:]
        sport, dport, seq = struct.unpack_from(">HHI", tcp)
        offset, flags = (tcp[12] >> 4) * 4, tcp[13]
        inside = lambda port: self.ports[0] <= port <= self.ports[1]
        if inside(dport):
            key, to_server = (sport, dport), True
        elif inside(sport):
            key, to_server = (dport, sport), False
        else:
            return
        syn = bool(flags & 2)
        if syn and to_server:
            self.sessions[key] = Session(self)
        session = self.sessions.get(key)
        if session:
            (session.to_server if to_server else session.to_client).segment(seq, tcp[offset:], syn)

    def message(self, segments):
        head, front, middle, data = segments
        seq, tid, kind, priority, version, pad, data_off, ack, flags, compat, _ = struct.unpack("<QQHHHIHQBHH", head)
        name = KINDS.get(kind, f"unknown_{kind:#x}")
        ops = self.ops(kind, version, front)
        if ops:
            name += "-" + "-".join(ops)
        failed = kind == 43 and struct.unpack_from("<i", front, 4 + struct.unpack_from("<I", front)[0] + 17 + 8)[0] < 0
        if failed:
            name += "-error"
        size = len(front) + len(data)
        best = self.seen.get(name)
        # Prefer a message with some payload over one without, else the first.
        if size > MAX_BYTES or (best and (best[1] or not data)):
            return
        self.seen[name] = (size, bool(data))
        with open(os.path.join(self.out, name[:120] + ".hex"), "w") as f:
            f.write(f"{kind} {tid} {priority} {version} {compat} {data_off}\n")
            for part in (front, middle, data):
                text = part.hex()
                f.write("\n".join(text[i:i + 120] for i in range(0, len(text), 120)) + "\n---\n")

    def ops(self, kind, version, front):
        """Names of an operation's parts; the layout is the one the tests check."""
        try:
            if kind == 42:
                at = 24 + 4 + 4 + 4 + 27 + 24 + 4 + 8
                at += 6 + struct.unpack_from("<I", front, at + 2)[0]
                at += 4 + struct.unpack_from("<I", front, at)[0]
                count, at = struct.unpack_from("<H", front, at)[0], at + 2
            elif kind == 43:
                at = 4 + struct.unpack_from("<I", front)[0] + 17 + 8 + 4 + 12 + 4
                count, at = struct.unpack_from("<I", front, at)[0], at + 4
            else:
                return []
            codes = [struct.unpack_from("<H", front, at + 38 * i)[0] for i in range(count)]
            return [OP_NAMES.get(code, f"{code:#06x}") for code in codes]
        except struct.error:
            return ["undecoded"]


def op_names():
    """From the crate's own table."""
    table = os.path.join(os.path.dirname(__file__), "../../src/messages/op_code.rs")
    for line in open(table):
        words = line.replace(";", "").split()
        if len(words) == 4 and words[1] == "=" and words[2].startswith("0x"):
            OP_NAMES[int(words[2], 16)] = words[3].strip('"').replace("-", "_")


def main():
    first, last, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    command = sys.argv[sys.argv.index("--") + 1:]
    op_names()
    recorder = Recorder(first, last, out)
    listener = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.ntohs(0x0003))
    listener.setsockopt(socket.SOL_SOCKET, 33, 1 << 28)  # SO_RCVBUFFORCE
    listener.bind(("lo", 0))
    listener.settimeout(0.5)
    done = threading.Event()

    def listen():
        while True:
            try:
                packet, address = listener.recvfrom(1 << 17)
            except TimeoutError:
                if done.is_set():
                    return
                continue
            if address[1] == 0x0800 and address[2] != 4:  # incoming half of the loopback only
                recorder.packet(packet)

    thread = threading.Thread(target=listen)
    thread.start()
    code = subprocess.call(command)
    done.set()
    thread.join()
    print(f"{len(recorder.seen)} kinds of messages recorded", *sorted(recorder.seen), sep="\n  ")
    sys.exit(code)


main()
