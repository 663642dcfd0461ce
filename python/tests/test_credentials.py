"""Tests finding, writing and reading token files."""

import os

import pytest

from pathways._cluster import command_lines, credentials, records
from pathways._commands import tokens

ADDRESS = "head:8470"


@pytest.fixture(autouse=True)
def homes(monkeypatch, tmp_path):
    monkeypatch.setenv("PATHWAYS_HOME", str(tmp_path / "pathways"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("PATHWAYS_TOKEN_FILE", "PATHWAYS_TLS"):
        monkeypatch.delenv(name, raising=False)


def up(access, name="default"):
    records.fresh_folder(name)
    records.State(name, ADDRESS, "1x1x1", "cpu", [], workers_address="tcp:head:8471", access=access).save()


def test_nothing_is_known_of_a_cluster_that_nobody_named():
    assert credentials.flags(ADDRESS) == []


def test_a_socket_of_this_machine_needs_no_token(monkeypatch):
    monkeypatch.setenv("PATHWAYS_TOKEN_FILE", "mine")
    monkeypatch.setenv("PATHWAYS_TLS", "off")
    assert credentials.flags("unix:/tmp/clients.sock", "given") == []


def test_a_socket_of_a_cluster_that_is_up_comes_with_its_authority(tmp_path):
    records.fresh_folder("default")
    records.State("default", "unix:/tmp/clients.sock", "1x1x1", "cpu", [], access=["--token-file", tmp_path / "operator.token"]).save()
    assert credentials.flags("unix:/tmp/clients.sock") == ["--token-file", str(tmp_path / "operator.token")]
    assert credentials.flags("unix:/tmp/other.sock") == []


def test_the_nearest_token_file_is_taken(monkeypatch, tmp_path):
    up(["--token-file", tmp_path / "operator.token"])
    assert credentials.flags(ADDRESS) == ["--token-file", str(tmp_path / "operator.token")]
    assert credentials.flags("tcp:head:8471") == ["--token-file", str(tmp_path / "operator.token")], "where workers join"
    assert credentials.flags("other:8470") == []
    credentials.write(credentials.stored(ADDRESS), "stored")
    assert credentials.flags("tcp:" + ADDRESS) == ["--token-file", credentials.stored(ADDRESS)]
    monkeypatch.setenv("PATHWAYS_TOKEN_FILE", "named")
    assert credentials.flags(ADDRESS) == ["--token-file", "named"]
    assert credentials.flags(ADDRESS, "given") == ["--token-file", "given"]
    monkeypatch.setenv("PATHWAYS_TLS", "off")
    assert credentials.flags(ADDRESS, "given") == ["--tls", "off"]


def test_token_files_are_private(tmp_path):
    path = tmp_path / "folder" / "token"
    credentials.write(path, "one")
    credentials.write(path, "two")
    assert path.read_text() == "two" and path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    os.chmod(path.parent, 0o777)
    with pytest.raises(PermissionError, match="chmod 700"):
        credentials.write(path, "three")


@pytest.mark.parametrize("text", ["", "pw-secret", "address a:1\ntoken pw-secret", "authority sha256:00", "authority sha256:00\ntoken pw-secret\ntoken-from /f"])
def test_what_is_no_token_file_is_refused_without_quoting_it(text):
    with pytest.raises(ValueError) as error:
        credentials.fields(text)
    assert "secret" not in str(error.value)


def test_times_are_written_as_people_write_them():
    assert [tokens.seconds(text) for text in ("90s", "12h", "30d", "never")] == [90, 43200, 2592000, 0]
    for text in ("", "0d", "30", "1w", "-1d"):
        with pytest.raises(ValueError, match="--expires"):
            tokens.seconds(text)


def test_a_cluster_on_a_network_has_an_identity_or_says_that_tls_is_off(tmp_path):
    safe, off, local = command_lines.Security(tmp_path / "identity", tmp_path), command_lines.Security(tls="off"), command_lines.Security()
    assert "--identity" in safe.controller_flags() and off.controller_flags() == ["--tls", "off"] and local.controller_flags() == []
    assert safe.flags("worker") == ["--token-file", tmp_path / "worker.token"]
    assert local.flags("worker") == [] and off.flags("agent") == ["--tls", "off"]


def test_hosts_serve_other_users_only_in_a_folder_that_the_operator_has_named(monkeypatch):
    monkeypatch.delenv("PATHWAYS_PERSISTENCE_DIRECTORY", raising=False)
    assert "--persistence-directory" in command_lines._client_files(True, users=True)
    assert "--users-directory" not in command_lines._client_files(True, users=True)
    assert command_lines._client_files(False, users=True) == []
    monkeypatch.setenv("PATHWAYS_PERSISTENCE_DIRECTORY", "/data/{user}")
    flags = command_lines._client_files(False, users=True)
    assert flags[flags.index("--users-directory") + 1] == "/data/{user}"
    assert "--users-directory" not in command_lines._client_files(True), "an agent serves its own user"


def test_hosts_get_their_object_stores_from_their_environment(monkeypatch):
    for name in ("PATHWAYS_OBJECT_STORES", "PATHWAYS_OBJECT_CREDENTIALS", "PATHWAYS_USERS_OBJECTS"):
        monkeypatch.delenv(name, raising=False)
    assert command_lines._object_stores() == []
    monkeypatch.setenv("PATHWAYS_OBJECT_STORES", "s3=https://a gs=https://b")
    monkeypatch.setenv("PATHWAYS_OBJECT_CREDENTIALS", "/keys")
    monkeypatch.setenv("PATHWAYS_USERS_OBJECTS", "s3://bucket/{user}")
    assert command_lines._object_stores() == ["--object-store=s3=https://a", "--object-store=gs=https://b", "--object-credentials=/keys",
                                              "--users-objects=s3://bucket/{user}"]


def test_another_file_may_have_the_token():
    assert credentials.fields("address a:1\nauthority sha256:00\ntoken-from /run/token\n")["token-from"] == "/run/token"


def test_the_controller_is_told_which_identity_provider_to_trust(tmp_path):
    issuer = {"issuer": "https://id.example.org", "audience": "pathways"}
    flags = command_lines.Security(tmp_path / "identity", tmp_path, oidc=issuer).controller_flags()
    assert flags[-2:] == ["--oidc-issuer=https://id.example.org", "--oidc-audience=pathways"]
