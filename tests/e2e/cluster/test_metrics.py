"""Tests the metrics that the controller, the workers and the agent export to Prometheus: they change with the load, and the board and the documentation name them."""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

import pytest
import yaml

from cli import CommandLine, end
from conftest import PATIENCE, ROOT, clean_environment, eventually

NAME = re.compile(r"\b(?:pathways|process)_[a-z0-9_]+\b")
SAMPLE = re.compile(r'^([a-zA-Z_][a-zA-Z0-9_]*)(\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*\})? (-?[0-9.e+-]+|NaN|[+-]Inf)$')
BOARD = ROOT / "deploy/grafana/pathways.json"
RULES = ROOT / "deploy/prometheus-rules.yml"
DEBIAN = ROOT / "build/prometheus/usr/bin"  # where `make test-prometheus` puts Debian's package


@pytest.fixture(scope="module")
def pathways(tmp_path_factory):
    command_line = CommandLine(tmp_path_factory.mktemp("home"))
    command_line.started = command_line("up", "--hosts", "2", "--devices", "2", "--metrics-port", "0")
    yield command_line
    command_line("down")


def token(pathways):
    return pathlib.Path(pathways.started["logs"], "metrics.token").read_text()


def get(pathways, name, path="/metrics", shown=None):
    """Returns a page of the process of this name; `shown`: an Authorization other than the right one."""
    request = urllib.request.Request(f"http://{pathways.started['metrics'][name]}{path}", headers={"Authorization": shown or f"Bearer {token(pathways)}"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return answer.read().decode()


def parse(page):
    """Returns {name with labels: value}; checks that each family is contiguous, with HELP and TYPE before its values."""
    values, types, current = {}, {}, None
    for line in page.splitlines():
        if line.startswith("# HELP "):
            current = line.split()[2]
            assert current not in types and line.split(None, 3)[3:], line
        elif line.startswith("# TYPE "):
            assert line.split()[2] == current and line.split()[3] in ("counter", "gauge"), line
            types[current] = line.split()[3]
            assert current.endswith("_total") == (types[current] == "counter"), line
        else:
            found = SAMPLE.match(line)
            assert found and found[1] == current and line not in values, line
            values[found[1] + (found[2] or "")] = float(found[3])
    return values


def names(page):
    return {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE ")}


def test_controller_and_workers_show_their_metrics(pathways):
    addresses = pathways.started["metrics"]
    assert len(addresses) == 4 and all(address.startswith("127.0.0.1:") for address in addresses.values())
    controller = parse(get(pathways, "controller"))
    assert controller['pathways_hosts{state="up"}'] == 2 and controller["pathways_devices"] == 4 and controller["pathways_formed"] == 1
    assert 'pathways_controller_info{version="' in "".join(controller)
    for host in pathways("status")["hosts"]:
        assert controller[f'pathways_host_up{{island="island0",host="{host["name"]}"}}'] == 1
        worker = parse(get(pathways, host["name"]))
        assert worker["pathways_worker_joined"] == 1 and worker[f'pathways_worker_info{{island="island0",host="{host["name"]}"}}'] == 1
        assert worker["process_resident_memory_bytes"] > 1 << 20


PROGRAM = """
import jax, numpy as np
x = jax.device_put(np.ones((512, 512), np.float32))
f = jax.jit(lambda v: v @ v / 512)
for _ in range(20):
    x = f(x)
x.block_until_ready()
print('ready', flush=True)
input()
"""


STOCK = """
import os
import jax, numpy as np
from jax.extend.backend import ifrt_proxy, register_backend_factory
address = os.environ["ADDRESS"]
register_backend_factory("proxy", lambda: ifrt_proxy.get_client(f"grpc://{address}", ifrt_proxy.ClientConnectionOptions()), priority=-1)
f = jax.jit(lambda v: v + 1)
for _ in range(5):
    np.asarray(f(np.arange(4.0)))
print('ready', flush=True)
input()
"""


def test_the_agent_counts_the_programs_that_enter_by_it(pathways):
    before = parse(get(pathways, "agent"))
    assert before["pathways_agent_programs"] == 0
    env = clean_environment(JAX_PLATFORMS="proxy", ADDRESS=pathways.started["proxy_address"], IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS="true")
    program = subprocess.Popen([sys.executable, "-c", STOCK], env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert program.stdout.readline() == "ready\n", program.communicate()[1]
        during = parse(get(pathways, "agent"))
        assert during["pathways_agent_programs"] == 1 and during["pathways_agent_programs_total"] == before["pathways_agent_programs_total"] + 1
        assert during['pathways_agent_requests_total{kind="init"}'] == before['pathways_agent_requests_total{kind="init"}'] + 1
        assert during['pathways_agent_requests_total{kind="compile"}'] > before['pathways_agent_requests_total{kind="compile"}']
        assert during["pathways_agent_request_bytes_total"] > before["pathways_agent_request_bytes_total"]
        assert parse(get(pathways, "controller"))["pathways_clients"] == 1
    finally:
        program.communicate("\n", timeout=PATIENCE)
    assert eventually(lambda: parse(get(pathways, "agent"))["pathways_agent_programs"] == 0)


def test_they_move_with_what_a_client_does(pathways):
    before = parse(get(pathways, "controller"))
    program = pathways.program(pathways.started["address"], PROGRAM)
    assert program.stdout.readline() == "ready\n"
    try:
        during = parse(get(pathways, "controller"))
        (client,) = [re.search(r'client="(\d+)"', name)[1] for name in during if name.startswith("pathways_client_info")]
        assert during["pathways_clients"] == 1 and during[f'pathways_client_arrays{{client="{client}"}}'] >= 1
        assert during["pathways_grants_total"] - before["pathways_grants_total"] >= 20
        assert during[f'pathways_client_computations_total{{client="{client}"}}'] >= 20
        assert during[f'pathways_client_device_seconds_total{{client="{client}"}}'] > 0
        assert during[f'pathways_client_array_bytes{{client="{client}"}}'] >= 512 * 512 * 4
        used = sum(value for name, value in during.items() if name.startswith("pathways_device_memory_used_bytes"))
        workers = [parse(get(pathways, host["name"])) for host in pathways("status")["hosts"]]
        assert used == sum(value for page in workers for name, value in page.items() if name.startswith("pathways_worker_device_memory_used_bytes")) > 0
        assert sum(page["pathways_worker_launches_total"] for page in workers) >= 20
        assert program.poll() is None
    finally:
        program.communicate("\n", timeout=PATIENCE)
    assert eventually(lambda: parse(get(pathways, "controller"))["pathways_clients"] == 0)


def test_a_cluster_shows_none_unless_asked(tmp_path):
    pathways = CommandLine(tmp_path / "home")
    started = pathways("up", "--devices", "1")
    try:
        assert "metrics" not in started and not list(pathlib.Path(started["logs"]).glob("*.metrics"))
        state = json.loads(pathlib.Path(started["logs"], "state.json").read_text())
        for member in state["members"]:
            words = pathlib.Path(f"/proc/{member['pid']}/cmdline").read_bytes().decode()
            assert "listen-metrics" not in words
    finally:
        pathways("down")


def test_ports_follow_the_one_that_is_given(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
    pathways = CommandLine(tmp_path / "home")
    started = pathways("up", "--devices", "1", "--metrics-port", str(port))
    try:
        assert sorted(started["metrics"].values()) == [f"127.0.0.1:{port + n}" for n in range(3)]
        config = json.loads(pathlib.Path(started["logs"], "prometheus.yml").read_text())
        assert [job["static_configs"][0]["targets"] for job in config["scrape_configs"]] == [[f"127.0.0.1:{port + n}"] for n in range(3)]
    finally:
        pathways("down")


def read_as_prometheus(job, target):
    """Reads a target of a configuration as Prometheus does, which checks the certificate. The target's host is this machine."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(job["tls_config"]["ca_file"])
    token = pathlib.Path(job["authorization"]["credentials_file"]).read_text()
    with socket.create_connection(("127.0.0.1", int(target.rpartition(":")[2])), PATIENCE) as plain:
        with context.wrap_socket(plain, server_hostname=job["tls_config"]["server_name"]) as secure:
            secure.sendall(f"GET /metrics HTTP/1.1\r\nHost: {target}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
            return secure.makefile("rb").read().decode()


def test_other_machines_read_metrics_by_https(tmp_path):
    pathways = CommandLine(tmp_path / "home")
    started = pathways("up", "--hosts", "2", "--devices", "1", "--metrics-port", "0.0.0.0:0")
    try:
        config = json.loads(pathlib.Path(started["logs"], "prometheus.yml").read_text())
        jobs = {job["job_name"]: job for job in config["scrape_configs"]}
        assert jobs["pathways-controller"]["tls_config"]["server_name"] == "controller.pathways"
        assert jobs["pathways-worker"]["tls_config"]["server_name"] == "worker.pathways"
        for name, metric in (("pathways-controller", "pathways_formed 1"), ("pathways-worker", "pathways_worker_joined 1")):
            assert jobs[name]["scheme"] == "https"
            for part in jobs[name]["static_configs"]:
                answer = read_as_prometheus(jobs[name], part["targets"][0])
                assert answer.startswith("HTTP/1.1 200 ") and metric in answer
        agent = jobs["pathways-agent"]
        assert "scheme" not in agent and agent["static_configs"][0]["targets"][0].startswith("127.0.0.1:"), "it has no certificate"
        wrong = {**jobs["pathways-worker"], "tls_config": jobs["pathways-controller"]["tls_config"]}
        with pytest.raises(ssl.SSLCertVerificationError):  # a worker cannot pass for the controller
            read_as_prometheus(wrong, wrong["static_configs"][0]["targets"][0])
    finally:
        pathways("down")


@pytest.mark.parametrize("program, words", [("pathways-controller", ["--tls=off"]), ("pathways-worker", ["--tls=off", "--controller=127.0.0.1:9", "--devices=1"]),
                                            ("pathways-agent", ["--tls=off", "--cluster=127.0.0.1:9", "--listen=127.0.0.1:0"])])
def test_other_machines_cannot_be_shown_metrics(pathways, program, words):
    from pathways._cluster import binaries

    done = subprocess.run([binaries.find(program), "--listen-metrics=0.0.0.0:0", *words], capture_output=True, text=True, timeout=PATIENCE, env=pathways.env)
    assert done.returncode != 0 and "other machines reach that address" in done.stderr


@pytest.mark.parametrize("program, words", [("pathways-controller", ["--tls=off"]), ("pathways-worker", ["--tls=off", "--controller=127.0.0.1:9", "--devices=1"]),
                                            ("pathways-agent", ["--tls=off", "--cluster=127.0.0.1:9", "--listen=127.0.0.1:0"])])
def test_a_port_needs_a_token(pathways, program, words, tmp_path):
    from pathways._cluster import binaries

    (tmp_path / "short").write_text("1234")
    for more, said in (([], "needs --metrics-token-file"), ([f"--metrics-token-file={tmp_path / 'short'}"], "no token of at least 16 characters")):
        done = subprocess.run([binaries.find(program), "--listen-metrics=127.0.0.1:0", *more, *words], capture_output=True, text=True, timeout=PATIENCE, env=pathways.env)
        assert done.returncode != 0 and said in done.stderr


@pytest.mark.parametrize("shown", ["Bearer wrong", "Bearer ", "Basic abc"])
def test_who_does_not_show_the_token_sees_nothing(pathways, shown):
    assert pathlib.Path(pathways.started["logs"], "metrics.token").stat().st_mode & 0o777 == 0o600
    for name in pathways.started["metrics"]:
        with pytest.raises(urllib.error.HTTPError) as error:
            get(pathways, name, shown=shown)
        assert error.value.code == 401 and token(pathways) not in error.value.read().decode()


def test_other_paths_are_not_found(pathways):
    with pytest.raises(urllib.error.HTTPError) as error:
        get(pathways, "controller", "/")
    assert error.value.code == 404 and b"/metrics" in error.value.read()


def abuse(address, text):
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), PATIENCE) as peer:
        try:
            peer.sendall(text)
            peer.shutdown(socket.SHUT_WR)
            return peer.recv(64)
        except (ConnectionResetError, BrokenPipeError):  # the connection was cut before the request was complete
            return b""


def test_hostile_peers_harm_neither_process(pathways):
    host, pids = pathways.started["metrics"], {one["name"]: one["pid"] for one in pathways("status")["hosts"]}
    rubbish = [b"", b"\0" * 100, os.urandom(5000), b"GET " + b"/" * 100_000, b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
               b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * 10_000, b"\x16\x03\x01\x02\0\1\0\1\xfc\3\3"]
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        for address in host.values():
            for answer in pool.map(lambda text: abuse(address, text), rubbish * 10):
                assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer
    idle = [socket.create_connection((address.split(":")[0], int(address.split(":")[1]))) for address in host.values() for _ in range(100)]
    for name in host:
        parse(get(pathways, name))  # idle connections do not keep a scraper out
    for one in idle:
        one.close()
    assert {one["name"]: one["pid"] for one in pathways("status")["hosts"]} == pids


def test_the_page_documents_every_metric(pathways):
    shown = set().union(*(names(get(pathways, name)) for name in pathways.started["metrics"]))
    page = (ROOT / "docs/operators.md").read_text()
    documented = set(re.findall(r"^\| `((?:pathways|process)_[a-z0-9_]+)` \|", page, re.M))
    assert documented == shown


def board_queries():
    return [target["expr"] for panel in json.loads(BOARD.read_text())["panels"] for target in panel["targets"]]


def test_the_board_asks_for_metrics_that_exist(pathways):
    shown = set().union(*(names(get(pathways, name)) for name in pathways.started["metrics"]))
    asked = {name for query in board_queries() for name in NAME.findall(query)}
    assert len(asked) > 15 and not asked - shown


def rules():
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def test_the_alerts_ask_for_metrics_that_exist(pathways):
    shown = set().union(*(names(get(pathways, name)) for name in pathways.started["metrics"]))
    asked = {name for rule in rules() for name in NAME.findall(rule["expr"])}
    assert len(rules()) >= 9 and len(asked) > 9 and not asked - shown
    assert all(rule["annotations"]["summary"] and rule["labels"]["severity"] in ("warning", "critical") for rule in rules())


def test_machines_and_certificates_are_told(pathways):
    eventually(lambda: "pathways_host_disk_bytes{" in get(pathways, "controller"))  # the first examination begins to measure
    page = parse(get(pathways, "controller"))
    year = 365 * 86400
    assert 9 * year < page['pathways_certificate_seconds{certificate="authority"}'] < 11 * year
    for host in pathways("status")["hosts"]:
        labels = f'{{island="island0",host="{host["name"]}"}}'
        assert 0 <= page["pathways_host_disk_free_bytes" + labels] < page["pathways_host_disk_bytes" + labels]
        assert abs(page["pathways_host_clock_ahead_seconds" + labels]) < 60 and page["pathways_host_certificate_seconds" + labels] > 86400


def tool(name):
    return shutil.which(name) or (str(DEBIAN / name) if (DEBIAN / name).exists() else None)


@pytest.mark.skipif(tool("promtool") is None, reason="Prometheus is not installed: 'make test-prometheus' does that (19 MB)")
def test_promtool_has_no_complaint(pathways):
    for name in pathways.started["metrics"]:
        done = subprocess.run([tool("promtool"), "check", "metrics"], input=get(pathways, name), capture_output=True, text=True, timeout=PATIENCE)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def example(folder):
    """Returns the configuration in deploy/, with files of `folder` in place of those it names."""
    return yaml.safe_load((ROOT / "deploy/prometheus.yml").read_text().replace("/etc/prometheus/pathways", str(folder)))


def test_the_example_expects_what_the_parts_show(pathways):
    jobs = {job["job_name"]: job for job in example("/x")["scrape_configs"]}
    assert {name: job["tls_config"]["server_name"] for name, job in jobs.items()} == {"pathways-controller": "controller.pathways", "pathways-worker": "worker.pathways"}
    assert all(job["scheme"] == "https" and job["authorization"]["credentials_file"] == "/x/metrics.token" and job["tls_config"]["ca_file"] == "/x/authority.crt"
               for job in jobs.values())


@pytest.mark.skipif(tool("promtool") is None, reason="Prometheus is not installed: 'make test-prometheus' does that (19 MB)")
def test_promtool_understands_the_example(pathways, tmp_path):
    (tmp_path / "metrics.token").write_text(token(pathways))
    (tmp_path / "authority.crt").write_text("")
    (tmp_path / "prometheus.yml").write_text(json.dumps(example(tmp_path)))
    for words in (["config", tmp_path / "prometheus.yml"], ["rules", RULES]):
        done = subprocess.run([tool("promtool"), "check", *words], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(tool("prometheus") is None, reason="Prometheus is not installed: 'make test-prometheus' does that (19 MB)")
def test_a_real_prometheus_scrapes_all_and_answers_the_board(pathways, tmp_path):
    config = tmp_path / "prometheus.yml"  # the cluster's configuration, with short intervals
    config.write_text(json.dumps({"global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
                                  **json.loads(pathlib.Path(pathways.started["logs"], "prometheus.yml").read_text())}))
    with socket.create_server(("127.0.0.1", 0)) as free:
        here = f"127.0.0.1:{free.getsockname()[1]}"
    program = pathways.program(pathways.started["address"], PROGRAM)
    prometheus = subprocess.Popen([tool("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}", f"--web.listen-address={here}"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(query):
        try:
            with urllib.request.urlopen(f"http://{here}/api/v1/query?" + urllib.parse.urlencode({"query": query}), timeout=PATIENCE) as answer:
                answer = json.load(answer)
        except (urllib.error.URLError, ConnectionError):
            assert prometheus.poll() is None
            return []
        assert answer["status"] == "success"
        return answer["data"]["result"]

    try:
        assert program.stdout.readline() == "ready\n"
        assert eventually(lambda: len([one for one in ask("up") if one["value"][1] == "1"]) == 4)
        for query in board_queries():
            assert eventually(lambda: ask(query)), f"no answer to {query}"
    finally:
        end(prometheus, 15)
        program.communicate("\n", timeout=PATIENCE)
