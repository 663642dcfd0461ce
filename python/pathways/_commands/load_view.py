"""Computes the view of `pathways top` from two status reports of one controller (docs/status.md), an earlier and a later one. Pure."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class HostLoad:
    name: str
    island: str
    state: str
    devices: int
    load: float | None      # the share of its devices' time that computations took between the reports; None: unknown
    used_bytes: int
    limit_bytes: int        # 0: no limit
    in_flight: int
    waiting: int            # commands parked on the host
    bytes_per_second: float  # between the controller and the host


@dataclasses.dataclass(frozen=True)
class ClientLoad:
    id: int
    description: str
    weight: float
    priority: int
    entitled: float | None  # its share of device time by its weight, among the clients with work; None: it has no work
    got: float | None       # its share of the device time that all clients got; None: no client got any
    waiting: int
    running: int
    per_second: float       # computations done
    array_bytes: int
    seconds_away: float | None = None  # without a connection


@dataclasses.dataclass(frozen=True)
class View:
    state: str
    policy: str
    uptime_seconds: float
    hosts: list
    clients: list
    queue: int              # computations that are not granted yet
    granted_per_second: float
    hangs: list             # as in the report
    events: list            # as in the report, but the newest first

    def fields(self):
        return dataclasses.asdict(self)


def _by_id(report, kind):
    return {one["id"]: one for one in report.get(kind, [])}


def _rate(now, before, key, seconds):
    """Returns the increase of a counter each second. A counter that is smaller than before has begun again from 0."""
    increase = now.get(key, 0) - before.get(key, 0)
    return (increase if increase >= 0 else now.get(key, 0)) / seconds


def _host(host, before, island, devices, seconds):
    mine = [device for device in devices if device["host"] == host["id"]]
    memory = [device["memory"] for device in mine if device.get("memory")]
    known = "metrics" in host and "metrics" in before
    load = _rate(host["metrics"], before["metrics"], "device_seconds", seconds) / max(1, len(mine)) if known else None
    traffic = _rate(host, before, "bytes_sent", seconds) + _rate(host, before, "bytes_received", seconds) if before else 0.0
    return HostLoad(host["name"], island, host["state"], len(mine), None if load is None else min(load, 1.0),
                    sum(one.get("used_bytes", 0) for one in memory), sum(one.get("limit_bytes", 0) for one in memory),
                    host.get("ops_in_flight", 0), host.get("health", {}).get("commands_parked", 0), traffic)


def _clients(now, before, seconds):
    old = _by_id(before, "clients")
    clients = now.get("clients", [])
    got = {one["id"]: _rate(one, old.get(one["id"], {}), "device_seconds", seconds) for one in clients}
    busy = {one["id"] for one in clients if got[one["id"]] > 0 or one["waiting"] or one["running"]}
    weights, all_time = sum(one["weight"] for one in clients if one["id"] in busy), sum(got.values())
    return [ClientLoad(one["id"], one["description"], one["weight"], one["priority"],
                       one["weight"] / weights if one["id"] in busy and weights > 0 else None, got[one["id"]] / all_time if all_time > 0 else None,
                       one["waiting"], one["running"], _rate(one, old.get(one["id"], {}), "completed", seconds), one["array_bytes"], one.get("seconds_away")) for one in clients]


def compare(now, before):
    """Returns the View of the later report. `before` may be of an earlier controller at the same address: counters then begin anew."""
    same = now.get("pid") == before.get("pid") and now["uptime_seconds"] > before["uptime_seconds"]
    seconds = now["uptime_seconds"] - before["uptime_seconds"] if same else max(now["uptime_seconds"], 1e-3)
    before = before if same else {}
    islands = {island["id"]: island["name"] for island in now.get("islands", [])}
    old = _by_id(before, "hosts")
    hosts = [_host(host, old.get(host["id"], {}), islands.get(host["island"], ""), now.get("devices", []), seconds) for host in now.get("hosts", [])]
    clients = _clients(now, before, seconds)
    return View(now.get("state", ""), now.get("policy", ""), now["uptime_seconds"], hosts, clients, sum(client.waiting for client in clients),
                _rate(now, before, "granted", seconds), now.get("hangs", []), now.get("events", [])[::-1])
