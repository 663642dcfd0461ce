"""The side of host_python.py that runs an empty function in a worker process of Ray, on this machine. Run it by an interpreter that has Ray."""

import _answers


class Ray:
    def __init__(self):
        import ray

        self._ray = ray
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        self._value = ray.put(0)

        @ray.remote
        def task(value):
            return value

        @ray.remote
        class Actor:
            def call(self, value):
                return value

        self._actor = Actor.remote()
        self._calls = {"task": task.remote, "actor": self._actor.call.remote}

    def latency(self, kind, calls):
        return _answers.latencies(lambda: self._ray.wait([self._calls[kind](self._value)]), calls)

    def rate(self, kind, calls, depth):
        return {"per_s": _answers.timed_calls(self._calls[kind], self._value, calls, depth, lambda value: self._ray.wait([value]))["per_s"]}


def main():
    out = _answers.channel()
    side = Ray()
    _answers.serve_and_exit(side, out, {}, end=side._ray.shutdown)


if __name__ == "__main__":
    main()
