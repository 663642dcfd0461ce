"""Builds the Kubernetes objects of a cluster, as docs/deploy.md describes them. It reads no files and runs nothing: k8s.py prints and applies them.

A cluster consists of a Service and a StatefulSet for its controller and, for each island, a headless Service and a StatefulSet with a worker a node.
A JobSet may replace all StatefulSets. Network policies and disruption budgets go with them. deploy/helm/pathways builds the same objects.
"""

import dataclasses

CLIENTS, WORKERS, DATA, LANES = 8470, 8471, 8472, 8474  # ports
PAGE = 9500  # of the controller's pod, on its loopback
USER = 10001  # the user of deploy/Dockerfile
_HOME, _CACHE, _SECRETS = "/pathways", "/cache", "/secrets"
_IDENTITIES = f"{_HOME}/identities"
_CONTROLLER_START_SECONDS, _WORKER_WAIT_SECONDS, _PROBE_SECONDS = 120, 600, 5
IDENTITY_FILES = ("authority.crt", "authority.key", "tokens", "operator.token")
WORKER_FILES = ("worker.token",)


@dataclasses.dataclass(frozen=True)
class Cluster:
    name: str                   # "pathways", or "pathways-NAME"; the objects' names begin with it
    image: str
    islands: int
    hosts: int                  # in each island
    platform: str               # cpu, cuda, or the path of a PJRT plugin in the image
    devices: int
    namespace: str | None = None
    jobset: bool = False
    resources: dict = dataclasses.field(default_factory=dict)  # of each worker; they replace those of worker_resources()
    controller_flags: list = dataclasses.field(default_factory=list)
    worker_flags: list = dataclasses.field(default_factory=list)

    @property
    def controller(self):
        return f"{self.name}-controller"

    def island_names(self):
        return [f"island{i}" for i in range(self.islands)]

    def labels(self, component, **more):
        return {"app.kubernetes.io/name": "pathways", "app.kubernetes.io/instance": self.name, "app.kubernetes.io/component": component, **more}

    def metadata(self, name, labels):
        where = {"namespace": self.namespace} if self.namespace else {}
        return {"name": name, **where, "labels": {**labels, "app.kubernetes.io/part-of": "pathways"}}


def objects(cluster):
    """Returns all objects, in the order in which they are applied: policies before pods."""
    found = [_controller_policy(cluster), _workers_policy(cluster), *_budgets(cluster), _controller_service(cluster)]
    islands = cluster.island_names()
    if cluster.jobset:
        return [*found, _jobset(cluster, islands)]
    found.append(_stateful_set(cluster, cluster.controller, "controller", cluster.labels("controller"), 1, _controller_pod(cluster)))
    for island in islands:
        name, labels = f"{cluster.name}-{island}", cluster.labels("worker", island=island)
        found += [_island_service(cluster, name, labels),
                  _stateful_set(cluster, name, "worker", labels, cluster.hosts, _worker_pod(cluster, island, "$(POD_NAME)"))]
    return found


# ------------------------------------------------------------------------------- services and workloads
def _ports(**numbers):
    return [{"name": name, "port": number, "targetPort": name} for name, number in numbers.items()]


def _controller_service(cluster):
    labels = cluster.labels("controller")
    return {"apiVersion": "v1", "kind": "Service", "metadata": cluster.metadata(cluster.controller, labels),
            "spec": {"selector": labels, "ports": _ports(clients=CLIENTS, workers=WORKERS)}}


def _island_service(cluster, name, labels):
    """Names the hosts of an island. No process connects through it."""
    return {"apiVersion": "v1", "kind": "Service", "metadata": cluster.metadata(name, labels),
            "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels, "ports": _ports(data=DATA, lanes=LANES)}}


def _stateful_set(cluster, name, component, labels, replicas, pod):
    """A StatefulSet never runs two pods of one name: there is one controller, never two."""
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": cluster.metadata(name, labels),
            "spec": {"serviceName": name, "replicas": replicas, "podManagementPolicy": "Parallel", "selector": {"matchLabels": labels},
                     "template": {"metadata": {"labels": labels}, "spec": pod}}}


def _jobset(cluster, islands):
    """Jobs that start together, for schedulers that know JobSets (Kueue). A container that ends is started again in its pod."""
    jobs = [_replicated_job("controller", cluster.labels("controller"), 1, _controller_pod(cluster))]
    jobs += [_replicated_job(island, cluster.labels("worker", island=island), cluster.hosts, _worker_pod(cluster, island, f"{island}-$(HOST_INDEX)"))
             for island in islands]
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": cluster.metadata(cluster.name, cluster.labels("cluster")),
            "spec": {"failurePolicy": {"maxRestarts": 10}, "replicatedJobs": jobs}}


def _replicated_job(name, labels, pods, pod):
    return {"name": name, "replicas": 1, "template": {"spec": {
        "parallelism": pods, "completions": pods, "completionMode": "Indexed", "backoffLimit": 1000,
        "template": {"metadata": {"labels": labels}, "spec": {"restartPolicy": "OnFailure", **pod}}}}}


# ------------------------------------------------------------------------------- pods
def _pod(init, container, volumes, affinity=None):
    return {
        **({"affinity": affinity} if affinity else {}),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,  # their variables begin with PATHWAYS_, as our own do
        "terminationGracePeriodSeconds": 30,  # a controller needs up to 5 s to leave its programs to the next one
        "securityContext": {"runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
                            "seccompProfile": {"type": "RuntimeDefault"}},
        "initContainers": [init],
        "containers": [container],
        "volumes": volumes,
    }


def _container(cluster, name, command, **more):
    return {"name": name, "image": cluster.image, "command": command, **more,
            "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}}


def _private_copies(cluster, target):
    """Our programs refuse files of secrets that others can read, and Kubernetes lets the pod's group read those of a Secret. So this container copies
    them into memory, for their owner alone."""
    return _container(cluster, "secrets", ["sh", "-c", f"umask 077 && mkdir -p {target} && cp -L {_SECRETS}/* {target}/"],
                      resources={"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "1", "memory": "64Mi"}},
                      volumeMounts=[_mount("private", _IDENTITIES), _mount("secret", _SECRETS, readOnly=True)])


def _mount(name, path, **more):
    return {"name": name, "mountPath": path, **more}


def _secret(name, files):
    """A pod whose Secret, or one of these keys in it, is missing does not start."""
    items = [{"key": file, "path": file} for file in files]
    return {"name": "secret", "secret": {"secretName": name, "optional": False, "defaultMode": 0o440, "items": items}}


def _memory(name):
    return {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}


def _disk(name, limit):
    return {"name": name, "emptyDir": {"sizeLimit": limit}}


def _listens(port, **times):
    return {"tcpSocket": {"port": port}, **times}


def _probes(port, start_seconds, liveness):
    return {"startupProbe": _listens(port, periodSeconds=_PROBE_SECONDS, failureThreshold=start_seconds // _PROBE_SECONDS),
            "readinessProbe": _listens(port, periodSeconds=_PROBE_SECONDS), "livenessProbe": liveness}


def _controller_pod(cluster):
    name = cluster.name.removeprefix("pathways").removeprefix("-") or "default"
    args = ["up", "--foreground", "--no-workers", "--name", name, "--islands", str(cluster.islands), "--hosts", str(cluster.hosts),
            "--listen", f"0.0.0.0:{CLIENTS}", "--listen-workers", f"0.0.0.0:{WORKERS}", "--listen-proxy", "none", "--advertise", cluster.controller,
            *cluster.controller_flags]
    # A controller that is killed takes the programs with it that cannot go on with the next one. So the probe asks it seldom, and Kubernetes kills it
    # after five minutes of silence. It answers while it waits for its hosts.
    liveness = {"exec": {"command": ["pathways", "status", "--name", name]}, "periodSeconds": 60, "timeoutSeconds": 30, "failureThreshold": 5}
    container = _container(
        cluster, "controller", ["pathways"], args=args,
        env=[{"name": "PATHWAYS_HOME", "value": _HOME}, {"name": "HOME", "value": _HOME}],
        ports=[{"name": "clients", "containerPort": CLIENTS}, {"name": "workers", "containerPort": WORKERS}],
        resources={"requests": {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "1Gi"},
                   "limits": {"cpu": "8", "memory": "8Gi", "ephemeral-storage": "8Gi"}},
        **_probes("clients", _CONTROLLER_START_SECONDS, liveness),
        volumeMounts=[_mount("home", _HOME), _mount("private", _IDENTITIES), _mount("tmp", "/tmp")])
    return _pod(_private_copies(cluster, f"{_IDENTITIES}/{name}"), container,
                [_disk("home", "4Gi"), _memory("private"), _disk("tmp", "1Gi"), _secret(f"{cluster.name}-identity", IDENTITY_FILES)])


def worker_resources(platform, devices):
    """Returns the default resources of a worker."""
    found = {"cpu": str(max(4, devices if platform == "cpu" else 8)), "memory": "16Gi" if platform == "cpu" else "64Gi", "ephemeral-storage": "16Gi"}
    return {**found, "nvidia.com/gpu": devices} if platform == "cuda" else found


def _worker_pod(cluster, island, host):
    folder = f"{_IDENTITIES}/worker"
    args = ["worker", "--join", f"{cluster.controller}:{CLIENTS}", "--island", island, "--host", host, "--advertise", "$(POD_IP)",
            "--listen", f"0.0.0.0:{DATA}", "--listen-lanes", f"0.0.0.0:{LANES}", "--platform", cluster.platform]
    args += ["--devices", str(cluster.devices)] if cluster.platform == "cpu" else []
    args += ["--island-hosts", str(cluster.hosts)] if cluster.platform != "cpu" and cluster.hosts > 1 else []
    args += ["--wait", str(_WORKER_WAIT_SECONDS), "--token-file", f"{folder}/worker.token", *cluster.worker_flags]
    index = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    named = ("HOST_INDEX", index) if cluster.jobset else ("POD_NAME", "metadata.name")
    resources = {**worker_resources(cluster.platform, cluster.devices), **cluster.resources}
    container = _container(
        cluster, "worker", ["pathways"], args=args,
        env=[*({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in (named, ("POD_IP", "status.podIP"))),
             {"name": "PATHWAYS_HOME", "value": _HOME}, {"name": "HOME", "value": _CACHE}, {"name": "XDG_CACHE_HOME", "value": _CACHE}],
        ports=[{"name": "data", "containerPort": DATA}, {"name": "lanes", "containerPort": LANES}],
        resources={"requests": resources, "limits": dict(resources)},
        **_probes("data", _WORKER_WAIT_SECONDS + 60, _listens("data", periodSeconds=20, failureThreshold=6)),
        volumeMounts=[_mount("private", _IDENTITIES), _mount("cache", _CACHE), _mount("tmp", "/tmp")])
    # One worker owns all devices of its node, and an island that loses a node loses one host.
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": cluster.labels("worker")}, "topologyKey": "kubernetes.io/hostname"}]}}
    return _pod(_private_copies(cluster, folder), container,
                [_memory("private"), _disk("cache", "8Gi"), _disk("tmp", "4Gi"), _secret(f"{cluster.name}-worker", WORKER_FILES)], apart)


# ------------------------------------------------------------------------------- policies
def _budgets(cluster):
    """One host of an island at a time may be evicted, and the controller never: to move it, delete its pod. Kubernetes counts pods of Jobs by
    minAvailable alone."""
    found = [_budget(cluster, cluster.controller, cluster.labels("controller"), 1)]
    return found + [_budget(cluster, f"{cluster.name}-{island}", cluster.labels("worker", island=island), cluster.hosts - 1)
                    for island in cluster.island_names()]


def _budget(cluster, name, labels, least):
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": cluster.metadata(name, labels),
            "spec": {"minAvailable": least, "selector": {"matchLabels": labels}, "unhealthyPodEvictionPolicy": "AlwaysAllow"}}


_NAMES = {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}  # DNS
_NAMESPACE = [{"podSelector": {}}]


def _pods(labels):
    return [{"podSelector": {"matchLabels": labels}}]


def _tcp(*ports):
    return [{"protocol": "TCP", "port": port} for port in ports]


def _policy(cluster, name, labels, ingress, egress):
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": cluster.metadata(name, labels),
            "spec": {"podSelector": {"matchLabels": labels}, "policyTypes": ["Ingress", "Egress"], "ingress": ingress, "egress": egress}}


def _controller_policy(cluster):
    """The controller opens no connections."""
    return _policy(cluster, cluster.controller, cluster.labels("controller"), [
        {"from": _NAMESPACE, "ports": _tcp(CLIENTS)}, {"from": _pods(cluster.labels("worker")), "ports": _tcp(WORKERS)}], [_NAMES])


def _workers_policy(cluster):
    """Between workers all ports are open, because the collectives of device plugins choose theirs. Programs of the namespace use the lanes for their
    arrays."""
    controller, workers = _pods(cluster.labels("controller")), _pods(cluster.labels("worker"))
    return _policy(cluster, f"{cluster.name}-workers", cluster.labels("worker"), [{"from": workers}, {"from": _NAMESPACE, "ports": _tcp(LANES)}],
                   [_NAMES, {"to": controller, "ports": _tcp(CLIENTS, WORKERS)}, {"to": workers}])
