"""Options of the device plugin (--device-options): they are listed, reach the devices of every host, and are refused with the reason."""

import pytest

LIMIT = 64 << 20
PRINT_LIMIT = "import jax; print(jax.devices()[1].memory_stats()['bytes_limit'])"


def test_the_options_of_a_plugin_are_listed(command):
    for name in ("up", "worker"):
        listed = command(name, "--device-options", "help", check=False).stdout
        assert "memory_limit_bytes=INTEGER" in listed and "asynchronous=true|false" in listed


def test_an_option_reaches_the_devices(command):
    started = command("up", "--devices", "2", "--device-options", f"memory_limit_bytes={LIMIT}", "asynchronous=true")
    assert int(command.run(started["address"], PRINT_LIMIT)) == LIMIT


@pytest.mark.parametrize("option, reason", [
    ("memory_limit_bytes=many", "memory_limit_bytes wants INTEGER, not 'many'"),
    ("num_nodes=3", "the worker sets the device option 'num_nodes' itself"),
    ("nonsense=1", "unknown client option 'nonsense'"),
    ("nonsense", "NAME=VALUE"),
])
def test_a_wrong_option_is_refused_with_the_reason(command, option, reason):
    refused = command("up", "--devices", "1", "--device-options", option, check=False)
    assert refused.returncode != 0 and reason in refused.stdout + refused.stderr
