"""Controllers that end under programs, and those that take their places."""

import json
import os
import pathlib
import signal
import subprocess

from conftest import PATIENCE, eventually

REPLACED = 3  # the exit status of a controller that another one has replaced

# Trains on all devices of all hosts, with collectives, donated parameters, and arrays that are small, and too large for the controller. Prints a hash of
# all that it has read. The arguments: how many steps; those after which it waits until nothing is under way, and then for a line; and those before which it
# waits for a line only, as "gate95".
TRAINING = """
import hashlib, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("x",))
rows, copies = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
n = 256

@jax.jit
def loss(p, x):
    return jnp.mean((jnp.tanh(x @ p["w"] + p["b"]) - 1) ** 2)

def step(p, x):
    value, slope = jax.value_and_grad(loss)(p, x)
    return jax.tree.map(lambda a, g: a - 0.1 * g, p, slope), value

step = jax.jit(step, donate_argnums=0, out_shardings=(copies, copies))
start = np.random.default_rng(0)
p = jax.device_put({"w": start.normal(size=(n, n)).astype(np.float32), "b": start.normal(size=n).astype(np.float32)}, copies)
read = hashlib.sha256()
for i in range(int(sys.argv[1])):
    if f"gate{i}" in sys.argv[2:]:
        sys.stdin.readline()
    x = jax.device_put(np.random.default_rng(i).normal(size=(64, n)).astype(np.float32), rows)
    p, value = step(p, x)
    if str(i) in sys.argv[2:]:
        jax.block_until_ready(p)
        print("quiet", flush=True)
        sys.stdin.readline()
    if i % 10 == 0:
        read.update(np.asarray(p["w"]).tobytes())
        print(i, flush=True)
    elif i % 10 == 5:
        read.update(np.asarray(value).tobytes())
for leaf in jax.tree.leaves(p):
    read.update(np.asarray(leaf).tobytes())
print(read.hexdigest(), flush=True)
"""

# Uses a part of a session that no other controller can restore. Then waits, and tells the error that it reads.
NOT_RESTORABLE = """
import sys
import jax, numpy as np
import pathways as pw

x = jax.device_put(np.arange(4.0, dtype=np.float32))
pw.publish("weights", x)
x.block_until_ready()
print("ready", flush=True)
sys.stdin.readline()
try:
    np.asarray(x)
except jax.errors.JaxRuntimeError as error:
    print(str(error).replace(chr(10), " "), flush=True)
"""


def has_ended(pid):
    """Returns whether the process has ended, with its sockets. Its program is gone before these are, and its first thread may be gone before the others."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z" and len(os.listdir(f"/proc/{pid}/task")) == 1
    except OSError:
        return True


class Controllers:
    """Starts controllers by the command line of a cluster's own."""

    def __init__(self, command, folder):
        self.command, self.folder, self.started = command, folder, []
        self.pid = command("status")["pid"]
        self.words = pathlib.Path(f"/proc/{self.pid}/cmdline").read_bytes().decode().split("\0")[:-1]

    def word(self, name):
        """Returns the value of a flag."""
        return self.words[self.words.index(f"--{name}") + 1]

    def kill_first(self):
        os.kill(self.pid, signal.SIGKILL)
        assert eventually(lambda: has_ended(self.pid))

    def start(self, **changed):
        """Starts another controller. Returns it once it serves, with its addresses for clients and for workers."""
        number = len(self.started)
        words = list(self.words)
        changed["port-file"] = self.folder / f"controller{number}.port"
        for name, value in changed.items():
            words[words.index(f"--{name}") + 1] = str(value)
        with open(self.log(number), "w") as log:
            process = subprocess.Popen(words, env=self.command.env, stdout=log, stderr=log)
        self.started.append(process)
        assert eventually(changed["port-file"].exists), self.log(number).read_text()
        clients, workers, _ = changed["port-file"].read_text().split()
        return process, clients, workers

    def await_program(self, program):
        """Waits until the program goes on with the last controller. A program may be far ahead of what has been read of its output."""
        log = self.log(len(self.started) - 1)
        assert eventually(lambda: "goes on here" in log.read_text() or program.poll() is not None), log.read_text()

    def log(self, number):
        return self.folder / f"controller{number}.log"

    def stop(self):
        for process in self.started:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


def hosts(command, *where):
    return {host["name"]: host for host in command("status", *where)["hosts"]}


def formed(command, *where):
    done = command("status", *where, "--json", check=False)
    return done.returncode == 0 and json.loads(done.stdout)["state"] == "formed"


def train(command, address, quiet=(), gates=()):
    return subprocess.Popen([command.python, "-c", TRAINING, "400", *map(str, quiet), *(f"gate{step}" for step in gates)], env=dict(command.env, PATHWAYS_ADDRESS=address), text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def lines(program, given=""):
    """Returns what the program prints until it ends, and on standard error. Lines may have been read already."""
    program.stdin.write(given)
    program.stdin.close()
    out = program.stdout.read().splitlines()
    err = program.stderr.read()
    assert program.wait(PATIENCE) == 0, "\n".join(out) + err
    return out, err
