"""Kills the controller under a program. Every use of the cluster's arrays then raises UNAVAILABLE at once, naming the controller and the remedy, and
the program continues and ends normally. No timeout is involved: the connection timeout here is a day. (Stock jax's client
aborts the process if its server, here the agent, goes: jit code that needs a layout cannot handle the error.)"""

import textwrap

import pytest

PRELUDE = """
import os, signal, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

f = jax.jit(lambda v: v + 1)
mesh = jax.make_mesh((2,), ("x",))
x = f(f(np.arange(4.0, dtype=np.float32)))
sharded = jax.device_put(np.arange(8.0), NamedSharding(mesh, P("x")))
assert float(x.sum()) == 14.0

def kill_controller():
    from pathways._client import connection
    pid = next(p.pid for p in connection._endpoint.cluster.processes if "controller" in p.name)
    os.kill(pid, signal.SIGKILL)

def raises(name, use):
    try:
        use()
    except jax.errors.JaxRuntimeError as error:
        text = str(error)
        assert text.startswith("UNAVAILABLE: the connection to the Pathways controller at "), text
        assert "clear_backends" in text, text
        print(name)
    else:
        print(name, "did not raise")
"""


def run(run_script, code, **env):
    return run_script(code, PATHWAYS_CONNECT_TIMEOUT="86400", PATHWAYS_LOCAL="2x1x2", **env)  # of one host, the cluster would be one process


def test_the_program_survives_and_reads_why(run_script):
    done = run(run_script, PRELUDE + textwrap.dedent("""
        kill_controller()
        put = jax.device_put(np.ones((3, 4), np.float32))
        large = jax.device_put(np.ones((2000, 1000), np.float32))
        raises("jit of a new array", lambda: jax.block_until_ready(f(put)))
        raises("jit of an old array", lambda: jax.block_until_ready(f(x)))
        raises("a new program", lambda: jax.jit(lambda v: v * 2)(put))
        raises("block", lambda: jax.block_until_ready(large))
        raises("read", lambda: np.asarray(large))
        raises("read of shards", lambda: np.asarray(sharded))
        raises("arithmetic", lambda: x + 1)
        raises("new zeros", lambda: jnp.zeros(3).block_until_ready())
        put.delete()
        del large
        sys.exit(7)
        """))
    assert done.returncode == 7, done.stderr
    assert done.stdout.splitlines() == ["jit of a new array", "jit of an old array", "a new program", "block", "read",
                                        "read of shards", "arithmetic", "new zeros"]


def test_a_deep_queue_under_way_ends_in_the_error(run_script):
    done = run(run_script, PRELUDE + textwrap.dedent("""
        for i in range(2000):
            x = f(x)
            if i == 1000: kill_controller()
        raises("the end of the queue", lambda: jax.block_until_ready(x))
        """))
    assert (done.returncode, done.stdout) == (0, "the end of the queue\n"), done.stderr


@pytest.mark.parametrize("way", ["on", "off"])  # off: over a socket, in parts
def test_a_large_array_on_its_way_ends_in_the_error(run_script, way):
    done = run(run_script, PRELUDE + textwrap.dedent("""
        import threading
        host = np.ones(64 << 20, np.float32)
        jax.block_until_ready(jax.device_put(host))
        sent = threading.Semaphore(0)

        def kill_under_way():
            for _ in range(2):
                sent.acquire()
            kill_controller()

        def put():
            x = jax.device_put(host)  # returns while the bytes are on their way
            sent.release()
            jax.block_until_ready(x)

        threading.Thread(target=kill_under_way).start()
        raises("a way up", lambda: [put() for _ in range(100)])
        """), PATHWAYS_SHARED_MEMORY=way)
    assert (done.returncode, done.stdout) == (0, "a way up\n"), done.stderr


def test_the_remedy_in_the_text_works(run_script):
    done = run(run_script, PRELUDE + textwrap.dedent("""
        kill_controller()
        raises("lost", lambda: jax.block_until_ready(x + 1))
        import jax.extend
        jax.clear_caches()
        jax.extend.backend.clear_backends()
        print(float(jax.jit(lambda v: v.sum())(np.arange(4.0, dtype=np.float32))))
        """))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["lost", "6.0"]
