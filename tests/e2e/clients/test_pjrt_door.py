"""Enters a cluster by the PJRT door (PATHWAYS_DOOR=pjrt), which is in the client's own process. Every program compares the cluster's results with
those of jax's own cpu, in the same process. Most run on a local cluster of one host with eight devices, first in the program's process,
then in a separate process."""

import json
import subprocess
import sys
import textwrap

import pytest
from cli import CommandLine
from conftest import PATIENCE, clean_environment

PRELUDE = """
import functools, json, os, signal, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

devices, cpu = jax.devices(), jax.devices("cpu")[0]
# Axes of type Auto: the compiler chooses the shardings of results, and the executable tells them.
mesh = jax.make_mesh((len(devices),), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
rows, copies = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())

def reference(function, *args):
    with jax.default_device(cpu):
        return jax.tree.map(np.asarray, function(*args))

def same(ours, theirs, rtol=1e-5):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(np.asarray(a), b, rtol=rtol), ours, theirs)

def refused(use, *words):
    try:
        use()
    except Exception as error:
        assert all(word in str(error) for word in words), f"{type(error).__name__}: {error}"
    else:
        raise AssertionError(f"not refused: {words}")
"""


class Program:
    """A Python process that runs one piece of a program after another, each in a separate function, and reports the outcome."""

    LOOP = PRELUDE + textwrap.dedent("""
        import traceback
        out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        for line in sys.stdin:
            try:
                exec(compile(json.loads(line), "<piece>", "exec"), dict(globals()))
                said = ""
            except Exception:
                said = traceback.format_exc()
            print(json.dumps(said), file=out, flush=True)
        """)

    def __init__(self, log, **env):
        self.log = log
        with open(log, "w") as errors:
            self.process = subprocess.Popen([sys.executable, "-c", self.LOOP], env=clean_environment(PATHWAYS_DOOR="pjrt", **env), text=True,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)

    def __call__(self, piece):
        print(json.dumps(textwrap.dedent(piece)), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        assert line, self.log.read_text()
        said = json.loads(line)
        assert not said, said

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(PATIENCE) == 0, self.log.read_text()


@pytest.fixture(scope="module", params=["own", "separate"])
def program(request, tmp_path_factory):
    one = Program(tmp_path_factory.mktemp("program") / "log", PATHWAYS_LOCAL="1x1x8", PATHWAYS_LOCAL_PROCESS=request.param)
    yield one
    one.end()


def test_devices_have_attributes_and_memories(program):
    program("""
        assert len(devices) == 8 and [d.id for d in devices] == list(range(8))
        assert {d.platform for d in devices} == {"cpu"} and devices[0].island == "island0" and devices[0].slice_index == 0
        assert {m.kind for m in devices[3].addressable_memories()} == {"device", "pinned_host", "unpinned_host"}
        assert devices[3].default_memory().kind == "device"
        assert devices[0].client.pathways_client > 0
        from pathways._client import connection
        own = os.environ["PATHWAYS_LOCAL_PROCESS"] == "own"
        assert [p.name for p in connection._endpoint._processes()] == ([] if own else ["pathways-local"])
        """)


def test_arrays_go_there_and_back(program):
    program("""
        import ml_dtypes
        for dtype in (np.bool_, np.int8, np.uint16, np.int32, np.float16, np.float32, np.complex64, ml_dtypes.bfloat16, ml_dtypes.int4, ml_dtypes.float8_e4m3fn):
            host = np.array([[0, 1, 1], [1, 0, 3]]).astype(dtype)
            for view in (host, host.T, host[::-1], host[:, ::2], np.broadcast_to(host[0], (4, 3)), np.asfortranarray(host), host[:0]):
                back = np.asarray(jax.device_put(view, devices[5]))
                assert back.dtype == view.dtype and np.array_equal(back, view)
        large = np.random.default_rng(0).random((1000, 800)).astype(np.float32)  # by the host's lane
        for sharding in (devices[0], rows, copies, NamedSharding(mesh, P(None, "x"))):
            assert np.array_equal(np.asarray(jax.device_put(large, sharding)), large)
        """)


def test_a_function_on_one_device(program):
    program("""
        def f(x, w):
            return jnp.tanh(x @ w).sum(0), {"scan": jax.lax.scan(lambda c, v: (c + v.sum(), c * 2), 0.0, x)[1]}
        x, w = np.random.default_rng(1).random((6, 5), np.float32), np.ones((5, 3), np.float32)
        same(jax.jit(f)(x, w), reference(f, x, w))
        key = lambda: jax.random.normal(jax.random.key(3), (100,))
        same(key(), reference(key))
        """)


def test_eager_operations(program):
    program("""
        def f():
            y = jnp.arange(12.0).reshape(3, 4)
            z = ((y + 1) * 2 - y).T
            return z.at[0].set(5), z.sum(), jnp.sort(z[::-1], axis=0), jnp.where(z > 3, z, 0), jnp.linalg.norm(z)
        same(f(), reference(f))
        assert float((jnp.arange(3) + 1).sum()) == 6
        """)


def test_sharded_arrays_and_the_compiler_s_shardings(program):
    program("""
        host = np.arange(64.0, dtype=np.float32).reshape(8, 8)
        x = jax.device_put(host, rows)
        y = jax.jit(lambda v: v * 2 + 1)(x)
        assert y.sharding.is_equivalent_to(rows, 2)
        for i, shard in enumerate(y.addressable_shards):
            assert shard.device == devices[i] and np.array_equal(np.asarray(shard.data), host[i:i + 1] * 2 + 1)
        same(jax.jit(lambda v: v.sum(0))(y), (host * 2 + 1).sum(0))
        same(jax.jit(lambda v: v @ v.T, out_shardings=copies)(x), host @ host.T)
        same(jax.device_put(x, NamedSharding(mesh, P(None, "x"))), host)
        same(jax.device_put(y, devices[6]), host * 2 + 1)
        few = jax.make_mesh((2,), ("y",), devices=devices[6:])
        same(jax.device_put(x, NamedSharding(few, P("y"))), host)
        """)


def test_collectives(program):
    program("""
        host = np.arange(32.0, dtype=np.float32).reshape(8, 4)
        def f(v):
            right = jax.lax.ppermute(v, "x", [(i, (i + 1) % 8) for i in range(8)])
            return jax.lax.psum(v, "x"), right, jax.lax.all_gather(v, "x", tiled=True), jax.lax.psum_scatter(jnp.tile(v, (8, 1)), "x", tiled=True)
        spread = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=(P(), P("x"), P(), P("x")), check_vma=False))
        total, right, gathered, scattered = spread(jax.device_put(host, rows))
        same(total, host.sum(0, keepdims=True))
        same(right, np.roll(host, 1, axis=0))
        same(gathered, host)
        same(scattered, np.tile(host.sum(0), (8, 1)))
        """)


def test_copies_between_devices_and_memories(program):
    program("""
        x = jax.device_put(np.arange(5.0), devices[1])
        y = jax.device_put(x, devices[6])
        assert y.devices() == {devices[6]}
        same(y + 1, np.arange(5.0) + 1)
        there = jax.device_put(np.arange(8.0), rows.with_memory_kind("pinned_host"))
        assert there.sharding.memory_kind == "pinned_host"
        back = jax.device_put(there, rows)
        assert back.sharding.memory_kind == "device"
        same(back, np.arange(8.0))
        assert jax.device_put(x, cpu).devices() == {cpu} and jax.device_put(jax.device_put(1.0, cpu), devices[2]).devices() == {devices[2]}
        """)


def test_donated_and_deleted_arrays_are_gone(program):
    program("""
        add = jax.jit(lambda v: v + 1, donate_argnums=0)
        for sharding in (devices[0], rows, copies):
            x = jax.device_put(np.zeros((8, 4), np.float32), sharding)
            one = x.addressable_shards[-1].data
            same(one, np.zeros(one.shape))  # the array has been taken apart
            y = add(x)
            assert x.is_deleted()
            refused(lambda: np.asarray(x), "deleted")
            for _ in range(3):
                y = add(y)
            same(y, np.full((8, 4), 4))
        y.delete()
        assert y.is_deleted()
        refused(lambda: add(y), "deleted")
        """)


def test_an_array_that_is_donated_is_one_argument(program):
    program("""
        product = jax.jit(lambda v, w: v * w, donate_argnums=1)
        for sharding in (devices[0], rows):
            x = jax.device_put(np.full((8, 4), 3.0, np.float32), sharding)
            refused(lambda: product(x, x), "argument 0 of program", "is argument 1 too", "pass a copy")
            same(product(x, x + 0), np.full((8, 4), 9.0))
        """)


def test_ordered_effects_over_a_mesh(program):
    """jax gives each device an empty array of booleans as the first token."""
    program("""
        from jax.experimental import io_callback
        seen = []
        @jax.jit
        def step(v):
            io_callback(lambda total: seen.append(float(total)), None, v.sum(), ordered=True)
            return v + 1
        x = jax.device_put(np.zeros(8, np.float32), rows)
        for _ in range(4):
            x = step(x)
        jax.effects_barrier()
        assert seen == [0.0, 8.0, 16.0, 24.0], seen
        """)


def test_executables_tell_about_themselves(program):
    program("""
        compiled = jax.jit(lambda v: v @ v).lower(jax.ShapeDtypeStruct((16, 16), np.float32, sharding=rows)).compile()
        assert compiled.cost_analysis()["flops"] > 0
        assert compiled.memory_analysis().argument_size_in_bytes == 16 * 16 * 4 // 8
        assert compiled.input_shardings[0][0].is_equivalent_to(rows, 2)
        assert len(compiled.output_shardings.device_set) == 8
        same(compiled(jax.device_put(np.eye(16, dtype=np.float32), rows)), np.eye(16))
        """)


def test_a_training_step(program):
    program("""
        import optax
        rng = np.random.default_rng(0)
        start = {"w": rng.normal(size=(8, 16)).astype(np.float32) / 10, "b": np.zeros(16, np.float32)}
        x, y = rng.normal(size=(64, 8)).astype(np.float32), np.ones(64, np.float32)
        optimizer = optax.adam(1e-2)

        def loss(weights, x, y):
            return jnp.mean((jnp.tanh(x @ weights["w"] + weights["b"]).sum(-1) - y) ** 2)

        @functools.partial(jax.jit, donate_argnums=(0, 1))
        def step(weights, state, x, y):
            value, gradient = jax.value_and_grad(loss)(weights, x, y)
            updates, state = optimizer.update(gradient, state, weights)
            return optax.apply_updates(weights, updates), state, value

        def train(whole, batch):
            weights, state = jax.device_put((start, optimizer.init(start)), whole)
            losses, batch = [], jax.device_put((x, y), batch)
            for _ in range(5):
                weights, state, value = step(weights, state, *batch)
                losses.append(float(value))
            return losses, weights

        theirs, ours = reference(train, cpu, cpu), train(copies, rows)
        assert ours[0][-1] < ours[0][0] / 2
        same(ours, theirs, rtol=1e-3)
        """)


def test_an_error_is_the_value_of_what_depends_on_it(program):
    program("""
        too_large = jax.jit(lambda v: jnp.broadcast_to(v, (1 << 44,)) + 1)(np.float32(1))
        dependent = jax.jit(lambda v: v[0] * 2)(too_large)
        refused(lambda: float(dependent), "RESOURCE_EXHAUSTED")
        assert float(jnp.ones(3).sum()) == 3
        refused(lambda: jax.jit(lambda v: jax.ffi.ffi_call("nobody_knows", jax.ShapeDtypeStruct((3,), np.float32))(v))(jnp.ones(3)), "nobody_knows")
        """)


@pytest.mark.parametrize("what, use", [
    ("PJRT_Buffer_UnsafePointer", "jnp.ones(3).unsafe_buffer_pointer()"),
    ("PJRT_Client_DmaMap", "devices[0].client.dma_map(4096, 4096)"),
])
def test_what_is_missing_says_so_and_names_the_other_door(program, what, use):
    program(f"refused(lambda: {use}, {what!r}, 'is not implemented by Pathways', 'set PATHWAYS_DOOR=ifrt')")


def test_a_program_over_several_lists_of_devices(program):
    program("""
        import pathways as pw
        few = NamedSharding(jax.make_mesh((2,), ("y",), devices=devices[6:]), P("y"))
        double = jax.jit(lambda v: v * 2, out_shardings=rows)
        add = jax.jit(lambda v, w: v + w, out_shardings=few, donate_argnums=1)

        @functools.partial(pw.program, donate_argnums=1)
        def both(v, w, key):
            doubled = double(v)
            return doubled, add(jax.device_put(doubled, few), w), jax.random.uniform(key, (2,))

        host = np.arange(8.0, dtype=np.float32)
        for call in range(3):
            w = jax.device_put(host + call, few)
            doubled, sum, drawn = both(jax.device_put(host, rows), w, jax.random.key(call))
            assert doubled.sharding == rows and sum.sharding == few and w.is_deleted()
            same((doubled, sum), (host * 2, host * 3 + call))
            same(drawn, reference(lambda: jax.random.uniform(jax.random.key(call), (2,))))
        """)


def test_a_program_whose_call_fails_is_called_again(program):
    program("""
        import pathways as pw
        add = jax.jit(lambda v, w: v + w)

        @pw.program
        def sum(v, w):
            return add(v, jax.device_put(w, devices[2]))

        v, w = jax.device_put(np.ones(3), devices[2]), jax.device_put(np.ones(3), devices[5])
        same(sum(v, w), [2, 2, 2])
        w.delete()
        refused(lambda: sum(v, w), "deleted")
        same(sum(v, jax.device_put(np.ones(3) * 4, devices[5])), [5, 5, 5])
        """)


def test_moves_do_not_pass_through_this_process(program):
    program("""
        x = jax.device_put(np.arange(64.0, dtype=np.float32).reshape(8, 8), rows)
        columns = NamedSharding(jax.make_mesh((4,), ("y",), devices=devices[4:]), P(None, "y"))
        with jax.transfer_guard_device_to_host("disallow"), jax.transfer_guard_host_to_device("disallow"):
            y = jax.device_put(x, columns)
        assert y.sharding == columns
        same(y, np.arange(64.0).reshape(8, 8))
        """)


def test_slices_have_devices_that_jax_does_not_list(program):
    program("""
        import pathways as pw
        with pw.make_virtual_device_set() as slices:
            mine = slices.add_slice(devices=4).mesh("x")
            there = NamedSharding(mine, P("x"))
            assert jax.devices() == devices == jax.local_devices() and jax.device_count() == jax.local_device_count() == 8
            assert not set(mine.devices.flat) & set(devices)
            x = jax.device_put(np.arange(8.0, dtype=np.float32), rows)
            with jax.transfer_guard_device_to_host("disallow"), jax.transfer_guard_host_to_device("disallow"):
                y = jax.jit(lambda v: v + 1)(jax.device_put(x, there))
                back = jax.device_put(y, rows)
            assert y.sharding == there
            same(back, np.arange(8.0) + 1)

            @pw.program
            def across(v):
                return jax.jit(lambda v: v * 2, out_shardings=there)(jax.device_put(v, there)), v.sum()
            same(across(x), (np.arange(8.0) * 2, 28.0))
        refused(lambda: np.asarray(y), "released")
        """)


def test_devices_and_executables_tell_what_they_are(program):
    program("""
        assert {d.local_hardware_id for d in devices} == {None}
        kept = jax.block_until_ready(jax.device_put(np.ones(1 << 20, np.uint8), devices[7]))
        assert devices[7].memory_stats()["bytes_in_use"] >= kept.nbytes
        compiled = jax.jit(lambda v: v @ v.T).lower(jax.ShapeDtypeStruct((16, 16), np.float32, sharding=rows)).compile()
        assert compiled.as_text().startswith("HloModule jit__lambda") and "all-gather" in compiled.as_text()

        told = []
        @jax.jit
        def tells(v):
            jax.debug.inspect_array_sharding(v, callback=told.append)
            return v + 1
        tells(jax.device_put(np.ones((8, 8)), rows))
        [sharding] = told
        assert sharding.is_equivalent_to(rows, 2)
        """)


def test_programs_call_python(program):
    program("""
        from jax.experimental import io_callback

        shape = jax.ShapeDtypeStruct((3,), np.float32)
        same(jax.jit(lambda v: jax.pure_callback(lambda x: np.sin(x), shape, v) + 1)(jnp.ones(3)), np.sin(np.ones(3)) + 1)
        large = np.random.default_rng(4).random((300, 400), np.float32)
        same(jax.jit(lambda v: jax.pure_callback(lambda x: x * 2, v, v))(large), large * 2)

        heard = []
        @jax.jit
        def counts(v):
            jax.debug.callback(lambda x: heard.append(float(x)), v.sum())
            io_callback(lambda x: heard.append(int(x)), None, 7, ordered=True)
            return v
        counts(jnp.ones(4))
        jax.effects_barrier()
        assert sorted(heard) == [4.0, 7]

        def fails(x):
            raise ValueError("not today")
        refused(lambda: np.asarray(jax.jit(lambda v: jax.pure_callback(fails, shape, v))(jnp.ones(3))), "not today")
        """)


def test_other_libraries_get_copies(program):
    program("assert float(np.from_dlpack(jnp.ones(3))[1]) == 1")


def test_a_program_connects_anew(program):
    program("""
        import jax.extend.backend
        jax.clear_caches()
        jax.extend.backend.clear_backends()
        devices = jax.devices()
        same(jax.jit(lambda v: v * 2)(jax.device_put(np.arange(3.0), devices[-1])), np.arange(3.0) * 2)
        """)


def test_two_islands(tmp_path):
    """Uses a cluster of several processes: the door connects to its controller and to its hosts."""
    two = Program(tmp_path / "log", PATHWAYS_LOCAL="2x1x2")
    two("""
        assert [d.slice_index for d in devices] == [0, 0, 1, 1]
        host = np.random.default_rng(2).random((400, 400)).astype(np.float32)
        x = jax.jit(lambda v: v + 1)(jax.device_put(host, devices[0]))
        same(jax.jit(lambda v: v * 2)(jax.device_put(x, devices[3])), (host + 1) * 2)
        same(jax.jit(lambda v: v.sum(0))(jax.device_put(host, rows)), host.sum(0), rtol=1e-4)
        """)
    two.end()


def test_a_cluster_that_ends_is_an_error_and_not_the_program_s_end(tmp_path):
    two = Program(tmp_path / "log", PATHWAYS_LOCAL="2x1x2", PATHWAYS_CONNECT_TIMEOUT="86400")
    two("""
        f = jax.jit(lambda v: v + 1)
        x = f(np.arange(4.0, dtype=np.float32))
        assert float(x.sum()) == 10
        from pathways._client import connection
        os.kill(next(p.pid for p in connection._endpoint.cluster.processes if "controller" in p.name), signal.SIGKILL)
        lost = "UNAVAILABLE: the connection to the Pathways controller at ", "clear_backends"
        refused(lambda: jax.block_until_ready(f(x)), *lost)
        refused(lambda: np.asarray(f(x)), *lost)
        refused(lambda: jax.jit(lambda v: v * 3)(x), *lost)
        refused(lambda: jax.block_until_ready(jax.device_put(np.ones((600, 600)), devices[1])), *lost)
        """)
    two.end()


def test_an_address_where_nobody_listens(run_script):
    done = run_script("import jax; jax.devices()", PATHWAYS_DOOR="pjrt", PATHWAYS_ADDRESS="127.0.0.1:9")
    assert done.returncode != 0
    assert "cannot connect to the Pathways controller at 127.0.0.1:9" in done.stderr and "Is it running?" in done.stderr


def test_a_door_that_there_is_not(run_script):
    done = run_script("import jax; jax.devices()", PATHWAYS_DOOR="window")
    assert done.returncode != 0 and "PATHWAYS_DOOR must be one of ifrt, pjrt, not 'window'" in done.stderr


def test_a_child_leaves_the_parent_s_session_alone(run_script):
    done = run_script(PRELUDE + textwrap.dedent("""
        x = jax.jit(lambda v: v + 1)(jnp.ones(3))
        same(x, [2, 2, 2])
        child = os.fork()
        if child == 0:
            del x
            sys.exit(5)
        assert os.waitpid(child, 0)[1] == 5 << 8
        same(x + 1, [3, 3, 3])
        print("done")
        """), PATHWAYS_DOOR="pjrt")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_both_doors_tell_the_same_of_devices(tmp_path):
    """Compares the devices of one cluster through each door."""
    pathways = CommandLine(tmp_path)
    address = pathways("up", "--islands", "2", "--devices", "2")["address"]
    try:
        code = """
            names = "id platform device_kind process_index local_hardware_id island host slice_index"
            facts = [[str(getattr(d, name)) for name in names.split()] + [str(d), repr(d), [m.kind for m in d.addressable_memories()]] for d in jax.devices()]
            print(json.dumps(facts))
            """
        said = {}
        for door in ("ifrt", "pjrt"):
            env = clean_environment(PATHWAYS_DOOR=door, PATHWAYS_ADDRESS=address, PATHWAYS_HOME=str(tmp_path))
            done = subprocess.run([sys.executable, "-c", PRELUDE + textwrap.dedent(code)], env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
            assert done.returncode == 0, done.stderr
            said[door] = json.loads(done.stdout)
        assert said["ifrt"] == said["pjrt"] and len(said["pjrt"]) == 4
    finally:
        pathways("down")
