"""Tests the process that jax's client connects to, when a later connection may reuse it."""

import socket

from pathways._client import connection


def endpoint_at(address):
    endpoint = object.__new__(connection._Endpoint)
    endpoint.door, endpoint.address = object(), address
    return endpoint


def test_a_door_that_was_killed_listens_no_more():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        assert endpoint_at(address).listens()
    assert not endpoint_at(address).listens()
