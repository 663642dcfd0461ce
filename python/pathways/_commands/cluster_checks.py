"""The checks of `pathways doctor` that look at a cluster, through the status report of its controller (docs/status.md). Pure."""

from pathways._commands.findings import ERROR, OK, WARNING, Finding
from pathways._commands.status_text import amount

# More commands in flight than this, and than this many times the median of the hosts: the host lags.
LAG_COMMANDS, LAG_FACTOR = 64, 4
FULL_MEMORY = 0.95


def versions(report, ours):
    theirs = report.get("version", "")
    if theirs == ours:
        return [Finding(OK, "versions", "controller", f"{theirs}, as this package")]
    return [Finding(WARNING, "versions", "controller", f"the controller is of release {theirs or 'unknown'}, this package of {ours}",
                    "install the same release of pathways on all machines")]


def formed(report):
    joined, expected = report.get("joined_hosts", 0), report.get("expected_hosts", 0)
    if report.get("state") == "formed" and report.get("hosts"):
        return [Finding(OK, "cluster", "controller", f"formed, {joined} host(s)")]
    if report.get("state") == "formed":
        return [Finding(ERROR, "cluster", "controller", "all hosts are lost: programs are refused", "start workers that join it: pathways worker --join ADDRESS")]
    return [Finding(ERROR, "cluster", "controller", f"waits for hosts: {joined} of {expected} have joined, and programs are refused until then",
                    "start the missing workers (pathways worker --join ADDRESS), and look at their logs (pathways logs)")]


def _median(numbers):
    return sorted(numbers)[len(numbers) // 2] if numbers else 0


def hosts(report):
    """Finds hosts that do not answer, or lag behind the others."""
    found = []
    typical = _median([host.get("ops_in_flight", 0) for host in report.get("hosts", [])])
    for host in report.get("hosts", []):
        found += _host(host, typical)
    return found


def _host(host, typical):
    where = f"host {host['name']}"
    logs = f"look at its log (pathways logs {host['name']}) and its machine; the controller gives it up after --heartbeat-limit"
    if host.get("state") == "silent":
        return [Finding(ERROR, "hosts", where, f"nothing heard from it for {host['seconds_since_heard']:.1f} s: it is stopped, or its network is down", logs)]
    if host.get("state") == "busy":
        since = host.get("health", {}).get("seconds_since", 0)
        return [Finding(ERROR, "hosts", where, f"its connection answers, but its worker has not for {since:.1f} s: a launch or a compilation holds it up", logs)]
    if "metrics" not in host:
        return [Finding(WARNING, "hosts", where, "it did not answer a question within half a second", logs)]
    waiting, commands = host.get("health", {}).get("memory_waits", 0), host.get("ops_in_flight", 0)
    if waiting:
        return [Finding(WARNING, "hosts", where, f"{waiting} command(s) wait for device memory",
                        "see who holds it (pathways status); end a program, or start the cluster with --spill")]
    if commands > LAG_COMMANDS and commands > LAG_FACTOR * (typical + 1):
        return [Finding(WARNING, "hosts", where, f"it lags: {commands} commands are in flight, where hosts have {typical} (median)",
                        "compare its machine's load and clock rate with the others', or move its slices away: pathways drain " + host["name"])]
    return [Finding(OK, "hosts", where, f"answers; {commands} command(s) in flight")]


def memory(report):
    names = {host["id"]: host["name"] for host in report.get("hosts", [])}
    found = []
    for device in report.get("devices", []):
        of = device.get("memory") or {}
        if of.get("limit_bytes", 0) > 0 and of.get("used_bytes", 0) > FULL_MEMORY * of["limit_bytes"]:
            found.append(Finding(WARNING, "device memory", f"device {device['id']} of host {names.get(device['host'], '?')}",
                                 f"nearly full: {amount(of['used_bytes'])} of {amount(of['limit_bytes'])}",
                                 "see who holds it (pathways status --json, used_by_client); end a program, or start the cluster with --spill"))
    if report.get("devices") and not found:
        found.append(Finding(OK, "device memory", "all devices", "none is nearly full"))
    return found


def slices(report):
    found = []
    for one in report.get("slices", []):
        where = f"slice {one['id']} of client {one['client']}"
        if one["state"] == "broken":
            found.append(Finding(ERROR, "slices", where, "one of its hosts is lost", "start a worker in that host's place: pathways worker --join ADDRESS"))
        elif one["state"] == "waiting":
            found.append(Finding(WARNING, "slices", where, f"waits at position {one['position']} for {one['waits_for']}",
                                 "add hosts, or end or suspend a client whose slices are in the way (pathways suspend)"))
    return found


def all_checks(report, ours):
    return [*versions(report, ours), *formed(report), *hosts(report), *memory(report), *slices(report)]
