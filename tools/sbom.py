"""Writes the software bill of materials of the wheel (CycloneDX 1.6), for `make sbom`: the Debian packages whose libraries or headers the build tree
uses, the Python packages that the wheel is built with (tools/locks), and the npm packages of the operators' page (web/package-lock.json)."""

import base64
import json
import pathlib
import re
import subprocess
import sys
import tomllib

import lock

ROOT = pathlib.Path(__file__).resolve().parents[1]
TREE = ROOT / "build" / "release"
LIBRARY = re.compile(r"(?<![\w/.-])(/usr/(?:lib|local/lib)/\S+?\.(?:a|so)(?:\.[\d.]+)?)(?=\s|$)")


def _output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def linked():
    """Returns the paths of the machine's libraries that the wheel's programs are linked with."""
    return set(LIBRARY.findall(_output("ninja", "-C", str(TREE), "-t", "commands", "wheel_contents")))


def included():
    """Returns the paths of the machine's headers that its objects have included, as the compiler told ninja."""
    return {line.strip() for line in _output("ninja", "-C", str(TREE), "-t", "deps").splitlines() if line.startswith("    /usr/include/")}


def debian(paths):
    """Returns the Debian packages that own these files: name, version, arch."""
    real = sorted({str(pathlib.Path(path).resolve()) for path in paths} | set(paths))
    owners = set()
    for at in range(0, len(real), 500):
        done = subprocess.run(["dpkg", "-S", *real[at:at + 500]], capture_output=True, text=True, check=False)  # it fails for a file of no package
        owners |= {line.rpartition(": ")[0] for line in done.stdout.splitlines() if not line.startswith("diversion ")}
    names = sorted({name.strip() for owner in owners for name in owner.split(",")})
    lines = _output("dpkg-query", "-W", "-f=${Package} ${Version} ${Architecture}\\n", *names).splitlines() if names else []
    return [dict(zip(("name", "version", "arch"), line.split())) for line in lines]


def locked(name):
    """Returns the packages of a lock: name, version, hashes."""
    return [dict(zip(("name", "version", "hashes"), entry)) for entry in lock.entries((lock.LOCKS / name).read_text())]


def npm():
    """Returns the packages of the page's lock, as components: those that are part of the page, and those that only build it."""
    found = json.loads((ROOT / "web" / "package-lock.json").read_text())["packages"]
    for path, one in found.items():
        name = path.rpartition("node_modules/")[2]
        if name:
            algorithm, _, value = one["integrity"].partition("-")
            yield {"type": "library", "name": name, "version": one["version"], "scope": "excluded" if one.get("dev") else "required",
                   "purl": f"pkg:npm/{name.replace('@', '%40')}@{one['version']}",
                   "hashes": [{"alg": algorithm.upper().replace("SHA", "SHA-"), "content": base64.b64decode(value).hex()}]}


def bill():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    components = [{"type": "library", "name": one["name"], "version": one["version"], "scope": "required",
                   "purl": f"pkg:deb/debian/{one['name']}@{one['version']}?arch={one['arch']}"} for one in debian(linked() | included())]
    for name, scope in (("requirements-nodeps.txt", "required"), ("requirements.txt", "excluded")):  # excluded: only the build and the tests have it
        components += [{"type": "library", "name": one["name"], "version": one["version"], "scope": scope, "purl": f"pkg:pypi/{one['name']}@{one['version']}",
                        "hashes": [{"alg": "SHA-256", "content": value} for value in one["hashes"]]} for one in locked(name)]
    components += npm()
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
            "metadata": {"component": {"type": "application", "name": project["name"], "version": project["version"], "licenses": [{"license": {"id": project["license"]}}]}},
            "components": components}


if __name__ == "__main__":
    made = bill()
    pathlib.Path(sys.argv[1]).write_text(json.dumps(made, indent=1) + "\n")
    print(f"{sys.argv[1]}: {len(made['components'])} components")
