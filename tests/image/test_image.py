"""Builds deploy/Dockerfile by Debian's buildah, and by its steps in a chroot, and runs the pods of `pathways up --on k8s` in the image.

They run as Kubernetes would run them: as their user, with no rights, on a read-only root, each with a network address of its own. No Kubernetes runs
here.

Needs root and debootstrap: `make test-image` installs debootstrap and buildah.
"""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import builders
import pytest
from builders import sh

EXAMPLE = ["--hosts", "2", "--platform", "cpu", "--devices", "2"]
SECONDS = 180
NAMES = {"pathways-controller": "10.213.0.10", "pathways-island0-0": "10.213.0.20", "pathways-island0-1": "10.213.0.21", "train": "10.213.0.30"}

missing = [name for name in ("debootstrap", "unshare", "nsenter", "ip") if shutil.which(name) is None]
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0 or bool(missing), reason=f"needs root, and {', '.join(missing)}: 'make test-image' installs them"),
    pytest.mark.timeout(1800),
]


@pytest.fixture(scope="module", params=["buildah", "chroot"])
def image(request):
    """Builds the image; returns the folder of its files and its configuration. Without buildah, its steps run in a chroot."""
    if request.param == "buildah" and shutil.which("buildah") is None:
        pytest.skip("buildah is not installed: the steps run in a chroot alone")
    builders.WORK.mkdir(parents=True, exist_ok=True)
    with builders.by_buildah() if request.param == "buildah" else builders.by_chroot() as built:
        yield built


def test_the_image_is_slim_and_its_user_can_change_nothing(image):
    folder, config = image
    assert config["User"] == "10001:10001"
    for tool in ("gcc", "g++", "cc", "make", "pip", "pip3", "git", "curl"):
        assert not list(folder.glob(f"usr/bin/{tool}")) and not list(folder.glob(f"opt/pathways/bin/{tool}"))
    assert sh("find", folder, "-xdev", "-perm", "/6000", "-type", "f") == ""
    owned = sh("find", folder, "-xdev", "(", "-uid", "10001", "-o", "-perm", "-002", ")", "-not", "-type", "l").split()
    found = {path for one in owned if not (path := one.removeprefix(str(folder))).startswith("/dev/")}
    assert found <= {"/pathways", "/pathways/identities", "/cache", "/tmp", "/var/tmp", "/run/lock"}
    print(f"the image has {int(sh('du', '-sm', folder).split()[0])} MB")


# ------------------------------------------------------------------------------- pods
ENTER = r"""
set -eu
root=$1; shift
mount --make-rprivate /
mount --bind "$IMAGE" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
[ -e "$root/etc/hosts" ] || : >"$root/etc/hosts"
mount --bind "$FOLDER/hosts" "$root/etc/hosts"
for path in $VOLUMES; do mkdir -p "$root$path"; mount -t tmpfs -o mode=2777,uid=0,gid=10001 volume "$root$path"; done
if [ -d "$FOLDER/secrets" ]; then
  mkdir -p "$root/secrets"; mount -t tmpfs -o mode=2755,gid=10001 secret "$root/secrets"
  for file in "$FOLDER"/secrets/*; do install -m 440 -o 0 -g 10001 "$file" "$root/secrets/"; done
fi
mount -o remount,bind,ro "$root"
read -r go
as_user() { chroot "$root" setpriv --reuid 10001 --regid 10001 --groups 10001 --no-new-privs --bounding-set=-all --inh-caps=-all env -i "$@"; }
if [ -d "$FOLDER/secrets" ]; then
  as_user "PATH=$IMAGE_PATH" sh -c "$INIT"
  umount "$root/secrets"
fi
if as_user /bin/sh -c 'echo >/written' 2>/dev/null; then echo "the root can be written to" >&2; exit 99; fi
exec chroot "$root" setpriv --reuid 10001 --regid 10001 --groups 10001 --no-new-privs --bounding-set=-all --inh-caps=-all env -i "$@"
"""


class Pod:
    """A pod in namespaces of its own. They end with its process."""

    def __init__(self, tmp_path, image, bridge, name, command, env, volumes, secrets=None, init=""):
        folder = tmp_path / name
        (folder / "root").mkdir(parents=True)
        (folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{address} {host}\n" for host, address in NAMES.items()))
        for file, contents in (secrets or {}).items():
            (folder / "secrets").mkdir(exist_ok=True)
            (folder / "secrets" / file).write_bytes(contents)
        self.folder, self.name, self.address, self.log = folder, name, NAMES[name], folder / "log"
        files, config = image
        (path,) = [one.removeprefix("PATH=") for one in config["Env"] if one.startswith("PATH=")]
        self._env = [*config["Env"], *(f"{key}={value}" for key, value in env.items())]
        setting = {**os.environ, "IMAGE": str(files), "FOLDER": str(folder), "VOLUMES": " ".join(volumes), "INIT": init, "IMAGE_PATH": path}
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [
                    "unshare",
                    "--mount",
                    "--net",
                    "--pid",
                    "--ipc",
                    "--fork",
                    "--kill-child",
                    "bash",
                    "-c",
                    ENTER,
                    "pod",
                    folder / "root",
                    *self._env,
                    *command,
                ],
                env=setting,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
            )
        self.pid = self._child()
        self._join(bridge)
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def _child(self):
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        deadline = time.monotonic() + 10
        while not (found := children.read_text().split()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return found[0]

    def _join(self, bridge):
        link = f"pw{self.pid}"
        sh("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", self.pid)
        sh("ip", "link", "set", link, "master", bridge, "up")
        for words in (("addr", "add", f"{self.address}/24", "dev", "eth0"), ("link", "set", "eth0", "up"), ("link", "set", "lo", "up")):
            sh("nsenter", "--target", self.pid, "--net", "ip", *words)

    def run(self, *command):
        """Runs a command in the container, as an exec probe does; returns the finished process."""
        enter = [
            "nsenter",
            "--target",
            self.pid,
            "--mount",
            "--net",
            "--pid",
            "chroot",
            self.folder / "root",
            "setpriv",
            "--reuid",
            "10001",
            "--regid",
            "10001",
            "--groups",
            "10001",
            "--no-new-privs",
            "--bounding-set=-all",
            "--inh-caps=-all",
            "env",
            "-i",
            *self._env,
        ]
        return subprocess.run([*enter, *command], capture_output=True, text=True, check=False, timeout=SECONDS)

    def connections(self):
        """Returns the TCP connections that the pod has opened to others: {(address, port)}."""

        def rows():
            for line in pathlib.Path(f"/proc/{self.pid}/net/tcp").read_text().splitlines()[1:]:
                local, remote, state = line.split()[1:4]
                yield *(_endpoint(one) for one in (local, remote)), state

        listening = {port for (_, port), _, state in rows() if state == "0A"}
        return {
            remote for (_, port), remote, state in rows() if state == "01" and port not in listening and remote[0] not in ("127.0.0.1", self.address)
        }

    def end(self):
        subprocess.run(["kill", "-TERM", self.pid], check=False)
        return self.process.wait(60)


def _endpoint(text):
    address, port = text.split(":")
    return ".".join(str(byte) for byte in reversed(bytes.fromhex(address))), int(port, 16)


@pytest.fixture
def bridge():
    name = f"pwb{os.getpid()}"
    sh("ip", "link", "add", name, "type", "bridge")
    sh("ip", "link", "set", name, "up")
    yield name
    sh("ip", "link", "delete", name)


def objects(tmp_path):
    """Returns what `--apply` hands to kubectl."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "kubectl"
    program.write_text(f"#!/bin/sh\ncat >{tmp_path}/applied\n")
    program.chmod(0o755)
    env = {**os.environ, "PATHWAYS_HOME": str(tmp_path / "home"), "PATH": f"{program.parent}:{os.environ['PATH']}"}
    sh(sys.executable, "-m", "pathways", "up", "--on", "k8s", *EXAMPLE, "--apply", env=env)
    return json.loads((tmp_path / "applied").read_text())["items"]


def allowed(found, source, target, port):
    """Whether the network policies let pods with labels `source` connect to this TCP port of pods with labels `target`."""

    def allows(labels, direction, side, peer):
        policies = [
            one["spec"] for one in found if one["kind"] == "NetworkPolicy" and one["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
        ]
        return not policies or any(
            (side not in rule or any(one["podSelector"].get("matchLabels", {}).items() <= peer.items() for one in rule[side]))
            and ("ports" not in rule or {"protocol": "TCP", "port": port} in rule["ports"])
            for one in policies
            for rule in one[direction]
        )

    return allows(target, "ingress", "from", source) and allows(source, "egress", "to", target)


def pod_of(found, workload, name, tmp_path, image, bridge):
    (one,) = [one for one in found if one["kind"] == "StatefulSet" and one["metadata"]["name"] == workload]
    pod, secrets = one["spec"]["template"]["spec"], {one["metadata"]["name"]: one["data"] for one in found if one["kind"] == "Secret"}
    (container,), (init,) = pod["containers"], pod["initContainers"]
    (volume,) = [one["secret"] for one in pod["volumes"] if "secret" in one]
    files = {item["path"]: base64.b64decode(secrets[volume["secretName"]][item["key"]]) for item in volume["items"]}
    variables = {"$(POD_NAME)": name, "$(POD_IP)": NAMES[name]}
    command = container["command"] + [variables.get(word, word) for word in container["args"]]
    env = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    mounts = sorted(mount["mountPath"] for mount in container["volumeMounts"])  # the outer before the inner
    return Pod(tmp_path, image, bridge, name, command, env, mounts, files, init["command"][2])


PROGRAM = """
import sys, time
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
devices = jax.devices()
x = jax.device_put(np.arange(1 << 22, dtype=np.float32), NamedSharding(Mesh(devices, "d"), PartitionSpec("d")))
print(len(devices), float(jax.jit(lambda v: (v - v + 1).sum())(x)), float(np.asarray(x + 1)[-1]), flush=True)
time.sleep(float(sys.argv[1]))
"""


def test_the_pods_of_the_manifest_form_a_cluster_that_programs_use(image, bridge, tmp_path):
    found = objects(tmp_path)
    labels = {
        name: next(
            one["spec"]["template"]["metadata"]["labels"]
            for one in found
            if one["kind"] == "StatefulSet" and name.startswith(one["metadata"]["name"])
        )
        for name in NAMES
        if name != "train"
    } | {"train": {"app": "train"}}
    pods, deadline = [], time.monotonic() + SECONDS

    def wait_for(condition):
        while not (answer := condition()):
            assert time.monotonic() < deadline, {pod.name: pod.log.read_text()[-3000:] for pod in pods}
            time.sleep(0.2)
        return answer

    try:
        for workload, name in (("pathways-controller",) * 2, ("pathways-island0", "pathways-island0-0"), ("pathways-island0", "pathways-island0-1")):
            pods.append(pod_of(found, workload, name, tmp_path, image, bridge))
        controller = pods[0]
        alive = next(
            one["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]
            for one in found
            if one["kind"] == "StatefulSet" and one["metadata"]["name"] == "pathways-controller"
        )["exec"]["command"]
        wait_for(lambda: (done := controller.run(*alive, "--json")).returncode == 0 and json.loads(done.stdout)["state"] == "formed")
        began = time.monotonic()
        assert controller.run(*alive).returncode == 0
        print(f"the liveness probe takes {time.monotonic() - began:.1f} s")
        token = controller.run("pathways", "token", "create", "--user", "ada")
        assert token.returncode == 0, token.stderr
        # The program's pod has the user's Secret and the same guards as the others.
        pods.append(
            Pod(
                tmp_path,
                image,
                bridge,
                "train",
                ["python3", "-c", PROGRAM, "5"],
                {
                    "HOME": "/tmp",
                    "JAX_PLATFORMS": "pathways",
                    "PATHWAYS_ADDRESS": "pathways-controller:8470",
                    "PATHWAYS_TOKEN_FILE": "/token/user.token",
                },
                ["/tmp", "/token"],
                {"user.token": token.stdout.encode()},
                "umask 077 && cp /secrets/user.token /token/",
            )
        )
        wait_for(lambda: "4 4194304.0 4194304.0" in pods[-1].log.read_text())
        names = {address: name for name, address in NAMES.items()}
        opened = {(pod.name, names[address], port) for pod in pods for address, port in pod.connections()}
        assert {(source, port) for source, _, port in opened} >= {("train", 8470), ("train", 8474), ("pathways-island0-0", 8471)}, opened
        for source, target, port in opened:
            assert allowed(found, labels[source], labels[target], port), f"the policies forbid what the cluster does: {source} to {target}:{port}"
        assert pods.pop().process.wait(60) == 0
    finally:
        codes = {pod.name: pod.end() for pod in reversed(pods)}
    assert set(codes.values()) == {0}, (codes, {pod.name: pod.log.read_text()[-3000:] for pod in pods})
