"""deploy/kubernetes.yaml is valid, its ports match, and its containers' commands, run on this machine, form a cluster."""

import re
import signal
import time

import kubernetes_validate
import pytest
import yaml
from cli import CommandLine, end
from conftest import ROOT

WAIT_SECONDS = 180
HOSTS = 2  # of the manifest's four


@pytest.fixture
def manifest():
    """Returns the manifest's objects: {(kind, name): object}."""
    documents = yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text())
    return {(document["kind"], document["metadata"]["name"]): document for document in documents}


def container(manifest, kind, name):
    (found,) = manifest[kind, name]["spec"]["template"]["spec"]["containers"]
    return found


def test_it_is_valid(manifest):
    for document in manifest.values():
        kubernetes_validate.validate(document, "1.37", strict=True)
    broken = {**manifest["StatefulSet", "pathways-island0"], "spec": {"replicas": "four"}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, "1.37", strict=True)


def test_its_parts_name_each_other(manifest):
    for (kind, name), document in manifest.items():
        if kind == "Service":
            (workload,) = [d for (k, n), d in manifest.items() if k != "Service" and n == name]
            template = workload["spec"]["template"]
            labels = template["metadata"]["labels"]
            assert document["spec"]["selector"].items() <= labels.items() and workload["spec"]["selector"]["matchLabels"].items() <= labels.items()
            ports = {port["name"]: port["containerPort"] for port in template["spec"]["containers"][0]["ports"]}
            assert {port["name"]: port["port"] for port in document["spec"]["ports"]} == ports
            own = template["spec"]["containers"][0]
            words = {*own["args"], *(one.get("value") for one in own["env"])}
            assert all(f"0.0.0.0:{port}" in words for port in ports.values())
    hosts = container(manifest, "Deployment", "pathways-controller")["args"]
    assert hosts[hosts.index("--hosts") + 1] == str(manifest["StatefulSet", "pathways-island0"]["spec"]["replicas"])


def test_secrets_are_files_that_only_their_owner_reads(manifest):
    controller = manifest["Deployment", "pathways-controller"]["spec"]["template"]["spec"]
    worker = manifest["StatefulSet", "pathways-island0"]["spec"]["template"]["spec"]
    for template, secret in ((controller, "pathways-identity"), (worker, "pathways-worker")):
        (found,) = [volume["secret"] for volume in template["volumes"] if "secret" in volume]
        assert found == {"secretName": secret, "defaultMode": 0o400}
    (mount,) = worker["containers"][0]["volumeMounts"]
    args = worker["containers"][0]["args"]
    assert args[args.index("--token-file") + 1] == f"{mount['mountPath']}/worker.token"
    assert not any("secretKeyRef" in str(one) for template in (controller, worker) for one in template["containers"][0]["env"])


def identity(home):
    """Makes the contents of the secrets as docs/deploy.md says, where the manifest copies them; returns the worker's token file."""
    command = CommandLine(home)
    command("up", "--no-workers", "--listen-proxy", "none")
    command("down")
    return home / "identities" / "default" / "worker.token"


def here(words, replaced):
    """Adapts a container's command to this machine: changes only ports, names and devices."""
    for old, new in replaced.items():
        words = [word.replace(old, new) for word in words]
    return words


def test_its_commands_make_a_cluster(manifest, tmp_path):
    first, *up = here(container(manifest, "Deployment", "pathways-controller")["args"],
                      {"8470": "0", "8471": "0", "pathways-controller": "127.0.0.1"})
    up[up.index("--hosts") + 1] = str(HOSTS)
    token = identity(tmp_path / "home")
    command = CommandLine(tmp_path / "home")
    started = [command.start(*up, log=tmp_path / "up.log")]
    deadline = time.monotonic() + WAIT_SECONDS

    def wait_for(condition):
        while not (found := condition()):
            assert time.monotonic() < deadline, [path.read_text() for path in tmp_path.glob("*.log")]
            time.sleep(0.05)
        return found

    try:
        address = wait_for(lambda: re.search(r"is up at (127\.0\.0\.1:\d+)", (tmp_path / "up.log").read_text())).group(1)
        for i in range(HOSTS):
            worker = here(container(manifest, "StatefulSet", "pathways-island0")["args"],
                          {"pathways-controller:8470": address, "8472": "0", "8474": "0", "cuda": "cpu", "$(POD_NAME)": f"pathways-island0-{i}", "$(POD_IP)": "127.0.0.1",
                           "/token/worker.token": str(token)})
            assert first == worker.pop(0) == "pathways"
            started.append(command.start(*worker, log=tmp_path / f"{i}.log"))
        report = wait_for(lambda: (found := command("status", "--address", address))["state"] == "formed" and found)
        assert {host["name"] for host in report["hosts"]} == {f"pathways-island0-{i}" for i in range(HOSTS)}
        assert command.run(address, "import jax; print(len(jax.devices()), float(jax.numpy.ones(8).sum()))") == f"{4 * HOSTS} 8.0\n"
    finally:
        codes = [end(process, signal.SIGTERM) for process in reversed(started)]
    assert codes == [0] * (HOSTS + 1)
