"""Answers the calls that running computations make into this process (jax.pure_callback, io_callback, debug.callback, debug.print).

The process that jax's client connects to (an agent or a local cluster of one host) is the door: it listens on a Unix socket and passes the calls
on. The protocol between the door and us, in both directions:

    4 bytes     little-endian length of the header
    header      JSON
    payload     raw bytes: arrays one after another, dense, row-major, a byte an element for types narrower than a byte

    door -> us    {"call": n, "callback": n, "operands": [{"dtype": "f32", "dims": [..], "bytes": n}, ..]}   payload: the operands
    us -> door    {"call": n, "ok": true, "results": [bytes, ..]}                                            payload: the results
    us -> door    {"call": n, "ok": false, "code": absl status code, "message": text}
    us -> door    {"companion": token}      the first message; the token also stands in the session's initialization_data

Threads: one thread reads calls. Each call runs on its own thread, from a pool that grows with the number of calls in flight: a callback may
wait for another computation that itself calls back. This module does not order calls: a computation waits for the answer of an ordered callback
before it makes the next call.
"""

import collections
import itertools
import json
import os
import queue
import socket
import struct
import sys
import threading
import traceback

import numpy as np

from pathways._callbacks import stacks

_LENGTH = struct.Struct("<I")
_MAX_HEADER = 16 << 20
INTERNAL = 13
NOT_FOUND = 5
# The numbers of callbacks that belong to no program.
TRANSLATE = 0           # pathways/callbacks/call_message.h
OUTPUT = (1 << 53) - 1  # pathways/worker/python/session_python.h
STACKS = OUTPUT - 1     # likewise
STACK_BYTES = 32 << 10  # likewise


def _translate(program, version):
    """Rewrites a program of this process for the StableHLO version that the workers' runtime reads."""
    from pathways._jax import portable_programs

    return [np.frombuffer(portable_programs.translate(program.tobytes(), version.tobytes().decode()), np.uint8)]


def _print_output(host, text):
    """Prints what a process of colocated functions has printed on its host."""
    host = host.tobytes().decode(errors="replace")
    lines = text.tobytes().decode(errors="replace").splitlines()
    sys.stderr.write("".join(f"({host}) {line}\n" for line in lines))
    sys.stderr.flush()
    return []


def _tell_stacks():
    """Tells the operator of the cluster where this program's threads are, as one text of a fixed size: a computation of the program hangs."""
    text = stacks.text(STACK_BYTES).encode()
    return [np.frombuffer(text.ljust(STACK_BYTES, b"\0"), np.uint8)]


_thread = threading.local()


def answers_a_call():
    """Whether this thread is running a callback for a program."""
    return getattr(_thread, "answers", False)


class Registry:
    """The functions that compiled programs may call, by number. Numbers follow the order of lowering, so that the same script
    produces the same program again and the server's compilation cache recognises it.

    A program retires its functions when it is garbage-collected. That may happen at any point of any thread, including a thread inside this class,
    and releasing a function may release the last reference to another program. So there is no lock: each step is atomic in the interpreter."""

    _RETIRED_KEPT = 256

    def __init__(self):
        two_texts = (np.dtype(np.uint8),) * 2
        self._functions = {TRANSLATE: (_translate, two_texts, True), OUTPUT: (_print_output, two_texts, True), STACKS: (_tell_stacks, (), True)}
        self._retired = collections.deque()
        self._numbers = itertools.count(1)
        self._unread = collections.deque()

    def add(self, function, dtypes, has_results=True):
        """Registers function(*numpy arrays) -> sequence of numpy arrays; returns its number. dtypes: those of the operands."""
        number = next(self._numbers)
        self._functions[number] = (function, tuple(np.dtype(t) for t in dtypes), has_results)
        return number

    def failed(self, number, text):
        """Records that a call of this function raised. A function without results has no reader that would see the error, so the first such error
        is kept for take_unread()."""
        entry = self._functions.get(number)
        if entry is not None and not entry[2] and not self._unread:
            self._unread.append(text)

    def take_unread(self):
        """Returns and forgets the first error of a function without results; None if there is none."""
        texts = list(self._unread)
        self._unread.clear()
        return texts[0] if texts else None

    def retire(self, number):
        """Retires a function whose program was collected. Runs already sent may still call it, so the last _RETIRED_KEPT retired functions stay
        callable."""
        self._retired.append(number)
        if len(self._retired) > self._RETIRED_KEPT:
            try:
                self._functions.pop(self._retired.popleft(), None)
            except IndexError:  # another thread removed them meanwhile
                pass

    def get(self, number):
        return self._functions.get(number)


def describe(error):
    """Returns the text that the user sees on using the result: the exception, then its traceback."""
    frames = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return f"{type(error).__name__}: {error}\n{frames}"


class Connection:
    """A connection to the door. Messages are a JSON header and a payload (callbacks/call_message.h)."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(os.fspath(path))
        self._write_lock = threading.Lock()

    def send(self, header, payload):
        encoded = json.dumps(header, separators=(",", ":")).encode()
        with self._write_lock:
            self._socket.sendall(_LENGTH.pack(len(encoded)) + encoded)
            for part in payload:
                self._socket.sendall(part)

    def receive(self, count):
        data = bytearray(count)
        view = memoryview(data)
        while view:
            got = self._socket.recv_into(view)
            if got == 0:
                raise EOFError
            view = view[got:]
        return data

    def receive_message(self):
        """Returns the next header; raises EOFError at the end of the connection."""
        (length,) = _LENGTH.unpack(self.receive(_LENGTH.size))
        if length > _MAX_HEADER:
            raise EOFError
        return self.receive(length)

    def shutdown(self):
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self):
        self._socket.close()


class CallServer:
    """The answering side of one connection to the door."""

    def __init__(self, path, token, registry):
        self._registry = registry
        self._connection = Connection(path)
        self._closed = False
        self._work = queue.SimpleQueue()
        self._idle = 0
        self._idle_lock = threading.Lock()
        self._connection.send({"companion": token}, [])
        threading.Thread(target=self._read_calls, name="pathways-host-calls", daemon=True).start()

    def close(self):
        self._connection.shutdown()

    def _read_calls(self):
        try:
            while True:
                header = json.loads(self._connection.receive_message())
                data = [self._connection.receive(operand["bytes"]) for operand in header["operands"]]
                self._start(header, data)
        except (EOFError, OSError, ValueError, KeyError):
            self._connection.close()  # waiting computations get UNAVAILABLE from the door
        with self._idle_lock:
            self._closed = True
            for _ in range(self._idle):
                self._work.put(None)

    def _start(self, header, data):
        with self._idle_lock:
            self._work.put((header, data))
            if self._idle > 0:
                self._idle -= 1
                return
        threading.Thread(target=self._serve, name="pathways-callback", daemon=True).start()

    def _serve(self):
        _thread.answers = True
        while (work := self._work.get()) is not None:
            try:
                self._answer(*work)
            except OSError:
                return
            with self._idle_lock:
                if self._closed:
                    return
                self._idle += 1

    def _answer(self, header, data):
        call = header["call"]
        try:
            results = self._run(header, data)
        except BaseException as error:  # everything that the user's function raises goes to the user, KeyboardInterrupt and SystemExit included
            text = describe(error)
            self._registry.failed(header["callback"], text)
            self._connection.send({"call": call, "ok": False, "code": INTERNAL, "message": text}, [])
            return
        if results is None:
            text = f"the program calls Python function {header['callback']}, which this process does not have"
            self._connection.send({"call": call, "ok": False, "code": NOT_FOUND, "message": text}, [])
            return
        self._connection.send({"call": call, "ok": True, "results": [r.nbytes for r in results]},
                   [r.reshape(-1).view(np.uint8).data for r in results if r.nbytes])

    def _run(self, header, data):
        entry = self._registry.get(header["callback"])
        if entry is None:
            return None
        function, dtypes, _ = entry
        operands = [np.ndarray(operand["dims"], dtype, raw)
                    for raw, dtype, operand in zip(data, dtypes, header["operands"], strict=True)]
        return [np.ascontiguousarray(r) for r in function(*operands)]
