"""The computation of _side.py by what a user might take instead: `_rivals.py SYSTEM DEVICES`. A JSON line a request on standard input, one a
result on standard output. In an environment of its own that has the system (make paper).

    tensorflow   one graph over logical CPU devices of one process: the sum on the first, an addition on each
    ray          an actor for each device, which adds up what all have. Chained is a compiled graph, which has one call under way, as the next one
                 needs its result; Fused needs collectives between actors, which Ray has for CPUs only with further packages
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import _answers  # noqa: E402

NODES = 128


class Tensorflow:
    def __init__(self, count):
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

    def wait(self, values):
        return [float(value) for value in values]

    def end(self):
        pass


class Ray:
    def __init__(self, count):
        # What a channel of a compiled graph holds, and how many calls may be in it: by default a megabyte and ten, which for the channels of 128 nodes
        # on each of 16 actors is more than the memory of the machine. Workers inherit it.
        os.environ.update(RAY_CGRAPH_buffer_size_bytes="1024", RAY_CGRAPH_max_inflight_executions="1", RAY_CGRAPH_get_timeout="60")
        import ray

        self.ray, self.count = ray, count
        ray.init(num_cpus=count, include_dashboard=False, log_to_driver=False, logging_level="ERROR")

        class Device:
            def begin(self, value):
                return value

            def step(self, *values):
                return sum(values) * (1 / len(values)) + 1

        actor = ray.remote(num_cpus=1)(Device)
        self.devices = [actor.remote() for _ in range(count)]
        self.start = [0.0] * count

    def make(self, kind):
        if kind == "opbyop":
            return lambda values: [device.step.remote(*values) for device in self.devices], 1
        if kind == "fused":
            raise RuntimeError("not without collectives between actors")
        from ray.dag import InputNode, MultiOutputNode

        with InputNode() as given:
            values = [device.begin.bind(given) for device in self.devices]
            for _ in range(NODES):
                values = [device.step.bind(*values) for device in self.devices]
            graph = MultiOutputNode(values).experimental_compile()
        return lambda values: [self.ray.get(future) for future in graph.execute(self.wait(values[:1])[0])], NODES

    def end(self):
        self.ray.shutdown()

    def wait(self, values):
        return [self.ray.get(value) if isinstance(value, self.ray.ObjectRef) else value for value in values]


class Side:
    def __init__(self, system):
        self.system, self.made = system, {}

    def rate(self, kind, calls, depth):
        """As of _side.py."""
        system = self.system
        if kind not in self.made:
            f, nodes = system.make(kind)
            assert system.wait(f(f(system.start))) == [2.0 * nodes] * system.count, "a wrong result"
            self.made[kind] = f, nodes
        f, nodes = self.made[kind]
        timed = _answers.timed_calls(f, system.start, calls, depth, system.wait)
        return {**timed, "per_s": nodes * timed["per_s"]}


def main():
    count = int(sys.argv[2])
    out = _answers.channel()
    side = Side({"tensorflow": Tensorflow, "ray": Ray}[sys.argv[1]](count))
    _answers.serve_and_exit(side, out, {"devices": count}, keep_errors=True, end=side.system.end)


if __name__ == "__main__":
    main()
