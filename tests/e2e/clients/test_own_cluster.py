"""Tests a local cluster of one host in the program's own process (PATHWAYS_DOOR=pjrt): threads, frames, logs, operators, the end of the process.
test_pjrt_door.py tests its computations."""

import os
import signal
import textwrap

import pytest

SETUP = """
import os, pathlib, signal, sys, threading
import jax, jax.numpy as jnp, numpy as np
"""


@pytest.fixture
def own(run_script):
    def run(code, **env):
        return run_script(SETUP + textwrap.dedent(code), PATHWAYS_DOOR="pjrt", PATHWAYS_LOCAL="1x1x4", **env)

    return run


def expect(done, stdout="", status=0):
    assert (done.returncode, done.stdout, done.stderr) == (status, stdout, ""), done.stderr


def test_no_process_is_started_and_nothing_is_said(own):
    """Runs twice: the second time, the device runtime loads compiled programs from the cache."""
    for _ in range(2):
        expect(own("""
            print(float(jax.jit(lambda v: (v @ v.T).sum())(jnp.ones((3, 4)))))
            assert not pathlib.Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text()
            """), "36.0\n")


def test_operators_reach_it(own):
    expect(own("""
        import json
        from pathways._client import connection
        from pathways._cluster import admin
        x = jnp.ones(3) + 1
        report = admin.status(connection._endpoint.controller)
        assert report["joined_hosts"] == 1 and [c["id"] for c in report["clients"]] == [jax.devices()[0].client.pathways_client], report
        print(float(x.sum()))
        """), "6.0\n")


def test_its_log_stays_if_it_is_wanted(own):
    done = own("""
        jax.devices()
        from pathways._client import connection
        print(connection._endpoint.folder)
        """, PATHWAYS_KEEP_LOGS="1")
    assert done.returncode == 0, done.stderr
    with open(os.path.join(done.stdout.strip(), "local.log")) as log:
        assert "the cluster has formed" in log.read()


def test_a_small_call_and_a_read_wake_no_thread(own):
    """The calling thread does all the work: no thread of the cluster or of the device runtime runs between a call and the bytes of its
    result."""
    expect(own("""
        def switches():
            total = {}
            for task in pathlib.Path("/proc/self/task").iterdir():
                try:
                    name, status = (task / "comm").read_text().strip(), (task / "status").read_text()
                except OSError:
                    continue  # a thread of jax that has ended
                if task.name != str(os.getpid()):
                    total[name] = total.get(name, 0) + sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("voluntary_ctxt"))
            return total
        f = jax.jit(lambda v: v + 1)
        x = f(jnp.zeros(4))
        for _ in range(10):
            x = f(x)
            np.asarray(x)
        before = switches()
        for _ in range(200):
            x = f(x)
            seen = np.asarray(x)
        woken = {name: count - before.get(name, 0) for name, count in switches().items() if count > before.get(name, 0)}
        assert before["pw-local"] > 0 and sum(woken.values()) < 50, (before, woken)  # some sweeps of what was dropped
        print(seen[0])
        """), "211.0\n")


def test_a_small_call_takes_one_frame_each_way(own):
    """Dropped arrays, and the constants of eager operations, travel with the next call."""
    expect(own("""
        from pathways._client import connection
        from pathways._cluster import admin
        def frames():
            (host,) = admin.status(connection._endpoint.controller)["hosts"]
            return host["frames_sent"], host["frames_received"]
        f = jax.jit(lambda v: v + 1)
        x = f(jnp.zeros(4)).block_until_ready()
        for call in f, lambda v: v + 1:
            x = call(x).block_until_ready()
            before = frames()
            for _ in range(200):
                x = call(x).block_until_ready()
            sent, received = (now - then for now, then in zip(frames(), before))
            assert 200 <= sent < 240 and 200 <= received < 240, (sent, received)  # some more for heartbeats and the questions
        print(x[0])
        """), "403.0\n")


def test_what_is_dropped_is_freed_without_another_call(own):
    expect(own("""
        from pathways._client import connection
        from pathways._cluster import admin
        def arrays():
            (client,) = admin.status(connection._endpoint.controller)["clients"]
            return client["arrays"]
        x = jax.device_put(np.zeros(4)).block_until_ready()
        before = arrays()
        del x
        while arrays() >= before:
            pass  # each question goes through the cluster's thread
        """))


def test_the_process_ends_while_devices_compute(own):
    expect(own("""
        f = jax.jit(lambda v: jax.lax.fori_loop(0, 3000, lambda _, m: jnp.tanh(m @ m), v))
        x = f(jnp.ones((100, 100)))
        y = f(x)
        sys.exit(7)
        """), status=7)


def test_the_process_ends_at_once(own):
    expect(own("""
        x = jax.jit(lambda v: jax.lax.fori_loop(0, 3000, lambda _, m: jnp.tanh(m @ m), v))(jnp.ones((100, 100)))
        os._exit(8)
        """), status=8)


def test_an_interrupt_ends_the_program(own):
    done = own("""
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background commands inherit that it is ignored
        x = jnp.ones(3).block_until_ready()
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait()
        """)
    assert done.returncode == -signal.SIGINT and "KeyboardInterrupt" in done.stderr, done.stderr


def test_programs_call_python_while_others_run(own):
    """No thread holds Python's lock while it waits for a function of the program."""
    expect(own("""
        def slow(v):
            with jax.default_device(jax.devices("cpu")[0]):
                return np.asarray(v) + 1
        f = jax.jit(lambda v: jax.pure_callback(slow, jax.ShapeDtypeStruct(v.shape, v.dtype), v))
        g = jax.jit(lambda v: v * 2)
        x = jnp.ones(3)
        for _ in range(20):
            x = g(f(x)) - x
        print(float(x[0]))
        """), "41.0\n")


def test_a_program_that_has_imported_tensorflow_can_use_it(own):
    """tensorflow's libraries bring their own protobuf and abseil into the scope of all libraries that are loaded later."""
    done = own("""
        import ctypes
        from pathways._cluster import binaries
        ctypes.CDLL(str(binaries.device_plugin("cpu")), mode=os.RTLD_LOCAL | os.RTLD_NOW)
        theirs = {line.split()[-1] for line in open("/proc/self/maps") if "libtensorflow" in line}
        for library in theirs:
            ctypes.CDLL(library, mode=os.RTLD_GLOBAL | os.RTLD_NOW)  # as `import tensorflow` opens them
        print(len(theirs), float(jax.jit(lambda v: (v @ v.T).sum())(jnp.ones((3, 4)))))
        """)
    assert (done.returncode, done.stdout) == (0, "2 36.0\n"), done.stderr


def test_threads_share_it(own):
    """Each thread makes small arrays, which are sent with the next request of any thread."""
    expect(own("""
        f = jax.jit(lambda v, n: v * n + 1)
        def work(n, out):
            for _ in range(8):
                x = jnp.zeros(8)
                for i in range(100):
                    x = f(x, 1)
                    if i % n == 0:
                        float(x[0])
                out.append(float(x[0]))
        outs = [[] for _ in range(6)]
        threads = [threading.Thread(target=work, args=(i % 3 + 1, out)) for i, out in enumerate(outs)]
        for t in threads: t.start()
        for t in threads: t.join()
        print(outs == [[100.0] * 8] * 6)
        """), "True\n")


def test_a_forked_child_gets_a_cluster_of_its_own(own):
    done = own("""
        import jax.extend.backend
        x = jnp.ones(3) + 1
        x.block_until_ready()
        child = os.fork()
        if child == 0:
            jax.clear_caches()
            jax.extend.backend.clear_backends()
            from pathways._client import connection
            y = jnp.ones(3) * 5
            ok = float(y.sum()) == 15 and [p.name for p in connection._endpoint._processes()] == ["pathways-local"]
            sys.stdout.flush()
            os._exit(0 if ok else 9)
        assert os.waitpid(child, 0)[1] == 0
        print(float((x + 1).sum()))
        """)
    assert (done.returncode, done.stdout) == (0, "9.0\n"), done.stderr


def test_a_place_that_there_is_not(own):
    done = own("jax.devices()", PATHWAYS_LOCAL_PROCESS="nowhere")
    assert done.returncode != 0 and "PATHWAYS_LOCAL_PROCESS must be own or separate, not 'nowhere'" in done.stderr
