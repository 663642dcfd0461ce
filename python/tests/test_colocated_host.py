"""The process that runs colocated functions on a host (pathways/_colocated/host.py), with this test in the place of its worker."""

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import threading

import numpy as np
import pytest

from pathways._colocated import envelope, wire
from pathways._colocated.lent_files import LentFiles

jax = pytest.importorskip("jax")
if jax.__version_info__ < (0, 9, 1):
    pytest.skip("jax's colocated Python on hosts wants jax 0.9.1 or newer", allow_module_level=True)

HOST = "host 'h' of island 'i'"
PATIENCE = 120


class Worker:
    """Starts the process, and speaks with it as a worker does."""

    def __init__(self, python=sys.executable):
        name, key = f"pathways-test-{os.getpid()}-{id(self)}", b"k" * 32
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind("\0" + name)
        listener.listen()
        self.link, theirs = socket.socketpair()
        self.process = subprocess.Popen([python, "-P", "-m", "pathways._colocated.host"], stdin=theirs, stdout=theirs, env=_environment())
        theirs.close()
        greeting = {"connect": {"address": f"unix:@{name}", "key": key.hex()}, "host": HOST, "self": 0, "hosts": [[0], [1]]}
        self.link.sendall(json.dumps(greeting).encode() + b"\n")
        listener.settimeout(PATIENCE)
        self.socket, _ = listener.accept()
        self.socket.settimeout(PATIENCE)
        assert self.socket.recv(100) == key
        self.numbers = iter(range(1, 1000))

    def send(self, header, parts=()):
        text = json.dumps({**header, "bytes": [len(part) for part in parts]}).encode()
        message = bytearray(struct.pack("<I", len(text)) + text)
        for part in parts:
            message += bytes(-len(message) % 64) + part
        file = os.memfd_create("test")
        os.write(file, message)
        socket.send_fds(self.socket, [b"F%d" % len(message)], [file])
        os.close(file)

    def receive(self):
        packet, files, _, _ = socket.recv_fds(self.socket, 4096, 1)
        assert packet, "the process has closed the socket"
        if not files:
            return wire._read(memoryview(packet)[1:])
        with os.fdopen(files[0], "rb") as file:
            return wire._read(memoryview(file.read()))

    def load(self, text, inputs=1, outputs=1, **more):
        number = next(self.numbers)
        self.send({"load": number, "name": "f", "inputs": [[0]] * inputs, "outputs": [[0]] * outputs, **more}, [text])
        header, _ = self.receive()
        assert header["loaded"] == number
        return number, header

    def call(self, function, arrays, stream="1"):
        number = next(self.numbers)
        self.send({"call": number, "function": function, "stream": stream}, [wire.bytes_of(array).tobytes() for array in arrays])
        return number


def _environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture
def worker():
    worker = Worker()
    yield worker
    worker.process.kill()
    worker.process.wait()


def pickled(function, *specs, out, device=0):
    """Returns a function of arrays on a device, specialized and pickled by jax."""
    from jax.experimental.colocated_python import serialization

    device = jax.devices("cpu")[device]
    sharding = jax.sharding.SingleDeviceSharding(device)
    with_sharding = lambda spec: jax.ShapeDtypeStruct(spec.shape, spec.dtype, sharding=sharding)
    leaves, tree = jax.tree.flatten((tuple(map(with_sharding, specs)), {}))
    out_leaves, out_tree = jax.tree.flatten(jax.tree.map(with_sharding, out))
    return serialization._serialize((function, tree, leaves, out_tree, out_leaves, sharding._internal_device_list))


F4 = jax.ShapeDtypeStruct((4,), np.float32)


def test_a_function_runs_in_the_process_and_returns_its_result(worker):
    number, header = worker.load(envelope.pack(pickled(lambda x: x + os.getpid(), F4, out=F4)))
    assert "code" not in header, header
    worker.call(number, [np.zeros(4, np.float32)])
    header, parts = worker.receive()
    assert "code" not in header, header
    np.testing.assert_array_equal(np.frombuffer(parts[0], np.float32), np.full(4, worker.process.pid, np.float32))


def test_a_device_of_a_slice_stands_for_a_physical_one(worker):
    sharding = jax.sharding.SingleDeviceSharding(jax.devices("cpu")[5])

    def where(x):
        return x + 10 * sum(d.id for d in sharding.device_set) + sum(d.id for d in x.devices())

    text = pickled(where, F4, out=F4, device=5)
    number, header = worker.load(text, bound=[[5, 0]])
    assert "code" not in header, header
    worker.call(number, [np.ones(4, np.float32)])
    header, parts = worker.receive()
    assert "code" not in header, header
    np.testing.assert_array_equal(np.frombuffer(parts[0], np.float32), np.ones(4, np.float32))
    for bound, said in (({}, "Invalid device ID 5"), ({"bound": [[5, 7]]}, "device 7 has joined the cluster after this process had started")):
        _, header = worker.load(text, **bound)
        assert said in header["message"], header


def test_it_tells_the_limit_of_time_that_the_program_sets(worker, monkeypatch):
    text = pickled(lambda x: x, F4, out=F4)
    monkeypatch.setenv("PATHWAYS_FUNCTION_SECONDS", "2.5")
    _, header = worker.load(envelope.pack(text))
    assert header["seconds"] == 2.5
    monkeypatch.delenv("PATHWAYS_FUNCTION_SECONDS")
    _, header = worker.load(envelope.pack(text))
    assert "seconds" not in header
    for wrong in ("soon", "0", "-1", "nan", "inf"):
        monkeypatch.setenv("PATHWAYS_FUNCTION_SECONDS", wrong)
        with pytest.raises(ValueError, match="must be a number of seconds above 0"):
            envelope.pack(text)


def test_large_arrays_and_types_of_other_libraries_keep_their_bytes(worker):
    wide = jax.ShapeDtypeStruct((1 << 20,), np.int64)
    half = jax.ShapeDtypeStruct((3,), jax.numpy.bfloat16)
    number, header = worker.load(pickled(lambda x, y: (x, y), wide, half, out=(wide, half)), 2, 2)
    assert "code" not in header, header
    sent = [np.arange(1 << 20, dtype=np.int64) << 20, np.array([1, 2, 3], jax.numpy.bfloat16)]
    worker.call(number, sent)
    header, parts = worker.receive()
    assert "code" not in header, header
    for array, part in zip(sent, parts, strict=True):
        assert wire.bytes_of(array).tobytes() == bytes(part)


def test_an_error_has_the_traceback_and_the_host(worker):
    def fail(x):
        raise KeyError("what is missing")

    number, _ = worker.load(pickled(fail, F4, out=F4))
    worker.call(number, [np.zeros(4, np.float32)])
    header, _ = worker.receive()
    assert header["code"] == 13
    assert "KeyError: 'what is missing'" in header["message"] and HOST in header["message"] and f"process {worker.process.pid}" in header["message"]
    assert "in fail" in header["message"] and __file__ in header["message"]


def test_calls_of_one_stream_run_in_order_and_those_of_others_beside_them(worker):
    def meet(x):
        import builtins
        import threading

        if not hasattr(builtins, "barrier"):
            builtins.barrier = threading.Barrier(3)
        builtins.barrier.wait(60)
        return x

    number, _ = worker.load(pickled(meet, F4, out=F4))
    sent = [worker.call(number, [np.zeros(4, np.float32)], stream) for stream in ("1", "18446744073709551615", "3")]
    assert sorted(worker.receive()[0]["done"] for _ in sent) == sorted(sent)

    def note(x):
        import builtins

        builtins.seen = [*getattr(builtins, "seen", []), float(x[0])]
        return x + len(builtins.seen)

    number, _ = worker.load(pickled(note, F4, out=F4))
    for i in range(20):
        worker.call(number, [np.full(4, i, np.float32)])
    for i in range(20):
        _, parts = worker.receive()
        assert np.frombuffer(parts[0], np.float32)[0] == 2 * i + 1


def test_a_missing_module_fails_the_load_and_names_module_and_host(worker):
    text = pickled(lambda x: x, F4, out=F4).replace(b"jax._src.tree_util", b"jax._src.tree_utix")
    _, header = worker.load(text if b"tree_utix" in text else b"\x80\x04cno_such_module\nf\n.")
    assert header["code"] in (9, 13) and HOST in header["message"]
    _, header = worker.load(b"\x80\x04cno_such_module\nf\n.")
    assert header["code"] == 9
    assert f"{HOST} has no module 'no_such_module', which f needs" in header["message"]


def test_another_python_version_fails_the_load(worker, monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 7, 0))
    text = envelope.pack(pickled(lambda x: x, F4, out=F4))
    monkeypatch.undo()
    _, header = worker.load(text)
    assert header["code"] == 9 and "the client Python 3.7" in header["message"] and HOST in header["message"]


def test_modules_of_the_program_travel_with_it(worker, tmp_path, monkeypatch):
    (tmp_path / "own_tree").mkdir()
    (tmp_path / "own_tree" / "helper.py").write_text("def triple(x):\n    return 3 * x\n")  # a package without __init__.py
    monkeypatch.syspath_prepend(tmp_path)
    import own_tree.helper

    worker_without = [entry for entry in envelope.own_modules() if entry[0]["name"] == "own_tree.helper"]
    assert worker_without[0][1].startswith(b"def triple")
    number, header = worker.load(envelope.pack(pickled(own_tree.helper.triple, F4, out=F4)))
    assert "code" not in header, header
    worker.call(number, [np.ones(4, np.float32)])
    _, parts = worker.receive()
    np.testing.assert_array_equal(np.frombuffer(parts[0], np.float32), np.full(4, 3, np.float32))


def test_what_a_function_prints_goes_to_the_worker(worker):
    def speak(x):
        print("to standard output")
        print("to standard error", file=sys.stderr)
        return x

    number, _ = worker.load(pickled(speak, F4, out=F4))
    worker.call(number, [np.zeros(4, np.float32)])
    worker.receive()
    worker.link.settimeout(PATIENCE)
    said = b""
    while b"output" not in said or b"error" not in said:
        said += worker.link.recv(4096)


def test_the_process_ends_with_the_worker_whatever_it_does():
    worker = Worker()

    def block(x):
        while True:
            pass

    number, _ = worker.load(pickled(block, F4, out=F4))
    worker.call(number, [np.zeros(4, np.float32)])
    worker.link.close()
    assert worker.process.wait(PATIENCE) == 0


def test_a_message_of_any_size_comes_back_as_it_was():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sender = object.__new__(wire.Connection)
    receiver = object.__new__(wire.Connection)
    sender._socket, receiver._socket = ours, theirs
    sender._files = LentFiles()
    for size in (0, 1, 63, 64, 65, 3000, 4000, 4096, 100_000):
        parts = [np.arange(size, dtype=np.uint8), np.zeros(0, np.uint8), np.full(7, 9, np.uint8)]
        thread = threading.Thread(target=sender.send, args=({"done": size}, parts))
        thread.start()
        header, received = receiver.receive()
        thread.join()
        assert header["done"] == size and [bytes(part) for part in received] == [part.tobytes() for part in parts]


def _lent(files, size):
    """Lends a file. Returns (its inode, the descriptor that its reader has got)."""
    with files.borrow(size) as (file, lend):
        return os.fstat(file).st_ino, os.dup(lend())


def test_a_file_is_written_again_only_when_its_reader_has_left_it():
    files = LentFiles()
    first, reader = _lent(files, 10_000)
    second, other = _lent(files, 10_000)
    assert second != first, "the first one has a reader"
    own = os.open(f"/proc/self/fd/{reader}", os.O_RDONLY)  # as the worker opens what it has got
    fcntl.flock(own, fcntl.LOCK_SH | fcntl.LOCK_NB)
    os.close(reader)
    assert _lent(files, 10_000)[0] not in (first, second)
    os.close(own)
    assert _lent(files, 9_000)[0] == first
    os.close(other)
    assert _lent(files, 100)[0] not in (first, second), "it is far smaller"


def test_memory_of_files_is_kept_up_to_a_limit_and_until_it_is_trimmed(monkeypatch):
    monkeypatch.setattr(LentFiles, "MOST_BYTES", 20_000)
    files = LentFiles()
    readers = [_lent(files, 8_000)[1] for _ in range(3)]
    assert len(files._kept) == 2, "the oldest is closed; its reader still has it"
    assert os.fstat(readers[0]).st_size == 8_000
    files.trim()
    assert files._kept == []
    with pytest.raises(OSError), files.borrow(8_000):
        raise OSError("the socket is closed")
    assert files._kept == []


def test_strings_are_written_as_jaxlib_reads_them():
    text = wire.bytes_of_strings(np.array(["a", "ä" * 100], np.dtypes.StringDType())).tobytes()
    assert text == b"\x0a\x01a\x0a\xc8\x01" + "ä".encode() * 100
    assert wire.strings_of(text, (2, 1)).tolist() == [["a"], ["ä" * 100]]


def test_packages_of_another_environment_on_the_path_are_libraries(monkeypatch, tmp_path):
    """A .pth file or PYTHONPATH adds their folder. As the program's own they would be sent to the hosts as sources, without their C extensions."""
    (tmp_path / "site-packages" / "a_library").mkdir(parents=True)
    (tmp_path / "site-packages" / "a_library" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    import a_library  # noqa: F401

    assert "a_library" not in [entry[0]["name"] for entry in envelope.own_modules()]
