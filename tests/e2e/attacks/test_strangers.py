"""Strangers on the network connect to every TCP port of a cluster, and announce, send or wait too much (docs/security.md). The cluster has a controller
and two hosts that joined by TCP, each on an island of its own."""

import contextlib
import random
import re
import resource
import socket
import struct

import pytest
from cli import CommandLine, User
from conftest import PATIENCE, eventually
from peers import dial, field, frame, heard, listener, listening, peak_memory, prefix, say, sockets_of, speaks_tls, tls

MIB = 1 << 20
ROOM = 96 * MIB  # what a process may need for other reasons while strangers are there; each attack asks for gigabytes

# Computes on each host, across the hosts, and moves an array between them.
PROGRAM = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
a, b = jax.devices()
x = np.arange(1 << 20, dtype=np.float32)
there = jax.device_put(jax.device_put(x, a), b)
rows = NamedSharding(Mesh(np.array([a, b]), ("x",)), P("x"))
total = jax.jit(lambda v: v.sum(), in_shardings=rows)(jax.device_put(np.ones(1 << 16, np.float32), rows))
print(bool((np.asarray(there) == x).all()), float(total))
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Returns the operator's command line, with the clients' address, and the addresses and processes of controller and hosts."""
    folder = tmp_path_factory.mktemp("strangers")
    operator, workers = CommandLine(folder / "operator"), []
    try:
        operator.up = operator("up", "--no-workers", "--hosts", "2", "--listen", "0.0.0.0:0", "--advertise", "127.0.0.1", "--listen-proxy", "none")
        operator("token", "create", "--user", "rack1", "--role", "worker", "--output", str(folder / "rack1.token"))
        for name in ("a", "b"):
            host = User(folder / name)
            workers.append(host.start("worker", "--join", operator.up["address"], "--devices", "1", "--host", name, "--island", name, "--advertise", "127.0.0.1",
                                      "--token-file", str(folder / "rack1.token"), log=folder / f"{name}.log"))
        assert eventually(lambda: operator("status")["state"] == "formed"), [path.read_text() for path in folder.glob("*.log")]
        assert works(operator)  # its links and lanes are open now
        operator.controller = listener(operator.up["address"])
        operator.hosts = [host["pid"] for host in operator("status")["hosts"]]
        yield operator
    finally:
        for worker in workers:
            worker.terminate()
            worker.wait()
        operator("down", check=False)


def works(operator):
    return operator.run(operator.up["address"], PROGRAM) == "True 65536.0\n"


def ports(operator):
    """Returns [(process, address)] of all ports at which processes of the cluster listen."""
    return [(pid, address.replace("0.0.0.0", "127.0.0.1")) for pid in (operator.controller, *operator.hosts) for address in sorted(listening(pid))]


def encrypted(operator):
    """Returns the ports of these that speak TLS: all but those of the CPU plugin's collectives."""
    found = [(pid, address) for pid, address in ports(operator) if speaks_tls(address)]
    assert len(found) == 6, found  # of clients, of workers; of each host's peers and lanes
    return found


def test_nobody_takes_memory_for_what_a_stranger_announces(cluster):
    """Each connection announces a header of 16 MiB, or a payload of a gibibyte, and sends the beginning of it."""
    before = {pid: peak_memory(pid) for pid, _ in ports(cluster)}
    for _, address in encrypted(cluster):
        for announced in (prefix(16 * MIB), prefix(16, 1 << 30), prefix(1 << 31, 1 << 63)):
            for _ in range(10):
                with contextlib.closing(tls(address)) as connection:
                    say(connection, announced + bytes(64))
                    assert len(heard(connection)) < 4096
    for pid, most in before.items():
        assert peak_memory(pid) - most < ROOM
    assert works(cluster)


def test_many_small_events_before_a_hello_cost_little(cluster):
    """Two bytes are an event of a worker's frame, which takes some forty times as much memory."""
    workers = cluster("status")["workers_address"].replace("0.0.0.0", "127.0.0.1")
    pid, before = listener(workers), peak_memory(listener(workers))
    for event in (field(1, b""), field(1, field(2, b""))):  # one of no kind, and a pong
        for _ in range(40):
            with contextlib.closing(tls(workers)) as connection:
                for _ in range(16):
                    say(connection, frame(event * ((255 << 10) // len(event))))
                heard(connection)
    assert peak_memory(pid) - before < ROOM
    assert works(cluster)


def test_nonsense_in_frames_harms_nobody(cluster):
    """After TLS's handshake a stranger's frame reaches the decoder of the port's protocol. Most of these frames are messages of some protocol."""
    source = random.Random(26)

    def nonsense(depth=0):
        contents = [nonsense(depth + 1) if depth < 4 and source.random() < 0.6 else source.randbytes(source.randrange(8)) for _ in range(source.randrange(4))]
        return b"".join(field(source.randrange(1, 16), one) if source.random() < 0.8 else bytes([source.randrange(1, 16) << 3]) + one for one in contents)

    for _, address in encrypted(cluster):
        for _ in range(60):
            with contextlib.closing(tls(address)) as connection:
                words = frame(nonsense(), source.randbytes(source.choice((0, 0, 100))))
                say(connection, words if source.random() < 0.9 else words[:-1] + b"PWF1")
                with contextlib.suppress(OSError):  # it has closed the connection
                    connection.shutdown(socket.SHUT_WR)
                heard(connection)
    assert works(cluster)


def test_a_stranger_that_only_answers_pings_is_sent_away(cluster):
    """A pong is the sign of life of a host that is let in; it does not keep a stranger's connection."""
    workers = cluster("status")["workers_address"].replace("0.0.0.0", "127.0.0.1")
    with contextlib.closing(tls(workers)) as connection:
        say(connection, frame(field(1, field(2, b""))))
        heard(connection)


def test_strangers_that_wait_are_few_and_keep_nobody_out(cluster):
    """At every port many connections say nothing, or begin and do not go on. Meanwhile programs compute; then the connections are closed."""
    resource.setrlimit(resource.RLIMIT_NOFILE, 2 * resource.getrlimit(resource.RLIMIT_NOFILE)[1:])
    crowd = []
    before = {pid: len(sockets_of(pid)) for pid, _ in ports(cluster)}
    for _, address in ports(cluster):
        for words in (b"", b"\x16\x03\x01", b"PWF1", struct.pack("<II", 0x70776331, 1)) * 40:
            connection = dial(address)
            say(connection, words)
            crowd.append(connection)
    for _, address in encrypted(cluster):
        crowd += [tls(address) for _ in range(100)]
    assert works(cluster)
    for connection in crowd:
        heard(connection)
        connection.close()
    assert eventually(lambda: all(len(sockets_of(pid)) <= most + 4 for pid, most in before.items())), "sockets stay"
    assert works(cluster)


def test_the_port_of_collectives_is_on_one_address_and_lets_only_hosts_speak(cluster):
    """It is encrypted by a key that the controller gives to hosts, and has no certificate. A stranger takes part in nothing and ends nothing."""
    collectives = [(pid, address) for pid, address in ports(cluster) if not speaks_tls(address)]
    assert len(collectives) == 2 and {pid for pid, _ in collectives} == set(cluster.hosts), collectives
    for pid, address in collectives:
        assert address in listening(pid), "it listens on all addresses"
        before = peak_memory(pid)
        hello = struct.pack("<IIQQqqQ", 0x70776331, 1, 4711, 1, 0, 0, 0)  # wire.cc: magic, kind, uid, the secret's three parts, size
        for words in (hello, hello + hello, hello[:4] + b"\2" + hello[5:40] + struct.pack("<Q", 1 << 40), hello[:40] + struct.pack("<Q", 1 << 30),
                      b"\0" * 48, b"x" * 48, hello[:4] + b"\3" + hello[5:]):
            with contextlib.closing(dial(address)) as connection:
                say(connection, words)
                assert len(heard(connection)) < 16  # an alert of TLS at most
        assert peak_memory(pid) - before < ROOM
    with pytest.raises(OSError):
        dial(collectives[0][1].replace("127.0.0.1", "127.0.0.2"))
    assert works(cluster)


def test_the_sockets_of_one_machine_have_names_that_cannot_be_guessed(cluster):
    """Sockets without a file are open to all users of the machine: they are random numbers, and let nobody in without a key."""
    inodes = {inode for pid in cluster.hosts for inode in sockets_of(pid)}
    with open("/proc/net/unix") as sockets:
        columns = [line.split() for line in sockets]
    names = {words[7] for words in columns if len(words) == 8 and words[6] in inodes and words[7].startswith("@")}
    assert names
    for name in names:
        assert re.search("[0-9a-f]{12}", name), name
        for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
            with contextlib.closing(socket.socket(socket.AF_UNIX, kind)) as connection, contextlib.suppress(OSError):
                connection.settimeout(PATIENCE)
                connection.connect("\0" + name[1:])
                say(connection, b"x" * 64)
                assert heard(connection) == b"", name
    assert works(cluster)
