"""The commands of deploy/kubernetes.yaml, run on this machine with the Secrets that `pathways up --on k8s --apply` makes, form a cluster.

No Kubernetes runs here: python/tests/test_k8s.py checks the objects themselves.
"""

import base64
import json
import os
import signal
import socket
import subprocess
import time

import pytest
import yaml
from cli import CommandLine, end, free_ports
from conftest import ROOT

WAIT_SECONDS = 180
HOSTS = 2  # of the manifest's four
EXAMPLE = ["--hosts", "4", "--devices", "8", "--platform", "cuda"]


@pytest.fixture
def pods():
    """Returns the pods' specifications: {name of the StatefulSet: specification}."""
    documents = yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text())
    return {one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in documents if one["kind"] == "StatefulSet"}


def applied_secrets(folder):
    """Returns the Secrets that `--apply` hands to kubectl: {name: {file: contents}}."""
    program = folder / "bin" / "kubectl"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ncat >{folder}/applied\n")
    program.chmod(0o755)
    CommandLine(folder / "home", PATH=f"{program.parent}:{os.environ['PATH']}")("up", "--on", "k8s", *EXAMPLE, "--apply")
    items = json.loads((folder / "applied").read_text())["items"]
    return {one["metadata"]["name"]: {file: base64.b64decode(text) for file, text in one["data"].items()} for one in items if one["kind"] == "Secret"}


class Pod:
    """Runs a pod's commands here, with folders of its own for its volumes, and other ports, names and devices."""

    def __init__(self, folder, pod, secrets, **replaced):
        self.folder, self.pod = folder, pod
        (self.container,) = pod["containers"]
        folder.mkdir()
        self._folders = {"/pathways": folder / "pathways", "/secrets": folder / "secrets", "/cache": folder / "cache"}
        for one in self._folders.values():
            one.mkdir()
        (volume,) = [one["secret"] for one in pod["volumes"] if "secret" in one]
        for item in volume["items"]:  # as Kubernetes lays them: the pod's group may read them
            path = self._folders["/secrets"] / item["path"]
            path.write_bytes(secrets[volume["secretName"]][item["key"]])
            path.chmod(volume["defaultMode"])
        self._replaced = replaced
        names = [port["name"] for port in self.container["ports"]]
        self.ports = dict(zip(names, free_ports(len(names))))
        env = {one["name"]: self.here(one["value"]) for one in self.container["env"] if "value" in one}
        self.command = CommandLine(env.pop("PATHWAYS_HOME"), **env)

    def here(self, word):
        for old, new in self._replaced.items():
            word = word.replace(old, new)
        for name, port in self.ports.items() if hasattr(self, "ports") else ():
            (number,) = [one["containerPort"] for one in self.container["ports"] if one["name"] == name]
            word = word.replace(f"0.0.0.0:{number}", f"127.0.0.1:{port}")
        for old, new in self._folders.items():
            word = word.replace(old, str(new))
        return word

    def start(self):
        (init,) = self.pod["initContainers"]
        subprocess.run([self.here(word) for word in init["command"]], check=True)
        assert self.container["command"] == ["pathways"]
        return self.command.start(*map(self.here, self.container["args"]), log=self.folder / "log")

    def listens(self, probe):
        try:
            socket.create_connection(("127.0.0.1", self.ports[self.container[probe]["tcpSocket"]["port"]]), timeout=5).close()
            return True
        except OSError:
            return False


def test_its_commands_make_a_cluster(pods, tmp_path):
    secrets = applied_secrets(tmp_path)
    controller = Pod(tmp_path / "controller", pods["pathways-controller"], secrets, **{"pathways-controller": "127.0.0.1"})
    for args, flag in ((controller.container["args"], "--hosts"), (pods["pathways-island0"]["containers"][0]["args"], "--island-hosts")):
        args[args.index(flag) + 1] = str(HOSTS)
    address = f"127.0.0.1:{controller.ports['clients']}"
    workers = [
        Pod(
            tmp_path / f"worker{i}",
            pods["pathways-island0"],
            secrets,
            **{"pathways-controller:8470": address, "cuda": "cpu", "$(POD_NAME)": f"pathways-island0-{i}", "$(POD_IP)": "127.0.0.1"},
        )
        for i in range(HOSTS)
    ]
    operator = CommandLine(tmp_path / "home", PATHWAYS_TOKEN_FILE=str(tmp_path / "home" / "identities" / "default" / "operator.token"))
    deadline = time.monotonic() + WAIT_SECONDS

    def wait_for(condition):
        while not (found := condition()):
            assert time.monotonic() < deadline, [path.read_text() for path in tmp_path.glob("*/log")]
            time.sleep(0.05)
        return found

    started = []
    try:
        for together in ([controller], workers):  # the workers of the island wait for each other
            started += [pod.start() for pod in together]
            for pod in together:
                wait_for(lambda pod=pod: pod.listens("startupProbe"))
        report = wait_for(lambda: (found := operator("status", "--address", address))["state"] == "formed" and found)
        logs = [path.read_text() for path in tmp_path.glob("*/log")]
        assert {host["name"] for host in report["hosts"]} == {f"pathways-island0-{i}" for i in range(HOSTS)}, logs
        assert operator.run(address, "import jax; print(len(jax.devices()), float(jax.numpy.ones(8).sum()))") == f"{4 * HOSTS} 8.0\n"
        assert operator("token", "create", "--user", "ada", "--address", address)  # the controller writes to its copies
        assert all(pod.listens("readinessProbe") for pod in (controller, *workers))
        program, *words = controller.container["livenessProbe"]["exec"]["command"]
        assert program == "pathways" and controller.command(*words)["state"] == "formed"
    finally:
        codes = [end(process, signal.SIGTERM) for process in reversed(started)]
    assert codes == [0] * (HOSTS + 1)
    kept = {path.name: oct(path.stat().st_mode & 0o777) for path in (tmp_path / "worker0" / "pathways" / "identities" / "worker").iterdir()}
    assert kept == {"worker.token": "0o400"}
