"""`pathways up` and `pathways down`."""

import signal
import time

from pathways import _cluster, _commands, _processes, _state


def _not_up(name):
    try:
        running = _state.load(name)
    except _state.NotRunning:
        return
    raise ValueError(f"cluster '{name}' is already up at {running.address} ({running.shape}): 'pathways down' stops it, "
                     "--name NAME starts another one beside it")


def up(args):
    if args.detach and args.foreground:
        raise ValueError("--detach and --foreground exclude each other")
    shape = _commands.shape_of(args)
    _not_up(args.name)
    if args.foreground:
        signal.signal(signal.SIGTERM, _interrupt)  # before anyone can know that we run, and stop us
    joinable = _cluster.Joinable(not args.no_workers, args.listen_workers, args.advertise)
    cluster = _cluster.Cluster(shape, _state.fresh_folder(args.name), args.platform, args.listen, owned=args.foreground,
                               policy=args.policy, joinable=joinable).start()
    members = [_state.Member(p.log.stem, p.pid, _state.start_time(p.pid), str(p.log)) for p in cluster.processes]
    state = _state.State(args.name, cluster.address, str(shape), cluster.platform, members)
    state.save()
    return _stay(args, cluster, state) if args.foreground else _announce(args, cluster)


def _announce(args, cluster):
    shape, address = cluster.shape, cluster.address
    fields = {"address": address, "workers_address": cluster.workers_address, "islands": shape.islands, "hosts_per_island": shape.hosts,
              "devices_per_host": shape.devices, "devices": shape.islands * shape.hosts * shape.devices}
    if args.no_workers:
        fields["devices_per_host"] = fields["devices"] = None  # the workers will say
        hosts = len(shape.placement())
        lines = [f"The controller of cluster '{args.name}' is up at {address} and waits for {hosts} host{'s'[: hosts != 1]}."]
    else:
        lines = [f"Cluster '{args.name}' is up at {address}: {shape.islands} island(s) x {shape.hosts} host(s) x {shape.devices} device(s)."]
        lines.append("  run a program   pathways run -- python train.py")
        lines.append(f"  or by hand      JAX_PLATFORMS=pathways PATHWAYS_ADDRESS={address} python train.py")
    lines += [f"  add a host      pathways worker --join {address}", "  stop it         pathways down"]
    _commands.say(args, {**fields, "name": args.name, "logs": str(cluster.folder)}, "\n".join(lines))
    return 0


def _interrupt(*_):
    raise KeyboardInterrupt


def _stay(args, cluster, state):
    """Until Ctrl-C or SIGTERM; a process of the cluster that ends early is an error."""
    try:
        _announce(args, cluster)
        while (failure := cluster.failure()) is None:
            time.sleep(0.2)
        raise _processes.StartError(failure)
    except KeyboardInterrupt:
        return 0
    finally:
        cluster.stop()
        (state.folder / "state.json").unlink(missing_ok=True)


def down(args):
    state = _state.load(args.name)
    killed = state.stop()
    names = [m.name for m in state.members]
    _commands.say(args, {"stopped": names, "killed": killed}, f"Cluster '{state.name}' is down: {', '.join(names)} ended."
                  + (f" Had to be killed: {', '.join(killed)}." if killed else ""))
    return 0
