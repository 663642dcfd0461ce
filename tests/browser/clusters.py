"""Clusters with a page, and programs that use them, for the browser's tests and bench/page.py."""

import json
import os
import pathlib
import subprocess
import sys

PATIENCE = 120

# Makes arrays and computes until it is told to end. Arguments: the side of its squares, multiplications in a step, the pause between steps, and which part
# of the devices it uses, "2/4" for instance.
PROGRAM = """
import collections, sys, threading
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
size, steps, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
part, parts = map(int, sys.argv[4].split("/"))
devices = jax.devices()
print("connected", flush=True)
devices = devices[part * len(devices) // parts:(part + 1) * len(devices) // parts]
mesh = jax.sharding.Mesh(np.array(devices), ("x",))
over_all = NamedSharding(mesh, P("x"))
x = jax.jit(lambda: jnp.ones((len(devices) * size, size), jnp.float32), out_shardings=over_all)()

@jax.jit
def train_step(x):
    for _ in range(steps):
        x = x @ jnp.full((size, size), 1 / size, jnp.float32)
    return x

@jax.jit
def evaluate(x):
    return x.sum()

jax.block_until_ready((train_step(x), evaluate(x)))
print("ready", flush=True)
ending = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), ending.set()), daemon=True).start()
turn, under_way = 0, collections.deque()
while not ending.is_set():
    turn += 1
    try:
        x = train_step(x)
        if turn % 5 == 0:
            evaluate(x)
        under_way.append(x)
        if len(under_way) == 4 or pause:
            jax.block_until_ready(under_way.popleft())
    except jax.errors.JaxRuntimeError as error:
        print(type(error).__name__, flush=True)
        ending.wait()
    ending.wait(pause)
"""


class Cluster:
    def __init__(self, home, *words):
        self.env = {**os.environ, "PATHWAYS_HOME": str(home), "JAX_PLATFORMS": "pathways", "PATHWAYS_START_SECONDS": str(PATIENCE)}
        for name in ("PATHWAYS_ADDRESS", "PATHWAYS_LOCAL", "PATHWAYS_TOKEN_FILE"):
            self.env.pop(name, None)
        self.started = self.run("up", *words, "--page", "--no-restart")  # so pid("controller") is the controller
        self.programs = []

    def run(self, *words):
        """Runs a command; returns the JSON that it prints."""
        done = subprocess.run([sys.executable, "-m", "pathways", *words, "--json"], env=self.env, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, f"pathways {' '.join(words)}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout)

    def login(self):
        """Returns an address that logs in once."""
        return self.run("page")["url"]

    def program(self, size=256, steps=4, pause=0.0, part="0/1", **env):
        """Starts PROGRAM, and returns once it has connected. It prints "ready" when it computes."""
        started = self.python(PROGRAM, size, steps, pause, part, **env)
        assert started.stdout.readline() == "connected\n"
        return started

    def python(self, code, *arguments, **env):
        """Starts a program on the cluster, from a file: only then do all Pythons show its lines in stacks."""
        script = pathlib.Path(self.env["PATHWAYS_HOME"], f"program{len(self.programs)}.py")
        script.write_text(code)
        started = subprocess.Popen([sys.executable, script, *map(str, arguments)], env={**self.env, "PATHWAYS_ADDRESS": self.started["address"], **env},
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.programs.append(started)
        return started

    def pid(self, name):
        state = json.loads(pathlib.Path(self.started["logs"], "state.json").read_text())
        return next(one["pid"] for one in state["members"] if one["name"] == name)

    def stop(self):
        for one in self.programs:
            one.kill()
            one.wait()
        self.run("down")
