"""Replays the recording of a cluster (`pathways trace`) and verifies that the engine kept its promises. It reads the recorded events only and asks
no process.

    order         every device launched its computations in the order in which the scheduler granted them
    grant         no computation was launched before its grant, and none was granted twice
    completion    every granted computation completed on all its hosts, or was still running when the recording ended
    producers     the producer of an array was granted and launched before the array's readers

Computations submitted before the recording began have no known number, or a smaller one than all that were granted (the leases of loops), and are left
out. A recording with missing events (too many events, hosts
that did not answer) cannot be judged on completion.
"""

import collections
import json

MOST_FINDINGS = 100


class NotATrace(ValueError):
    """The file is not a recording of `pathways trace`."""


class Report:
    def __init__(self):
        self.counts = collections.Counter()
        self.findings = []  # (rule, text)
        self.suppressed = 0
        self.notes = []

    def find(self, rule, text):
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append((rule, text))
        else:
            self.suppressed += 1

    def fields(self):
        return {"ok": not self.findings, "checked": dict(self.counts), "violations": [{"rule": rule, "what": text} for rule, text in self.findings],
                "more_violations": self.suppressed, "notes": self.notes}

    def text(self):
        counts = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        lines = [f"checked {counts}: " + (f"{len(self.findings) + self.suppressed} VIOLATION(S)" if self.findings else "all in order")]
        lines += [f"  {rule}: {text}" for rule, text in self.findings]
        return "\n".join(lines + [f"  note: {note}" for note in self.notes])


class _Run:
    """One launch on one device."""

    def __init__(self, event, process, device):
        args = event["args"]
        self.gang = args.get("gang", 0)
        self.name = event["name"]
        self.begin = event["ts"]
        self.end = event["ts"] + event.get("dur", 0)
        self.needs, self.makes = args.get("needs", []), args.get("makes", [])
        self.process, self.device = process, device

    def __str__(self):
        return f"{self.name} (computation {self.gang}) on {self.device} of {self.process}"


class _Log:
    """The recorded events, sorted by kind."""

    def __init__(self, trace):
        try:
            events, other = trace["traceEvents"], trace.get("otherData", {})
            self.missing = other.get("events_not_recorded", 0)
            self.tolerance = other.get("clock_error_us", 0)
            self.processes = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
            threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
            self.events = [e for e in events if e["ph"] in "iX"]
            self._sort(threads)
        except (KeyError, TypeError, AttributeError) as error:
            raise NotATrace(f"not a recording of 'pathways trace': {error!r}") from None

    def _sort(self, threads):
        self.grants = {}             # gang: (position in the grant order, time)
        self.granted_twice = []
        self.ended = collections.defaultdict(list)  # gang: "done", "failed", "under way"
        self.requests = collections.defaultdict(set)  # gang: ops
        self.ops_run = collections.defaultdict(set)   # gang: ops, or None if a run does not name its op
        self.runs = []
        for event in self.events:
            args = event.get("args", {})
            gang, kind = args.get("gang", 0), event["cat"]
            if kind == "run":
                device = threads[event["pid"], event["tid"]].split(" (")[0]  # overlapping runs of a device have separate trace rows
                self.runs.append(_Run({**event, "args": args}, self.processes[event["pid"]], device))
            elif gang and kind == "request":
                self.requests[gang].add(args["op"])
            elif gang and kind == "grant" and self.processes[event["pid"]] == "controller":
                if gang in self.grants:
                    self.granted_twice.append(gang)
                self.grants.setdefault(gang, (len(self.grants), event["ts"]))
            elif gang and kind == "end":
                self.ended[gang].append(event["name"])


def _check_order(log, report):
    devices = collections.defaultdict(list)
    for run in log.runs:
        if run.gang in log.grants:
            devices[run.process, run.device].append(run)
    for runs in devices.values():
        # Events are in the order in which they were recorded, which may be long after a run ended. Of runs that began together, the one that ended
        # first was first; the sort is stable, so runs without length stay in the order of the recording.
        runs.sort(key=lambda run: (run.begin, run.end))
        for before, after in zip(runs, runs[1:]):
            if log.grants[before.gang][0] > log.grants[after.gang][0]:
                report.find("order", f"{before} was launched before {after}, which was granted before it")
    report.counts["devices"] = len(devices)
    report.counts["launches"] = sum(map(len, devices.values()))


def _check_grants(log, report):
    for gang in log.granted_twice:
        report.find("grant", f"computation {gang} was granted twice")
    first = min(log.grants, default=0)
    for run in log.runs:
        if run.gang in log.grants:
            early = log.grants[run.gang][1] - run.begin
            if early > log.tolerance:
                report.find("grant", f"{run} was launched {early:.1f} us before it was granted")
        elif run.gang > first and not log.missing:
            report.find("grant", f"{run} was launched, but never granted")
    report.counts["grants"] = len(log.grants)


def _check_completion(log, report):
    if log.missing:
        report.notes.append(f"{log.missing} events were not recorded: completion cannot be judged")
        return
    ran = collections.Counter()
    for gang, places in _places(log).items():
        ran[gang] = len(places)
    for gang in log.grants:
        ends = log.ended.get(gang, [])
        if len(ends) != 1:
            report.find("completion", f"computation {gang} was granted and ended {len(ends)} times" if ends else
                        f"computation {gang} was granted, and neither completed nor was it under way at the end")
        elif ends[0] == "done" and ran[gang] < len(log.requests.get(gang, ())) and not log.silent:
            report.find("completion", f"computation {gang} completed, but ran on {ran[gang]} of its {len(log.requests[gang])} hosts")


def _places(log):
    places = collections.defaultdict(set)
    for run in log.runs:
        places[run.gang].add(run.process)
    return places


def _check_producers(log, report):
    makers = collections.defaultdict(list)
    for run in log.runs:
        for array in run.makes:
            makers[array].append(run)
    checked = 0
    for reader in log.runs:
        for array in reader.needs:
            for maker in makers.get(array, ()):
                checked += 1
                # An array may have shards on many hosts; a launch reads those of its own host.
                if maker.process == reader.process and maker.begin > reader.begin:
                    report.find("producers", f"{reader} reads array {array} and was launched before {maker}, which makes it")
                elif maker.gang in log.grants and reader.gang in log.grants and log.grants[maker.gang][0] > log.grants[reader.gang][0]:
                    report.find("producers", f"{reader} reads array {array} and was granted before {maker}, which makes it")
    report.counts["dependencies"] = checked


def check(trace, silent_hosts=()):
    """Returns the Report on a recording, given as json.load returns it."""
    log = _Log(trace)
    log.silent = list(silent_hosts) or trace.get("otherData", {}).get("silent_hosts", [])
    report = Report()
    _check_order(log, report)
    _check_grants(log, report)
    _check_completion(log, report)
    _check_producers(log, report)
    if log.silent:
        report.notes.append(f"hosts that are not in the recording: {', '.join(log.silent)}")
    return report


def check_file(path):
    try:
        with open(path, encoding="utf-8") as file:
            return check(json.load(file))
    except json.JSONDecodeError as error:
        raise NotATrace(f"{path} is not JSON: {error}") from None
