"""`pathways up --on ray`: runs controller and workers as long-running actors in a placement group, one bundle for each host.

RAY_ADDRESS names the Ray cluster; the default is the one that this machine belongs to. The actors are detached: they live until `pathways down`,
which ends only them and the placement group. Ray restarts actors that end (_launchers/ray_actors.py).
"""

import dataclasses
import os
import secrets
import socket
import sys
import time

from pathways._cluster import addresses, admin, command_lines, credentials, local, processes
from pathways._commands import cluster_commands
from pathways._launchers import ray_actors

_STOP_SECONDS = 10
_CONNECT_SECONDS = 10
_PAUSE_SECONDS = 0.2
_CONTROLLER, _AGENT = "controller", "agent"


def _ray():
    try:
        import ray
    except ImportError:
        raise ValueError("--on ray needs Ray in this Python environment, of the same version as the cluster's: pip install ray") from None
    return ray


def _connect(address, namespace):
    ray = _ray()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if ray.is_initialized():
        ray.shutdown()
    try:
        if address.count(":") == 1:  # fail early: Ray retries a refused connection for minutes
            host, port = addresses.split(address, "RAY_ADDRESS")
            socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
        ray.init(address=address, namespace=namespace, log_to_driver=False, logging_level="error")
    except ValueError:
        raise
    except Exception as error:  # Ray raises many types
        raise processes.StartError(f"no Ray cluster at '{address}': {error}\n  'ray start --head' starts one, RAY_ADDRESS=HOST:PORT names one") from None
    return ray


def _bundle(args):
    """Returns the resources that a host takes of its node."""
    bundle = {"CPU": 1.0}
    if args.platform == "cuda":
        bundle["GPU"] = float(args.devices or 1)
    for option in args.option or []:
        name, equals, amount = option.partition("=")
        try:
            bundle[name] = float(amount)
        except ValueError:
            equals = ""
        if not equals:
            raise ValueError(f"with --on ray, --option wants RESOURCE=AMOUNT, such as TPU=4, not '{option}'")
    return bundle


def order_bundles(node_of_bundle):
    """Returns bundles in the order in which hosts are numbered: sorted by node address, bundles of one node together. So an island occupies few,
    neighbouring nodes."""
    return sorted(range(len(node_of_bundle)), key=lambda bundle: (node_of_bundle[bundle], bundle))


class RayCluster:
    members = []

    def __init__(self, args, folder):
        self.folder = folder
        self.platform = args.platform or command_lines.default_platform()
        self.shape = cluster_commands.shape_of(args)
        self.bundle = _bundle(args)
        self.id = secrets.token_hex(6)
        self.namespace = f"pathways-{args.name}-{self.id}"
        self.address = self.workers_address = self.proxy_address = None
        self._args = args
        self._gcs = os.environ.get("RAY_ADDRESS") or "auto"
        self._names = []

    @property
    def handle(self):
        return {"ray": self._gcs, "namespace": self.namespace, "actors": self._names}

    def start(self):
        ray = _connect(self._gcs, self.namespace)
        self._gcs = ray.get_runtime_context().gcs_address
        try:
            self._start_actors(ray, self._place(ray))
        except BaseException:
            self.stop()
            raise
        ray.shutdown()
        return self

    def _place(self, ray):
        placement = self.shape.placement()
        group = ray.util.placement_group([self.bundle] * len(placement), strategy="SPREAD", name=self.namespace, lifetime="detached")
        self._say(f"asks Ray at {self._gcs} for {len(placement)} x {self.bundle}")
        deadline = time.monotonic() + self._args.wait
        ready = group.ready()
        while not ray.wait([ready], timeout=5)[0]:
            if time.monotonic() > deadline:
                raise processes.StartError(f"Ray had no room for {len(placement)} x {self.bundle} within {self._args.wait:g} s; free are "
                                           f"{ray.available_resources()}. 'ray status' shows who has them; --wait S waits longer")
            self._say("waits for room: 'ray status' shows who has it")
        return group

    def _spec(self):
        return {"id": self.id, "hosts": len(self.shape.placement()), "island_hosts": command_lines.island_hosts(self.platform, self.shape.hosts), "platform": self.platform, "devices": self.shape.devices,
                "policy": self._args.policy, "checksum": self._args.checksum, "memory_limit": self._args.memory_limit,
                "device_options": self._args.device_options,
                "host_python": dataclasses.asdict(cluster_commands.host_python(self._args)), "spill": self._args.spill, "dispatch": self._args.dispatch, "hang_limit": self._args.hang_limit, "on_hang": self._args.on_hang,
                "client_grace": self._args.client_grace, "host_grace": self._args.host_grace, "controller_grace": self._args.controller_grace,
                "tls": self._args.tls, "oidc": command_lines.oidc(self._args), "listen": self._args.listen, "listen_workers": self._args.listen_workers, "listen_proxy": self._args.listen_proxy,
                "environment": {k: v for k, v in os.environ.items() if k.startswith("PATHWAYS_") and k != "PATHWAYS_ADDRESS"}}

    def _start_actors(self, ray, group):
        from ray.util.placement_group import placement_group_table
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        nodes = placement_group_table(group)["bundles_to_node_id"]
        address_of = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
        order = order_bundles([(address_of.get(nodes[i], ""), nodes[i]) for i in range(len(nodes))])
        spec = self._spec()

        def start(actor_class, name, bundle, resources, *args):
            strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=bundle)
            options = {"name": name, "lifetime": "detached", "max_restarts": -1, "scheduling_strategy": strategy, **resources}
            self._names.append(name)
            return ray.remote(actor_class).options(**options).remote(spec, *args)

        controller = start(ray_actors.Controller, _CONTROLLER, order[0], {"num_cpus": 0})
        self.address, self.workers_address = ray.get(controller.ports.remote(), timeout=self._args.wait)
        _keep_token(ray, controller, self._token_file)
        resources = {"num_cpus": self.bundle["CPU"], "num_gpus": self.bundle.get("GPU", 0),
                     "resources": {name: amount for name, amount in self.bundle.items() if name not in ("CPU", "GPU")}}
        most_hosts = max(len(order) + 2, command_lines.MOST_HOSTS)
        for bundle, (island, host) in zip(order, self.shape.placement()):
            start(ray_actors.Worker, host, bundle, resources, controller, island, host, most_hosts)
        if self._args.listen_proxy not in (None, "none"):
            agent = start(ray_actors.Agent, _AGENT, order[0], {"num_cpus": 0}, controller)
            self.proxy_address = ray.get(agent.address.remote(), timeout=self._args.wait)
        self._wait_formed(ray)

    @property
    def _token_file(self):
        return None if self._args.tls == "off" else self.folder / "operator.token"

    @property
    def access(self):
        """Returns the flags with which this user's programs connect to the cluster."""
        return ["--tls", "off"] if self._args.tls == "off" else ["--token-file", self._token_file]

    def _wait_formed(self, ray):
        deadline = time.monotonic() + local.START_SECONDS
        while (report := _report(self.address, self.access)) is None or report["state"] != "formed":
            if time.monotonic() > deadline:
                logs = _logs(ray, self._names, 15)
                raise processes.StartError(f"the hosts did not join within {local.START_SECONDS:.0f} s\n" + "\n".join(
                    f"{name}:\n" + "\n".join(f"  | {line}" for line in lines) for name, lines in logs.items()))
            time.sleep(_PAUSE_SECONDS)

    @staticmethod
    def _say(text):
        print(f"pathways up: {text}", file=sys.stderr, flush=True)

    def failure(self):
        """Returns an error text if the controller's actor is gone, else None. Ray restarts actors that fail, so someone must have ended it."""
        if _report(self.address, self.access) is not None:
            return None
        return None if _find_address(self.handle, self.access) else f"the actors of '{self.namespace}' have ended, but 'pathways down' was not called: 'ray list actors' may say why"

    def stop(self):
        _end(self.handle)


def _keep_token(ray, controller, path):
    """Fetches this user's token file from the controller's node."""
    if path is not None:
        credentials.write(path, ray.get(controller.token_file.remote("operator"), timeout=local.START_SECONDS))


def _report(address, access):
    try:
        return admin.status(address, seconds=5, access=access)
    except admin.StatusError:
        return None


def _find_address(handle, access):
    """Returns the clients' current address; None if the controller's actor is gone. A controller on another node has another authority and other tokens:
    fetches this user's into the file that `access` names."""
    ray = _connect(handle["ray"], handle["namespace"])
    try:
        controller = ray.get_actor(_CONTROLLER)
        address = ray.get(controller.ports.remote(), timeout=local.START_SECONDS)[0]
        _keep_token(ray, controller, access[1] if access[0] == "--token-file" else None)
        return address
    except (ValueError, ray.exceptions.RayError):
        return None
    finally:
        ray.shutdown()


def _logs(ray, names, lines):
    """Returns {actor name: last lines of its log}; the error text for actors that do not answer."""
    found = {}
    for name in names:
        try:
            found[name] = ray.get(ray.get_actor(name).log.remote(lines), timeout=_STOP_SECONDS)
        except (ValueError, ray.exceptions.RayError) as error:
            found[name] = [f"(no log: {error})"]
    return found


def _end(handle):
    ray = _connect(handle["ray"], handle["namespace"])
    actors = []
    for name in handle["actors"]:
        try:
            actors.append((name, ray.get_actor(name)))
        except ValueError:
            continue  # already gone
    # Each actor stops its child first. If an actor does not answer, killing it ends its child too, since children end with their parents.
    stopping = [actor.stop.remote() for _, actor in reversed(actors)]
    ray.wait(stopping, num_returns=len(stopping), timeout=_STOP_SECONDS)
    for _, actor in actors:
        ray.kill(actor, no_restart=True)
    try:
        ray.util.remove_placement_group(ray.util.get_placement_group(handle["namespace"]))
    except ValueError:
        pass  # already removed
    ray.shutdown()
    return [name for name, _ in actors]


# ------------------------------------------------------------------------------- the engine's interface (see records.engine)
def launch(args, folder):
    if args.no_restart:
        raise ValueError("--no-restart is not for --on ray: Ray starts each process again that fails")
    if args.gres:
        raise ValueError("--gres is for --on slurm; --option=RESOURCE=AMOUNT asks Ray for a resource of each node")
    return RayCluster(args, folder).start()


def alive(state):
    """Whether the cluster runs. Saves its new address after a restart on another node."""
    if _report(state.address, state.access) is not None:
        return True
    try:
        address = _find_address(state.handle, state.access)
    except processes.StartError:
        return False  # the Ray cluster has ended, and our actors with it
    if address is not None and address != state.address:
        state.address = address
        state.save()
    return address is not None


def stop(state):
    return _end(state.handle)


def fetch_logs(state, lines):
    """Copies the logs from the nodes into the cluster's folder, where `pathways logs` reads them."""
    ray = _connect(state.handle["ray"], state.handle["namespace"])
    for name, text in _logs(ray, state.handle["actors"], lines).items():
        (state.folder / f"{name}.log").write_text("\n".join(text) + "\n")
    ray.shutdown()
