"""Sends a recording of `pathways trace` to a collector of OpenTelemetry, as spans: OTLP over HTTP, in JSON (docs/trace.md).

Each operation is a trace of its own. Its first span lasts from its first event to its last; below it is a span for each event. The operations of one
computation, one on each of its hosts, are one trace. Events of no operation are left out.
"""

import json
import secrets
import urllib.error
import urllib.parse
import urllib.request

from pathways._cluster.admin import StatusError

MOST_SPANS = 2000  # of a request
SECONDS = 30  # for the collector to answer a request
INTERNAL, FAILED = 1, 2  # SPAN_KIND_INTERNAL, STATUS_CODE_ERROR
_NUMBERS = ("op", "gang", "bytes")


def endpoint(url):
    """Returns the address to which spans are sent. A URL without a path is the collector's: spans go to its /v1/traces."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ValueError(f"--otlp wants a URL such as http://127.0.0.1:4318, not {url}")
    return urllib.parse.urljoin(url, "/v1/traces") if parts.path in ("", "/") else url


def _operation_of(events):
    """Returns a function that returns the operation of an event: its computation's number, or its own; None if it has neither."""
    gangs = {event["args"]["op"]: event["args"]["gang"] for event in events if {"op", "gang"} <= event.get("args", {}).keys()}

    def operation(event):
        args = event.get("args", {})
        gang = args.get("gang") or gangs.get(args.get("op"))
        return ("gang", gang) if gang else ("op", args["op"]) if "op" in args else None

    return operation


def _attributes(values):
    return [{"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}} for key, value in values.items()]


def spans_of(recording):
    """Returns {process: [span, ...]} of a recording, as OTLP's JSON writes spans."""
    events, began = recording["traceEvents"], recording["otherData"].get("began_unix_us", 0)  # there is no such time without events
    processes = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M" and event["name"] == "process_name"}
    threads = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["ph"] == "M" and event["name"] == "thread_name"}
    recorded = [event for event in events if event["ph"] in "iX"]
    operation = _operation_of(recorded)
    together = {}
    for event in sorted(recorded, key=lambda event: event["ts"]):
        if (key := operation(event)) is not None:
            together.setdefault(key, []).append(event)

    def span(trace, name, begin, end, **more):
        times = {"startTimeUnixNano": began * 1000 + round(begin * 1000), "endTimeUnixNano": began * 1000 + round(end * 1000)}
        return {"traceId": trace, "spanId": secrets.token_hex(8), "name": name, "kind": INTERNAL, **{key: str(time) for key, time in times.items()}, **more}

    found = {}
    for those in together.values():
        trace = secrets.token_hex(16)
        first = next((event for event in those if event["cat"] == "request"), those[0])
        failed = any(event["cat"] == "end" and event["name"] == "failed" for event in those)
        root = span(trace, first["name"], those[0]["ts"], max(event["ts"] + event.get("dur", 0) for event in those), **({"status": {"code": FAILED}} if failed else {}))
        found.setdefault(processes[first["pid"]], []).append(root)
        for event in those:
            shown = {"event": event["cat"], "track": threads[event["pid"], event["tid"]], **{key: event["args"][key] for key in _NUMBERS if key in event.get("args", {})}}
            found.setdefault(processes[event["pid"]], []).append(
                span(trace, f"{event['cat']} {event['name']}", event["ts"], event["ts"] + event.get("dur", 0), parentSpanId=root["spanId"], attributes=_attributes(shown)))
    return found


def requests_of(spans):
    """Yields the bodies of the requests that carry these spans."""
    for process, those in spans.items():
        resource = {"attributes": _attributes({"service.name": "pathways", "service.instance.id": process})}
        for at in range(0, len(those), MOST_SPANS):
            yield {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "pathways"}, "spans": those[at:at + MOST_SPANS]}]}]}


def _post(url, body):
    """Sends a request. Returns the number of spans that the collector has refused, and why."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            partial = (json.loads(answer.read() or b"{}") or {}).get("partialSuccess") or {}
    except urllib.error.HTTPError as error:
        raise StatusError(f"the collector at {url} has refused the spans: {error.code} {error.reason}") from None
    except (OSError, ValueError) as error:
        raise StatusError(f"no collector of OpenTelemetry answers at {url}: {error}") from None
    return int(partial.get("rejectedSpans", 0)), partial.get("errorMessage", "")


def send(path, url):
    """Sends a recording's file to the collector. Returns {"spans": sent, "refused": of these, "why": the collector's reason}."""
    with open(path) as file:
        spans = spans_of(json.load(file))
    sent = {"spans": sum(map(len, spans.values())), "refused": 0, "why": ""}
    for body in requests_of(spans):
        refused, why = _post(endpoint(url), body)
        sent["refused"] += refused
        sent["why"] = sent["why"] or why
    return sent
