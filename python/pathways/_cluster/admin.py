"""Requests of an operator to a running controller: its status, clients' shares, draining of hosts, suspension of clients, recordings.

The program pathways-controller sends them, as its own command line describes.
"""

import json
import subprocess

from pathways._cluster import binaries, credentials


class StatusError(RuntimeError):
    """The controller did not answer."""


def status(address, seconds=10.0, at_workers=False, access=None):
    """Returns the status report of the controller at `address`, its address for clients; with `at_workers`, its address for workers.
    `access`: the flags with which to connect; None: this user's."""
    return _ask(address, seconds, "--status-at-workers" if at_workers else "--status", address, f"--status-timeout={seconds}s", access=access)


def share(address, client, weight=None, priority=None):
    """Changes a client's share; returns the share now in force."""
    change = [f"--share-{name}={value}" for name, value in (("weight", weight), ("priority", priority)) if value is not None]
    return _ask(address, 10.0, "--share", address, f"--share-client={client}", *change)


def drain(address, host, undo, seconds):
    """Moves the virtual slices off a host, or with `undo` allows them again. Returns {"moved": [slice, ...], "stuck": [{"slice", "why"}, ...]}."""
    return _ask(address, seconds + 10, "--drain", address, f"--drain-host={host}", f"--status-timeout={seconds}s",
                *(["--drain-undo"] if undo else []))


def suspend(address, client, resume, seconds):
    """Suspends or resumes a client; returns {"client", "arrays", "bytes"}."""
    return _ask(address, seconds + 10, "--resume" if resume else "--suspend", address, f"--suspend-client={client}", f"--status-timeout={seconds}s")


def trace(address, seconds, path):
    """Records the cluster's events into a file; returns a summary."""
    return _ask(address, seconds + 60, "--trace", address, f"--trace-duration={seconds}s", f"--trace-output={path}", "--status-timeout=50s")


def profile(address, seconds, folder, limit):
    """Records a profile of all clients into an existing folder, with at most `limit` bytes of each host. Returns {"path", "hosts": [{"name", "bytes",
    "missing", and "file" if one was written}, ...]}."""
    return _ask(address, seconds + 600, "--profile", address, f"--profile-duration={seconds}s", f"--profile-output={folder}", f"--profile-limit={limit}",
                "--status-timeout=50s")


def create_token(address, user, role, expires, uses):
    """Makes a token; returns the text of its token file. `expires`: in seconds, 0: never. `uses`: hosts that may join with a worker's, 0: any
    number."""
    return _say(address, 10.0, "--token-create", address, f"--token-user={user}", f"--token-role={role}", f"--token-expires={expires}s",
                f"--token-uses={uses}")


def list_tokens(address):
    """Returns [{"id", "user", "role", "created", "expires", "uses"}, ...]; the last two only if there is a limit."""
    return _ask(address, 10.0, "--token-list", address)


def revoke_token(address, token_id):
    return _ask(address, 10.0, "--token-revoke", address, f"--token-id={token_id}")


def quotas(address, user=None, limits=None):
    """Changes the limits of a user, if one is named; "*" is everybody without limits of their own. limits: {name: number or "none"}. Returns {"quotas":
    [{"user", limits ...}, ...], "users": [{"user", "sessions", "device_seconds", "devices", ...}, ...]}: the limits, and the use of today or now."""
    change = [] if user is None else [f"--quota-user={user}", *(f"--quota-{name.replace('_', '-')}={value}" for name, value in (limits or {}).items())]
    return _ask(address, 10.0, "--quota", address, *change)


def _ask(address, seconds, *question, access=None):
    return json.loads(_say(address, seconds, *question, access=access))


def _say(address, seconds, *question, access=None):
    access = credentials.flags(address) if access is None else access
    try:
        done = subprocess.run([str(word) for word in (binaries.find("pathways-controller"), *question, *access)], capture_output=True, text=True, timeout=seconds + 10, check=False)
    except subprocess.TimeoutExpired:
        raise StatusError(f"no answer from the controller at {address} within {seconds:.0f} s") from None
    if done.returncode != 0:
        raise StatusError(done.stderr.strip() or f"pathways-controller {question[0]} {address} ended with status {done.returncode}")
    return done.stdout
