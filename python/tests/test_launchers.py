"""Tests the decisions of the launchers that need no scheduler, Ray or cluster."""

import argparse
import signal

import pytest

from pathways._cluster import addresses, binaries, command_lines, processes, records
from pathways._launchers import ray, slurm, slurm_node


@pytest.mark.parametrize("text, count", [("accel:2", 2), ("gpu:h100:8", 8), ("gres:gpu:4", 4), ("gpu", None), ("", None), (None, None)])
def test_the_devices_of_a_node_are_what_its_gres_say(text, count):
    assert slurm._gres_count(text) == count


@pytest.mark.parametrize("asked, nodes, shape", [
    ({}, "6", "1x6x2"), ({"islands": 2}, "6", "2x3x2"), ({"hosts": 2}, "6", "1x2x2"), ({"devices": 5}, "1", "1x1x5"), ({"gres": "accel:3"}, "1", "1x1x3")])
def test_the_shape_is_filled_in_from_the_allocation(monkeypatch, asked, nodes, shape):
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", nodes)
    monkeypatch.setattr(slurm, "_ask", lambda *_: "JobId=7 NumNodes=6 TresPerNode=gres:accel:2 Power=")
    args = argparse.Namespace(**{"islands": None, "hosts": None, "devices": None, "gres": None, **asked})
    assert str(slurm.shape_for(args, "7")) == shape


def test_more_hosts_than_nodes_are_refused(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    with pytest.raises(ValueError, match="need 4 nodes, but job 7 has 2"):
        slurm.shape_for(argparse.Namespace(islands=2, hosts=2, devices=1, gres=None), "7")


class _Child:
    """Stands for a process. code: its exit status; None: it lives."""

    def __init__(self, code):
        self.popen = argparse.Namespace(returncode=code, poll=lambda: code, send_signal=lambda _: None, wait=lambda _=None: code)
        self.stop_signal = signal.SIGTERM

    def alive(self):
        return self.popen.returncode is None

    def failure(self):
        return f"ended with {self.popen.returncode}"


@pytest.mark.parametrize("codes, starts, status", [([0], 1, 0), ([1, 1, 0], 3, 0), ([-9] * 9, 5, 1)])
def test_a_worker_that_fails_is_started_again_but_not_for_ever(monkeypatch, codes, starts, status):
    monkeypatch.setattr(slurm_node.time, "sleep", lambda _: None)
    started = []

    def start():
        started.append(_Child(codes[len(started)]))
        return started[-1]

    assert slurm_node.supervise(start, None) == status
    assert len(started) == starts


@pytest.mark.parametrize("platform, fixed, hosts, flags", [
    ("cuda", None, 4, ["--island-hosts", "4"]), ("cuda", None, 1, []), ("cpu", None, 4, ["--most-hosts", "9"]), ("cpu", "1", 4, ["--island-hosts", "4"]),
    ("cpu", "0", 4, ["--most-hosts", "9"]), ("cpu", "1", 1, ["--most-hosts", "9"])])
def test_the_hosts_of_an_island_are_kept_together_where_the_devices_need_that(monkeypatch, platform, fixed, hosts, flags):
    monkeypatch.delenv("PATHWAYS_FIXED_ISLANDS", raising=False)
    if fixed is not None:
        monkeypatch.setenv("PATHWAYS_FIXED_ISLANDS", fixed)
    monkeypatch.setattr(binaries, "find", lambda name: name)
    monkeypatch.setattr(binaries, "device_plugin", lambda name: f"{name}.so")
    words = [str(word) for word in command_lines.worker("unix:@c", "host0", "island0", platform, 2, most_hosts=9,
                                                        island_hosts=command_lines.island_hosts(platform, hosts))]
    found = [word for i, word in enumerate(words) if word in ("--island-hosts", "--most-hosts") or words[i - 1] in ("--island-hosts", "--most-hosts")]
    assert found == flags


def test_the_first_node_ends_with_the_controller(monkeypatch):
    monkeypatch.setattr(slurm_node.time, "sleep", lambda _: None)
    assert slurm_node.supervise(lambda: _Child(None), _Child(2)) == 1


@pytest.mark.parametrize("address, seen", [
    ("0.0.0.0:5", "me:5"), ("tcp:0.0.0.0:5", "tcp:me:5"), ("10.0.0.1:5", "10.0.0.1:5"), ("[::]:5", "me:5"), ("unix:/a:b", "unix:/a:b")])
def test_an_address_as_others_see_it(address, seen):
    assert addresses.reachable(address, "me") == seen


def test_islands_are_packed_onto_neighbouring_nodes():
    nodes = [("10.0.0.9", "c"), ("10.0.0.1", "a"), ("10.0.0.9", "c"), ("10.0.0.1", "b")]
    assert ray.order_bundles(nodes) == [1, 3, 0, 2]


@pytest.mark.parametrize("asked, bundle", [
    ({}, {"CPU": 1}), ({"platform": "cuda", "devices": 8}, {"CPU": 1, "GPU": 8}), ({"option": ["TPU=4", "CPU=16"]}, {"CPU": 16, "TPU": 4})])
def test_a_bundle_has_what_a_host_takes_of_its_node(asked, bundle):
    assert ray._bundle(argparse.Namespace(**{"platform": None, "devices": None, "option": None, **asked})) == bundle


@pytest.mark.parametrize("option", ["TPU", "TPU=many", "="])
def test_a_resource_that_is_none_is_named(option):
    with pytest.raises(ValueError, match="RESOURCE=AMOUNT"):
        ray._bundle(argparse.Namespace(platform=None, devices=None, option=[option]))


@pytest.mark.parametrize("answers, asked, alive, address", [
    ({"old:1"}, None, True, "old:1"),                       # the old address answers: Ray is not asked
    (set(), "new:2", True, "new:2"),                        # Ray restarted it elsewhere
    (set(), None, False, "old:1"),                          # the actors have ended
    (set(), processes.StartError("gone"), False, "old:1")])  # all of Ray has ended
def test_where_a_cluster_on_ray_is_now(monkeypatch, tmp_path, answers, asked, alive, address):
    def find(*_):
        assert not answers
        if isinstance(asked, Exception):
            raise asked
        return asked

    monkeypatch.setenv("PATHWAYS_HOME", str(tmp_path))
    monkeypatch.setattr(ray, "_report", lambda where, _: {} if where in answers else None)
    monkeypatch.setattr(ray, "_find_address", find)
    records.fresh_folder("default")
    state = records.State("default", "old:1", "1x1x1", "cpu", [], "ray", {})
    assert ray.alive(state) == alive and state.address == address
