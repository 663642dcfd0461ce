"""Measures jax.device_put of 64 MiB from a device of one worker to a device of another. Two workers that share memory are compared with memcpy. Two
workers that share none, as on two machines, are compared with a bare socket. Both use the loopback. Sides take turns.
"""

import contextlib
import socket
import threading
import time

import _report
import _sides

MIB = 64


def bare_socket(mib):
    """Measures the seconds to send `mib` MiB from one thread to another over TCP."""
    listener = socket.create_server(("127.0.0.1", 0))
    sender = socket.create_connection(listener.getsockname())
    receiver, _ = listener.accept()
    data, into = bytearray(mib << 20), memoryview(bytearray(mib << 20))
    into[:] = data  # allocates the pages

    def receive():
        at = 0
        while at < len(into):
            at += receiver.recv_into(into[at:])

    thread = threading.Thread(target=receive)
    start = time.perf_counter()
    thread.start()
    sender.sendall(data)
    thread.join()
    seconds = time.perf_counter() - start
    for s in (listener, sender, receiver):
        s.close()
    return {"seconds": seconds}


def memcpy(mib):
    import numpy as np

    source, target = np.ones(mib << 18, np.float32), np.full(mib << 18, 2, np.float32)  # touches the pages, which allocates them
    start = time.perf_counter()
    np.copyto(target, source)
    return {"seconds": time.perf_counter() - start}


def main():
    def add(parser):
        parser.add_argument("--rounds", type=int, default=15)

    args = _report.arguments(__doc__, add)
    with contextlib.ExitStack() as stack:
        asks = {"socket": lambda: bare_socket(MIB), "memcpy": lambda: memcpy(MIB)}
        for name, shared in (("one_machine", True), ("two_machines", False)):
            side = stack.enter_context(_sides.client(name, "package", *stack.enter_context(_sides.two_workers(shared))))
            asks[name] = lambda side=side: side.ask("across", mib=MIB)
        results = _sides.take_turns(args.rounds, asks)
    gb = MIB * (1 << 20) / 1e9
    rates = {name: gb / _sides.median(rounds, "seconds") for name, rounds in results.items()}
    print("  ".join(f"{name} {rate:.2f} GB/s" for name, rate in rates.items()))
    _report.finish(args, "moves", {f"{name}_gb_per_s": rate for name, rate in rates.items()}, [
        _report.target("one machine / memcpy", rates["one_machine"] / rates["memcpy"], 0.5, at_most=False),
        _report.target("two machines / a bare socket", rates["two_machines"] / rates["socket"], 0.8, at_most=False)])


if __name__ == "__main__":
    main()
