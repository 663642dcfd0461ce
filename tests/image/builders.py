"""Builds deploy/Dockerfile: by Debian's buildah, or, where that is missing, by its steps in a chroot. Both want root, and debootstrap for the base.

Debian's base image cannot be pulled everywhere, so debootstrap makes a base of the same packages. With buildah, IMAGE_BASE=... names another.
"""

import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "image"
DOCKERFILE = "deploy/Dockerfile"
MIRROR = "http://deb.debian.org/debian"
IMAGE, BASE = "localhost/pathways:test", "localhost/debian:12"


def sh(*words, **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, f"{words}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout.strip()


def base_folder():
    folder = WORK / "base"
    if not (folder / "usr" / "bin" / "apt-get").exists():
        shutil.rmtree(folder, ignore_errors=True)
        sh("debootstrap", "--variant=minbase", "bookworm", folder, MIRROR)
    return folder


def registry():
    """Returns the files by which pip in the build reaches the registry as pip of this machine does: {file here: its path there}."""
    lines, found = ["[global]"], {WORK / "pip.conf": "/etc/pip.conf"}
    for key in ("index-url", "extra-index-url"):
        done = subprocess.run([sys.executable, "-m", "pip", "config", "get", f"global.{key}"], capture_output=True, text=True, check=False)
        lines += [f"{key} = {done.stdout.strip()}"] if done.returncode == 0 else []
    if authorities := os.environ.get("PIP_CERT"):
        lines.append("cert = /run/authorities.crt")
        found[pathlib.Path(authorities)] = "/run/authorities.crt"
    (WORK / "pip.conf").write_text("\n".join(lines) + "\n")
    return found


# ------------------------------------------------------------------------------- by buildah
def buildah(command, *words, **more):
    return sh("buildah", "--root", WORK / "storage", "--runroot", WORK / "run", command, *words, **more)


@contextlib.contextmanager
def by_buildah():
    """Gives the folder of the image's files, and its configuration."""
    (WORK / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    policy = ["--signature-policy", WORK / "policy.json"]
    named = os.environ.get("IMAGE_BASE")
    if not named and BASE.partition(":")[0] not in buildah("images"):
        container = buildah("from", "scratch")
        buildah("add", "--quiet", container, base_folder(), "/")
        buildah("commit", "--quiet", *policy, "--rm", container, BASE)
    volumes = [word for here, there in registry().items() for word in ("--volume", f"{here}:{there}:ro")]
    build = ["--isolation", "chroot", "--pull" if named else "--pull-never", *policy, "--build-arg", f"BASE={named or BASE}", *volumes]
    buildah("bud", *build, "-f", DOCKERFILE, "-t", IMAGE, ".", cwd=ROOT)
    container = buildah("from", "--pull-never", *policy, IMAGE)
    try:
        yield pathlib.Path(buildah("mount", container)), json.loads(buildah("inspect", "--type", "image", IMAGE))["OCIv1"]["config"]
    finally:
        buildah("rm", container)


# ------------------------------------------------------------------------------- in a chroot
RUN = r"""
set -eu
root=$1; shift
mount --make-rprivate /
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
for pair in $FILES; do
  [ -e "$root${pair#*:}" ] || : >"$root${pair#*:}"
  mount --bind "${pair%%:*}" "$root${pair#*:}"
done
exec chroot "$root" env -i "$@"
"""


def instructions():
    """Yields the instructions of the Dockerfile: (name, rest)."""
    text = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", (ROOT / DOCKERFILE).read_text(), flags=re.MULTILINE))
    for line in filter(None, text.split("\n")):
        name, _, rest = line.partition(" ")
        yield name, rest.strip()


class Stage:
    def __init__(self, folder):
        self.folder, self.arguments, self.env, self.user = folder, {}, {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, ""
        shutil.rmtree(folder, ignore_errors=True)
        sh("cp", "-a", base_folder(), folder)

    def run(self, command):
        files = " ".join(f"{here}:{there}" for here, there in {**registry(), pathlib.Path("/etc/resolv.conf"): "/etc/resolv.conf"}.items())
        env = [f"{name}={value}" for name, value in {**self.env, **self.arguments}.items()]
        words = ["unshare", "--mount", "bash", "-c", RUN, "run", self.folder, *env, "sh", "-c", command]
        sh(*words, env={**os.environ, "FILES": files})

    def copy(self, source, paths, target):
        place = self.folder / target.lstrip("/")
        if target.endswith("/"):
            place.mkdir(parents=True, exist_ok=True)
        found = [one for path in paths for one in sorted(source.glob(path.lstrip("/")))]
        assert len(found) >= len(paths), f"{paths} are not all in {source}"
        sh("cp", "-a", *found, place)


@contextlib.contextmanager
def by_chroot():
    """As by_buildah, by the instructions that our Dockerfile has."""
    stages, stage = {}, None
    for name, rest in instructions():
        if name == "FROM":
            stage = stages[rest.split()[-1]] = Stage(WORK / f"stage{len(stages)}")
        elif name == "ARG" and stage:
            key, _, default = rest.partition("=")
            stage.arguments[key] = default
        elif name == "ENV":
            stage.env.update(pair.split("=", 1) for pair in shlex.split(rest))
        elif name == "RUN":
            stage.run(rest)
        elif name == "COPY":
            *paths, target = rest.split()
            source = stages[paths.pop(0).removeprefix("--from=")].folder if paths[0].startswith("--from=") else ROOT
            stage.copy(source, paths, target)
        elif name == "USER":
            stage.user = rest
        else:
            assert name in ("ARG", "WORKDIR", "CMD"), f"{name} is not among the instructions that this builder knows"
    try:
        yield stage.folder, {"User": stage.user, "Env": [f"{name}={value}" for name, value in stage.env.items()]}
    finally:
        for one in stages.values():
            shutil.rmtree(one.folder)
