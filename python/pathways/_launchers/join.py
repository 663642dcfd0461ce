"""`pathways worker --join ADDRESS` and `pathways agent`: run one worker or agent in the foreground, for a controller on any machine."""

import json
import os
import pathlib
import socket
import sys
import time

from pathways._cluster import addresses, admin, command_lines, credentials, local, records
from pathways._commands import cluster_commands

_PAUSE_SECONDS = 0.2


def _controller(args):
    """Returns the address given, or that of the cluster on this machine."""
    address = args.join or os.environ.get("PATHWAYS_ADDRESS")
    if address is None:
        return records.load(args.name).address
    if not address.startswith(("tcp:", "unix:")):
        addresses.split(address, "--join")
    return address


def _find(address, seconds, access):
    """Returns the status report of the controller at `address`; retries for `seconds` while it does not answer."""
    deadline = time.monotonic() + seconds
    said = False
    while True:
        try:
            return admin.status(address, seconds=10, at_workers=address.startswith(("tcp:", "unix:")), access=access)
        except admin.StatusError as error:
            if time.monotonic() >= deadline:
                raise admin.StatusError(
                    f"no controller to join at {address}: {error}\n  There, 'pathways up --no-workers --listen HOST:PORT' starts one; --join wants the "
                    "address that it prints. --wait S goes on trying for S seconds.") from None
        if not said:
            print(f"pathways worker: no controller at {address} yet; trying for {seconds:g} s", file=sys.stderr, flush=True)
            said = True
        time.sleep(_PAUSE_SECONDS)


def workers_address(address, report):
    """Returns the address at which workers join, as this machine reaches it: a wildcard becomes the host name in `address`. Raises ValueError if it is a
    Unix socket of another machine."""
    workers = report.get("workers_address", "")
    if workers.startswith("unix:"):
        path = workers.removeprefix("unix:")
        if not path.startswith("@") and not pathlib.Path(path).exists():
            raise ValueError(f"the controller at {address} takes workers of its own machine only ({workers}): start it with "
                             "--listen HOST:PORT of an address that other machines reach")
        return workers
    asked = address.removeprefix("tcp:").rpartition(":")[0] if not address.startswith("unix:") else "127.0.0.1"
    return addresses.reachable(workers, asked)


def _join_access(asked, where, token_file):
    """Returns the flags with which the worker joins at `where`: none for a Unix socket, else those for the address `asked`, or for `where`."""
    return [] if where.startswith("unix:") else credentials.flags(asked, token_file) or credentials.flags(where, token_file)


def host_name(wanted, report):
    """Returns a host name that is unique in the cluster: two workers of one machine would share the machine's name."""
    if wanted:
        return wanted
    taken = {host["name"] for host in report.get("hosts", [])}
    name = base = socket.gethostname()
    number = 2
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    return name


def worker(args):
    if args.devices is not None and not 1 <= args.devices <= 1024:
        raise ValueError(f"--devices wants 1 to 1024, not {args.devices}")
    if args.island_hosts < 1:
        raise ValueError(f"--island-hosts wants at least 1, not {args.island_hosts}")
    address = _controller(args)
    report = _find(address, args.wait, credentials.flags(address, args.token_file))
    where = workers_address(address, report)
    platform = args.platform or report.get("platform") or command_lines.default_platform()
    host = host_name(args.host, report)
    command = command_lines.worker(where, host, args.island, platform, args.devices or local.default_shape().devices, advertise=args.advertise,
                                   checksum=args.checksum, memory_limit=args.memory_limit, listen_lanes=args.listen_lanes,
                                   host_python=cluster_commands.host_python(args), access=_join_access(address, where, args.token_file),
                                   device_options=args.device_options, island_hosts=args.island_hosts)
    if args.listen or not addresses.listens_here(report["workers_address"]):  # hosts may be on other machines
        command += ["--listen", args.listen or "0.0.0.0:0"]
    command += _metrics(args)
    if args.once:
        command.append("--exit-with-controller")
    command = [str(word) for word in command]
    if args.json:
        print(json.dumps({"event": "joining", "controller": address, "workers_address": where, "host": host, "island": args.island,
                          "platform": platform, "pid": os.getpid()}), flush=True)
    else:
        print(f"Host '{host}' joins island '{args.island}' of the cluster at {address} (through {where}); Ctrl-C leaves it.\n"
              f"  see it          pathways status --address {address}", flush=True)
    os.execv(command[0], command)  # the worker takes over this process: its output, signals and exit status


def _metrics(args):
    """Returns the flags for the process's metrics."""
    if args.metrics_port is not None and args.metrics_token_file is None:
        raise ValueError("--metrics-port needs --metrics-token-file, because every user of this machine reaches the port")
    if args.metrics_port is None:
        return []
    host, port = addresses.local_by_default(args.metrics_port, "--metrics-port")
    return command_lines.metrics(port, args.metrics_token_file, host=host)


def agent(args):
    address = records.address_of(args)
    addresses.split(args.listen, "--listen")
    access = credentials.flags(address, args.token_file)
    _find(address, args.wait, access)
    command = [str(word) for word in [*command_lines.agent(address, args.listen, args.port_file, access=access), *_metrics(args)]]
    fields = {"event": "starting", "controller": address, "listen": args.listen, "pid": os.getpid()}
    print(json.dumps(fields) if args.json else f"The agent of the cluster at {address}; Ctrl-C ends it, and the sessions of its programs.", flush=True)
    os.execv(command[0], command)  # the agent takes over this process: its output, signals and exit status
