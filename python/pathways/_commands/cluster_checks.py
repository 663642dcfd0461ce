"""The checks of `pathways doctor` that look at a cluster, through the status report of its controller (docs/status.md). Pure."""

from pathways._commands import status_text
from pathways._commands.findings import ERROR, OK, WARNING, Finding
from pathways._commands.status_text import amount

# A host lags if more than LAG_COMMANDS are in flight there, and more than LAG_FACTOR times the median of the hosts.
LAG_COMMANDS, LAG_FACTOR = 64, 4
FULL_MEMORY = 0.95
CLOCK_SECONDS = 1.0
LITTLE_SHARED_MEMORY = 256 << 20
LITTLE_DISK, LITTLE_DISK_PART = 1 << 30, 0.03
DAY = 86400
# Certificates are renewed every day and are valid for a week or longer; the authority is made for ten years.
LAST_DAYS, LAST_DAYS_OF_AUTHORITY = 4, 90


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
    if host.get("state") == "away":
        return [Finding(ERROR, "hosts", where, f"its connection broke {host['seconds_away']:.1f} s ago, and its process may live: look at the network between it and "
                        "the controller", f"its arrays wait for it; look at its log (pathways logs {host['name']}); the controller gives it up after --host-grace")]
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


def hangs(report):
    """Finds computations that take far longer than was predicted, with the hosts that have not finished."""
    found = []
    for hang in report.get("hangs", []):
        parts = "; ".join(f"host {host['name']}: {host['state']}" for host in hang["hosts"])
        predicted = f"{hang['predicted_seconds']:.1f} s were predicted" if "predicted_seconds" in hang else "it is a first run"
        program = f" ({hang['program']})" if hang.get("program") else ""
        lines = "".join(f". {line}" for line in status_text.python_lines(hang))
        found.append(Finding(ERROR, "hangs", f"computation {hang['computation']} of client {hang['client']}",
                             f"has had its devices for {hang['seconds']:.1f} s, where {predicted}{program}. Not finished: {parts}{lines}",
                             "look at the hosts that have not arrived or launched first; a Python function that the program calls may hang too: 'pathways status "
                             "--json' has the stacks of all threads (hangs, stacks). Ending the client's program frees the devices"))
    return found or [Finding(OK, "hangs", "all computations", "none takes far longer than was predicted")]


def machines(report):
    """Checks each host's report on its machine: its clock, release, open files and shared memory."""
    found = []
    for host in report.get("hosts", []):
        if machine := host.get("machine"):
            found += _machine(f"host {host['name']}", machine, report.get("version", ""))
    return found


def _machine(where, machine, version):
    found = []
    ahead = machine.get("clock_ahead_seconds", 0.0)
    if abs(ahead) > CLOCK_SECONDS:
        found.append(Finding(WARNING, "clocks", where, f"its clock is {abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} the controller's: its logs and "
                             "saved files have other times, and certificates may seem not valid", "synchronize the machines' clocks: chrony, or timedatectl set-ntp true"))
    if machine.get("release", version) != version:
        found.append(Finding(WARNING, "versions", where, f"its worker is of release {machine['release']}, the controller of {version}",
                             "install the same release of pathways on all machines"))
    used, limit = machine.get("files_open", 0), machine.get("files_limit", 0)
    if limit and used > 0.7 * limit:
        found.append(Finding(ERROR if used > 0.9 * limit else WARNING, "open files", where, f"its worker has {used} of at most {limit} files open",
                             "raise the limit before the worker is started: ulimit -n 65536, or LimitNOFILE= of its service"))
    found += _disk(where, machine) + _certificate(where, machine.get("certificate_seconds"), LAST_DAYS)
    free, total = machine.get("shared_memory_free_bytes", 0), machine.get("shared_memory_total_bytes", 0)
    if total and free < LITTLE_SHARED_MEMORY:
        found.append(Finding(ERROR if free < LITTLE_SHARED_MEMORY / 10 else WARNING, "shared memory", where, f"{amount(free)} of {amount(total)} are free in its /dev/shm",
                             "end programs that hold large arrays, remove files that nobody uses, or make it larger: mount -o remount,size=... /dev/shm"))
    return found or [Finding(OK, "machines", where, f"clock within {CLOCK_SECONDS:g} s, {used} of {limit} files open, {amount(free)} of shared memory free")]


def _disk(where, machine):
    free, total = machine.get("disk_free_bytes", 0), machine.get("disk_total_bytes", 0)
    if not total or (free >= LITTLE_DISK and free >= total * LITTLE_DISK_PART):
        return []
    return [Finding(ERROR if free < LITTLE_DISK / 10 else WARNING, "disk", where, f"{amount(free)} of {amount(total)} are free where {machine.get('disk') or '?'} is: logs, "
                    "compiled programs and files of clients", "free some space there; PATHWAYS_COMPILE_CACHE and PATHWAYS_HOME choose other folders")]


def _certificate(where, seconds, last_days):
    """Finds a certificate that ends within `last_days`. `seconds`: until its end; None: there is none."""
    if seconds is None or seconds > last_days * DAY:
        return []
    ends = f"ends in {seconds / DAY:.1f} days" if seconds > 0 else f"has ended {-seconds / DAY:.1f} days ago"
    remedy = {"authority": "make the cluster a new identity (remove its folder in ~/.pathways/identities, and start it anew): all tokens and hosts need new ones",
              "page": "renew the files of --page-certificate; the controller's log says why it does not read them, or why it has not made one"}
    return [Finding(ERROR if seconds <= 0 else WARNING, "certificates", where, f"its certificate {ends}, though it is renewed every day",
                    remedy.get(where, "look at the log of the controller and of the host: a clock may be wrong; starting them anew makes new ones"))]


def controller_machine(report):
    """Checks the controller's own machine and its certificates."""
    found = []
    if machine := report.get("machine"):
        found += _disk("controller", machine)
    certificates = report.get("certificates", {})
    for name, seconds in sorted(certificates.items()):
        found += _certificate(name, seconds, LAST_DAYS_OF_AUTHORITY if name == "authority" else LAST_DAYS)
    if certificates and not any(finding.check == "certificates" for finding in found):
        soonest = min(certificates, key=certificates.get)
        found.append(Finding(OK, "certificates", "controller", f"the first to end is that of the {soonest}, in {certificates[soonest] / DAY:.1f} days"))
    return found


def all_checks(report, ours):
    return [*versions(report, ours), *formed(report), *hangs(report), *hosts(report), *machines(report), *controller_machine(report), *memory(report), *slices(report)]
