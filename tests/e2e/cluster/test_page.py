"""Tests the operators' page: its answers, its access rules and its view of a cluster. tests/browser tests it in a browser."""

import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from certificates import openssl
from cli import CommandLine, User
from conftest import PATIENCE, eventually

binaries = pytest.importorskip("pathways._cluster.binaries")

try:
    binaries.page_files()
except binaries.MissingError:
    pytest.skip("the page is not built: node and npm are missing", allow_module_level=True)


class Reader:
    """Sends the requests of a browser, without a browser."""

    def __init__(self, pathways, address=None, context=None):
        self.pathways = pathways
        self.base = address or pathways.started["page"]
        self.context = context  # of HTTPS
        self.session = None

    def get(self, path, shown=None, **headers):
        """Returns status, headers and text."""
        if shown is not None:
            headers["Authorization"] = f"Bearer {shown}"
        request = urllib.request.Request(self.base.rstrip("/") + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE, context=self.context) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read().decode()

    def login(self, shown):
        status, _, text = self.get("/api/login", shown)
        if status == 200:
            self.session = json.loads(text)["session"]
        return status

    def ask(self, question):
        status, _, text = self.get(f"/api/{question}", self.session)
        assert status == 200, text
        return json.loads(text)


def ticket(pathways):
    return pathways("page")["url"].partition("#")[2]


@pytest.fixture(scope="module")
def pathways(tmp_path_factory):
    command_line = CommandLine(tmp_path_factory.mktemp("home"))
    command_line.started = command_line("up", "--hosts", "2", "--devices", "2", "--page")
    yield command_line
    command_line("down")


@pytest.fixture
def reader(pathways):
    one = Reader(pathways)
    assert one.login(ticket(pathways)) == 200
    return one


def secret(pathways):
    return pathlib.Path(pathways.started["logs"], "page.token").read_text()


def test_the_address_logs_in_once(pathways):
    shown = ticket(pathways)
    first, second = Reader(pathways), Reader(pathways)
    assert first.login(shown) == 200 and second.login(shown) == 401
    assert first.ask("status")["joined_hosts"] == 2


def test_it_shows_the_status_report(pathways, reader):
    shown, asked = reader.ask("status"), pathways("status")
    assert {host["name"] for host in shown["hosts"]} == {host["name"] for host in asked["hosts"]}
    assert set(shown) == set(asked)


PIPELINE = """
import jax, jax.numpy as jnp
import pathways as pw
first, second = (jax.sharding.SingleDeviceSharding(d) for d in (jax.devices()[0], jax.devices()[-1]))

@jax.jit
def doubled_here(x):
    return x * 2

@jax.jit
def squared_there(x):
    return x * x

a = jax.jit(doubled_here, in_shardings=first)
b = jax.jit(squared_there, in_shardings=second)

@pw.program
def two_steps(v):
    return b(a(v))

two_steps(jax.device_put(jnp.ones(8), first)).block_until_ready()
print("ready", flush=True)
input()
"""


def test_it_shows_programs_of_many_nodes_as_graphs(pathways, reader):
    assert reader.ask("programs") == {"programs": [], "more": 0}
    program = pathways.program(pathways.started["address"], PIPELINE)
    try:
        assert program.stdout.readline() == "ready\n", program.communicate()[1]
        (shown,) = reader.ask("programs")["programs"]
        assert shown["name"] == "two_steps" and shown["num_nodes"] == len(shown["nodes"])
        nodes = shown["nodes"]
        assert {node["kind"] for node in nodes} >= {"argument", "compute", "transfer", "result"}
        first, second = (next(i for i, node in enumerate(nodes) if word in node["name"]) for word in ("doubled_here", "squared_there"))
        assert (nodes[first]["hosts"], nodes[second]["hosts"]) == (["host0"], ["host1"])
        ways = set()  # the nodes from which the second computation takes what it needs, directly or not
        todo = [second]
        while todo:
            for before in nodes[todo.pop()]["inputs"]:
                if before not in ways:
                    ways.add(before)
                    todo.append(before)
        assert first in ways
    finally:
        program.communicate("\n", timeout=PATIENCE)
    assert eventually(lambda: reader.ask("programs")["programs"] == [])
    assert Reader(pathways).get("/api/programs")[0] == 401


def lines(report):
    return {one["name"]: [text for _, text in one["lines"]] for one in report["processes"]}


def test_it_shows_the_last_lines_of_each_process(pathways, reader):
    report = reader.ask("logs")
    assert report["names"] == ["agent", "controller", "host0", "host1"]
    shown = lines(report)
    assert any("clients connect to" in line for line in shown["controller"])
    assert any("joined the controller" in line for line in shown["host1"])
    told = pathways("logs", "host1", "--lines", "1000")["host1"]["lines"]
    assert set(shown["host1"]) <= set(told), "it is what 'pathways logs' shows"
    one = lines(reader.ask("logs?process=host0&text=JOINED%20the&lines=1"))
    assert list(one) == ["host0"] and len(one["host0"]) == 1 and "joined the controller" in one["host0"][0]
    assert not any(lines(reader.ask("logs?level=E")).values())
    assert lines(reader.ask("logs?process=../../x")) == {}


def test_logs_are_for_those_who_have_logged_in(pathways, tmp_path):
    stranger = Reader(pathways)
    for shown in (None, "guess"):
        status, _, text = stranger.get("/api/logs", shown)
        assert status == 401 and "joined" not in text


PROGRAM = """
import jax, numpy as np
devices = jax.devices()
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((len(devices),), ("x",))
v = jax.device_put(np.ones((len(devices), 256), np.float32), NamedSharding(mesh, P("x")))
@jax.jit
def a_step_of_the_test(v):
    return v * 2
print("ready", flush=True)
for line in iter(input, "end"):
    for _ in range(5):
        jax.block_until_ready(a_step_of_the_test(v))
    print("stepped", flush=True)
"""


def test_the_timeline_has_each_computation_once(pathways, reader):
    program = pathways.program(pathways.started["address"], PROGRAM)
    try:
        assert program.stdout.readline() == "ready\n"
        after = reader.ask("gangs")["last"]

        def step():
            program.stdin.write("step\n")
            program.stdin.flush()
            assert program.stdout.readline() == "stepped\n"

        step()  # the first compiles
        assert eventually(lambda: len(ended(reader.ask(f"gangs?after={after}"))) == 5)
        seen = reader.ask(f"gangs?after={after}")
        (used,) = [one for one in seen["programs"] if "a_step_of_the_test" in one["name"]]
        assert used["devices"] == [[0, 3]] and seen["missed"] == 0
        (client,) = [one["id"] for one in reader.ask("status")["clients"]]
        for number, gang, whose, of, granted, done, busy, failed in seen["ended"]:
            assert whose == client and 0 < granted <= done <= seen["now"] and busy >= 0 and failed == 0
        step()
        assert eventually(lambda: len(ended(reader.ask(f"gangs?after={seen['last']}"))) == 5)
        more = reader.ask(f"gangs?after={seen['last']}")
        assert {one[0] for one in more["ended"]}.isdisjoint(one[0] for one in seen["ended"])
    finally:
        program.communicate("end\n", timeout=PATIENCE)


def ended(report):
    mine = {one["id"] for one in report["programs"] if "a_step_of_the_test" in one["name"]}
    return [one for one in report["ended"] if one[3] in mine]


def test_a_host_that_is_killed_and_clients_are_seen(tmp_path):
    pathways = CommandLine(tmp_path / "home")
    pathways.started = pathways("up", "--hosts", "2", "--devices", "1", "--page")
    try:
        reader = Reader(pathways)
        assert reader.login(ticket(pathways)) == 200
        lost = reader.ask("status")["hosts"][1]
        os.kill(lost["pid"], signal.SIGKILL)
        assert eventually(lambda: reader.ask("status")["joined_hosts"] == 1)
        assert [one["text"] for one in reader.ask("status")["events"] if one["kind"] == "host lost" and lost["name"] in one["text"]]
    finally:
        pathways("down")


@pytest.mark.parametrize("path", ["/api/status", "/api/gangs", "/api/gangs?after=1", "/api/ticket", "/api/nothing", "/api/"])
@pytest.mark.parametrize("shown", [None, "", "wrong", "0" * 64])
def test_who_has_not_logged_in_sees_nothing(pathways, path, shown):
    status, headers, text = Reader(pathways).get(path, shown)
    assert status == 401 and "hosts" not in text and secret(pathways) not in text


def test_the_files_tell_nothing_and_need_no_login(pathways):
    reader = Reader(pathways)
    status, headers, text = reader.get("/")
    assert status == 200 and headers["Content-Type"].startswith("text/html")
    assets = re.findall(r'(?:src|href)="\./([^"]+)"', text)
    assert len(assets) >= 3
    for asset in assets:
        assert reader.get(f"/{asset}")[0] == 200
    assert "<script>" not in text and "style=" not in text, "the answers' policy forbids them"
    assert re.search(r"https?://", re.sub(r"http://www\.w3\.org/\S+", "", text)) is None


@pytest.mark.parametrize("path", ["/", "/api/status", "/nothing", "/assets/../index.html", "/%2e%2e/%2e%2e/etc/passwd", "/docs/operators.txt"])
def test_every_answer_forbids_what_is_not_its_own(pathways, path):
    status, headers, text = Reader(pathways).get(path)
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer" and headers["Cache-Control"] == "no-store"
    assert not [name for name in headers if name.lower().startswith("access-control")] and "Set-Cookie" not in headers
    assert "root:" not in text


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", ""])
def test_a_strangers_name_for_this_machine_is_refused(pathways, reader, host):
    for path in ("/", "/api/status"):
        status, _, text = reader.get(path, reader.session, Host=host)
        assert status == 421 and "hosts" not in text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_only_get_is_answered(pathways, reader, method):
    request = urllib.request.Request(f"{reader.base}api/status", method=method, headers={"Authorization": f"Bearer {reader.session}", "Origin": "http://evil.example"})
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request, timeout=PATIENCE)
    assert error.value.code == 405 and not [name for name in error.value.headers if name.lower().startswith("access-control")]


def test_no_secret_is_where_others_can_read_it(pathways, reader):
    opened = ticket(pathways)
    assert Reader(pathways).login(opened) == 200
    folder = pathlib.Path(pathways.started["logs"])
    assert folder.joinpath("page.token").stat().st_mode & 0o777 == 0o600
    secrets = [secret(pathways), opened, reader.session]
    state = json.loads(folder.joinpath("state.json").read_text())
    for log in folder.glob("*.log"):
        assert not [one for one in secrets if one in log.read_text()]
    for member in state["members"]:
        shown = pathlib.Path(f"/proc/{member['pid']}/cmdline").read_bytes().decode()
        assert not [one for one in secrets if one in shown]
    assert "#" not in pathways.started["page"] and secrets[0] not in json.dumps(pathways.started)


def test_who_logs_out_is_out(pathways, reader):
    assert reader.ask("logout") == {}
    assert reader.get("/api/status", reader.session)[0] == 401


def test_operators_tokens_open_it_and_users_do_not(pathways, tmp_path):
    operator, user = tmp_path / "operator.token", tmp_path / "user.token"
    pathways("token", "create", "--user", "ada", "--role", "operator", "-o", str(operator))
    created = pathways("token", "create", "--user", "bob", "-o", str(user))
    assert created
    token = lambda path: re.search(r"^token (\S+)$", path.read_text(), re.M)[1]
    assert Reader(pathways).login(token(operator)) == 200
    assert Reader(pathways).login(token(user)) == 401
    ada = User(tmp_path / "ada")
    address = pathways.started["page"].removeprefix("http://").rstrip("/")
    opens = ada("page", "--address", address, "--token-file", str(operator))["url"]
    assert Reader(pathways).login(opens.partition("#")[2]) == 200
    done = ada("page", "--address", address, "--token-file", str(user), check=False)
    assert done.returncode != 0 and "does not take the token" in done.stderr and token(user) not in done.stderr


def test_a_cluster_shows_none_unless_asked(tmp_path):
    pathways = CommandLine(tmp_path / "home")
    started = pathways("up", "--devices", "1")
    try:
        assert "page" not in started and not pathlib.Path(started["logs"], "page.token").exists()
        done = pathways("page", check=False)
        assert done.returncode != 0 and "pathways up --page" in done.stderr
    finally:
        pathways("down")


def test_a_name_and_an_address_of_choice(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    pathways = CommandLine(tmp_path / "home")
    pathways.started = pathways("up", "--devices", "1", "--page", f"127.0.0.1:{port}", "--page-name", "board.example")
    try:
        assert pathways.started["page"] == f"http://127.0.0.1:{port}/"
        reader = Reader(pathways)
        assert reader.get("/", Host="board.example")[0] == 200 and reader.get("/", Host="other.example")[0] == 421
        assert reader.login(secret(pathways)) == 200
    finally:
        pathways("down")


def trusting(pathways):
    """Returns a context that trusts the authority of the cluster, and no other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(pathlib.Path(pathways.env["PATHWAYS_HOME"], "identities", "default", "authority.crt"))
    return context


def shown_certificate(port, name, context):
    """Returns the certificate that the page shows to a browser that calls it by this name and checks it."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as plain, context.wrap_socket(plain, server_hostname=name) as secure:
        return secure.getpeercert()


@pytest.fixture(scope="module")
def open_page(tmp_path_factory):
    """A cluster whose page other machines reach."""
    pathways = CommandLine(tmp_path_factory.mktemp("open"))
    pathways.started = pathways("up", "--devices", "1", "--page", "0.0.0.0:0", "--page-name", "board.example")
    pathways.port = int(pathways.started["page"].rstrip("/").rpartition(":")[2])
    yield pathways
    pathways("down")


def test_on_a_network_it_is_encrypted_for_the_names_of_the_machine(open_page):
    assert open_page.started["page"] == f"https://{socket.gethostname()}:{open_page.port}/"
    context = trusting(open_page)
    for name in ("localhost", "127.0.0.1", socket.gethostname(), "board.example"):
        shown = shown_certificate(open_page.port, name, context)
        assert ssl.cert_time_to_seconds(shown["notAfter"]) > time.time() + 86400
    for name in ("other.example", "controller.pathways", "worker.pathways"):
        with pytest.raises(ssl.SSLCertVerificationError, match="mismatch|not valid for"):
            shown_certificate(open_page.port, name, context)
    with pytest.raises(ssl.SSLCertVerificationError):
        shown_certificate(open_page.port, "localhost", ssl.create_default_context())


def test_on_a_network_operators_tokens_open_it(open_page, tmp_path):
    open_page("token", "create", "--user", "ada", "--role", "operator", "-o", str(tmp_path / "token"))
    token = re.search(r"^token (\S+)$", (tmp_path / "token").read_text(), re.M)[1]
    base, context = f"https://127.0.0.1:{open_page.port}/", trusting(open_page)
    reader = Reader(open_page, base, context)
    assert reader.login(token) == 200 and reader.ask("status")["joined_hosts"] == 1
    assert Reader(open_page, base, context).login(ticket(open_page)) == 200
    ada = User(tmp_path / "ada")  # knows the authority by its fingerprint in the token file alone
    opens = ada("page", "--address", f"127.0.0.1:{open_page.port}".replace("127.0.0.1", "https://localhost"), "--token-file", str(tmp_path / "token"))["url"]
    assert Reader(open_page, base, context).login(opens.partition("#")[2]) == 200
    lied = (tmp_path / "token").read_text().replace("authority sha256:", "authority sha256:0")
    (tmp_path / "lied").write_text(re.sub(r"(sha256:0[0-9a-f]{63})[0-9a-f]", r"\1", lied))
    done = ada("page", "--address", f"https://localhost:{open_page.port}", "--token-file", str(tmp_path / "lied"), check=False)
    assert done.returncode != 0 and "does not trust" in done.stderr and token not in done.stderr, done.stderr


def test_plain_http_gets_a_hint_where_the_page_is_encrypted(open_page):
    status, _, text = Reader(open_page, f"http://127.0.0.1:{open_page.port}/").get("/api/status", secret(open_page))
    assert status == 400 and "https://" in text and "hosts" not in text


def test_the_page_hands_out_its_authority_for_browsers(open_page):
    status, headers, text = Reader(open_page, f"https://127.0.0.1:{open_page.port}/", trusting(open_page)).get("/authority.crt")
    kept = pathlib.Path(open_page.env["PATHWAYS_HOME"], "identities", "default")
    assert status == 200 and headers["Content-Type"] == "application/x-x509-ca-cert" and text == (kept / "authority.crt").read_text()
    assert "PRIVATE" not in text
    done = open_page("page", check=False)
    fingerprint = re.search(r"^authority sha256:([0-9a-f]+)$", (kept / "operator.token").read_text(), re.M)[1].upper()
    assert done.returncode == 0 and ":".join(fingerprint[at : at + 2] for at in range(0, 64, 2)) in done.stdout, done.stdout


def test_a_certificate_of_another_authority_is_shown(tmp_path):
    certificate, key = tmp_path / "page.crt", tmp_path / "page.key"
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
            "-subj", "/CN=board.example", "-addext", "subjectAltName=DNS:board.example,IP:127.0.0.1")
    pathways = CommandLine(tmp_path / "home")
    words = ["up", "--devices", "1", "--page", "127.0.0.1:0", "--page-name", "board.example"]
    done = pathways(*words, "--page-certificate", str(certificate), check=False)
    assert done.returncode == 2 and "belong together" in done.stderr
    pathways.started = pathways(*words, "--page-certificate", str(certificate), "--page-key", str(key))
    try:
        assert pathways.started["page"].startswith("https://")
        context = ssl.create_default_context(cafile=certificate)
        reader = Reader(pathways, context=context)
        assert reader.login(secret(pathways)) == 200 and reader.get("/authority.crt")[0] == 404
        assert shown_certificate(int(pathways.started["page"].rstrip("/").rpartition(":")[2]), "board.example", context)["subject"]
        command = User(tmp_path / "other")
        command.env["SSL_CERT_FILE"] = str(certificate)  # the system's authorities
        token = pathlib.Path(pathways.started["logs"], "page.token")
        assert command("page", "--address", pathways.started["page"], "--token-file", str(token))["url"].startswith("https://")
    finally:
        pathways("down")


def test_where_it_must_not_be_encrypted_it_says_so_and_takes_no_tokens(tmp_path):
    pathways = CommandLine(tmp_path / "home")
    done = pathways("up", "--devices", "1", "--page", "0.0.0.0:0", "--page-tls", "off", "--json", check=False)
    try:
        assert done.returncode == 0 and "is not encrypted" in done.stderr
        pathways.started = json.loads(done.stdout)
        assert "is not encrypted" in pathlib.Path(pathways.started["logs"], "controller.log").read_text()
        pathways("token", "create", "--user", "ada", "--role", "operator", "-o", str(tmp_path / "token"))
        token = re.search(r"^token (\S+)$", (tmp_path / "token").read_text(), re.M)[1]
        assert pathways.started["page"].startswith("http://")
        reader = Reader(pathways, f"http://127.0.0.1:{pathways.started['page'].rstrip('/').rpartition(':')[2]}/")
        assert reader.login(token) == 401 and reader.login(ticket(pathways)) == 200
    finally:
        pathways("down")


@pytest.mark.parametrize("flags, said", [(["--listen-page=unix:/tmp/page.sock"], "browsers reach HOST:PORT only"),
                                         (["--listen-page=0.0.0.0:0"], "no authority that could certify it"),
                                         (["--listen-page=127.0.0.1:0", "--page-tls=on"], "no authority that could certify it"),
                                         (["--listen-page=127.0.0.1:0", "--page-tls=yes"], "on, off or auto"),
                                         (["--listen-page=127.0.0.1:0", "--page-key=/dev/null"], "belong together"),
                                         (["--listen-page=127.0.0.1:0", "--page-key=/dev/null", "--page-certificate=/dev/null"], "cannot read"),
                                         (["--listen-page=127.0.0.1:0", "--page-key=/proc/version", "--page-certificate=/proc/version"], "no chain of certificates"),
                                         (["--listen-page=127.0.0.1:0"], "has no token of at least 16 characters")])
def test_a_page_that_cannot_be_served_is_refused(pathways, flags, said):
    done = subprocess.run([binaries.find("pathways-controller"), "--tls=off", *flags], capture_output=True, text=True, timeout=PATIENCE, env=pathways.env)
    assert done.returncode != 0 and said in done.stderr


def test_hostile_readers_do_no_harm(pathways, reader):
    host, port = reader.base.removeprefix("http://").rstrip("/").split(":")
    for text in (b"\0" * 100, os.urandom(5000), b"GET " + b"/" * 100_000, b"GET /api/login HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + b"a" * 7000 + b"\r\n\r\n",
                 b"GET /api/gangs?after=-1&after=99999999999999999999999 HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        for _ in range(20):
            with socket.create_connection((host, int(port)), PATIENCE) as peer:
                peer.sendall(text)
                peer.shutdown(socket.SHUT_WR)
                answer = peer.recv(64)
                assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer
    idle = [socket.create_connection((host, int(port))) for _ in range(200)]
    assert reader.ask("status")["joined_hosts"] == 2
    for one in idle:
        one.close()
    assert len(reader.ask("gangs?after=18446744073709551615")["ended"]) == 0


def test_the_controller_ends_while_somebody_looks(tmp_path):
    pathways = CommandLine(tmp_path / "home")
    pathways.started = pathways("up", "--devices", "1", "--page")
    reader = Reader(pathways)
    assert reader.login(ticket(pathways)) == 200 and reader.ask("gangs")["ended"] == []
    assert pathways("down")["killed"] == []
