"""One side of a comparison: a jax process that reads requests, JSON lines, from standard input and answers on standard output. The first argument
selects the kind of jax:

    inprocess        stock jax with CPU devices in this process, 8 or PATHWAYS_BENCH_DEVICES
    plugin PATH      stock jax with our device plugin in this process, as many devices: the worker's XLA without the rest of the system
    direct ADDRESS   stock jax's IFRT proxy client, connected directly to a server
    package ADDRESS  JAX_PLATFORMS=pathways as for users, agent included
    own SHAPE        the same with a local cluster of its own
    multicontroller COORDINATOR/PROCESS/PROCESSES/DEVICES
                     one of several processes of stock jax with its Gloo collectives; all get the same requests at the same time
    multicontroller-plugin COORDINATOR/PROCESS/PROCESSES/DEVICES
                     the same with our device plugin and its collectives; PATHWAYS_BENCH_PLUGIN is the plugin's path
"""

import collections
import itertools
import os
import statistics
import sys
import time

import _answers
import _sides

DEVICES = int(os.environ.get("PATHWAYS_BENCH_DEVICES", "8"))


def _use_plugin(library, devices):
    os.environ["JAX_PLATFORMS"] = "plugin"
    os.environ["PJRT_NAMES_AND_LIBRARY_PATHS"] = f"plugin:{library}"
    os.environ["PJRT_CPU_DEVICES"] = str(devices)


def set_environment(mode, address):
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    if mode == "inprocess":
        os.environ["JAX_PLATFORMS"] = "cpu"
        os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
    elif mode == "plugin":
        _use_plugin(address, DEVICES)
    elif mode == "multicontroller-plugin":
        _use_plugin(os.environ["PATHWAYS_BENCH_PLUGIN"], address.rsplit("/", 1)[1])
    elif mode == "multicontroller":
        os.environ["JAX_PLATFORMS"] = "cpu"
    elif mode == "direct":
        os.environ["JAX_PLATFORMS"] = "direct"
        os.environ["IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS"] = "true"
    elif mode == "own":
        os.environ["JAX_PLATFORMS"] = "pathways"
        os.environ["PATHWAYS_LOCAL"] = address
        os.environ.pop("PATHWAYS_ADDRESS", None)
    else:
        os.environ["JAX_PLATFORMS"] = "pathways"
        os.environ["PATHWAYS_ADDRESS"] = address


def register_direct(address):
    from jax._src import xla_bridge

    def connect():
        from jaxlib import _ifrt_proxy

        options = _ifrt_proxy.ClientConnectionOptions()
        options.connection_timeout_in_seconds = 20
        return _ifrt_proxy.get_client(f"grpc://{address}", options)

    xla_bridge.register_backend_factory("direct", connect, priority=500)


def join_others(mode, address):
    """Connects the processes of a multi-controller jax; does nothing in other modes."""
    if not mode.startswith("multicontroller"):
        return
    import jax

    coordinator, process, processes, devices = address.rsplit("/", 3)
    if mode == "multicontroller":
        jax.config.update("jax_num_cpu_devices", int(devices))
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(coordinator, int(processes), int(process))


class _Watch:
    """Measures the wall time of a block, and the processor time of this process and of others, by name."""

    def __init__(self, others=None):
        self.pids = {"client": os.getpid(), **(others or {})}

    def __enter__(self):
        self.used = self._used()
        self.start = time.perf_counter()
        return self

    def __exit__(self, *_):
        self.seconds = time.perf_counter() - self.start
        self.used = {name: after - self.used[name] for name, after in self._used().items()}

    def _used(self):
        return {name: _sides.processor_seconds(pid) for name, pid in self.pids.items()}

    def result(self):
        return {"seconds": self.seconds, "processor_seconds": self.used}


class Bench:
    """The requests: one public method each. Programs are y = f(y), so that a loop can run forever."""

    def __init__(self):
        import jax
        import numpy as np

        self.jax, self.np = jax, np
        self.values, self.functions = {}, {}
        self.kept = []

    def _program(self, name):
        """Returns f and its current y; compiles and runs f at first use. Arguments may follow the name: "adds 100"."""
        if name not in self.functions:
            kind, *sizes = name.split()
            self.functions[name], y = getattr(self, f"_make_{kind}")(*map(int, sizes))
            for _ in range(3):  # the first call fetches the result's spec; later calls are like the measured ones
                y = self.functions[name](y)
            self.values[name] = self.jax.block_until_ready(y)
        return self.functions[name], self.values[name]

    def _make_scalar(self):
        y = self.jax.device_put(self.np.float32(0), self.jax.devices()[0])
        return self.jax.jit(lambda y: y + 1), y

    def _make_eager(self):
        """Makes four eager operations, each a computation of its own."""
        y = self.jax.device_put(self.np.float32(0), self.jax.devices()[0])
        return lambda y: ((y + 1) * 2 - y).sum(), y

    def _make_state(self, arrays, count):
        """Makes a step that updates `arrays` donated arrays (such as parameters), each sharded over `count` devices."""
        _, sharding, _, _ = self._over(count)
        y = [self.jax.device_put(self.np.zeros(count, self.np.float32), sharding) for _ in range(arrays)]
        return self.jax.jit(lambda y: [x + 1 for x in y], donate_argnums=0), y

    def _make_gang(self, us, text):
        """Makes `us` operations on each of all devices, and a sum over the devices. The simulated device sets the time of an operation. `text` makes
        programs different."""
        jax, count = self.jax, len(self.jax.devices())
        _, sharding, spec, mesh = self._over(count)
        y = jax.jit(lambda: jax.numpy.zeros(count * us, self.np.float32), out_shardings=sharding)()
        step = jax.shard_map(lambda y: y + jax.lax.psum(y[:1] + text, "i"), mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
        return jax.jit(step, in_shardings=sharding, out_shardings=sharding), y

    def _make_work(self, loops, text):
        """Makes a computation that keeps one core busy. Its result does not depend on the previous one, so queued calls are queued work."""
        jax = self.jax
        y = jax.device_put(self.np.ones(1024, self.np.float32), jax.devices()[0])
        return jax.jit(lambda y: jax.lax.fori_loop(0, loops, lambda i, v: jax.numpy.sin(v) * (1.01 + text), y) * 0 + 1), y

    def _over(self, count):
        """Returns (the first devices as an array, a sharding over them, its spec, their mesh)."""
        devices = self.np.array(self.jax.devices()[:count])
        mesh, spec = self.jax.sharding.Mesh(devices, ("i",)), self.jax.sharding.PartitionSpec("i")
        return devices, self.jax.sharding.NamedSharding(mesh, spec), spec, mesh

    def _mesh(self):
        jax = self.jax
        mesh = jax.sharding.Mesh(self.np.array(jax.devices()[:DEVICES]), ("i",))
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i"))
        return mesh, sharding, jax.device_put(self.np.zeros(DEVICES, self.np.float32), sharding)

    def _make_spread(self, count):
        """Makes a computation on each of `count` devices."""
        _, sharding, _, _ = self._over(count)
        y = self.jax.device_put(self.np.zeros(count, self.np.float32), sharding)
        return self.jax.jit(lambda y: y + 1, out_shardings=sharding), y

    def _make_sharded(self):
        _, sharding, y = self._mesh()
        return self.jax.jit(lambda y: y + 1, out_shardings=sharding), y

    def _make_psum(self):
        jax = self.jax
        mesh, sharding, y = self._mesh()
        spec = jax.sharding.PartitionSpec("i")
        step = jax.shard_map(lambda y: jax.lax.psum(y, "i") * 0.125 + 1, mesh=mesh, in_specs=spec, out_specs=spec)
        return jax.jit(step, out_shardings=sharding), y

    def _large(self, function, per_device):
        jax = self.jax
        mesh = jax.sharding.Mesh(self.np.array(jax.devices()[:DEVICES]), ("i",))
        spec = jax.sharding.PartitionSpec("i")
        sharding = jax.sharding.NamedSharding(mesh, spec)
        y = jax.device_put(self.np.ones(DEVICES * per_device, self.np.float32), sharding)
        return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec), out_shardings=sharding), y

    def _make_psum_large(self):
        """Sums 4 MiB of each device."""
        return self._large(lambda y: self.jax.lax.psum(y, "i") * 0.125, 1 << 20)

    def _make_gather_large(self):
        """Gathers 512 KiB of each device on all devices."""
        return self._large(lambda y: self.jax.lax.all_gather(y, "i", tiled=True)[: y.size] + 1, 1 << 17)

    def enqueue(self, program, calls, bursts):
        """Measures calls that do not wait. Returns, per call: its time, the processor time of the calling thread, that of the whole process, and its
        share of the wait at the end of a burst. Each is the median over bursts, after one warm-up burst. Processor times do not depend on other load."""
        f, y = self._program(program)
        samples = []
        for _ in range(bursts + 1):
            process, thread, start = time.process_time(), time.thread_time(), time.perf_counter()
            for _ in range(calls):
                y = f(y)
            enqueued, thread = time.perf_counter(), time.thread_time() - thread
            y.block_until_ready()
            samples.append((enqueued - start, thread, time.process_time() - process, time.perf_counter() - enqueued))
        self.values[program] = y
        us = [statistics.median(column) / calls * 1e6 for column in zip(*samples[1:])]
        return dict(zip(("us", "thread_cpu_us", "process_cpu_us", "drain_us"), us))

    def rate(self, program, calls, depth):
        """Returns calls per second from the first call to the last result, with at most `depth` in flight."""
        f, y = self._program(program)
        return {"per_s": _answers.timed_calls(f, y, calls, depth, self.jax.block_until_ready)["per_s"]}

    def steps(self, program, calls):
        """Returns the mean time of a step over `calls` steps in a row, with the wait for the last."""
        f, y = self._program(program)
        start = time.perf_counter()
        for _ in range(calls):
            y = f(y)
        self.jax.block_until_ready(y)
        self.values[program] = y
        return {"step_us": (time.perf_counter() - start) / calls * 1e6}

    def prepare(self, program):
        self._program(program)
        return {}

    def flood(self, programs, begin, end, depth):
        """Calls these programs in turn until `end`, with `depth` calls for each program always in flight; returns the number of results between `begin`
        and `end`. Both are times of the machine's monotonic clock, which all of its processes share."""
        made = itertools.cycle([self._program(program) for program in programs])
        pending, done, depth = collections.deque(), 0, depth * len(programs)
        while time.monotonic() < end:
            f, y = next(made)
            pending.append(f(y))
            if len(pending) >= depth:
                pending.popleft().block_until_ready()
                done += begin <= time.monotonic() < end
        self.jax.block_until_ready(list(pending))
        return {"done": done}

    def latency(self, program, calls):
        f, y = self._program(program)
        return _answers.latencies(lambda: self.jax.block_until_ready(f(y)), calls)

    def decode(self, program, calls):
        """Measures a loop that reads each result before the next call, as a decoder reads its token."""
        f, y = self._program(program)

        def token():
            nonlocal y
            y = f(y)
            self.np.asarray(y)

        times = _answers.latencies(token, calls)
        self.values[program] = y
        return times

    def up(self, mib, watch=None):
        """Uploads an array to a device and waits until it is ready. Uses a different array each time, so nothing is reused. watch: {name: process}
        for _Watch."""
        host = self.np.full(mib << 18, len(self.kept) + 1, self.np.float32)
        with _Watch(watch) as time_of:
            array = self.jax.block_until_ready(self.jax.device_put(host, self.jax.devices()[0]))
        self.kept = [array]
        return time_of.result()

    def leave_file(self, mib, folder="/dev/shm"):
        """Writes an array into a fresh file in memory, and measures that. The stock client library does the same in `up` when it passes the array as
        a file (pathways/_client/host_memory.py)."""
        host = self.np.full(mib << 18, 1, self.np.float32)
        path = os.path.join(folder, f"bench-{os.getpid()}")
        with _Watch() as time_of:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            left = memoryview(host).cast("B")
            while left:
                left = left[os.write(file, left):]
        os.unlink(path)
        os.close(file)
        return time_of.result()

    def down(self, mib, watch=None):
        """Downloads an array that has never been on this host."""
        if "down" not in self.functions:
            self.functions["down"] = self.jax.jit(lambda y: y + 1)
        array = self.kept[0]
        assert array.size == mib << 18, "up comes first"
        array = self.kept[0] = self.jax.block_until_ready(self.functions["down"](array))
        with _Watch(watch) as time_of:
            host = self.np.asarray(array)
        return time_of.result() | {"check": float(host[0]) + float(host[-1])}

    def across(self, mib):
        """Moves an array from the first device to the last and waits for it. Uses a new array each time."""
        first, last = self.jax.devices()[0], self.jax.devices()[-1]
        if "across" not in self.functions:
            self.functions["across"] = self.jax.jit(lambda y: y + 1)
            self.values["across"] = self.jax.device_put(self.np.zeros(mib << 18, self.np.float32), first)
        y = self.values["across"] = self.jax.block_until_ready(self.functions["across"](self.values["across"]))
        start = time.perf_counter()
        moved = self.jax.block_until_ready(self.jax.device_put(y, last))
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "bytes": moved.nbytes}

    def publish(self, arrays, mib):
        """Publishes a new version of `arrays` arrays of `mib` MiB each, on the first device."""
        import pathways as pw

        if "publish" not in self.functions:
            self.functions["publish"] = self.jax.jit(lambda tree: [y + 1 for y in tree])
            self.values["publish"] = [self.jax.device_put(self.np.zeros(mib << 18, self.np.float32), self.jax.devices()[0]) for _ in range(arrays)]
        tree = self.values["publish"] = self.jax.block_until_ready(self.functions["publish"](self.values["publish"]))
        return {"version": pw.publish("bench", tree)}

    def published(self, arrays, mib, newer_than):
        """Reads a published version into the last device, and waits for it."""
        import pathways as pw

        like = [self.jax.ShapeDtypeStruct((mib << 18,), self.np.float32, sharding=self.jax.sharding.SingleDeviceSharding(self.jax.devices()[-1]))] * arrays
        start = time.perf_counter()
        version, tree = pw.published("bench", like, newer_than=newer_than)
        self.jax.block_until_ready(tree)
        return {"seconds": time.perf_counter() - start, "version": version, "bytes": sum(y.nbytes for y in tree)}

    def _host_function(self):
        """Returns (a colocated function that returns its argument, its argument)."""
        if "host" not in self.functions:
            from jax.experimental import colocated_python

            device = self.jax.devices()[0]
            at = self.jax.sharding.SingleDeviceSharding(device)
            same = colocated_python.colocated_python(lambda value: value)
            self.functions["host"] = same.specialize(out_specs_fn=lambda value: self.jax.ShapeDtypeStruct((), self.np.int32, sharding=at))
            self.values["host"] = self.jax.device_put(self.np.int32(0), device)
        return self.functions["host"], self.values["host"]

    def host_latency(self, calls):
        """Measures single calls of a function on the host."""
        f, y = self._host_function()
        return _answers.latencies(lambda: self.jax.block_until_ready(f(y)), calls)

    def host_rate(self, calls, depth):
        """Returns calls per second of a function on the host, with at most `depth` in flight."""
        f, y = self._host_function()
        return {"per_s": _answers.timed_calls(f, y, calls, depth, self.jax.block_until_ready)["per_s"]}

    def feed(self, fed, mib, loops, steps):
        """Measures a step that computes on one device and sums a batch. fed: pw.data makes each batch; else the steps get four batches in turn, which are no
        nearer to the processor than new ones."""
        import pathways as pw

        jax, np = self.jax, self.np
        if "feed" not in self.functions:
            def read(part, parts):
                import tempfile

                with tempfile.TemporaryFile() as file:  # in the page cache
                    for batch in range(4):
                        np.full(mib << 18, batch, np.float32).tofile(file)
                    while True:
                        file.seek(0)
                        for _ in range(4):
                            yield np.fromfile(file, np.float32, mib << 18)

            work, y = self._make_work(loops, 0)
            self.functions["feed"] = jax.jit(lambda y, batch: (work(y), batch.sum()))
            self.values["feed"] = y
            self.kept = pw.data(read, jax.sharding.SingleDeviceSharding(jax.devices()[0]), prefetch=2)
            self.values["batches"] = list(itertools.islice(self.kept, 4))
        step, y = self.functions["feed"], self.values["feed"]
        batches = self.kept if fed else itertools.cycle(self.values["batches"])
        y, last = step(y, next(batches))
        start = time.perf_counter()
        for _ in range(steps):
            y, total = step(y, next(batches))
            last, _ = total, last.block_until_ready()  # a loop that reads each step's loss while the next one computes
        jax.block_until_ready((y, total))
        return {"step_ms": (time.perf_counter() - start) / steps * 1e3}

    def hold(self, count):
        """Makes `count` live arrays of a few bytes, each by one computation."""
        y = self.jax.device_put(self.np.arange(4, dtype=self.np.float32), self.jax.devices()[0])
        f = self.jax.jit(lambda y: y + 1)
        self.kept = [f(y) for _ in range(count)]
        self.jax.block_until_ready(self.kept)
        return {"arrays": len(self.kept)}


def main():
    mode, address = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    set_environment(mode, address)
    out = _answers.channel()
    if mode == "direct":
        register_direct(address)
    join_others(mode, address)
    bench = Bench()
    _answers.serve_and_exit(bench, out, {"devices": len(bench.jax.devices()), "jax": bench.jax.__version__})


if __name__ == "__main__":
    main()
