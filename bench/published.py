"""Measures how a program reads arrays that another one has published (pw.publish, pw.published), from a host to the other, against the raw link: a
socket over which one process sends as many bytes to another. The hosts share no memory. Sides take turns:

    raw        a TCP connection of the loopback, with no encryption
    plain      a cluster without TLS
    tls        a cluster with TLS, as clusters on networks are

A version is a tree of arrays of 16 MiB. The reader asks when it is there; the time is until all its arrays are on the reader's device.
"""

import contextlib
import socket
import threading
import time

import _report
import _sides

ARRAY_MIB = 16


class RawLink:
    """A TCP connection of the loopback. A thread sends: sending and receiving leave Python's lock to others."""

    def __init__(self, size):
        self._bytes, self._into = bytearray(size), bytearray(size)
        with socket.create_server(("127.0.0.1", 0)) as server:
            self._near = socket.create_connection(server.getsockname())
            self._far, _ = server.accept()

    def __call__(self):
        thread = threading.Thread(target=self._near.sendall, args=(self._bytes,))
        start = time.perf_counter()
        thread.start()
        into = memoryview(self._into)
        while into:
            into = into[self._far.recv_into(into):]
        seconds = time.perf_counter() - start
        thread.join()
        return {"seconds": seconds}

    def close(self):
        self._near.close()
        self._far.close()


class Published:
    """A learner and a reader on a cluster of two hosts."""

    def __init__(self, stack, name, arrays, tls):
        address, env = stack.enter_context(_sides.two_workers(shared=False, tls=tls))
        self._learner, self._reader = (stack.enter_context(_sides.client(f"{name}-{who}", "package", address, env)) for who in ("learner", "reader"))
        self._arrays, self._version = arrays, 0

    def __call__(self):
        told = self._learner.ask("publish", arrays=self._arrays, mib=ARRAY_MIB)
        read = self._reader.ask("published", arrays=self._arrays, mib=ARRAY_MIB, newer_than=self._version)
        if read.get("version") != told.get("version"):
            raise RuntimeError(f"published {told}, read {read}")
        self._version = read["version"]
        return read


def main():
    def add(parser):
        parser.add_argument("--mib", type=int, default=256)
        parser.add_argument("--rounds", type=int, default=9)

    args = _report.arguments(__doc__, add)
    arrays = args.mib // ARRAY_MIB
    size = arrays * ARRAY_MIB << 20
    with contextlib.ExitStack() as stack:
        raw = RawLink(size)
        stack.callback(raw.close)
        sides = {"raw": raw, "plain": Published(stack, "plain", arrays, tls=False), "tls": Published(stack, "tls", arrays, tls=True)}
        results = _sides.take_turns(args.rounds, sides)
    figures = {}
    for name, rounds in results.items():
        seconds = _sides.median(rounds, "seconds")
        figures[name] = {"seconds": seconds, "gb_per_s": size / 1e9 / seconds}
        print(f"published {name:6} {figures[name]['gb_per_s']:.2f} GB/s")

    def share(name):
        return figures[name]["gb_per_s"] / figures["raw"]["gb_per_s"]

    print(f"published: with TLS {share('tls'):.2f} of the raw link, which encrypts nothing")
    _report.finish(args, "published", figures, [_report.target("reading what is published, without TLS / raw link", share("plain"), 0.8, at_most=False)])


if __name__ == "__main__":
    main()
