"""Reads all traffic of a cluster whose processes are on TCP, and searches it for array contents and secrets (docs/security.md)."""

import os
import secrets
import socket
import threading

import pytest
from cli import CommandLine, User, secrets_in
from conftest import eventually

ETH_P_ALL = 3

PROGRAM = """
import jax, numpy as np
a, b = jax.devices()
text = np.frombuffer(b"MARK" * 20000, np.uint8)
there = jax.device_put(jax.device_put(text, a), b)
def named_MARK(v):
    return v.sum()
print(bool((np.asarray(there) == text).all()), float(jax.jit(named_MARK)(jax.device_put(np.float32(3), a))))
"""


class Tap:
    """Records every frame of the loopback device."""

    def __init__(self):
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self._socket.setsockopt(socket.SOL_SOCKET, 33, 256 << 20)  # SO_RCVBUFFORCE
        self._socket.bind(("lo", 0))
        self._socket.settimeout(0.2)
        self._frames, self._done = [], threading.Event()
        self._thread = threading.Thread(target=self._record, daemon=True)
        self._thread.start()

    def _record(self):
        while True:
            try:
                self._frames.append(self._socket.recv(1 << 17))
            except TimeoutError:
                if self._done.is_set():
                    return

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()
        self._socket.close()

    def has(self, text):
        return any(text in frame for frame in self._frames)

    def bytes(self):
        return sum(map(len, self._frames))


def run(tmp_path, *tls):
    """Runs a program on two hosts that joined by TCP. Returns the tap, the mark in the program's array and in the name of its function, and the
    secrets in all token files. The tap also reads the traffic of other programs on this machine."""
    mark = secrets.token_hex(12)
    operator, workers = CommandLine(tmp_path / "operator"), []
    operator.env["PATHWAYS_TLS"] = "off" if tls else "on"
    try:
        with Tap() as tap:
            up = operator("up", "--no-workers", "--hosts", "2", "--listen", "0.0.0.0:0", "--advertise", "127.0.0.1", "--listen-proxy", "none", *tls)
            token = []
            if not tls:
                operator("token", "create", "--user", "rack1", "--role", "worker", "--output", str(tmp_path / "rack1.token"))
                token = ["--token-file", str(tmp_path / "rack1.token")]
            for name in ("a", "b"):
                host = User(tmp_path / name)
                host.env["PATHWAYS_TLS"] = operator.env["PATHWAYS_TLS"]
                workers.append(host.start("worker", "--join", up["address"], "--devices", "1", "--host", name, "--island", name, "--advertise", "127.0.0.1",
                                          *token, log=tmp_path / f"{name}.log"))
            assert eventually(lambda: operator("status")["state"] == "formed"), [path.read_text() for path in tmp_path.glob("*.log")]
            operator.env["PATHWAYS_DOOR"] = "pjrt"  # the session and its lanes are TCP connections of the program's own process
            assert operator.run(up["address"], PROGRAM.replace("MARK", mark)) == "True 3.0\n"
    finally:
        for worker in workers:
            worker.terminate()
            worker.wait()
        operator("down", check=False)
    return tap, mark.encode(), secrets_in(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="this user may not read the network")
def test_nothing_on_the_wire_can_be_read(tmp_path_factory):
    tap, mark, tokens = run(tmp_path_factory.mktemp("on"))
    assert len(tokens) >= 2 and tap.bytes() > len(mark) * 20000  # arrays did cross the network
    assert not tap.has(mark) and not any(tap.has(token) for token in tokens)


@pytest.mark.skipif(os.geteuid() != 0, reason="this user may not read the network")
def test_the_tap_reads_what_is_not_encrypted(tmp_path_factory):
    """Shows that the test above can fail."""
    tap, mark, _ = run(tmp_path_factory.mktemp("off"), "--tls", "off")
    assert tap.has(mark + mark), "the array"
    assert tap.has(b"named_" + mark), "the program"
