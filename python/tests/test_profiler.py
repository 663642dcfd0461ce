"""Profiles on the client's side: what jax.profiler gets of the hosts, and the folders of `pathways profile`."""

import base64
import logging

import pytest

from pathways._client import profiler
from pathways._commands import profile


class Cluster:
    """Answers the questions of a profile: two hosts, whose XSpaces come in pieces of three bytes."""

    def __init__(self, spaces=(b"first host", b"second"), missing=("", "")):
        self.spaces, self.missing = spaces, missing
        self.asked = []

    def ask(self, client, request):
        (kind, question), = request["profilerRequest"].items()
        self.asked.append(kind)
        if kind == "stop":
            return {"hosts": [{"name": f"h{n}", "bytes": len(space), "missing": self.missing[n]} for n, space in enumerate(self.spaces)]}
        if kind == "read":
            return {"piece": base64.b64encode(self.spaces[question["host"]][question["offset"]:][:3]).decode()}
        return {}


@pytest.fixture
def record(monkeypatch):
    """Returns a function that records a profile of a cluster; it returns the bytes that jaxlib gets."""

    def run(cluster):
        monkeypatch.setattr(profiler.questions, "ask", cluster.ask)
        added = []
        recorded = profiler._Profile(lambda: ["a client"], added.append)
        recorded.start()
        recorded.stop()
        return b"".join(added)

    return run


def test_the_xspaces_of_all_hosts_come_one_after_the_other(record, caplog):
    cluster = Cluster()
    assert record(cluster) == b"first hostsecond"
    assert cluster.asked == ["start", "stop", *["read"] * 6, "drop"] and not caplog.records


def test_a_host_that_does_not_fit_is_left_out_whole_and_said(record, monkeypatch, caplog):
    monkeypatch.setattr(profiler, "MOST_BYTES", 8)
    with caplog.at_level(logging.WARNING, "pathways"):
        assert record(Cluster()) == b"second"
    assert "no events of host h0" in caplog.text and "pathways profile" in caplog.text


def test_what_a_host_lacks_is_said(record, caplog):
    with caplog.at_level(logging.WARNING, "pathways"):
        assert record(Cluster(missing=("", "it has 300 MiB"))) == b"first hostsecond"
    assert "host h1 is not whole: it has 300 MiB" in caplog.text


def test_a_cluster_that_refuses_leaves_the_process_s_own_profile(record, caplog):
    class Busy(Cluster):
        def ask(self, client, request):
            raise RuntimeError("another trace or profile is being recorded")

    with caplog.at_level(logging.WARNING, "pathways"):
        assert record(Busy()) == b""
    assert "no events of the cluster's hosts: another trace" in caplog.text


def test_a_host_that_sends_less_than_it_said_ends_the_profile_and_adds_no_part_of_it(record, caplog):
    class Short(Cluster):
        def ask(self, client, request):
            answer = super().ask(client, request)
            return {"piece": ""} if request["profilerRequest"].get("read", {}).get("offset") == 3 else answer

    with caplog.at_level(logging.WARNING, "pathways"):
        assert record(Short()) == b""
    assert "less than it said" in caplog.text


def test_each_profile_has_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(profile.time, "strftime", lambda form: "2026_01_02_03_04_05")
    first, second = profile._new_folder(tmp_path / "out"), profile._new_folder(tmp_path / "out")
    assert first == tmp_path / "out/plugins/profile/2026_01_02_03_04_05" and second.name == "2026_01_02_03_04_05_2"
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot make the folder"):
        profile._new_folder(tmp_path / "file")
