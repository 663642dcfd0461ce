"""The process that runs the colocated functions of one client on one host. A worker starts it (pathways/worker/python), with `python -m`.

Its standard input and output are one socket to the worker. The first line that it reads is a greeting. When the socket closes, the worker or the
client has ended, and this process exits at once. Its prints, standard error included, go to this socket, and from there to the client's terminal.
Functions and calls come on another socket (wire.py).

jax has one backend here, "cpu". Its devices have the ids that the client knows; the devices of other hosts are listed, but not addressable.

Threads: the main one receives. Each stream of calls has a thread while it has calls; each function is loaded on a thread of its own.
"""

import ctypes
import faulthandler
import importlib.abc
import importlib.util
import io
import json
import os
import queue
import signal
import sys
import threading
import traceback

from pathways._callbacks import stacks

_FAILED_PRECONDITION, _INVALID_ARGUMENT, _INTERNAL = 9, 3, 13
_IDLE_SECONDS = 10.0
_PR_SET_PDEATHSIG = 1
_STACK_BYTES = 32 << 10


class Failure(Exception):
    """An error with a code of absl::Status and the whole text for the user."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def _take_standard_streams():
    """Returns the descriptor of the socket. Prints, standard error included, go there from now on."""
    link = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(1, 2)
    sys.stdout, sys.stderr = (io.TextIOWrapper(open(fd, "wb", closefd=False), line_buffering=True, errors="backslashreplace") for fd in (1, 2))
    return link


def _greeting(link):
    """Reads the first line."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(link, 1)
        if not byte:
            os._exit(0)
        line += byte
    return json.loads(line)


def _end_with_worker(link):
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # works even if a function holds the interpreter's lock

    def wait():
        while os.read(link, 4096):
            pass
        os._exit(0)

    threading.Thread(target=wait, name="pathways-end", daemon=True).start()


def _refuse_breakpoint(*args, **named):
    raise RuntimeError("breakpoint() needs a terminal, and this function runs on a host of the cluster: print, or raise an error")


class ClientModules(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports the modules whose sources came from the client. They take precedence over installed modules of the same name."""

    def __init__(self):
        self._modules = {}  # name: (module, source)
        self._lock = threading.Lock()

    def add(self, modules):
        """Adds modules. A changed source replaces its module: functions that come later import it anew."""
        with self._lock:
            for module, source in modules:
                known = self._modules.get(module["name"])
                if known is not None and known[1] != source:
                    sys.modules.pop(module["name"], None)
                self._modules[module["name"]] = (module, source)

    def find_spec(self, name, path=None, target=None):
        found = self._modules.get(name)
        if found is None:
            return None
        spec = importlib.util.spec_from_loader(name, self, origin=found[0]["file"], is_package=found[0]["package"])
        spec.has_location = found[0]["file"].endswith(".py")
        return spec

    def is_package(self, name):
        return self._modules[name][0]["package"]

    def get_source(self, name):
        return importlib.util.decode_source(self._modules[name][1])

    def get_code(self, name):
        module, source = self._modules[name]
        return self.source_to_code(source, module["file"])


class Function:
    """A function of the client. A thread of its own loads it."""

    def __init__(self, host, header, text):
        self.name = header["name"]
        self._host = host
        self._inputs, self._outputs = header["inputs"], header["outputs"]  # for each array, the ids of its devices on this host, in order
        self._bound = dict(header.get("bound", ()))  # the physical device of each device of a virtual slice that the text names
        self._ready = threading.Event()
        self.error = None
        self.has_results = bool(self._outputs)
        self._options = {}
        self._seconds = 0  # that a call may take, by the client's program; 0: no limit
        threading.Thread(target=self._load, args=(header["load"], bytes(text)), name="pathways-load", daemon=True).start()

    def _load(self, number, text):
        try:
            self._unpack(text)
        except BaseException as error:  # unpickling the client's objects may raise anything
            self.error = self._explain(error)
        self._ready.set()
        self._host.answer({"loaded": number, "seconds": self._seconds} if self._seconds else {"loaded": number}, self.error)

    def _explain(self, error):
        if isinstance(error, Failure):
            return error
        if isinstance(error, ModuleNotFoundError):
            return Failure(_FAILED_PRECONDITION, f"{self._host.name} has no module '{error.name}', which {self.name} needs: install it for "
                                                 f"{sys.executable} there, or name another interpreter with --host-python")
        return self._host.failure(error, f"{self.name} could not be loaded")

    def _unpack(self, text):
        from pathways._colocated import envelope, program_flags
        from pathways._jax import colocated

        header, modules, function = envelope.unpack(text)
        if header is not None:
            theirs, ours = tuple(header["python"]), sys.version_info[:2]
            if theirs != ours:
                raise Failure(_FAILED_PRECONDITION, f"{self._host.name} runs Python {_version(ours)} ({sys.executable}) and the client Python "
                                                    f"{_version(theirs)}: {self.name} can only run where both are the same. Start the workers with "
                                                    "--host-python and an interpreter of the client's version")
            self._host.modules.add(modules)
            self._options, self._seconds = header["options"], header.get("seconds", 0)
        program_flags.take({} if header is None else header.get("flags", {}))
        self._host.start_jax()
        with colocated.binding(self._bound):
            (self._function, self._in_tree, self._in_specs, self._out_tree, self._out_specs, self._devices) = colocated.unpickle(function)

    def call(self, parts):
        """Runs the function. `parts`: the bytes of this host's shards of the arguments. Returns those of the results."""
        from pathways._jax import colocated

        self._ready.wait()
        if self.error is not None:
            raise self.error
        import jax

        with colocated.options(self._options), colocated.binding(self._bound):
            args, named = jax.tree.unflatten(self._in_tree, self._arguments(parts))
            results, tree = jax.tree.flatten(self._function(*args, **named))
            if tree != self._out_tree:
                raise Failure(_INVALID_ARGUMENT, f"{self.name} returned {tree} on {self._host.name}, and was specialized to return {self._out_tree}")
            return self._parts(results)

    def _arguments(self, parts):
        import jax
        import numpy as np

        from pathways._colocated import wire
        from pathways._jax import colocated

        arguments, at = [], 0
        for spec, ids in zip(self._in_specs, self._inputs, strict=True):
            shape, shards = spec.sharding.shard_shape(spec.shape), []
            for number in ids:
                if spec.dtype.kind == "T":
                    data = wire.strings_of(parts[at], shape)
                else:
                    data = np.frombuffer(parts[at], np.uint8).view(spec.dtype).reshape(shape)
                with colocated.options({"jax_enable_x64": True}):  # keeps the type
                    shards.append(jax.device_put(data, self._host.devices[number]))
                at += 1
            arguments.append(jax.make_array_from_single_device_arrays(spec.shape, spec.sharding, shards))
        return arguments

    def _parts(self, results):
        import numpy as np

        from pathways._colocated import wire

        parts = []
        for i, (result, spec, ids) in enumerate(zip(results, self._out_specs, self._outputs, strict=True)):
            is_text = self._check(i, result, spec)
            shards = {shard.device.id: shard.data for shard in result.addressable_shards}
            for number in ids:
                if number not in shards:
                    raise Failure(_INVALID_ARGUMENT, f"result {i} of {self.name} has no shard on device {number} of {self._host.name}")
                parts.append((wire.bytes_of_strings if is_text else wire.bytes_of)(np.asarray(shards[number])))
        return parts

    def _check(self, i, result, spec):
        """Checks the result's type, shape and sharding. Returns whether it is an array of strings."""
        import jax

        if not isinstance(result, jax.Array):
            raise Failure(_INVALID_ARGUMENT, f"result {i} of {self.name} is a {type(result).__name__}, and must be a jax.Array")
        if result.shape != spec.shape or result.dtype != spec.dtype:
            raise Failure(_INVALID_ARGUMENT, f"result {i} of {self.name} is {result.dtype}{list(result.shape)}, and was specialized to be "
                                             f"{spec.dtype}{list(spec.shape)}")
        is_text = result.dtype.kind == "T"
        if not is_text and not result.sharding.is_equivalent_to(spec.sharding, len(spec.shape)):
            raise Failure(_INVALID_ARGUMENT, f"result {i} of {self.name} has the sharding {result.sharding}, and was specialized to have {spec.sharding}")
        return is_text


def _version(numbers):
    return ".".join(map(str, numbers))


class Host:
    def __init__(self, greeting):
        self.name = greeting["host"]
        self.modules = ClientModules()
        self.devices = {}  # this host's, by id
        self._processes = greeting["hosts"]  # for each host, the ids of its devices
        self._self = greeting["self"]
        self._jax_lock = threading.Lock()
        self._functions = {}
        self._streams = {}  # number: the queue of its thread
        self._streams_lock = threading.Lock()
        from pathways._colocated import wire

        self._connection = wire.Connection(**greeting["connect"])

    def start_jax(self):
        """Makes the backend, once."""
        from pathways._jax import colocated

        with self._jax_lock:
            if self.devices:
                return
            places = {device: process for process, devices in enumerate(self._processes) for device in devices}
            try:
                found = colocated.start_backend(set(self._processes[self._self]), places)
            except (ImportError, AttributeError) as error:
                raise Failure(_FAILED_PRECONDITION, f"the jax of {sys.executable} on {self.name} cannot run colocated functions: {error}. It has to "
                                                    "be 0.9.1 or newer") from error
            self.devices = {device.id: device for device in found}

    def serve(self):
        while (message := self._connection.receive()) is not None:
            header, parts = message
            if "load" in header:
                self._functions[header["load"]] = Function(self, header, parts[0])
            elif "drop" in header:
                self._functions.pop(header["drop"], None)
            elif "stacks" in header:
                self._connection.send({"done": header["stacks"]}, [memoryview(stacks.text(_STACK_BYTES).encode())])
            else:
                self._enqueue(header, self._functions[header["function"]], parts)

    def _enqueue(self, header, function, parts):
        stream = header["stream"]
        with self._streams_lock:
            work = self._streams.get(stream)
            if work is None:
                work = self._streams[stream] = queue.SimpleQueue()
                threading.Thread(target=self._run_stream, args=(stream, work), name="pathways-stream", daemon=True).start()
            work.put((header["call"], function, parts))

    def _run_stream(self, stream, work):
        while True:
            try:
                item = work.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                with self._streams_lock:
                    if not work.empty():
                        continue
                    del self._streams[stream]
                    idle = not self._streams
                if idle:
                    self._connection.trim()
                return
            self._call(*item)
            del item  # releases the function

    def _call(self, number, function, parts):
        try:
            results = function.call(parts)
        except BaseException as error:  # SystemExit too: the client gets it
            failure = error if isinstance(error, Failure) else self.failure(error, f"{function.name} failed")
            if not function.has_results:
                print(failure, file=sys.stderr)  # no result carries it
            self.answer({"done": number}, failure)
            return
        sys.stdout.flush()
        self._connection.send({"done": number}, results)

    def answer(self, header, failure):
        if failure is not None:
            header = {**header, "code": failure.code, "message": str(failure)}
        self._connection.send(header)

    def failure(self, error, what):
        """Returns the failure of a function, with the remote traceback from the user's own code on."""
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
            frames = frames.tb_next
        lines = "".join(traceback.format_exception(type(error), error, frames or error.__traceback__))
        return Failure(_INTERNAL, f"{type(error).__name__}: {error}\n{what} on {self.name}, in process {os.getpid()}:\n{lines}")


def main():
    link = _take_standard_streams()
    greeting = _greeting(link)
    _end_with_worker(link)
    faulthandler.enable()
    sys.breakpointhook = _refuse_breakpoint
    os.environ["JAX_PLATFORMS"] = "cpu"
    host = Host(greeting)
    sys.meta_path.insert(0, host.modules)
    try:
        host.serve()
    finally:
        os._exit(0)  # functions may still run


if __name__ == "__main__":
    main()
