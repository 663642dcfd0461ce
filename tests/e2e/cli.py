"""Runs the command line as users do, with a private folder of clusters."""

import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import sys

from conftest import PATIENCE, clean_environment


def free_ports(count):
    """Returns ports of this machine on which nobody listens."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class CommandLine:
    python = sys.executable

    def __init__(self, home, **env):
        env = {"PATHWAYS_HOME": str(home), "PATHWAYS_START_SECONDS": str(PATIENCE), "PATHWAYS_CONNECT_TIMEOUT": str(PATIENCE), **env}
        self.env = clean_environment(**env)
        self.env.pop("PATHWAYS_LOCAL")

    def __call__(self, *words, check=True, timeout=PATIENCE):
        """Runs a command; returns the JSON that it prints, or with check=False the finished process."""
        done = subprocess.run([self.python, "-m", "pathways", *words, *(["--json"] if check else [])], env=self.env, capture_output=True,
                              text=True, timeout=timeout)
        if not check:
            return done
        assert done.returncode == 0, f"pathways {' '.join(words)}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout)

    def start(self, *words, log, enter=lambda *words: words):
        """Starts a command that keeps running; `enter` wraps its words to start it elsewhere."""
        with open(log, "w") as output:
            return subprocess.Popen(enter(self.python, "-m", "pathways", *words), env=self.env, stdout=output, stderr=output)

    def program(self, address, code, enter=lambda *words: words, **kwargs):
        """Starts a jax program on the cluster at `address`; returns its Popen. `enter` wraps its words to start it elsewhere."""
        return subprocess.Popen(enter(sys.executable, "-c", code), env=dict(self.env, PATHWAYS_ADDRESS=address), text=True, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kwargs)

    def run(self, address, code, timeout=PATIENCE):
        out, err = (program := self.program(address, code)).communicate(timeout=timeout)
        assert program.returncode == 0, out + err
        return out


@contextlib.contextmanager
def operator_at(home, **env):
    """Yields a command line. Ends the clusters that it has started."""
    command = CommandLine(home, **env)
    yield command
    command("down", check=False)


class User(CommandLine):
    """A user with a separate home and without a token."""

    def __init__(self, folder):
        folder.mkdir()
        super().__init__(folder / "pathways", HOME=str(folder))
        self.env.pop("XDG_CONFIG_HOME", None)
        self.env.pop("PATHWAYS_TOKEN_FILE", None)
        self.home = folder

    def login(self, address, token):
        return self("login", address, "--token-file", str(token))


def secrets_in(*folders):
    """Returns the secrets of the tokens in all files of these folders."""
    files = [path for folder in folders for path in pathlib.Path(folder).rglob("*") if path.is_file()]
    return {found for path in files for found in re.findall(rb"pw-[0-9a-f]{8}-([0-9a-f]{64})", path.read_bytes())}


def processes_that_show(secrets):
    """Returns [(process, "cmdline" or "environ")] where other processes of this machine could read one of the secrets."""
    shown = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        for where in ("cmdline", "environ"):
            with contextlib.suppress(OSError):  # it has ended
                text = (pathlib.Path("/proc") / process / where).read_bytes()
                shown += [(process, where)] if any(secret in text for secret in secrets) else []
    return shown


def end(process, number=None, timeout=PATIENCE):
    """Sends a signal, if one is given, and returns the exit status."""
    if number is not None:
        process.send_signal(number)
    return process.wait(timeout)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def check_that_it_outlives_its_door(run_script, number, **env):
    """Kills the process by which a program has entered its cluster: the program reads errors, and gets a new process when it reconnects."""
    done = run_script(f"""
import os
import jax, jax.extend, numpy as np
f = jax.jit(lambda v: v + 1)
x = jax.block_until_ready(f(np.arange(4.0, dtype=np.float32)))
from pathways._client import connection
door = connection._endpoint.door
os.kill(door.pid, {int(number)})
while door.alive():  # until it is gone, it answers
    pass
for use in (lambda: jax.block_until_ready(f(x)), lambda: np.asarray(x), lambda: jax.jit(lambda v: v * 2)(x)):
    try:
        use()
    except jax.errors.JaxRuntimeError as error:
        print(str(error).split(":")[0])
del x
jax.clear_caches()
jax.extend.backend.clear_backends()
print(float(jax.jit(lambda v: v.sum())(np.arange(4.0, dtype=np.float32))))
""", **env)
    assert (done.returncode, done.stdout.splitlines()) == (0, ["UNAVAILABLE"] * 3 + ["6.0"]), (done.returncode, done.stdout, done.stderr)
