import pytest

from pathways import cli
from pathways._cluster import simulated
from pathways._cluster.shape import Shape
from pathways._commands import status_text


def test_shapes_have_two_or_three_numbers():
    assert simulated.parse_shape("512x4") == Shape(1, 512, 4)
    assert simulated.parse_shape(" 4 x 128X4 ") == Shape(4, 128, 4)


@pytest.mark.parametrize("text", ["", "512", "1x2x3x4", "0x4", "9999x1", "4096x1024", "axb"])
def test_a_bad_shape_says_what_is_expected(text):
    with pytest.raises(ValueError, match="HOSTSxDEVICES|a simulated cluster has 1 to"):
        simulated.parse_shape(text)


def test_devices_have_names_or_numbers():
    assert simulated.parse_device("instant") == simulated.Device(0, 0, 0)
    assert simulated.parse_device("275e12:1.2e12:32e9") == simulated.Device(275e12, 1.2e12, 32_000_000_000)
    assert simulated.parse_device("1e12:1e9:0:5e-5:1e9") == simulated.Device(1e12, 1e9, 0, 5e-5, 1e9)
    assert simulated.parse_device("1e12:1e9:0:5e-5:1e9:8e10:1e-6") == simulated.Device(1e12, 1e9, 0, 5e-5, 1e9, 8e10, 1e-6)
    for text in ("", "1:2:3:4:5:6", "tpu-v99", "1:2", "1:-2:3", "a:b:c", "1:2:3:4", "1:2:inf", "nan:2:3"):
        with pytest.raises(ValueError, match="not a simulated device"):
            simulated.parse_device(text)


@pytest.mark.parametrize("more", [["--devices", "4"], ["--no-workers"], ["--platform", "cuda"], ["--checksum"], ["--spill"], ["--memory-limit", "9"], ["--on", "ray"]])
def test_what_does_not_go_with_simulated_hosts_is_refused(more, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("PATHWAYS_HOME", str(tmp_path))
    assert cli.main(["up", "--simulated", "4x4", *more]) == cli.EXIT_USAGE
    assert "--simulated" in capsys.readouterr().err


def test_the_status_of_many_hosts_is_a_few_lines():
    hosts = [{"id": i, "name": f"host{i}", "island": i // 64, "state": "up", "pid": 7} for i in range(128)]
    hosts[5]["state"] = "drained"
    devices = [{"id": i, "host": i // 4, "island": i // 256, "kind": "simulated"} for i in range(512)]
    report = {"islands": [{"id": 0, "name": "a"}, {"id": 1, "name": "b"}], "hosts": hosts, "devices": devices, "clients": []}
    text = status_text.render(report, "here:1")
    assert len(text.splitlines()) < 15
    assert "64 hosts host64 to host127" in text and "256 x simulated" in text
    assert "63 hosts host0 to host63" in text and "1 host host5" in text and "drained" in text
