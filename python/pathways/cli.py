"""The command line: pathways up | worker | agent | run | status | top | page | doctor | usage | share | drain | suspend | resume | trace | check | profile | token |
quota | login | bench | down | logs. Also `python -m pathways`."""

import argparse
import json
import os
import subprocess
import sys

from pathways import __version__
from pathways._cluster import binaries, command_lines, processes, records
from pathways._cluster.admin import StatusError
from pathways._commands import bench_paper, cluster_commands, doctor, page, profile, quotas, sizes, tokens, top, usage
from pathways._launchers import join
from pathways._launchers import up as launchers

EXIT_FAILED, EXIT_USAGE, EXIT_NOT_RUNNING = 1, 2, 3


def _add_shape(parser, needed_for):
    group = parser.add_argument_group("shape of the cluster" + needed_for)
    group.add_argument("--islands", type=int, metavar="N", help="islands: groups of hosts with a fast interconnect (default 1)")
    group.add_argument("--hosts", type=int, metavar="N", help="hosts in each island, one worker process each (default 1)")
    group.add_argument("--devices", type=int, metavar="N", help="devices of each host (default 4)")
    group.add_argument("--platform", metavar="NAME", help="cpu, cuda, or the path of a PJRT plugin (default cpu, or PATHWAYS_PLATFORM)")


def _add_token(command, whose):
    command.add_argument("--token-file", metavar="PATH", type=_file,
                         help=f"the token file of {whose}, from 'pathways token create' (default: PATHWAYS_TOKEN_FILE, or what 'pathways login' stored, or that "
                              "of a cluster that this user has up on this machine)")


def _file(path):
    if not os.access(path, os.R_OK):
        raise argparse.ArgumentTypeError(f"cannot read {path}")
    return path


def _steps_of(command):
    """Returns a function that adds a step to a command that has several, such as 'token create'."""
    steps = command.add_subparsers(dest="step", metavar="STEP", required=True)

    def add(name, function, help):
        step = steps.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
        step.add_argument("--json", action="store_true", help="print the answer as JSON")
        step.add_argument("--name", default="default", metavar="NAME", help="name of the cluster, if this machine has several (default: default)")
        step.add_argument("--address", metavar="HOST:PORT", help="the cluster whose controller listens there")
        step.set_defaults(function=function)
        return step

    return add


def _add_quotas(add):
    step = _steps_of(add("quota", None, "limit what users may have of a cluster: sessions, devices, device time a day, memory, Python processes, weight, priority"))
    change = step("set", quotas.change, "set limits of a user, and keep the other limits; an operator's command")
    change.add_argument("--user", required=True, metavar="NAME", help="the user with these limits; '*': all users without a limit of their own")
    change.add_argument("--sessions", metavar="N|none", help="how many sessions at a time; one more waits until another ends")
    change.add_argument("--device-seconds", metavar="S|none", help="device time a day (UTC), summed over devices; then computations are refused")
    change.add_argument("--weight", metavar="W|none", help="the largest weight of a session ('pathways share')")
    change.add_argument("--priority", metavar="P|none", help="the largest priority of a session")
    change.add_argument("--devices", metavar="N|none", help="how many devices at a time, by slices and without them; a slice beyond that waits, other uses are refused")
    change.add_argument("--device-memory", metavar="BYTES|none", type=sizes.bytes_or_none, help="memory of arrays on each device; work beyond that waits, or fails if nothing will be freed")
    change.add_argument("--host-memory", metavar="BYTES|none", type=sizes.bytes_or_none, help="host memory of arrays on their way from programs, or to them, on each host; more wait")
    change.add_argument("--host-processes", metavar="N|none", help="Python processes for functions on each host; each program that calls such functions has one")
    change.add_argument("--remove", action="store_true", help="remove all limits of the user that are not given")
    step("list", quotas.list_all, "show the limits and what is used of them; without an operator's token, one's own")


def _add_tokens(add):
    step = _steps_of(add("token", None, "make, list and revoke the tokens with which users, operators and workers enter a cluster; an operator's command"))
    create = step("create", tokens.create, "make a token, and print its token file: 'pathways login' stores it for its owner")
    create.add_argument("--user", required=True, metavar="NAME", help="the user whose token it is: letters, digits, and any of . _ @ -")
    create.add_argument("--role", choices=("user", "operator", "worker"), default="user",
                        help="user: has sessions, and sees and touches its own (the default); operator: may do everything; worker: may join as a host")
    create.add_argument("--expires", default="30d", metavar="TIME", help="how long it is valid, such as 12h or 30d; never: until it is revoked (default 30d)")
    create.add_argument("--uses", type=int, default=0, metavar="N", help="of a worker's token: how many hosts may join with it (default: any number)")
    create.add_argument("-o", "--output", metavar="PATH", help="write the token file there, with mode 0600, instead of printing it")
    step("list", tokens.list_all, "show the tokens that are valid, without their secrets")
    revoke = step("revoke", tokens.revoke, "revoke a token, and end the sessions that were opened with it, at once")
    revoke.add_argument("id", metavar="ID", help="as 'pathways token list' shows it")

    login = add("login", tokens.login, "store the token file of a cluster where this user's programs find it; reads it from standard input")
    login.add_argument("address", metavar="HOST:PORT", help="where this machine reaches the controller")
    login.add_argument("--token-file", metavar="PATH", type=_file, help="read the token file from there")
    login.add_argument("--token-from", metavar="PATH", type=_file,
                       help="the file of mode 0600 in which another program keeps this user's token of an identity provider; the cluster's authority comes from "
                            "--authority")
    login.add_argument("--authority", metavar="sha256:...", help="of --token-from: the line 'authority' of any of the cluster's token files")


def _add_oidc(up):
    group = up.add_argument_group("tokens of an identity provider (OpenID Connect), beside the cluster's own; docs/security.md")
    group.add_argument("--oidc-issuer", metavar="URL", help="admit users by the tokens of this provider; exactly as the tokens name it ('iss')")
    group.add_argument("--oidc-audience", metavar="NAME", help="what the tokens for this cluster are for ('aud')")
    group.add_argument("--oidc-user-claim", metavar="CLAIM", help="the field of a token with the user's name (default sub)")
    group.add_argument("--oidc-operators", metavar="CLAIM=VALUE", help="users whose field CLAIM is VALUE, or has it in its list, are operators (default: none)")
    group.add_argument("--oidc-keys", metavar="URL|PATH", help="the provider's key set, JWKS (default: where the provider says that it is)")
    group.add_argument("--oidc-ca", metavar="PATH", help="the authorities that certify the provider's server, in PEM (default: the system's)")


def _add_metrics(command, whose, secure):
    command.add_argument("--metrics-port", metavar="[HOST:]PORT",
                         help=f"show {whose}'s metrics to Prometheus, at http://127.0.0.1:PORT/metrics; 0: a free port (default: no metrics)"
                              + (". With an address that other machines reach: https://HOST:PORT/metrics, with this host's certificate" if secure else ""))
    command.add_argument("--metrics-token-file", metavar="PATH", help="of --metrics-port: a file with the secret that readers show ('openssl rand -hex 32' makes one)")


def _add_worker(worker):
    worker.add_argument("--join", metavar="ADDRESS",
                        help="the controller: where its clients connect, HOST:PORT, or where its workers do, tcp:HOST:PORT or unix:PATH (default: "
                             "PATHWAYS_ADDRESS, or the cluster that is up on this machine)")
    worker.add_argument("--island", default="island0", metavar="NAME", help="hosts that name the same island share a fast interconnect (default island0)")
    worker.add_argument("--island-hosts", type=int, default=1, metavar="N",
                        help="the number of hosts of the island, which find each other before any of them joins, and stay together: platforms other than "
                             "cpu need that for computations over several hosts. All workers of the island must say the same (default 1: each host is by "
                             "itself, and CPU hosts may come and go)")
    worker.add_argument("--host", metavar="NAME", help="a name for this host (default: its network name, with a number if another host has that name)")
    worker.add_argument("--devices", type=int, metavar="N", help="number of CPU devices (default 4); other platforms use the devices that the host has")
    worker.add_argument("--platform", metavar="NAME", help="cpu, cuda, or the path of a PJRT plugin (default: the cluster's)")
    worker.add_argument("--listen", metavar="ADDRESS", help="where other workers connect (default: a free port, or a Unix socket within a machine)")
    worker.add_argument("--listen-lanes", metavar="ADDRESS",
                        help="where programs bring and fetch the bytes of arrays (default: a free port, or a Unix socket within a machine)")
    worker.add_argument("--advertise", metavar="NAME", help="this machine's name or address for other machines (default: its network name)")
    worker.add_argument("--checksum", action="store_true", help="protect what this host sends to others by checksums (CRC-32C)")
    worker.add_argument("--memory-limit", type=sizes.bytes_of, metavar="BYTES", help="memory for arrays on each device, such as 16GB (default: all of the device's)")
    _add_device_options(worker)
    _add_metrics(worker, "this host", secure=True)
    _add_host_python(worker)
    worker.add_argument("--wait", type=float, default=30, metavar="S", help="how long to wait for the controller to listen (default 30)")
    _add_token(worker, "a worker")
    worker.add_argument("--once", action="store_true", help="end when the controller is lost and no other one has come to its address within its --controller-grace, instead of waiting for one")


def _add_device_options(command):
    command.add_argument("--device-options", nargs="+", default=[], metavar="NAME=VALUE",
                         help="options with which the device plugin is created, such as memory_fraction=0.5; 'help' lists those of --platform, and ends")


def _add_host_python(command):
    command.add_argument("--host-python", nargs="?", const=sys.executable, metavar="PATH",
                         help="let programs run Python functions on the hosts (jax.experimental.colocated_python), as the workers' user, with this "
                              "interpreter (default: that of this command); without it and --python-user they are refused")
    command.add_argument("--python-user", metavar="NAME", help="the same, but as this user, who must be able to read the interpreter; needs root")
    command.add_argument("--python-memory", type=sizes.bytes_of, metavar="BYTES", help="the most private memory of each process that runs such functions")
    command.add_argument("--python-seconds", type=float, metavar="SECONDS",
                         help="the most time of a call of such a function; if it is over, the call fails and its process is ended")
    command.add_argument("--python-processes", type=int, metavar="N", help="the most processes and threads of --python-user, on each host")


def _add_k8s(up):
    up.set_defaults(default_image=f"pathways:{__version__}")
    group = up.add_argument_group("with --on k8s")
    group.add_argument("--image", metavar="IMAGE", help="the container image, built from deploy/Dockerfile (default: pathways with the tag of this release)")
    group.add_argument("--namespace", metavar="NAME", help="the namespace of all objects (default: that of the kubectl that applies them)")
    group.add_argument("--jobset", action="store_true", help="a JobSet instead of StatefulSets, for schedulers that start all of its pods together, such as Kueue")
    group.add_argument("--apply", action="store_true",
                       help="apply the objects by kubectl, and the Secrets with the cluster's authority and tokens, instead of printing the objects")


def parser():
    parser = argparse.ArgumentParser(
        prog="pathways", description="Clusters of accelerators for stock JAX, driven by one controller.",
        epilog="A program finds the cluster through two variables: JAX_PLATFORMS=pathways and PATHWAYS_ADDRESS=HOST:PORT. Without "
               "the second it starts a local cluster of its own, of the shape PATHWAYS_LOCAL=ISLANDSxHOSTSxDEVICES.")
    parser.add_argument("--version", action="version", version=f"pathways {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def add(name, function, help, **kwargs):
        command = commands.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".", **kwargs)
        command.add_argument("--json", action="store_true", help="print the answer as JSON")
        command.add_argument("--name", default="default", metavar="NAME", help="name of the cluster, if this machine has several (default: default)")
        command.set_defaults(function=function)
        return command

    up = add("up", launchers.up, "start a cluster, on this machine or on an engine that has more")
    _add_shape(up, "")
    up.add_argument("--on", choices=("local", "slurm", "ray", "k8s"), default="local",
                    help="where its hosts come from: this machine (the default); Slurm: a step of the job that we are in, or a job of its own; "
                         "Ray: actors on the cluster that RAY_ADDRESS names; k8s: prints the objects that Kubernetes then runs")
    _add_k8s(up)
    up.add_argument("--simulated", metavar="SHAPE",
                    help="simulated hosts, HOSTSxDEVICES or ISLANDSxHOSTSxDEVICES, such as 512x4: the controller is real, programs are compiled for their "
                         "shapes, results are zeros")
    up.add_argument("--simulated-device", metavar="KIND",
                    help="how long its computations take and how much memory it has: tpu-v3 (a core of one; the default), instant, or "
                         "OPERATIONS/S:BYTES/S:BYTES such as 275e12:1.2e12:32e9, and :SECONDS:BYTES/S of the network between islands")
    up.add_argument("--gres", metavar="NAME:N", help="with --on slurm: the devices of each node, such as gpu:8")
    up.add_argument("--option", action="append", metavar="OPTION",
                    help="with --on slurm: an option for sbatch (in a job: for srun), as in --option=--time=60; with --on ray and --on k8s: a resource of "
                         "each host, as in --option=TPU=4 and --option=memory=64Gi")
    up.add_argument("--wait", type=float, default=3600, metavar="S", help="with --on: how long to wait for nodes that are in use (default 3600)")
    up.add_argument("--listen", metavar="HOST:PORT",
                    help="where clients connect, the address for PATHWAYS_ADDRESS (default: a free port of 127.0.0.1); 0.0.0.0:PORT takes those of other "
                         "machines, and workers too")
    up.add_argument("--listen-workers", metavar="ADDRESS",
                    help="where workers join, HOST:PORT or unix:PATH (default: a Unix socket, or a free port where --listen is open to others)")
    up.add_argument("--listen-proxy", metavar="HOST:PORT",
                    help="where programs without this package connect, as JAX_PLATFORMS=proxy JAX_BACKEND_TARGET=grpc://HOST:PORT; an agent serves them, "
                         "without tokens or encryption (default: a free port of 127.0.0.1; none: no agent)")
    up.add_argument("--advertise", metavar="NAME", help="this machine's name or address for other machines (default: its network name)")
    up.add_argument("--no-workers", action="store_true",
                    help="start only the controller; it serves programs once all hosts of the shape have joined by 'pathways worker --join'")
    up.add_argument("--policy", choices=("fifo", "share", "priority"),
                    help="whose computation goes next: first come; device time in proportion to the clients' weights, all equal unless they say "
                         "otherwise (the default); or their priorities")
    up.add_argument("--checksum", action="store_true", help="protect transfers between hosts by checksums (CRC-32C)")
    up.add_argument("--memory-limit", type=sizes.bytes_of, metavar="BYTES", help="memory for arrays on each device, such as 16GB (default: all of the device's)")
    _add_device_options(up)
    _add_host_python(up)
    up.add_argument("--spill", action="store_true",
                    help="when a device's memory is full, move arrays that no computation uses to host memory, and back for the computation that reads them")
    up.add_argument("--dispatch", choices=("parallel", "sequential"),
                    help="programs of many nodes: all of them to the hosts at once (the default), or node by node, each when the one before it is enqueued, "
                         "to compare")
    up.add_argument("--tls", choices=("on", "off"), default="on",
                    help="off: nothing is encrypted, and any process that reaches an address of the cluster may do anything there (default on)")
    _add_oidc(up)
    up.add_argument("--hang-limit", type=float, metavar="S",
                    help="report a computation as hanging that takes ten times its predicted time and longer than S seconds (default 10); a program's first run "
                         "after six times as long")
    up.add_argument("--on-hang", choices=("report", "end"),
                    help="end: when a computation hangs, its program gets an exception that says where, and its session ends; report: it is reported only (the "
                         "default)")
    up.add_argument("--client-grace", type=float, metavar="S",
                    help="how long a program whose connection to the controller is broken may stay away: its arrays wait for S seconds (default 600); 0: "
                         "they are freed at once")
    up.add_argument("--host-grace", type=float, metavar="S",
                    help="how long a host whose connection to the controller is broken may not be heard of: its arrays wait for S seconds (default 10); 0: "
                         "they are lost with the connection")
    up.add_argument("--controller-grace", type=float, metavar="S",
                    help="how long the hosts keep their programs and arrays after the end of the controller, and wait for another one at its address "
                         "(default 60); 0: they free them at once")
    up.add_argument("--no-restart", action="store_true",
                    help="do not start the controller again when its process fails; by default programs go on with the next one, at the same address")
    up.add_argument("--metrics-port", metavar="[HOST:]PORT",
                    help="show metrics to Prometheus, the controller's at http://127.0.0.1:PORT/metrics and those of the workers and the agent on the next "
                         "ports; 0: free ports (default: no metrics). With an address that other machines reach: by HTTPS, but those of the agent on 127.0.0.1")
    up.add_argument("--page", nargs="?", const="0", metavar="[HOST:]PORT",
                    help="show a page for operators in a browser, on this port of 127.0.0.1 (default: a free one) or on this address, which has HTTPS; "
                         "'pathways page' prints an address that logs in (default: no page)")
    up.add_argument("--page-tls", choices=("on", "off"),
                    help="with --page: HTTPS or HTTP (default: HTTPS, unless only this machine reaches the address). The cluster's own authority makes the certificate")
    up.add_argument("--page-certificate", metavar="PATH",
                    help="with --page: a chain of certificates (PEM) for this machine's name that browsers trust already; read again every day")
    up.add_argument("--page-key", metavar="PATH", help="of --page-certificate: its private key (PEM)")
    up.add_argument("--page-name", action="append", metavar="NAME",
                    help="with --page: a further name by which browsers call it, such as that of a proxy before it")
    up.add_argument("-d", "--detach", action="store_true", help="leave the cluster running and return (this is the default)")
    up.add_argument("--foreground", action="store_true", help="stay until Ctrl-C, then stop the cluster. With --no-workers, SIGTERM stops the controller for now: programs wait for another one")

    _add_worker(add("worker", join.worker, "run one worker of this machine, for a controller that runs anywhere; stays in the foreground"))

    agent = add("agent", join.agent, "run an agent, which connects jax programs without this package (JAX_PLATFORMS=proxy) to a cluster; stays in the foreground")
    agent.add_argument("--address", metavar="HOST:PORT",
                       help="the cluster whose controller listens there (default: PATHWAYS_ADDRESS, or the cluster that is up on this machine)")
    agent.add_argument("--listen", default="127.0.0.1:0", metavar="HOST:PORT",
                       help="where programs connect, as JAX_BACKEND_TARGET=grpc://HOST:PORT (default: a free port of 127.0.0.1, which its log tells)")
    agent.add_argument("--port-file", metavar="PATH", help="file for the address on which it listens")
    _add_metrics(agent, "the agent", secure=False)
    _add_token(agent, "a user")
    agent.add_argument("--wait", type=float, default=30, metavar="S", help="how long to wait for the controller to listen (default 30)")

    run = add("run", cluster_commands.run, "run a program on a cluster: the one that is up, or one just for this program",
              usage="pathways run [options] -- COMMAND [ARGUMENT ...]")
    _add_shape(run, " (a cluster just for this program)")
    run.add_argument("--address", metavar="HOST:PORT", help="run on the cluster whose controller listens there")
    run.add_argument("program", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the program and its arguments")

    status = add("status", cluster_commands.status, "show islands, hosts, devices, clients and memory")
    status.add_argument("--address", metavar="HOST:PORT", help="ask the controller that listens there")

    watch = add("top", top.top, "show what the cluster does, again and again: hosts' load and memory, clients' shares, the queue, events; q ends it")
    watch.add_argument("--address", metavar="HOST:PORT", help="the cluster whose controller listens there")
    watch.add_argument("--interval", type=float, default=2.0, metavar="S", help="seconds between two looks (default 2)")
    watch.add_argument("--once", action="store_true", help="print the state once and end; the default where the output is no terminal")

    show = add("page", page.page, "print an address of the cluster's page ('up --page') that logs a browser in, once, within ten minutes")
    show.add_argument("--address", metavar="[https://]HOST:PORT",
                      help="the page of another cluster; without http:// or https:// the latter, unless the address is one of this machine alone")
    show.add_argument("--token-file", metavar="PATH", type=_file,
                      help="what opens it: the file of the controller's --page-token-file, or an operator's token file (default: that of the cluster that is up on "
                           "this machine)")

    used = add("usage", usage.usage, "show what each user has used of the cluster by day: device time, computations, compile time, memory")
    used.add_argument("--days", type=int, default=30, metavar="N", help="the last N days, today included (default 30)")
    used.add_argument("--user", metavar="NAME", help="only this user's")
    used.add_argument("--csv", action="store_true", help="print rows of comma-separated values")
    used.add_argument("--file", metavar="PATH", help="the file that the controller writes (default: that of the cluster that 'up' starts)")

    check_up = add("doctor", doctor.doctor,
                   "look for what is wrong with the cluster and with this machine, and say what to do; status 0: nothing, 1: warnings, 2: errors")
    check_up.set_defaults(release=__version__)
    check_up.add_argument("--address", metavar="HOST:PORT", help="the cluster whose controller listens there (default: the one that is up on this machine)")

    share = add("share", cluster_commands.share, "change a running client's share of the devices' time")
    share.add_argument("client", type=int, metavar="CLIENT", help="its number, as 'pathways status' shows it")
    share.add_argument("-s", "--address", metavar="HOST:PORT", help="the cluster whose controller listens there")
    share.add_argument("-w", "--weight", metavar="W", help="clients get device time in proportion to their weights (--policy share)")
    share.add_argument("-p", "--priority", metavar="P", help="the client with the highest priority goes first (--policy priority)")

    drain = add("drain", cluster_commands.drain, "move the virtual slices off a host, while their programs run")
    drain.add_argument("host", metavar="HOST", help="its name, as 'pathways status' shows it")
    drain.add_argument("--undo", action="store_true", help="let the host take slices again")
    drain.add_argument("--address", metavar="HOST:PORT", help="the cluster whose controller listens there")
    drain.add_argument("--timeout", type=float, default=600, metavar="S", help="give up waiting after so long (default 600)")

    for name, function, help in (("suspend", cluster_commands.suspend, "suspend a client: move its arrays to host memory and give its slices' devices to others"),
                                 ("resume", cluster_commands.resume, "resume a suspended client, perhaps on other devices")):
        step = add(name, function, help)
        step.add_argument("client", type=int, metavar="CLIENT", help="its number, as 'pathways status' shows it")
        step.add_argument("--address", metavar="HOST:PORT", help="the cluster whose controller listens there")
        step.add_argument("--timeout", type=float, default=600, metavar="S", help="give up waiting after so long (default 600)")

    trace = add("trace", cluster_commands.trace, "record what the cluster does for a while, as a file that ui.perfetto.dev opens")
    trace.add_argument("--address", metavar="HOST:PORT", help="the cluster whose controller listens there")
    trace.add_argument("-s", "--seconds", type=float, default=5.0, metavar="S", help="how long to record (default 5, at most 600)")
    trace.add_argument("-o", "--output", default="pathways-trace.json", metavar="PATH", help="the file to write (default pathways-trace.json)")

    trace.add_argument("--check", action="store_true", help="verify the recording, as 'pathways check' does")
    trace.add_argument("--otlp", metavar="URL", help="send the events as spans to a collector of OpenTelemetry too, by OTLP over HTTP in JSON, for example http://127.0.0.1:4318")

    check = add("check", cluster_commands.check,
                "replay a recording of 'trace' and verify order, grants, completion and dependencies; status 1 if they do not hold")
    check.add_argument("trace", metavar="TRACE", help="the file that 'pathways trace' wrote")

    command = add("profile", profile.profile, "record a profile of all hosts for a while, for TensorBoard and XProf; an operator's command")
    command.add_argument("--address", metavar="HOST:PORT", help="the cluster whose controller listens there")
    command.add_argument("-s", "--seconds", type=float, default=5.0, metavar="S", help=f"how long to record (default 5, at most {profile.MOST_SECONDS})")
    command.add_argument("-o", "--out", default="pathways-profile", metavar="DIR",
                         help="the folder for 'tensorboard --logdir': each profile is a folder plugins/profile/TIME in it, with a file HOST.xplane.pb for each host and "
                              "pathways_trace.json, as 'trace' writes it (default pathways-profile)")
    command.add_argument("--limit", type=int, default=256, metavar="MIB", help="the most that each host records, in MiB (default 256, at most 1024); more is "
                                                                              "missing, and the command says so")

    _add_tokens(add)
    _add_quotas(add)

    add("down", launchers.down, "stop the cluster that 'up' started")

    bench = add("bench", bench_paper.bench, "measure on this machine what section 5 of the paper measures, as far as one machine allows; from a checkout of the sources")
    bench.add_argument("what", choices=("paper",), help="paper: the figures and tables of the paper, with its claims in words, as one HTML page")
    bench.add_argument("-o", "--out", metavar="DIR", help="folder for the report (default: build/paper of the checkout)")
    bench.add_argument("--quick", action="store_true", help="one short round: shows the form of the report, not the numbers")
    bench.add_argument("--figures", nargs="+", metavar="N", help="measure only these, such as 5 7 table1; the report keeps its other figures")
    bench.add_argument("--resume", action="store_true", help="measure what the last run left out, and figures that ended early")
    bench.add_argument("--minutes", type=float, metavar="M", help="limit for the whole run; each figure gets its share (default: no limit)")
    bench.add_argument("--checkout", metavar="DIR", help="the sources (default: those that the current folder lies in)")

    logs = add("logs", cluster_commands.logs, "show the logs of the cluster")
    logs.add_argument("process", nargs="*", help="controller or a host's name (default: all)")
    logs.add_argument("-n", "--lines", type=int, default=50, metavar="N", help="the last N lines of each (default 50)")
    logs.add_argument("-f", "--follow", action="store_true", help="keep showing new lines, until Ctrl-C")
    return parser


def _complain(args, text, code):
    if getattr(args, "json", False):
        print(json.dumps({"error": text}))
    print(f"pathways {args.command}: {text}", file=sys.stderr)
    return code


def main(argv=None):
    args = parser().parse_args(argv)
    try:
        if "help" in getattr(args, "device_options", []):
            return subprocess.run(command_lines.list_device_options(args.platform or command_lines.default_platform()), check=False).returncode
        return args.function(args)
    except records.NotRunning as error:
        return _complain(args, str(error), EXIT_NOT_RUNNING)
    except ValueError as error:
        return _complain(args, str(error), EXIT_USAGE)
    except StatusError as error:
        return _complain(args, "\n".join(filter(None, (str(error), records.why_silent(args)))), EXIT_FAILED)
    except (processes.StartError, binaries.MissingError, OSError) as error:
        return _complain(args, str(error), EXIT_FAILED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
