"""Decides how long to try to reach a controller.

PATHWAYS_CONNECT_TIMEOUT (seconds, 30 by default) applies if the controller is not ready, because its hosts are still joining, or if its machine
does not answer. If the machine refuses the connection, the address is most likely wrong: then we try for three seconds, enough for a controller
that is just starting.
"""

import os
import socket
import time

REFUSED_SECONDS = 3.0
_PAUSE_SECONDS = 0.1


def timeout_seconds():
    text = os.environ.get("PATHWAYS_CONNECT_TIMEOUT", "30")
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise ValueError(f"PATHWAYS_CONNECT_TIMEOUT must be a number of seconds, not '{text}'")
    return seconds


def connector(address):
    """Returns a function that connects to the address once. Raises ValueError for a bad address."""
    if address.startswith("unix:"):
        return lambda: _connect_unix(address.removeprefix("unix:"))
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise ValueError("an address has the form HOST:PORT or unix:PATH")
    host = host.removeprefix("[").removesuffix("]")
    return lambda: socket.create_connection((host, int(port)), timeout=REFUSED_SECONDS).close()


def _connect_unix(path):
    with socket.socket(socket.AF_UNIX) as unix:
        unix.connect(path)


def check_listening(address):
    """Returns once a process listens at the address, or if the machine does not answer. Raises OSError if it refuses, ValueError for a bad address."""
    connect = connector(address)
    deadline = time.monotonic() + min(REFUSED_SECONDS, timeout_seconds())
    while True:
        try:
            return connect()
        except TimeoutError:
            return None  # no answer is not a refusal: the client library keeps trying
        except (ConnectionRefusedError, FileNotFoundError):
            if time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE_SECONDS)
