"""Tests the options of the page, and how `pathways page` reads an address; tests/e2e/cluster/test_page.py has the page itself."""

import pytest

from pathways import cli
from pathways._commands import page
from pathways._launchers import up


def options(*words):
    return cli.parser().parse_args(["up", *words])


@pytest.mark.parametrize("address, scheme, place", [
    ("127.0.0.1:9500", "http", "127.0.0.1:9500"), ("localhost:9500", "http", "localhost:9500"), ("[::1]:9500", "http", "[::1]:9500"),
    ("head:9500", "https", "head:9500"), ("10.0.0.7:9500", "https", "10.0.0.7:9500"), ("http://head:9500", "http", "head:9500"),
    ("https://127.0.0.1:9500/", "https", "127.0.0.1:9500"), ("https://0.0.0.0:9500/", "https", "127.0.0.1:9500"),
])
def test_an_address_without_a_scheme_is_encrypted_unless_it_is_this_machines(address, scheme, place):
    where = page.parse(address)
    assert (where.scheme, where.netloc) == (scheme, place)


@pytest.mark.parametrize("address", ["head", "https://head", "ftp://head:1", "https://head:1/api", "https://head:99999"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ValueError, match="--address wants"):
        page.parse(address)


def test_the_page_is_on_this_machine_alone_unless_an_address_is_given():
    assert up._page(options()) is None
    assert up._page(options("--page")).listen == "127.0.0.1:0"
    assert up._page(options("--page", "9500")).listen == "127.0.0.1:9500"
    asked = up._page(options("--page", "0.0.0.0:9500"))
    assert (asked.listen, asked.tls, asked.certificate) == ("0.0.0.0:9500", None, None)


def test_files_are_named_by_whole_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = up._page(options("--page", "--page-certificate", "a.crt", "--page-key", "a.key"))
    assert (asked.certificate, asked.key) == (str(tmp_path / "a.crt"), str(tmp_path / "a.key"))


@pytest.mark.parametrize("words, says", [
    (["--page-tls", "on"], "--page-tls needs --page"), (["--page-name", "a"], "--page-name needs --page"), (["--page-key", "a"], "--page-key needs --page"),
    (["--page", "--page-key", "a"], "belong together"), (["--tls", "off", "--page", "0.0.0.0:0"], "--page-tls off"),
    (["--tls", "off", "--page", "--page-tls", "on"], "no authority"),
])
def test_options_that_mean_nothing_together_are_refused(words, says):
    with pytest.raises(ValueError, match=says):
        up._page(options(*words))


def test_a_page_without_encryption_on_a_network_is_shouted_about(capsys):
    assert up._page(options("--page", "0.0.0.0:0", "--page-tls", "off")).tls == "off"
    assert "not encrypted" in capsys.readouterr().err
    assert up._page(options("--tls", "off", "--page", "0.0.0.0:0", "--page-certificate", "a", "--page-key", "b")).certificate


def test_metrics_of_other_machines_need_tls():
    assert up._metrics(options()) == {}
    assert up._metrics(options("--metrics-port", "0")) == {"metrics_port": 0, "metrics_host": "127.0.0.1"}
    assert up._metrics(options("--metrics-port", "0.0.0.0:9400")) == {"metrics_port": 9400, "metrics_host": "0.0.0.0"}
    for words in (["--metrics-port", "70000"], ["--metrics-port", "-1"], ["--metrics-port", "x"]):
        with pytest.raises(ValueError, match="--metrics-port wants"):
            up._metrics(options(*words))
    with pytest.raises(ValueError, match="--tls off"):
        up._metrics(options("--tls", "off", "--metrics-port", "0.0.0.0:9400"))
