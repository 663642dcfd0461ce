"""Tests Orbax's multi-tier checkpoints, unchanged: each host saves its part to its own memory, and a host that has lost it gets it from a peer.

On Google's clusters a service on each host, the replicator, copies checkpoints between the hosts' memories. It is not public. `Replicator` keeps to what
Orbax expects of it (multi_tier_checkpointing/initialization.py). Each host has a folder in memory that only its own processes see, as on a machine of its own.
"""

import os
import pathlib
import re
import shutil
import sys
import threading

import pytest
from cli import PATIENCE, CommandLine
from seats import Host, Program, hosts_of

pytest.importorskip("pathwaysutils", reason="pathwaysutils is not installed")
pytestmark = [pytest.mark.skipif(sys.version_info < (3, 12), reason="the newest Orbax needs Python 3.12"),
              pytest.mark.skipif(os.geteuid() != 0, reason="only root can give each host a folder that others do not see")]

# By JAX_PLATFORMS=proxy. As "pathways" jax has CPU devices of its own in the program, too, and Orbax refuses two CPU devices with one id.
PROGRAM = """
import os, sys
os.environ.update(JAX_PLATFORMS="proxy", JAX_BACKEND_TARGET="grpc://{proxy}")
import jax, numpy as np
import pathwaysutils
pathwaysutils.initialize()
from etils import epath
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import orbax.checkpoint as ocp
from orbax.checkpoint.experimental.emergency.multi_tier_checkpointing import initialization, replicator_checkpoint_manager as replicated

FOLDER = epath.Path({folder!r})
devices = jax.devices()
initialization.initialize_multi_tier_checkpointing(FOLDER, backup_interval_steps=1, num_slices=2, run_name="job", use_colocated_python=True)
mesh = Mesh(np.array(sorted(devices, key=lambda d: (d.slice_index, d.id))).reshape(2, -1), ("slice", "x"))
options = replicated.ReplicatorCheckpointManagerOptions(save_interval_steps=1, use_colocated_python=True)
manager = replicated.ReplicatorCheckpointManager(FOLDER, options, global_mesh=mesh)

def state_at(step):
    rows = np.arange(8.0, dtype=np.float32).reshape(4, 2) + 100 * step
    return {{"w": jax.device_put(rows, NamedSharding(mesh, P("x"))), "b": jax.device_put(np.float32(step), NamedSharding(mesh, P()))}}

for line in sys.stdin:
    word, step = line.split()
    step = int(step)
    if word == "save":
        saved = manager.save(step, ocp.args.Composite(state=ocp.args.PyTreeSave(state_at(step))))
        manager.wait_until_finished()
        print(saved, manager.latest_step(), flush=True)
    else:
        wanted = state_at(step)
        like = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), wanted)
        latest = manager.latest_step()
        back = manager.restore(step, ocp.args.Composite(state=ocp.args.PyTreeRestore(like)))["state"]
        same = jax.tree.map(lambda a, b: a.sharding == b.sharding and all((np.asarray(x.data) == np.asarray(y.data)).all()
                                                                          for x, y in zip(a.addressable_shards, b.addressable_shards)), wanted, back)
        print(latest, all(jax.tree.leaves(same)), flush=True)
"""


class Replicator:
    """Copies each finished checkpoint of a host to its peers' memories, and gives a host that begins its part of the latest one."""

    def __init__(self, folder):
        self.folder = folder
        self.hosts = {}  # rank -> the host's folder as this process sees it
        self.peers = {}  # rank -> ranks
        self.began_with = {}  # rank -> step
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._places = ()

    def serve(self, pids):
        """Serves these hosts from now on."""
        self._places = [pathlib.Path(f"/proc/{pid}/root{self.folder}") for pid in pids]
        if not self._thread.is_alive():
            self._thread.start()

    def stop(self):
        self._ended.set()
        self._thread.join()

    def copy(self, step):
        """Copies the checkpoint of a step to the peers of each host."""
        for rank, peers in self.peers.items():
            for peer in peers:
                shutil.copytree(self.hosts[rank] / str(step), self.hosts[peer] / "replicas" / str(step), symlinks=True)

    def _serve(self):
        while not self._ended.wait(0.1):
            asked = {place: place / "replicator.yaml" for place in self._places}
            if asked and all(file.exists() for file in asked.values()):
                self._begin({place: file.read_text() for place, file in asked.items()})

    def _begin(self, asked):
        for place, text in asked.items():
            rank = int(re.search(r"node-rank: (\d+)", text)[1])
            self.hosts[rank] = place
            self.peers[rank] = [int(peer) for peer in re.findall(r"\d+", re.search(r"peer-ranks: (.*)", text)[1])]
        for rank, place in self.hosts.items():
            self.began_with[rank] = self._bring(rank, place)
        for place in asked:
            (place / "replicator.yaml").unlink()

    def _bring(self, rank, place):
        """Puts the latest checkpoint where Orbax looks for it. Returns its step; 0: there is none."""
        own = [int(path.name) for path in place.iterdir() if path.name.isdigit()]
        others = [(int(path.name), path) for peer in self.peers[rank] for path in (self.hosts[peer] / "replicas").glob("*")]
        kept = place / "kept"
        kept.mkdir(exist_ok=True)
        if own:
            step = max(own)
            (place / str(step)).rename(kept / str(step))
        elif others:
            step, path = max(others)
            shutil.copytree(path, kept / str(step), symlinks=True)
        else:
            (place / f"job-s0-n{rank}-w0.restore").touch()
            return 0
        (place / f"job-s{step}-n{rank}-w0.restore").symlink_to(f"kept/{step}")
        return step


class HostWithMemory(Host):
    """A host whose folder is in memory, and which no process outside of it sees."""

    def __init__(self, command, address, name, island, folder, memory):
        self._memory = memory
        super().__init__(command, address, name, island, folder, more=("--host-python",))

    def start(self):
        self.process = self._command.start(*self._words, log=self._log, enter=lambda *words: [
            "unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(self._memory), *words])


def test_a_host_that_has_lost_its_memory_gets_its_part_from_a_peer(tmp_path):
    memory = tmp_path / "local"
    memory.mkdir()
    command = CommandLine(tmp_path / "home")
    replicator = Replicator(memory)
    try:
        up = command("up", "--no-workers", "--hosts", "2")
        hosts = {name: HostWithMemory(command, up["workers_address"], name, f"island-{name}", tmp_path, memory) for name in ("a", "b")}
        pids = {name: host["pid"] for name, host in hosts_of(command, 2).items()}
        assert list(memory.iterdir()) == [], "it is the hosts' own"
        replicator.serve(pids.values())
        program = Program(command, up["address"], PROGRAM.format(folder=str(memory), proxy=up["proxy_address"]))
        for step in (1, 2):
            assert program.says(f"save {step}") == f"True {step}"
        assert replicator.began_with == {0: 0, 1: 0} and replicator.peers == {0: [1], 1: [0]}
        replicator.copy(2)

        hosts["b"].kill()
        program.end()
        hosts["b"].start()
        returned = {name: host["pid"] for name, host in hosts_of(command, 2).items() if host["pid"] != pids["b"]}
        replicator.serve(returned.values())
        program = Program(command, up["address"], PROGRAM.format(folder=str(memory), proxy=up["proxy_address"]))
        assert program.says("restore 2") == "2 True"
        assert replicator.began_with == {0: 2, 1: 2}
        assert program.says("save 3") == "True 3"
        program.end()
    finally:
        replicator.stop()
        command("down", check=False, timeout=PATIENCE)
