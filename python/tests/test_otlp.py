"""Tests `pathways trace --otlp`: what a collector of OpenTelemetry gets of a recording."""

import http.server
import json
import threading

import pytest

from pathways._cluster.admin import StatusError
from pathways._commands import otlp

BEGAN = 1_800_000_000_000_000  # in the year 2027, in microseconds


def name(process, thread, what, text):
    return {"ph": "M", "pid": process, "tid": thread, "name": what, "args": {"name": text}}


def recording(end="done"):
    """Returns a recording of a computation over two hosts, of a transfer, and of a grant alone."""
    return {"traceEvents": [
        name(1, 0, "process_name", "controller"), name(2, 0, "process_name", "host h0"), name(3, 0, "process_name", "host h1"),
        name(1, 1, "thread_name", "client 1"), name(1, 2, "thread_name", "scheduler"), name(2, 1, "thread_name", "device 0"), name(2, 2, "thread_name", "transfers"),
        name(3, 1, "thread_name", "device 0"),
        {"ph": "i", "pid": 1, "tid": 1, "cat": "request", "name": "f", "ts": 0, "args": {"op": 11, "gang": 1}},
        {"ph": "i", "pid": 1, "tid": 1, "cat": "request", "name": "f", "ts": 0, "args": {"op": 12, "gang": 1}},
        {"ph": "X", "pid": 2, "tid": 1, "cat": "run", "name": "f", "ts": 10.5, "dur": 5, "args": {"op": 11}},
        {"ph": "X", "pid": 3, "tid": 1, "cat": "run", "name": "f", "ts": 10, "dur": 7, "args": {"op": 12}},
        {"ph": "i", "pid": 2, "tid": 2, "cat": "transfer", "name": "put", "ts": 3, "args": {"op": 20, "bytes": 4096}},
        {"ph": "i", "pid": 1, "tid": 2, "cat": "end", "name": end, "ts": 30, "args": {"gang": 1}},
        {"ph": "s", "pid": 1, "tid": 1, "id": 11, "ts": 0, "name": "op"},
        {"ph": "i", "pid": 2, "tid": 2, "cat": "prepare", "name": "alias", "ts": 5}],
        "otherData": {"began_unix_us": BEGAN}}


def by_trace(spans):
    found = {}
    for process, those in spans.items():
        for span in those:
            found.setdefault(span["traceId"], []).append((process, span))
    return sorted(found.values(), key=len)


def test_the_operations_of_a_computation_are_one_trace():
    transfer, computation = by_trace(otlp.spans_of(recording()))
    assert [process for process, _ in transfer] == ["host h0"] * 2
    (root,) = [span for _, span in computation if "parentSpanId" not in span]
    assert root["name"] == "f" and (int(root["startTimeUnixNano"]), int(root["endTimeUnixNano"])) == (BEGAN * 1000, BEGAN * 1000 + 30_000)
    below = [(process, span) for process, span in computation if span is not root]
    assert {span["parentSpanId"] for _, span in below} == {root["spanId"]} and len({span["spanId"] for _, span in computation}) == 6
    assert sorted((process, span["name"]) for process, span in below) == [
        ("controller", "end done"), ("controller", "request f"), ("controller", "request f"), ("host h0", "run f"), ("host h1", "run f")]
    (ran,) = [span for process, span in below if process == "host h0"]
    assert (int(ran["startTimeUnixNano"]) - BEGAN * 1000, int(ran["endTimeUnixNano"]) - BEGAN * 1000) == (10_500, 15_500)
    assert {"key": "track", "value": {"stringValue": "device 0"}} in ran["attributes"] and {"key": "op", "value": {"intValue": "11"}} in ran["attributes"]
    assert "status" not in root


def test_a_computation_that_failed_is_an_error():
    _, computation = by_trace(otlp.spans_of(recording(end="failed")))
    assert [span["status"] for _, span in computation if "status" in span] == [{"code": otlp.FAILED}]


def test_many_spans_are_sent_in_several_requests(monkeypatch):
    monkeypatch.setattr(otlp, "MOST_SPANS", 2)
    spans = otlp.spans_of(recording())
    bodies = list(otlp.requests_of(spans))
    groups = [body["resourceSpans"][0]["scopeSpans"][0]["spans"] for body in bodies]
    assert max(map(len, groups)) == 2 and sum(map(len, groups)) == sum(map(len, spans.values()))
    resource = {attribute["key"]: attribute["value"] for attribute in bodies[0]["resourceSpans"][0]["resource"]["attributes"]}
    assert resource["service.name"] == {"stringValue": "pathways"} and resource["service.instance.id"] == {"stringValue": "controller"}


@pytest.mark.parametrize("url, where", [("http://c:4318", "http://c:4318/v1/traces"), ("https://c/", "https://c/v1/traces"), ("http://c/otlp/v1/traces", "http://c/otlp/v1/traces")])
def test_a_collector_without_a_path_has_the_usual_one(url, where):
    assert otlp.endpoint(url) == where


@pytest.mark.parametrize("url", ["collector:4318", "file:///etc/passwd", "http://"])
def test_what_is_no_address_is_refused(url):
    with pytest.raises(ValueError, match="--otlp wants a URL"):
        otlp.endpoint(url)


@pytest.fixture
def collector():
    """A collector: what it is asked, and its answer."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.server.asked.append((self.path, self.headers["Content-Type"], json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            status, text = self.server.answer
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.asked, server.answer = [], (200, b"{}")
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(recording()))
    return path


def test_a_collector_gets_all_spans(collector, file):
    assert otlp.send(file, collector.url) == {"spans": 8, "refused": 0, "why": ""}
    assert {(path, kind) for path, kind, _ in collector.asked} == {("/v1/traces", "application/json")}
    assert sum(len(body["resourceSpans"][0]["scopeSpans"][0]["spans"]) for _, _, body in collector.asked) == 8


def test_a_collector_that_refuses_some_says_how_many(collector, file):
    collector.answer = (200, b'{"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too old"}}')
    assert otlp.send(file, collector.url) == {"spans": 8, "refused": 2 * len(collector.asked), "why": "too old"}


def test_a_collector_that_fails_is_named(collector, file):
    collector.answer = (503, b"")
    with pytest.raises(StatusError, match="has refused the spans: 503"):
        otlp.send(file, collector.url)
    with pytest.raises(StatusError, match="no collector of OpenTelemetry answers"):
        otlp.send(file, "http://127.0.0.1:9")
