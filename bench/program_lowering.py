"""Measures tracing and lowering of programs of 1,000 nodes (@pw.program), over virtual devices of jax's own cpu. XLA compiles nothing.

    few         1,000 calls of four functions, on four devices in turn
    different   calls of 1,000 different functions, each of which jax has to lower to StableHLO
    jax         jax's own lower() of 1,000 such functions
    shards      1,000 calls of a function over 8 devices, and over 2,048

The figures are processor time, so that other programs on the machine do not count.
"""

import json
import os
import subprocess
import sys
import time

import _report

NODES, FEW, MANY = 1000, 8, 2048


def chain(functions):
    import pathways as pw

    @pw.program
    def program(x):
        for i in range(NODES):
            x = functions[i % len(functions)](x)
        return x

    return program


def seconds(call):
    begin = time.process_time()
    call()
    return time.process_time() - begin


def traced(functions, x):
    """Returns the seconds to trace and lower a new program. functions(): makes its functions anew, so that jax's caches do not have them either."""
    return seconds(lambda: chain(functions()).lower(x)._graph.to_bytes())


def side(rounds):
    """Runs in a process with a given number of devices; prints the figures as a JSON line."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

    devices = jax.devices()
    on = [SingleDeviceSharding(device) for device in devices[:4]]
    everywhere = NamedSharding(Mesh(np.array(devices), ("x",)), PartitionSpec("x"))
    single = jax.device_put(np.zeros(4, np.float32), devices[0])
    spread = jax.device_put(np.zeros(len(devices), np.float32), everywhere)
    make = lambda where, factor=1.0: jax.jit(lambda x: x * factor + 1.0, in_shardings=where, out_shardings=where)
    figures = {"shards": [traced(lambda: [make(everywhere)], spread) for _ in range(rounds)]}
    if len(devices) == FEW:
        figures["few"] = [traced(lambda: [make(one) for one in on], single) for _ in range(rounds)]
        figures["different"] = [traced(lambda: [make(on[i % 4], float(i)) for i in range(NODES)], single) for _ in range(2)]
        figures["jax"] = [seconds(lambda: [make(on[i % 4], float(i)).lower(single) for i in range(NODES)])]
    print(json.dumps({name: min(values) for name, values in figures.items()}), flush=True)


def run(devices, rounds):
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    done = subprocess.run([sys.executable, __file__, "--side", str(rounds)], env=env, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def main():
    args = _report.arguments(__doc__, lambda parser: parser.add_argument("--rounds", type=int, default=5))
    few, many = run(FEW, args.rounds), run(MANY, args.rounds)
    ratio = many["shards"] / few["shards"]
    print(f"{NODES} nodes of 4 functions: {few['few']:.2f} s; of {NODES} functions: {few['different']:.2f} s ({few['jax']:.2f} s of jax's own "
          f"lower()); over {FEW} devices {few['shards']:.3f} s, over {MANY} {many['shards']:.3f} s ({ratio:.2f}x)")
    _report.finish(args, "program_lowering", {"seconds": few, "seconds_many_shards": many["shards"]}, [
        _report.target(f"tracing and lowering of {NODES} nodes, s", few["few"], 2.0),
        _report.target(f"{MANY} shards / {FEW} shards", ratio, 1.2)])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--side"]:
        side(int(sys.argv[2]))
    else:
        main()
