"""How long to try to reach a controller.

PATHWAYS_CONNECT_TIMEOUT (seconds, 30 by default) is for a controller that is there but not ready: its hosts are still joining, or its machine does
not answer. Where a machine answers that nobody listens there, the address is most likely wrong, and three seconds are enough for a
controller that is just starting.
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


def check_listening(address):
    """Returns once somebody listens at HOST:PORT, or may; OSError or ValueError if it is clear that nobody does."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise ValueError("an address has the form HOST:PORT")
    host = host.removeprefix("[").removesuffix("]")
    deadline = time.monotonic() + min(REFUSED_SECONDS, timeout_seconds())
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=REFUSED_SECONDS).close()
            return
        except TimeoutError:
            return  # no answer at all is not a refusal: the client library goes on trying
        except ConnectionRefusedError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE_SECONDS)
