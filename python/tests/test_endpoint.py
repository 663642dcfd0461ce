"""Tests the process that jax's client connects to, when a later connection may reuse it."""

import socket

from pathways._client import connection


def endpoint_at(address, controller=None):
    endpoint = object.__new__(connection._Endpoint)
    endpoint.door, endpoint.address = object(), address
    endpoint.cluster, endpoint.controller = (None, None) if controller is None else (object(), controller)
    return endpoint


def test_a_door_that_was_killed_listens_no_more():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        assert endpoint_at(address).listens()
    assert not endpoint_at(address).listens()


def test_a_controller_of_our_own_that_was_killed_listens_no_more(tmp_path):
    path = tmp_path / "clients.sock"
    with socket.create_server(("127.0.0.1", 0)) as door, socket.socket(socket.AF_UNIX) as controller:
        controller.bind(str(path))
        controller.listen()
        endpoint = endpoint_at(f"127.0.0.1:{door.getsockname()[1]}", f"unix:{path}")
        assert endpoint.listens()
        controller.close()
        assert not endpoint.listens()
        path.unlink()
        assert not endpoint.listens()
