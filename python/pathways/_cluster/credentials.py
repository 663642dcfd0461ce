"""Finds this user's token file for a cluster, in this order:

    1. the file that PATHWAYS_TOKEN_FILE names
    2. the file that `pathways login ADDRESS` stored, ~/.config/pathways/tokens/ADDRESS (XDG_CONFIG_HOME)
    3. the file of a cluster that this user has up, from this machine (records.py)

Our programs get the path. This package reads the contents only where it makes or stores a token file.
"""

import os
import pathlib
import stat

from pathways._cluster import records


def folder():
    """Returns the folder in which `pathways login` stores token files."""
    base = pathlib.Path(os.environ.get("XDG_CONFIG_HOME") or pathlib.Path.home() / ".config")
    return base / "pathways" / "tokens"


def stored(address):
    """Returns the path at which `pathways login` stores the token file of the cluster at this address."""
    return folder() / address.removeprefix("tcp:").replace("/", "_")


def flags(address, token_file=None):
    """Returns the flags with which our programs connect to this address; [] if no token is known: a program that needs one reports that itself.
    `token_file`: a path that the user has given. A controller asks for no token on a Unix socket, but its other processes may be on a network. The
    token file of a cluster that this user has up names their authority."""
    return _of_cluster_that_is_up(address) if address.startswith("unix:") else _over_network(address, token_file)


def _over_network(address, token_file):
    if os.environ.get("PATHWAYS_TLS") == "off":
        return ["--tls", "off"]
    if token_file or os.environ.get("PATHWAYS_TOKEN_FILE"):
        return ["--token-file", token_file or os.environ["PATHWAYS_TOKEN_FILE"]]
    if stored(address).exists():
        return ["--token-file", stored(address)]
    return _of_cluster_that_is_up(address)


def _of_cluster_that_is_up(address):
    for state in records.all_recorded():
        if address.removeprefix("tcp:") in (state.address, state.workers_address.removeprefix("tcp:")):
            return state.access
    return []


def write(path, text):
    """Writes a file that only this user can read; replaces an older one."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.parent.stat().st_uid != os.getuid() or stat.S_IMODE(path.parent.stat().st_mode) & 0o022:
        raise PermissionError(f"others can write to {path.parent}: chmod 700 {path.parent}")
    draft = path.with_name(path.name + ".draft")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as file:
        file.write(text)
    draft.rename(path)


def fields(text):
    """Returns the fields of a token file. Raises ValueError, which never quotes the text."""
    found = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    if found.get("tls") != "off" and ("authority" not in found or ("token" in found) == ("token-from" in found)):
        raise ValueError("this is no token file: it has the lines address, authority, and token or token-from, as 'pathways token create' prints them")
    return found
