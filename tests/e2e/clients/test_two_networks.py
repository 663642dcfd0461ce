"""Connects two islands by a slow link with delay: checks the bytes that cross it, their time, and recovery from an interruption. Each island
has its own network, and the controller a third one, so programs reach the controller and the hosts like programs of other machines."""

import json
import subprocess
import sys
import time

import pytest
from cli import PATIENCE, CommandLine
from conftest import eventually
from slow_network import TwoIslands

DELAY, BANDWIDTH = 0.02, 40e6  # seconds each way, bytes a second
MARK = "text-that-is-to-be-read-nowhere-"
WAIT_SECONDS = 180

# Reads lines, each the name of a function below. Answers the seconds that it took, or an error.
PROGRAM = """
import json, sys, threading, time
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

a, b = (sorted((d for d in jax.devices() if d.island == name), key=lambda d: d.id) for name in ("a", "b"))
assert len(a) == len(b) == 2, jax.devices()
everywhere = NamedSharding(Mesh(np.array(a + b), ("x",)), P("x"))
big = np.arange(2 << 20, dtype=np.float32)
here = jax.block_until_ready(jax.device_put(big, a[0]))
parts = jax.block_until_ready(jax.device_put(big, everywhere))
add = jax.jit(lambda v: v + 1)
total = jax.jit(jax.shard_map(lambda v: jax.lax.psum(v, "x"), mesh=everywhere.mesh, in_specs=P("x"), out_specs=P()))
rows = jax.shard_map(lambda v: jax.lax.psum_scatter(v, "x", tiled=True), mesh=everywhere.mesh, in_specs=P("x"), out_specs=P("x"))
whole = jax.shard_map(lambda v: jax.lax.all_gather(v, "x", tiled=True), mesh=everywhere.mesh, in_specs=P("x"), out_specs=P(), check_vma=False)
turned = jax.shard_map(lambda v: jax.lax.all_to_all(v, "x", 0, 0, tiled=True), mesh=everywhere.mesh, in_specs=P("x"), out_specs=P("x"))
rows, whole, turned = map(jax.jit, (rows, whole, turned))
jax.block_until_ready([f(parts) for f in (total, rows, whole, turned)])
small = jax.block_until_ready(add(jax.device_put(np.float32(0), a[0])))

def move():
    np.testing.assert_array_equal(np.asarray(jax.device_put(here, b[1])), big)

def reduce():
    for shard in total(parts).addressable_shards:  # that of one island is there before all that the other needs has crossed
        np.testing.assert_array_equal(np.asarray(shard.data), big.reshape(4, -1).sum(0))

def scatter():
    np.testing.assert_array_equal(np.asarray(rows(parts)), big.reshape(4, -1).sum(0))

def gather():
    for shard in whole(parts).addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), big)

def exchange():
    np.testing.assert_array_equal(np.asarray(turned(parts)), big.reshape(4, 4, -1).swapaxes(0, 1).ravel())

def text():  # crosses as it is: between islands as an array, and in a collective
    mark = np.frombuffer(b"MARK" * 40000, np.uint8)
    np.testing.assert_array_equal(np.asarray(jax.device_put(jax.device_put(mark, a[0]), b[1])), mark)
    for shard in whole(jax.device_put(mark, everywhere)).addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), mark)

def hops():
    value = small
    for device in (b[0], a[0]) * 5:
        value = add(jax.device_put(value, device))
    assert float(value) == 11

def across():  # while the line is cut: each island goes on by itself; then what waits for the line
    moved = jax.device_put(here + 2, b[0])
    done = threading.Event()
    threading.Thread(target=lambda: (moved.block_until_ready(), done.set()), daemon=True).start()
    for device in (a[1], b[1]):
        assert float(add(jax.device_put(np.float32(device.id), device))) == device.id + 1
    assert not done.is_set()
    print(json.dumps("cut"), flush=True)
    done.wait()
    np.testing.assert_array_equal(np.asarray(moved), big + 2)

print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    start = time.monotonic()
    globals()[line.strip()]()
    print(json.dumps(time.monotonic() - start), flush=True)
"""


@pytest.fixture(scope="module")
def network():
    try:
        network = TwoIslands(DELAY, BANDWIDTH)
    except OSError as error:
        pytest.skip(f"this machine does not let us make network namespaces: {error}")
    yield network
    network.stop()


def token_file(folder, who):
    """Returns a token file that the controller keeps for its user; users of other machines would get theirs from that user."""
    return str(folder / "home" / "identities" / "default" / f"{who}.token")


@pytest.fixture(scope="module")
def program(network, tmp_path_factory, request):
    """Starts a client on this machine; the cluster's hosts are in the namespaces."""
    folder = tmp_path_factory.mktemp("two-networks")
    command = CommandLine(folder / "home")
    up = command("up", "--no-workers", "--hosts", "2", "--listen", "0.0.0.0:0", "--listen-proxy", "0.0.0.0:0", "--advertise", "127.0.0.1")
    request.addfinalizer(lambda: command("down", check=False))  # also if the setup below fails
    port = up["address"].rpartition(":")[2]
    workers, logs = [], [folder / f"{name}.log" for name in "ab"]
    for name, island, head, address, log in zip("ab", network.islands, network.heads, network.addresses, logs):
        words = ["worker", "--join", f"{head}:{port}", "--island", name, "--host", name, "--devices", "2", "--advertise", address, "--wait", str(WAIT_SECONDS),
                 "--token-file", token_file(folder, "worker")]
        workers.append(command.start(*words, log=log, enter=island.enter))
    deadline = time.monotonic() + WAIT_SECONDS
    while command("status")["state"] != "formed":
        assert time.monotonic() < deadline, [log.read_text() for log in logs]
        time.sleep(0.05)
    client = command.program(up["address"], PROGRAM.replace("MARK", MARK))
    client.command, client.up, client.token_file = command, up, token_file(folder, "operator")
    assert client.stdout.readline() == '"ready"\n', client.communicate()[1] + "".join(log.read_text() for log in logs)
    yield client
    client.stdin.close()
    client.wait(PATIENCE)
    for worker in workers:  # nsenter; the workers end with their namespaces
        worker.kill()
        worker.wait()


def run(program, name):
    program.stdin.write(name + "\n")
    program.stdin.flush()
    return answer(program)


def answer(program):
    line = program.stdout.readline()
    assert line, program.stderr.read()
    return json.loads(line)


def received(program):
    return sum(host["bytes_received"] for host in program.command("status")["hosts"])


SIZE = 8 << 20  # bytes of the arrays
OTHERS = 64 << 10  # bytes of headers, and of other messages between hosts


def test_data_goes_straight_from_island_to_island(network, program):
    before = received(program)
    with network.counting() as counted:
        seconds = run(program, "move")
    there, back = counted["bytes"]
    assert SIZE <= there <= SIZE + OTHERS and back <= OTHERS, counted
    assert received(program) - before < 100000  # nor did the bytes that the client read
    assert seconds >= SIZE / BANDWIDTH + DELAY  # otherwise it did not cross the link


def test_a_reduction_crosses_once_in_each_direction(network, program):
    with network.counting() as counted:
        seconds = run(program, "reduce")
    part = SIZE // 4
    assert all(part <= crossed <= part + OTHERS for crossed in counted["bytes"]), counted
    assert seconds >= part / BANDWIDTH + DELAY


# The share of the array that must cross the link in each direction: the sums that the other island gets; this island's part; the part for the
# other island's devices. These are minimal, and plugins/pjrt_cpu/net/net_test.cc checks them to the byte.
@pytest.mark.parametrize("name, share", [("scatter", 1 / 8), ("gather", 1 / 2), ("exchange", 1 / 4)])
def test_other_collectives_cross_once_too(network, program, name, share):
    with network.counting() as counted:
        run(program, name)
    assert all(share * SIZE <= crossed <= share * SIZE + OTHERS for crossed in counted["bytes"]), counted


def test_nobody_on_the_line_can_read_what_crosses_it(network, program):
    network.ask(f"watch {MARK.encode().hex()}")
    with network.counting() as counted:
        run(program, "text")
    assert min(counted["bytes"]) >= len(MARK) * 20000  # half of the array in each direction, by the collective
    assert network.ask("count")["readable"] == [0, 0]
    # The relay counts a packet of plain text.
    say = f"import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'{MARK}', ('{network.addresses[1]}', 9))"
    subprocess.run(network.islands[0].enter(sys.executable, "-c", say), check=True)
    assert eventually(lambda: network.ask("count")["readable"] == [1, 0])


def test_every_hop_takes_the_delay_once(network, program):
    with network.counting() as counted:
        seconds = run(program, "hops")
    assert seconds >= 10 * DELAY, counted
    assert sum(counted["bytes"]) <= OTHERS, counted


def test_an_interrupted_line_holds_up_only_what_needs_it(network, program):
    network.ask("cut")
    program.stdin.write("across\n")
    program.stdin.flush()
    assert answer(program) == "cut"
    network.ask("heal")
    answer(program)


# Puts an array of 8 MiB on a device of each island, computes with it, and reads the result.
FROM_ELSEWHERE = """
import os
import jax, numpy as np
if "proxy" in os.environ["JAX_PLATFORMS"]:
    from jax.extend.backend import ifrt_proxy, register_backend_factory
    register_backend_factory("proxy", lambda: ifrt_proxy.get_client(f"grpc://{os.environ['ADDRESS']}", ifrt_proxy.ClientConnectionOptions()), priority=-1)
big = np.arange(2 << 20, dtype=np.float32)
for device in (jax.devices()[0], jax.devices()[-1]):
    np.testing.assert_array_equal(np.asarray(jax.jit(lambda v: v + 1)(jax.device_put(big, device))), big + 1)
print(len(jax.devices()))
"""


def run_on(network, i, program, **env):
    # Without shared memory: the island has its own process ids, so it would take the files of other programs for leftovers.
    env = {**program.command.env, "PATHWAYS_SHARED_MEMORY": "off", **env}
    done = subprocess.run(network.islands[i].enter(sys.executable, "-c", FROM_ELSEWHERE), env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (0, "4\n"), done.stdout + done.stderr


def test_a_program_on_another_machine_exchanges_arrays_with_the_hosts(network, program):
    before = received(program)
    port = program.up["address"].rpartition(":")[2]
    run_on(network, 0, program, PATHWAYS_ADDRESS=f"{network.heads[0]}:{port}", PATHWAYS_TOKEN_FILE=program.token_file)
    assert received(program) - before < 100000


def test_a_program_without_our_package_on_another_machine_uses_the_agent_beside_the_controller(network, program):
    before = received(program)
    port = program.up["proxy_address"].rpartition(":")[2]
    run_on(network, 1, program, JAX_PLATFORMS="proxy", ADDRESS=f"{network.heads[1]}:{port}", IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS="true")
    assert received(program) - before < 100000
