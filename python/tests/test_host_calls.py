"""Tests the client's half of host callbacks. The test plays the front door."""

import json
import socket
import struct
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest

from pathways._callbacks import host_calls, stacks


class Door:
    """Speaks the front door's half of the protocol over one connection."""

    def __init__(self, listener):
        self.socket, _ = listener.accept()
        self.socket.settimeout(20)

    def send(self, header, *payload):
        encoded = json.dumps(header).encode()
        self.socket.sendall(struct.pack("<I", len(encoded)) + encoded + b"".join(payload))

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            got = self.socket.recv(count - len(data))
            if not got:
                raise EOFError
            data += got
        return data

    def receive(self):
        header = json.loads(self._exactly(struct.unpack("<I", self._exactly(4))[0]))
        return header, [self._exactly(n) for n in header.get("results", [])]

    def call(self, number, callback, *arrays):
        operands = [{"dtype": "any", "dims": list(a.shape), "bytes": a.nbytes} for a in arrays]
        self.send({"call": number, "callback": callback, "operands": operands}, *(a.tobytes() for a in arrays))


@pytest.fixture
def registry():
    return host_calls.Registry()


@pytest.fixture
def door(tmp_path, registry):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "calls.sock"))
        listener.listen()
        server = host_calls.CallServer(tmp_path / "calls.sock", "a token", registry)
        door = Door(listener)
        assert door.receive()[0] == {"companion": "a token"}
        yield door
        server.close()
        door.socket.close()


def test_the_programs_stacks_are_told_while_a_function_hangs(door, registry):
    entered, go_on = threading.Event(), threading.Event()

    def hanging_function():
        entered.set()
        go_on.wait()
        return []

    door.call(1, registry.add(hanging_function, []))
    assert entered.wait(20)
    door.call(2, host_calls.STACKS)
    header, (told,) = door.receive()
    assert header == {"call": 2, "ok": True, "results": [host_calls.STACK_BYTES]}
    text = told.rstrip(b"\0").decode()
    headings = [line for line in text.splitlines() if not line.startswith(" ")]
    assert headings[0].startswith("MainThread at ") and "test_host_calls.py" in headings[0]
    (hanging,) = [line for line in headings[1:] if "hanging_function" in line]
    assert hanging.endswith("in hanging_function: go_on.wait()")
    assert "pathways-host-calls" not in text, "threads of the package alone are left out"
    go_on.set()
    assert door.receive()[0] == {"call": 1, "ok": True, "results": []}


def test_stacks_have_a_limit(monkeypatch):
    monkeypatch.setattr(threading.main_thread(), "name", "MainThréad")
    told = []
    asker = threading.Thread(target=lambda: told.extend(stacks.text(limit) for limit in (1 << 20, 100, 1, 0)))
    asker.start()
    asker.join()  # the main thread is here, under a name in two bytes a letter
    assert told[0].startswith("MainThréad at ") and "asker.join()" in told[0]
    assert [len(text.encode()) for text in told[1:]] == [100, 1, 0]


def test_results_come_back_in_order_with_their_bytes(door, registry):
    number = registry.add(lambda x, y: (x + y, (x * y).sum()), [np.float32, np.float32])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    door.call(7, number, x, x)
    header, (added, product) = door.receive()
    assert header == {"call": 7, "ok": True, "results": [24, 4]}
    assert np.frombuffer(added, np.float32).tolist() == (x + x).ravel().tolist()
    assert np.frombuffer(product, np.float32) == 55


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.complex64, ml_dtypes.bfloat16, ml_dtypes.int4, ml_dtypes.float8_e4m3fn])
@pytest.mark.parametrize("shape", [(), (3,), (0, 2), (2, 1)])
def test_every_kind_of_element_and_shape_arrives(door, registry, dtype, shape):
    seen = []
    number = registry.add(lambda x: [seen.append((x.dtype, x.shape)) or x], [dtype])
    sent = np.ones(shape, dtype)
    door.call(1, number, sent)
    header, (returned,) = door.receive()
    assert header["ok"] and returned == sent.tobytes()
    assert seen == [(np.dtype(dtype), shape)]


def test_a_result_that_is_not_contiguous_is_sent_row_major(door, registry):
    number = registry.add(lambda x: [x.T], [np.int32])
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    door.call(1, number, x)
    assert door.receive()[1] == [x.T.tobytes()]


def test_an_exception_becomes_the_answer_with_type_text_and_line(door, registry):
    def fails():
        raise ZeroDivisionError("the user's text")

    door.call(3, registry.add(fails, []))
    header, _ = door.receive()
    assert (header["call"], header["ok"], header["code"]) == (3, False, host_calls.INTERNAL)
    assert header["message"].startswith("ZeroDivisionError: the user's text")
    assert "in fails" in header["message"]


def test_an_unknown_function_is_not_found(door):
    door.call(3, 99)
    header, _ = door.receive()
    assert (header["ok"], header["code"]) == (False, host_calls.NOT_FOUND)
    assert "99" in header["message"]


def test_a_callback_that_waits_does_not_hold_up_others(door, registry):
    go = threading.Event()
    waits = registry.add(lambda: go.wait(20) and [] or [], [])
    signals = registry.add(lambda: go.set() or [], [])
    door.call(1, waits)
    door.call(2, signals)
    assert {door.receive()[0]["call"], door.receive()[0]["call"]} == {1, 2}


def test_a_retired_function_stays_for_the_runs_under_way_and_goes_in_the_end(registry):
    first = registry.add(lambda: [], [])
    registry.retire(first)
    assert registry.get(first) is not None
    for _ in range(host_calls.Registry._RETIRED_KEPT):
        registry.retire(registry.add(lambda: [], []))
    assert registry.get(first) is None


def test_functions_retire_at_any_point_of_those_who_use_the_registry(registry):
    """Python may collect a program at any allocation, so also within these calls. A collected program retires its functions."""
    class Thing:
        pass

    inner, thing = registry.add(lambda: [], []), Thing()
    weakref.finalize(thing, registry.retire, inner)
    outer = registry.add(lambda keep=thing: [], (registry.retire(0) or kind for kind in [np.float32]))
    del thing
    registry.retire(outer)
    for _ in range(host_calls.Registry._RETIRED_KEPT):
        registry.retire(registry.add(lambda: [], []))
    assert registry.get(outer) is None
    assert registry._retired[-1] == inner and registry.get(inner) is not None
