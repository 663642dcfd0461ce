"""Formats the report of `pathways status` as text. docs/status.md describes the report's fields."""


def amount(count):
    """Formats a number of bytes with a readable unit."""
    count = float(count or 0)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def _memory(device):
    memory = device.get("memory")
    if memory is None:
        return "memory unknown"
    used, limit = memory.get("used_bytes", 0), memory.get("limit_bytes", 0)
    return f"{amount(used)} of {amount(limit)}" if limit > 0 else amount(used)


def _host(host, devices):
    mine = [d for d in devices if d["host"] == host["id"]]
    kinds = ", ".join(sorted({d["kind"] for d in mine})) or "device"
    away = f"   away since {host['seconds_away']:.0f} s ago: its connection is broken" if "seconds_away" in host else ""
    lines = [f"  host {host['name']:<16} {host['state']:<8} {len(mine)} x {kinds}   pid {host['pid']}{away}"]
    return lines + [f"    device {d['id']:<6} {_memory(d)}" for d in mine]


# Up to this many hosts are shown one by one; more are summarized.
SHOWN_HOSTS = 32


def _many(hosts, devices):
    """Summarizes the hosts of one island: a line for each state, with the total memory of their devices."""
    lines = []
    for state in sorted({host["state"] for host in hosts}):
        those = [host for host in hosts if host["state"] == state]
        ids = {host["id"] for host in those}
        mine = [device for device in devices if device["host"] in ids]
        memory = [device["memory"] for device in mine if device.get("memory") is not None]
        together = {key: sum(m.get(key, 0) for m in memory) for key in ("used_bytes", "limit_bytes")} if memory else None
        names = those[0]["name"] + (f" to {those[-1]['name']}" if len(those) > 1 else "")
        kinds = ", ".join(sorted({d["kind"] for d in mine})) or "device"
        lines.append(f"  {len(those)} host{'s'[: len(those) != 1]} {names}   {state}   {len(mine)} x {kinds}   {_memory({'memory': together})}")
    return lines


def _client(client):
    away = f", away since {client['seconds_away']:.0f} s ago: its connection is broken" if "seconds_away" in client else ""
    return (f"  client {client['id']:<6} {client['description']}   {client['arrays']} arrays, {amount(client['array_bytes'])}, "
            f"{client['executables']} programs, connected for {client['seconds_connected']:.0f} s{away}\n"
            f"    weight {client['weight']:g}, priority {client['priority']}; device time {client['device_seconds']:.2f} s, "
            f"{client['completed']} computations done, {client['running']} running, {client['waiting']} waiting")


def _ids(numbers):
    return ",".join(map(str, numbers[:8])) + (",..." if len(numbers) > 8 else "")


def _slice(one):
    what = f"  slice {one['id']:<7} of client {one['client']}   {one['count']} device{'s'[: one['count'] != 1]}{', exclusive' * one['exclusive']}"
    if one["state"] == "waiting":
        return f"{what}   waits at position {one['position']} for {one['waits_for']}"
    broken = "   broken: a host was lost" if one["state"] == "broken" else ""
    return f"{what}   on {_ids(one['devices'])} of island {one['island']}, mapping {one['epoch']}{broken}"


# Of a process on which a computation that hangs may wait, only this many threads are shown.
_MOST_THREADS = 8
# Only this many of the latest events are shown.
SHOWN_EVENTS = 5


def python_lines(hang):
    """Returns, for each Python process on which a computation that hangs may wait, where its threads are in the user's program."""
    found = []
    for stack in hang.get("stacks", []):
        lines = [line.strip() for line in stack["text"].splitlines() if line.startswith("  ") and not line.startswith("   ")]
        if stack["process"] != "the worker":
            found += [f"{stack['process']}: {line}" for line in lines[:_MOST_THREADS]]
    return found


def _hang(hang):
    predicted = f"predicted: {hang['predicted_seconds']:.1f} s" if "predicted_seconds" in hang else "a first run"
    parts = ", ".join(f"{host['name']}: {host['state']}" for host in hang["hosts"])
    where = "".join(f"\n          {line}" for line in python_lines(hang))
    return f"  HANGS   computation {hang['computation']} of client {hang['client']} {hang['program']}   for {hang['seconds']:.1f} s ({predicted})   {parts}{where}"


def render(report, address):
    islands, hosts, devices, clients = (report.get(key, []) for key in ("islands", "hosts", "devices", "clients"))
    lines = [f"controller {address}   {report.get('state', '')}, up for {report.get('uptime_seconds', 0):.0f} s, policy {report.get('policy', '')}",
             f"{len(islands)} island(s), {len(hosts)} host(s), {len(devices)} device(s), {len(clients)} client(s)"]
    if report.get("state") == "forming":
        lines.append(f"waiting for hosts: {report.get('joined_hosts')} of {report.get('expected_hosts')} have joined")
    for island in islands:
        lines.append(f"\nisland {island['name']}")
        here = [host for host in hosts if host["island"] == island["id"]]
        lines += [line for host in here for line in _host(host, devices)] if len(hosts) <= SHOWN_HOSTS else _many(here, devices)
    if clients:
        lines += ["", *map(_client, clients)]
    lines += [f"  waiting client   {one['description']}   {one['why']}" for one in report.get("waiting_clients", ())]
    lines += [f"  waiting command of client {wait['client']} on host {host['name']}, at position {wait['position']}   {wait['why']}"
              for host in hosts for wait in host.get("health", {}).get("quota_waits", ())]
    if slices := report.get("slices"):
        lines += ["", *map(_slice, slices)]
    if hangs := report.get("hangs"):
        lines += ["", *map(_hang, hangs)]
    if events := report.get("events"):
        lines += ["", *(f"  {event['seconds_ago']:7.0f} s ago   {event['kind']}: {event['text']}" for event in events[-SHOWN_EVENTS:])]
    return "\n".join(lines)
