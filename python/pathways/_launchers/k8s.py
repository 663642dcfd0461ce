"""`pathways up --on k8s`: prints the Kubernetes objects of a cluster (k8s_objects.py), or applies them by kubectl with the Secrets that they need.

It records no cluster on this machine: Kubernetes runs it, and `kubectl delete` ends it. Secrets are never printed.
"""

import base64
import json
import re
import subprocess
import sys

from pathways._cluster import addresses, binaries, command_lines, local, processes, records
from pathways._cluster.shape import Shape
from pathways._commands import cluster_commands
from pathways._launchers import k8s_objects, yaml_text

_MOST_NAME = 40  # characters; names of objects, with what we append, must fit into a DNS label
_OWN = ("image", "namespace", "jobset", "apply")
_KUBECTL_SECONDS = 120
_WAIT_SECONDS = 3600  # the default of --wait

# Options that mean nothing on Kubernetes, with the sentence that says what to do.
_REFUSED = {
    "gres": "--gres is for --on slurm; --option=RESOURCE=AMOUNT asks Kubernetes for a resource of each worker",
    "simulated": "--simulated needs no hosts: leave out --on k8s",
    "simulated_device": "--simulated-device is for --simulated: leave out --on k8s",
    "listen": "pods listen on fixed ports: leave out --listen, and change the Service if clients are to use another port",
    "listen_workers": "pods listen on fixed ports: leave out --listen-workers",
    "listen_proxy": "an agent runs in the pod of the program that uses it: leave out --listen-proxy (docs/deploy.md has the container)",
    "advertise": "pods advertise the names and addresses that Kubernetes gives them: leave out --advertise",
    "no_workers": "workers are pods of their own: leave out --no-workers",
    "python_user": "--python-user needs root, and pods run without it: --host-python runs such functions as the worker's user",
    "metrics_port": "the objects open no port for metrics: leave out --metrics-port",
    "page_tls": "the page is on 127.0.0.1 of its pod, which 'kubectl port-forward' reaches: leave out --page-tls",
    "page_certificate": "the page is on 127.0.0.1 of its pod, which 'kubectl port-forward' reaches: leave out --page-certificate",
    "page_key": "the page is on 127.0.0.1 of its pod, which 'kubectl port-forward' reaches: leave out --page-key",
    "oidc_ca": "the image knows no file of this machine: add the authorities to the image's own (/etc/ssl/certs), and leave out --oidc-ca",
    "page_name": "browsers call the page localhost, by 'kubectl port-forward': leave out --page-name",
    "detach": "Kubernetes runs the cluster: leave out --detach",
    "foreground": "Kubernetes runs the cluster: leave out --foreground",
}


def check_elsewhere(args):
    """Refuses the options of --on k8s where the cluster is not on Kubernetes."""
    if given := [f"--{name}" for name in _OWN if getattr(args, name)]:
        raise ValueError(f"{' and '.join(given)} {'is' if len(given) == 1 else 'are'} for --on k8s, not --on {args.on}")


def up(args):
    cluster = cluster_of(args)
    found = k8s_objects.objects(cluster)
    if args.apply:
        return _apply(args, cluster, found)
    if args.json:
        print(json.dumps({"apiVersion": "v1", "kind": "List", "items": found}, indent=2), flush=True)
    else:
        print(_header(cluster) + yaml_text.documents(found), end="", flush=True)
    return 0


# ------------------------------------------------------------------------------- from options to the cluster
def cluster_of(args):
    """Returns the cluster that the options describe. Raises ValueError, which says what to do, for an option that means nothing on Kubernetes."""
    for name, sentence in _REFUSED.items():
        if getattr(args, name) is not None and getattr(args, name) is not False:
            raise ValueError(f"with --on k8s: {sentence}")
    if args.tls == "off":
        raise ValueError("with --on k8s TLS stays on: without it every pod that reaches the cluster could do anything there. Leave out --tls off")
    if args.wait != _WAIT_SECONDS:
        raise ValueError("with --on k8s: pods wait for nodes for as long as it takes: leave out --wait")
    shape, platform = cluster_commands.shape_of(args), args.platform or command_lines.default_platform()
    resources = _resources(args.option or [])
    if platform not in ("cpu", "cuda") and not any("/" in name for name in resources):
        raise ValueError(f"with --on k8s and --platform {platform}, --option names the resource that stands for the devices of a node, as in "
                         "--option=google.com/tpu=4")
    return k8s_objects.Cluster(_object_name(args.name), args.image or args.default_image, shape.islands, shape.hosts, platform, shape.devices,
                               _label("--namespace", args.namespace), args.jobset, resources, _controller_flags(args), _worker_flags(args))


def _label(option, text):
    if text is not None and not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", text):
        raise ValueError(f"{option} wants a name of Kubernetes: small letters, digits and '-', at most 63 of them, not '{text}'")
    return text


def _object_name(name):
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", name) or len(name) > _MOST_NAME:
        raise ValueError(f"with --on k8s, --name wants small letters, digits and '-', at most {_MOST_NAME} of them, not '{name}'")
    return "pathways" if name == "default" else f"pathways-{name}"


def _resources(options):
    found = {}
    for option in options:
        name, equals, amount = option.partition("=")
        if not (equals and re.fullmatch(r"[a-z0-9./-]+", name) and re.fullmatch(r"[0-9.]+(m|[kMGTPE]i?)?", amount)):
            raise ValueError(f"with --on k8s, --option wants RESOURCE=AMOUNT, such as memory=64Gi or google.com/tpu=4, not '{option}'")
        found[name] = int(amount) if amount.isdecimal() and "/" in name else amount
    return found


def _controller_flags(args):
    flags = []
    for name in ("policy", "dispatch", "hang_limit", "on_hang", "client_grace", "host_grace", "controller_grace"):
        value = getattr(args, name)
        if value is not None:
            flags += [f"--{name.replace('_', '-')}", value if isinstance(value, str) else f"{value:g}"]
    for name, value in command_lines.oidc(args).items():
        flags += [f"--oidc-{name}", value]
    if args.page is not None:
        flags += ["--page", _page_port(args.page)]
    return flags + ["--spill"] * args.spill + ["--no-restart"] * args.no_restart


def _page_port(page):
    """Returns the port of the page on its pod's loopback. No other pod reaches it, and 'kubectl port-forward' does."""
    host, port = addresses.local_by_default(page, "--page")
    if host != "127.0.0.1":
        raise ValueError("with --on k8s the page is on 127.0.0.1 of its pod, which 'kubectl port-forward' reaches: give --page a port alone")
    return str(k8s_objects.PAGE) if port == "0" else port


def _worker_flags(args):
    flags = ["--checksum"] if args.checksum else []
    for name in ("memory_limit", "python_memory", "python_processes", "python_seconds"):
        if getattr(args, name) is not None:
            flags += [f"--{name.replace('_', '-')}", str(getattr(args, name))]
    if args.device_options:
        flags += ["--device-options", *args.device_options]
    if args.host_python == sys.executable:  # the flag without a path: the interpreter of the image
        return [*flags, "--host-python"]
    return [*flags, "--host-python", args.host_python] if args.host_python else flags


def _header(cluster):
    hosts = cluster.islands * cluster.hosts
    return "".join(f"# {line}\n" for line in (
        f"Cluster '{cluster.name}': {cluster.islands} island(s) x {cluster.hosts} host(s), printed by 'pathways up --on k8s' (docs/deploy.md).",
        f"Its pods do not start without the Secrets {cluster.name}-identity and {cluster.name}-worker, which --apply makes.",
        f"Every worker wants a node of its own: {hosts} node{'s'[:hosts != 1]}.",
        f"Programs in the namespace use PATHWAYS_ADDRESS={cluster.controller}:{k8s_objects.CLIENTS}."))


# ------------------------------------------------------------------------------- applying
def _apply(args, cluster, found):
    folder = _identity(args.name)
    secrets = [_secret(cluster, "identity", folder, k8s_objects.IDENTITY_FILES), _secret(cluster, "worker", folder, k8s_objects.WORKER_FILES)]
    answer = _kubectl({"apiVersion": "v1", "kind": "List", "items": [*secrets, *found]})
    where = f" -n {cluster.namespace}" if cluster.namespace else ""
    cluster_commands.say(args, {"applied": answer.splitlines(), "controller": cluster.controller, "identity": str(folder)}, "\n".join([
        answer.rstrip(), f"Cluster '{args.name}' is applied.",
        f"  see its pods    kubectl get pods{where} -l app.kubernetes.io/instance={cluster.name}",
        f"  ask it          kubectl port-forward{where} service/{cluster.controller} {k8s_objects.CLIENTS}",
        f"                  pathways status --address 127.0.0.1:{k8s_objects.CLIENTS}",
        *_page_lines(args, cluster, where),
        "  stop it         the same command without --apply, and '| kubectl delete -f -' behind it"]))
    return 0


def _page_lines(args, cluster, where):
    if args.page is None:
        return []
    pod = "POD" if args.jobset else f"{cluster.controller}-0"
    of_pod = " (POD: the controller's)" if args.jobset else ""
    return [f"  its page        kubectl port-forward{where} pod/{pod} {_page_port(args.page)}{of_pod}",
            f"  log in there    kubectl exec{where} {pod} -- pathways page --name {args.name}"]


def _identity(name):
    """Returns the folder of the cluster's authority and tokens. A controller that ends at once makes it, where there is none."""
    folder = records.identity_folder(name)
    if not (folder / "authority.key").exists():
        _check_not_up(name)
        security = command_lines.Security(folder, folder)
        local.Cluster(Shape(1, 1, 1), records.fresh_folder(name), "cpu", "127.0.0.1:0", owned=True, joinable=local.Joinable(with_workers=False),
                      listen_proxy=None, security=security).start().stop()
    if missing := [file for file in (*k8s_objects.IDENTITY_FILES, *k8s_objects.WORKER_FILES) if not (folder / file).exists()]:
        raise binaries.MissingError(f"{folder} lacks {', '.join(missing)}: 'pathways up --name {name} --no-workers' and "
                                    f"'pathways down --name {name}' make what is missing")
    return folder


def _check_not_up(name):
    try:
        running = records.load(name)
    except records.NotRunning:
        return
    raise ValueError(f"cluster '{name}' is up at {running.address} on this machine, without an authority: give --name another one")


def _secret(cluster, suffix, folder, files):
    data = {file: base64.b64encode((folder / file).read_bytes()).decode() for file in files}
    name = f"{cluster.name}-{suffix}"
    return {"apiVersion": "v1", "kind": "Secret", "metadata": cluster.metadata(name, cluster.labels("secret")), "type": "Opaque", "data": data}


def _kubectl(objects):
    """Applies objects on the server's side: kubectl's own way would copy the Secrets into annotations. Returns the lines that kubectl prints."""
    words = ["kubectl", "apply", "--server-side", "--field-manager=pathways", "-f", "-"]
    try:
        done = subprocess.run(words, input=json.dumps(objects), capture_output=True, text=True, timeout=_KUBECTL_SECONDS, check=False)
    except FileNotFoundError:
        raise ValueError("--apply needs 'kubectl', which was not found. Without --apply the objects are printed, for a machine that has it") from None
    except subprocess.TimeoutExpired:
        raise processes.StartError(f"'kubectl apply' did not answer within {_KUBECTL_SECONDS} s: 'kubectl cluster-info' names the cluster that it "
                                   "asks") from None
    if done.returncode != 0:
        raise processes.StartError(f"'kubectl apply' failed: {done.stderr.strip()}")
    return done.stdout
