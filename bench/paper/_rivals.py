"""The computation of _side.py on another system: `_rivals.py SYSTEM HOSTS DEVICES`, with DEVICES on each host. Requests are JSON lines on standard
input; results are JSON lines on standard output. Runs in an environment of its own that has the system (make paper).

    tensorflow   one process: a graph over its logical CPU devices, the sum on the first, an addition on each
    ray          an actor for each host. It runs jax with our device plugin on its devices, joined to the others as in multi-controller jax, so that the sum
                 is the all-reduce that ours uses. opbyop: a method call for each computation. chained: a compiled graph of 128 method calls on each
                 actor. fused: a method call with 128 computations in one jax function
"""

import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import _answers  # noqa: E402
from _setup import DEPTH, NODES  # noqa: E402


class Tensorflow:
    def __init__(self, hosts, count):
        if hosts > 1:
            raise ValueError("TensorFlow has one process here")
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        import tensorflow as tf

        self.tf, self.count = tf, count
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
        self.start = []
        for i in range(count):
            with tf.device(f"CPU:{i}"):
                self.start.append(tf.constant(0.0))

    def _step(self, values):
        tf, found = self.tf, []
        with tf.device("CPU:0"):
            total = tf.add_n(values) * (1 / self.count)
        for i in range(self.count):
            with tf.device(f"CPU:{i}"):
                found.append(total + 1.0)
        return found

    def make(self, kind):
        tf = self.tf

        def chained(values):
            for _ in range(NODES):
                values = self._step(values)
            return values

        def fused(values):
            return tf.while_loop(lambda i, *_: i < NODES, lambda i, *v: (i + 1, *self._step(list(v))), (tf.constant(0), *values))[1:]

        body = {"opbyop": self._step, "chained": chained, "fused": fused}[kind]
        return tf.function(lambda values: list(body(values))), 1 if kind == "opbyop" else NODES

    def begin(self, kind):
        return self.start

    def wait(self, values):
        return [float(value) for value in values]

    finish = wait

    def end(self):
        pass


class Actor:
    """The actor of one host. It keeps its part of the value, as our devices do, and has as many calls under way as our caller, at most. A call of a chain is a
    computation for it, so it has DEPTH * NODES of these. Arguments and results of its methods only order the calls."""

    def __init__(self, mode, address, count, packages):
        sys.path.append(packages)  # has jax; last, so that Ray finds its own packages first
        sys.path[:0] = [str(HERE), str(HERE.parent)]
        import collections

        import _client

        _client.DEVICES = count
        _client.set_environment(mode, address)
        _client.join_others(mode, address)
        import _side

        self.side, self.made, self.pending = _side.Side(count), {}, collections.deque()

    def begin(self, kind):
        if kind not in self.made:
            self.made[kind] = self.side.function(kind)[0]
        self.value = self.side.start

    def step(self, kind, after, depth=DEPTH):
        self.value = self.made[kind](self.value)
        self.pending.append(self.value)
        if len(self.pending) >= depth:
            self.pending.popleft().block_until_ready()

    def step_of_chain(self, after):
        self.step("opbyop", after, DEPTH * NODES)

    def read(self):
        self.pending.clear()
        return float(self.value.addressable_data(0)[0])


class Ray:
    def __init__(self, hosts, count):
        # The size of a compiled graph's channels, and the calls that one may hold. The default size is a megabyte: with 128 nodes, more than the memory of
        # the machine. Workers inherit these.
        os.environ.update(RAY_CGRAPH_buffer_size_bytes="1024", RAY_CGRAPH_max_inflight_executions=str(2 * DEPTH), RAY_CGRAPH_get_timeout="60")
        import ray

        import _sides

        self.ray, self.count, self.hosts = ray, count, hosts
        ray.init(num_cpus=hosts, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        library, packages = os.environ["PATHWAYS_BENCH_PLUGIN"], os.environ["PATHWAYS_BENCH_PACKAGES"]
        port = _sides.free_port()
        address = lambda i: library if hosts == 1 else f"127.0.0.1:{port}/{i}/{hosts}/{count // hosts}"
        actor = ray.remote(num_cpus=1)(Actor)
        self.actors = [actor.remote("plugin" if hosts == 1 else "multicontroller-plugin", address(i), count, packages) for i in range(hosts)]

    def begin(self, kind):
        self.ray.get([actor.begin.remote("opbyop" if kind == "chained" else kind) for actor in self.actors])
        return [None] * self.hosts

    def make(self, kind):
        if kind != "chained":
            return lambda after: [actor.step.remote(kind, one) for actor, one in zip(self.actors, after)], 1 if kind == "opbyop" else NODES
        graph = self._chain()
        return lambda _: graph.execute(0), NODES

    def _chain(self):
        from ray.dag import InputNode, MultiOutputNode

        with InputNode() as given:
            ends = []
            for actor in self.actors:
                value = given
                for _ in range(NODES):
                    value = actor.step_of_chain.bind(value)
                ends.append(value)
            return MultiOutputNode(ends).experimental_compile()

    def wait(self, after):
        self.ray.get(after)

    def finish(self, after):
        self.wait(after)
        return self.ray.get([actor.read.remote() for actor in self.actors])

    def end(self):
        self.ray.shutdown()


class Side:
    def __init__(self, system):
        self.system, self.made = system, {}

    def rate(self, kind, calls, depth):
        """Measures as `rate` of _side.py."""
        system = self.system
        start = system.begin(kind)
        if kind not in self.made:
            f, nodes = system.make(kind)
            expected, found = 2.0 * nodes, system.finish(f(f(start)))
            assert found and set(found) == {expected}, f"a wrong result: {found}, not {expected}"
            self.made[kind] = f, nodes
            start = system.begin(kind)
        f, nodes = self.made[kind]
        timed = _answers.timed_calls(f, start, calls, depth, system.wait, system.finish)
        return {**timed, "per_s": nodes * timed["per_s"]}


def main():
    hosts, devices = map(int, sys.argv[2:4])
    out = _answers.channel()
    side = Side({"tensorflow": Tensorflow, "ray": Ray}[sys.argv[1]](hosts, hosts * devices))
    _answers.serve_and_exit(side, out, {"devices": hosts * devices}, keep_errors=True, end=side.system.end)


if __name__ == "__main__":
    main()
