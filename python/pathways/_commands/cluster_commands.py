"""Implements the commands that use a cluster: run, status, share, drain, suspend, resume, trace, check and logs. Each takes the parsed arguments and
returns the exit status."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

from pathways._client import shares
from pathways._cluster import admin, command_lines, local, records, run_folders
from pathways._cluster.shape import Shape
from pathways._commands import check_trace, otlp, status_text


def shape_of(args):
    base = local.default_shape()
    return Shape(args.islands or base.islands, args.hosts or base.hosts, args.devices or base.devices).checked()


def host_python(args):
    return command_lines.HostPython(args.host_python, args.python_user, args.python_memory, args.python_processes, args.python_seconds)


def say(args, fields, text):
    print(json.dumps(fields) if args.json else text, flush=True)


def _program(args):
    words = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not words:
        raise ValueError("nothing to run: pathways run -- python train.py")
    return words


def run(args):
    words = _program(args)
    if args.address:
        return _run_on(args, words, args.address)
    if not (args.islands or args.hosts or args.devices or args.platform):
        try:
            return _run_on(args, words, records.load(args.name).address)
        except records.NotRunning:
            pass  # start a cluster for this program alone
    folder = run_folders.new_run_folder()
    cluster = local.Cluster(shape_of(args), folder, args.platform).start()
    try:
        code = _run_on(args, words, cluster.address)
        failure = cluster.failure()
    finally:
        cluster.stop()
    if failure is not None:
        print(f"pathways run: {failure}", file=sys.stderr)
        return code or 1
    shutil.rmtree(folder, ignore_errors=True)
    return code


def _run_on(args, words, address):
    env = dict(os.environ, PATHWAYS_ADDRESS=address)
    if "pathways" not in env.get("JAX_PLATFORMS", "").split(","):
        env["JAX_PLATFORMS"] = "pathways"
    if args.json:
        print(json.dumps({"event": "start", "address": address, "command": words}), file=sys.stderr, flush=True)
    try:
        child = subprocess.Popen(words, env=env)
    except OSError as error:
        raise ValueError(f"cannot run '{words[0]}': {error.strerror}") from None
    # The terminal sends Ctrl-C to the program as well, so ignore it here. Pass a SIGTERM on.
    old_int = signal.signal(signal.SIGINT, signal.SIG_IGN)
    old_term = signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    try:
        code = child.wait()
    finally:
        signal.signal(signal.SIGINT, old_int)
        signal.signal(signal.SIGTERM, old_term)
    if args.json:
        print(json.dumps({"event": "end", "status": code}), file=sys.stderr, flush=True)
    return code if code >= 0 else 128 - code


def status(args):
    address = records.address_of(args)
    report = admin.status(address)
    print(json.dumps(report, indent=2) if args.json else status_text.render(report, address))
    return 0


def share(args):
    address = records.address_of(args)
    change = shares.checked(args.weight, args.priority, "--{}")
    if not change:
        raise ValueError("nothing to change: give --weight, --priority or both")
    now = admin.share(address, args.client, **change)
    say(args, now, f"client {now['client']}: weight {now['weight']:g}, priority {now['priority']}")
    return 0


def drain(args):
    address = records.address_of(args)
    report = admin.drain(address, args.host, args.undo, args.timeout)
    if args.undo:
        lines = [f"host {args.host} takes slices again"]
    else:
        lines = [f"host {args.host} takes no more slices; {len(report['moved'])} moved"]
        lines += [f"slice {one['slice']} stays: {one['why']}" for one in report["stuck"]]
    say(args, report, "\n".join(lines))
    return 1 if report["stuck"] else 0


def _step(args, resume):
    address = records.address_of(args)
    report = admin.suspend(address, args.client, resume, args.timeout)
    what = f"{report['arrays']} array(s), {status_text.amount(report['bytes'])},"
    say(args, report, f"client {args.client} goes on: {what} on devices" if resume else f"client {args.client} waits: {what} in host memory")
    return 0


def suspend(args):
    return _step(args, False)


def resume(args):
    return _step(args, True)


def trace(args):
    address = records.address_of(args)
    if not 0 < args.seconds <= 600:
        raise ValueError(f"--seconds wants more than 0 and at most 600, not {args.seconds:g}")
    if args.otlp:
        otlp.endpoint(args.otlp)
    if not args.json:
        print(f"recording {address} for {args.seconds:g} s ...", file=sys.stderr)
    summary = admin.trace(address, args.seconds, os.path.abspath(args.output))
    lines = [f"{summary['events']} events in {args.output}: open it at https://ui.perfetto.dev"]
    if summary["events_not_recorded"]:
        lines.append(f"{summary['events_not_recorded']} events came after the limit and are missing: record a shorter time")
    if summary["silent_hosts"]:
        lines.append(f"these hosts did not answer, so their events are missing: {', '.join(summary['silent_hosts'])}")
    report = check_trace.check_file(args.output) if args.check else None
    if report is not None:
        summary["check"] = report.fields()
        lines.append(report.text())
    if args.otlp:
        sent = summary["otlp"] = otlp.send(args.output, args.otlp)
        lines.append(f"{sent['spans']} spans sent to {otlp.endpoint(args.otlp)}" + (f", which refused {sent['refused']} of them: {sent['why']}" if sent["refused"] else ""))
    say(args, summary, "\n".join(lines))
    return 1 if report is not None and report.findings else 0


def check(args):
    report = check_trace.check_file(args.trace)
    say(args, report.fields(), report.text())
    return 1 if report.findings else 0


def logs(args):
    folder = records.folder(args.name)
    records.fetch_logs(args.name, args.lines)
    available = {path.stem: path for path in sorted(folder.glob("*.log"))}
    if not available:
        raise records.NotRunning(f"cluster '{args.name}' has no logs in {folder}: has it been started with 'pathways up'?")
    unknown = [name for name in args.process if name not in available]
    if unknown:
        raise ValueError(f"no log of '{unknown[0]}': there are {', '.join(available)}")
    chosen = {name: available[name] for name in (args.process or available)}
    lines = {name: path.read_text(errors="replace").splitlines()[-args.lines:] if args.lines > 0 else [] for name, path in chosen.items()}
    if args.json:
        print(json.dumps({name: {"path": str(chosen[name]), "lines": text} for name, text in lines.items()}))
    else:
        for name, text in lines.items():
            for line in text:
                print(f"{name:<12} | {line}")
    return _follow(chosen) if args.follow else 0


def _follow(paths):
    files = {name: open(path, errors="replace") for name, path in paths.items()}
    for file in files.values():
        file.seek(0, os.SEEK_END)
    while True:
        for name, file in files.items():
            for line in file:
                print(f"{name:<12} | {line.rstrip()}", flush=True)
        time.sleep(0.2)
