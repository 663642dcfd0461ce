"""`pathways doctor`: checks a cluster and this machine for faults, and names a remedy for each (docs/operators.md)."""

import json
import os

from pathways._cluster import addresses, admin, command_lines, records
from pathways._commands import cluster_checks, findings, machine_checks
from pathways._commands.findings import ERROR, OK, Finding

_ASK_SECONDS = 5.0


def _machine():
    cache = command_lines.compile_cache_folder()
    return [*machine_checks.shared_memory(), *machine_checks.folders(records.home(), cache),
            *machine_checks.compile_cache(cache, command_lines.COMPILE_CACHE_BYTES), *machine_checks.own_file_limit()]


def _processes(state):
    """Checks the processes that `pathways up` has started on this machine."""
    found = []
    for member in state.members if state.engine == "local" else []:
        where = f"{member.name} (pid {member.pid})"
        if not member.alive():
            found.append(Finding(ERROR, "processes", where, f"has ended; its log is {member.log}",
                                 f"read why: pathways logs {member.name}; then start the cluster anew (pathways down, pathways up), or a worker in its place"))
            continue
        found += machine_checks.stopped(member.name, member.pid) or [Finding(OK, "processes", where, "runs")]
        found += machine_checks.process_files(member.name, member.pid)
    return found


def _workers_here(report, known):
    """Checks the cluster's workers on this machine, except the processes with the pids in `known`."""
    found = []
    for host in report.get("hosts", []):
        if host["pid"] not in known and machine_checks.is_worker_here(host["pid"], host["name"]):
            found += machine_checks.stopped(host["name"], host["pid"]) + machine_checks.process_files(host["name"], host["pid"])
    return found


def _cluster(address, known, release):
    try:
        admin.status(address, seconds=_ASK_SECONDS)  # makes the machines measure their disks, which may take a moment
        report = admin.status(address, seconds=_ASK_SECONDS)
    except admin.StatusError as error:
        return [Finding(ERROR, "controller", address, f"does not answer: {error}",
                        "see whether its process runs and can be reached from here; 'pathways up' starts one, 'pathways logs controller' has its log")]
    found = [Finding(OK, "controller", address, f"answers; up for {report.get('uptime_seconds', 0):.0f} s"), *cluster_checks.all_checks(report, release)]
    workers = report.get("workers_address", "")
    if not addresses.is_wildcard(workers.removeprefix("tcp:").rpartition(":")[0]):  # a wildcard names no machine
        found += machine_checks.port("the controller's port for workers", workers, "open it in the firewall, or start the controller with another --listen-workers")
    return found + _workers_here(report, known)


def _recorded(args):
    """Returns (state, findings): the cluster that `up` has recorded, if it runs and no other is named; a finding if it has ended by itself."""
    if args.address or os.environ.get("PATHWAYS_ADDRESS"):
        return None, []
    try:
        return records.load(args.name), []
    except records.NotRunning as error:
        if not (records.folder(args.name) / "state.json").exists():
            return None, [Finding(OK, "cluster", "this machine", "none is up: only this machine was looked at")]
        return None, [Finding(ERROR, "cluster", "this machine", str(error), "read the logs (pathways logs), then start it anew: pathways up")]


def examine(args):
    """Returns all findings. `args.release`: the release of this package."""
    state, found = _recorded(args)
    found = [*_machine(), *found]
    if state is not None:
        found += _processes(state)
    address = args.address or os.environ.get("PATHWAYS_ADDRESS") or (state and state.address)
    if address:
        found += _cluster(address, {member.pid for member in state.members} if state is not None else set(), args.release)
    return found


def doctor(args):
    found = examine(args)
    if args.json:
        print(json.dumps({"worst": findings.worst(found), "findings": [finding.fields() for finding in found]}, indent=2))
    else:
        print(findings.table(found))
    return findings.exit_status(found)
