"""`pathways up` and `pathways down`."""

import os
import signal
import sys
import time

from pathways._cluster import addresses, command_lines, credentials, local, processes, records, simulated
from pathways._commands import cluster_commands, page
from pathways._launchers import k8s


def _not_up(name):
    try:
        running = records.load(name)
    except records.NotRunning:
        return
    raise ValueError(f"cluster '{name}' is already up at {running.address} ({running.shape}): 'pathways down' stops it, "
                     "--name NAME starts another one beside it")


def up(args):
    if args.on == "k8s":
        return k8s.up(args)
    k8s.check_elsewhere(args)
    if args.detach and args.foreground:
        raise ValueError("--detach and --foreground exclude each other")
    _not_up(args.name)
    if args.foreground:
        signal.signal(signal.SIGTERM, _terminate)  # before a user can see the cluster and stop it
    cluster = _start_here(args) if args.on == "local" else _start_on(args)
    state = records.State(args.name, cluster.address, str(cluster.shape), cluster.platform, cluster.members, args.on, cluster.handle,
                          cluster.workers_address, cluster.access)
    state.save()
    return _stay(args, cluster, state) if args.foreground else _announce(args, cluster)


def _security(args):
    oidc = command_lines.oidc(args)
    if args.tls == "off":
        _shout(args.listen or "127.0.0.1")
        return command_lines.Security(tls="off")
    identity = records.identity_folder(args.name)
    return command_lines.Security(identity, identity, oidc=oidc)


def _shout(address):
    print(f"pathways up: TLS IS OFF: whoever reaches {address} can read, change and stop everything. Leave out --tls off, unless nobody else can reach it",
          file=sys.stderr, flush=True)


def _listen_proxy(args):
    """Returns the address at which the agent for programs without our package listens. Stock jax has neither tokens nor encryption, so by default
    only programs of this machine reach it."""
    where = addresses.listen_proxy(args.listen_proxy, "127.0.0.1:0")
    if where is not None and not addresses.listens_here(where):
        print(f"pathways up: whoever reaches {where} (--listen-proxy) may compute on this cluster, as the user 'agent', and is not encrypted: stock jax has "
              "no tokens", file=sys.stderr, flush=True)
    return where


def _start_here(args):
    if args.gres or args.option:
        raise ValueError("--gres and --option are for --on slurm, --on ray and --on k8s")
    if args.simulated:
        return _start_simulated(args)
    if args.simulated_device:
        raise ValueError("--simulated-device needs --simulated, which says how many there are")
    shape = cluster_commands.shape_of(args)
    if args.no_workers and (args.memory_limit or args.device_options):
        raise ValueError("--memory-limit and --device-options are for the workers that 'up' starts: give them to each 'pathways worker --join'")
    joinable = local.Joinable(not args.no_workers, args.listen_workers, args.advertise)
    listen = args.listen or "127.0.0.1:0"
    return local.Cluster(shape, records.fresh_folder(args.name), args.platform, listen, owned=args.foreground, policy=args.policy, joinable=joinable,
                         checksum=args.checksum, memory_limit=args.memory_limit, spill=args.spill, dispatch=args.dispatch,
                         listen_proxy=_listen_proxy(args), security=_security(args), **_metrics(args),
                         hang_limit=_hang_limit(args), on_hang=args.on_hang, client_grace=_grace(args, "client_grace"), host_grace=_grace(args, "host_grace"), controller_grace=_grace(args, "controller_grace"), restart=not args.no_restart, usage_file=_usage_file(args),
                         host_python=cluster_commands.host_python(args), page=_page(args), device_options=args.device_options).start()


def _start_simulated(args):
    if args.islands or args.hosts or args.devices or args.platform:
        raise ValueError("--simulated gives the shape and the platform itself: leave out --islands, --hosts, --devices and --platform")
    if args.no_workers or args.checksum or args.spill or args.memory_limit or args.device_options or args.host_python or args.python_user:
        raise ValueError("--no-workers, --checksum, --spill, --memory-limit, --device-options, --host-python and --python-user are for real hosts, not --simulated")
    joinable = local.Joinable(True, args.listen_workers, args.advertise)
    listen = args.listen or "127.0.0.1:0"
    return local.Cluster(simulated.parse_shape(args.simulated), records.fresh_folder(args.name), "simulated", listen, owned=args.foreground,
                         policy=args.policy, joinable=joinable, dispatch=args.dispatch, listen_proxy=_listen_proxy(args), security=_security(args),
                         **_metrics(args), hang_limit=_hang_limit(args), on_hang=args.on_hang, client_grace=_grace(args, "client_grace"), host_grace=_grace(args, "host_grace"), controller_grace=_grace(args, "controller_grace"), restart=not args.no_restart, usage_file=_usage_file(args), page=_page(args),
                         simulated=simulated.parse_device(args.simulated_device or "tpu-v3")).start()


def _usage_file(args):
    path = records.usage_file(args.name)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def _metrics(args):
    """Returns the host and the first port of the metrics, as arguments of a Cluster."""
    if args.metrics_port is None:
        return {}
    host, port = addresses.local_by_default(args.metrics_port, "--metrics-port")
    if args.tls == "off" and not addresses.is_loopback(host):
        raise ValueError(f"with --tls off nothing encrypts metrics, so they are shown to this machine only: leave out '{host}:' of --metrics-port")
    return {"metrics_port": int(port), "metrics_host": host}


_PAGE_OPTIONS = ("page_name", "page_tls", "page_certificate", "page_key")


def _page(args):
    """Returns the address of the controller's page: a port of 127.0.0.1 unless an address is given."""
    if args.page is None:
        if given := [name for name in _PAGE_OPTIONS if getattr(args, name)]:
            raise ValueError(f"--{given[0].replace('_', '-')} needs --page")
        return None
    host, port = addresses.local_by_default(args.page, "--page")
    listen = f"{host}:{port}"
    certificate, key = (os.path.abspath(path) if path else None for path in (args.page_certificate, args.page_key))
    if (certificate is None) != (key is None):
        raise ValueError("--page-certificate and --page-key belong together: the chain of certificates, and the private key of the first")
    wants_tls = args.page_tls == "on" or (args.page_tls is None and not addresses.listens_here(listen))
    if args.tls == "off" and wants_tls and certificate is None:
        raise ValueError("with --tls off the cluster has no authority that could certify its page: name a certificate by --page-certificate and --page-key, leave "
                         "out the address of --page, or ask for --page-tls off, which encrypts nothing")
    if args.page_tls == "off" and not addresses.listens_here(listen):
        print(f"pathways up: the page at {host} is not encrypted: whoever reads the network reads what it shows. Leave out --page-tls off",
              file=sys.stderr, flush=True)
    return local.Page(listen, tuple(args.page_name or ()), args.page_tls, certificate, key)


def _hang_limit(args):
    if args.hang_limit is not None and args.hang_limit <= 0:
        raise ValueError(f"--hang-limit wants a number of seconds above 0, not {args.hang_limit:g}")
    return args.hang_limit


def _grace(args, name):
    seconds = getattr(args, name)
    if seconds is not None and seconds < 0:
        raise ValueError(f"--{name.replace('_', '-')} wants a number of seconds, not {seconds:g}")
    return seconds


def _start_on(args):
    _hang_limit(args)
    _grace(args, "client_grace")
    _grace(args, "host_grace")
    _grace(args, "controller_grace")
    if args.metrics_port is not None:
        raise ValueError(f"--metrics-port is for clusters of this machine, not --on {args.on}: give --listen-metrics to the processes (docs/operators.md)")
    if args.page is not None:
        raise ValueError(f"--page is for clusters of this machine, not --on {args.on}: give --listen-page to the controller (docs/operators.md)")
    if args.simulated:
        raise ValueError(f"--simulated needs no hosts: leave out --on {args.on}")
    if args.no_workers or args.advertise:
        raise ValueError(f"--no-workers and --advertise are for clusters of this machine, not --on {args.on}")
    return records.engine(args.on).launch(args, records.fresh_folder(args.name))


def _page_url(args, cluster):
    """Returns the page's address for the user. It contains a ticket only if the output is a terminal: other outputs are stored."""
    if args.json or not sys.stdout.isatty():
        return f"{cluster.page_url} ('pathways page' prints an address that logs in)"
    return page.url(local.read_page_url(cluster.folder), cluster.folder / "page.token", page.authority_of(args.name)) + " (logs in once; 'pathways page' prints another)"


def _announce(args, cluster):
    shape, address = cluster.shape, cluster.address
    fields = {"address": address, "workers_address": cluster.workers_address, "proxy_address": cluster.proxy_address, "islands": shape.islands, "hosts_per_island": shape.hosts,
              "devices_per_host": shape.devices, "devices": shape.islands * shape.hosts * shape.devices}
    if args.no_workers:
        fields["devices_per_host"] = fields["devices"] = None  # known once workers join
        hosts = len(shape.placement())
        lines = [f"The controller of cluster '{args.name}' is up at {address} and waits for {hosts} host{'s'[: hosts != 1]}."]
    else:
        lines = [f"Cluster '{args.name}' is up at {address}: {shape.islands} island(s) x {shape.hosts} host(s) x {shape.devices} device(s)"
                 + (", all simulated." if args.simulated else ".")]
        lines.append("  run a program   pathways run -- python train.py")
        lines.append(f"  or by hand      JAX_PLATFORMS=pathways PATHWAYS_ADDRESS={address} python train.py")
    if cluster.proxy_address is not None:
        lines.append(f"  stock jax       JAX_PLATFORMS=proxy JAX_BACKEND_TARGET=grpc://{cluster.proxy_address} "
                     "IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS=true python train.py")
    if args.metrics_port is not None:
        fields["metrics"] = cluster.metrics
        lines.append(f"  its metrics     prometheus --config.file={cluster.folder / 'prometheus.yml'}")
    if args.page is not None:
        fields["page"] = cluster.page_url
        lines.append(f"  its page        {_page_url(args, cluster)}")
    if args.oidc_issuer and args.on == "local":
        fields["authority"] = credentials.fields((records.identity_folder(args.name) / "operator.token").read_text())["authority"]
        lines.append(f"  log in          pathways login {address} --token-from FILE --authority {fields['authority']}")
    lines += [] if args.simulated else [f"  add a host      pathways worker --join {address}"]
    lines.append("  stop it         pathways down")
    cluster_commands.say(args, {**fields, "name": args.name, "logs": str(cluster.folder)}, "\n".join(lines))
    return 0


class _Terminated(KeyboardInterrupt):
    """SIGTERM has come."""


def _terminate(*_):
    raise _Terminated


def _stay(args, cluster, state):
    """Runs until Ctrl-C or SIGTERM, then stops the cluster. After SIGTERM, programs of a controller alone wait for the next one: what sends it, such as
    Kubernetes or systemd, often starts another one. Raises StartError if a process of the cluster ends early."""
    stop = cluster.stop
    try:
        _announce(args, cluster)
        while (failure := cluster.failure()) is None:
            time.sleep(0.2)
        raise processes.StartError(failure)
    except _Terminated:
        if args.no_workers:
            stop = cluster.stop_for_now
        return 0
    except KeyboardInterrupt:
        return 0
    finally:
        stop()
        (state.folder / "state.json").unlink(missing_ok=True)


def down(args):
    state = records.load(args.name)
    names, killed = state.stop()
    cluster_commands.say(args, {"stopped": names, "killed": killed}, f"Cluster '{state.name}' is down: {', '.join(names)} ended."
                         + (f" Had to be killed: {', '.join(killed)}." if killed else ""))
    return 0
