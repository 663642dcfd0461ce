"""`pathways up --on k8s`: its objects are valid, guarded and fit together, and options that mean nothing there are refused.

No Kubernetes runs here.
"""

import base64
import copy
import itertools
import json
import os
import pathlib
import shutil
import subprocess

import kubernetes_validate
import pytest
import yaml

from pathways import cli
from pathways._launchers import k8s, yaml_text

ROOT = pathlib.Path(__file__).resolve().parents[2]
KUBERNETES = "1.37"
EXAMPLE = ["--hosts", "4", "--devices", "8", "--platform", "cuda"]  # deploy/kubernetes.yaml
SHAPES = [
    EXAMPLE,
    [*EXAMPLE, "--jobset"],
    ["--islands", "2", "--hosts", "2", "--name", "team-a", "--namespace", "ml", "--option", "memory=64Gi"],
    ["--islands", "2", "--hosts", "3", "--jobset", "--namespace", "ml", "--platform", "/opt/libtpu.so", "--option", "google.com/tpu=4"],
]


@pytest.fixture(autouse=True)
def no_shape_of_the_environment(monkeypatch):
    for name in ("PATHWAYS_LOCAL", "PATHWAYS_PLATFORM", "PATHWAYS_ADDRESS"):
        monkeypatch.delenv(name, raising=False)


def printed(capsys, *words):
    assert cli.main(["up", "--on", "k8s", *words]) == 0
    return capsys.readouterr().out


@pytest.fixture(params=SHAPES, ids=" ".join)
def objects(request, capsys):
    return list(yaml.safe_load_all(printed(capsys, *request.param)))


def of_kind(objects, kind):
    return [one for one in objects if one["kind"] == kind]


def templates(objects):
    """Returns the pod template of each workload: {name of the workload or job: template}."""
    found = {one["metadata"]["name"]: one["spec"]["template"] for one in of_kind(objects, "StatefulSet")}
    jobs = itertools.chain(*(one["spec"]["replicatedJobs"] for one in of_kind(objects, "JobSet")))
    return found | {job["name"]: job["template"]["spec"]["template"] for job in jobs}


def component(labels):
    return labels["app.kubernetes.io/component"]


def after(words, flag):
    return words[words.index(flag) + 1]


# ------------------------------------------------------------------------------- the objects
def test_objects_fit_kubernetes_schemas(objects):
    for one in objects:
        if one["kind"] != "JobSet":
            kubernetes_validate.validate(one, KUBERNETES, strict=True)
            continue
        # Kubernetes has no schema of JobSets, but of the Jobs in them.
        assert one["apiVersion"] == "jobset.x-k8s.io/v1alpha2" and set(one["spec"]) == {"failurePolicy", "replicatedJobs"}
        for job in one["spec"]["replicatedJobs"]:
            assert set(job) == {"name", "replicas", "template"} and set(job["template"]) == {"spec"}
            kubernetes_validate.validate(
                {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job["name"]}, **job["template"]}, KUBERNETES, strict=True
            )


def test_the_schemas_find_a_fault(capsys):
    (found,) = [
        one for one in yaml.safe_load_all(printed(capsys)) if one["kind"] == "StatefulSet" and component(one["metadata"]["labels"]) == "worker"
    ]
    for path, value in ((("replicas",), "four"), (("template", "spec", "securityContext", "runAsNonRot"), True)):
        broken = copy.deepcopy(found)
        place = broken["spec"]
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(broken, KUBERNETES, strict=True)


def test_pods_meet_the_restricted_standard_and_write_to_volumes_alone(objects):
    for template in templates(objects).values():
        pod = template["spec"]
        security = pod["securityContext"]
        assert security["runAsNonRoot"] is True and security["runAsUser"] > 0 and security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False and pod["terminationGracePeriodSeconds"] > 0
        assert pod["enableServiceLinks"] is False, "variables PATHWAYS_* of Services would be taken for settings"
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys() and all(
            volume.keys() <= {"name", "emptyDir", "secret"} for volume in pod["volumes"]
        )
        for container in pod["initContainers"] + pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys() & container["resources"]["limits"].keys()
            assert {mount["name"] for mount in container["volumeMounts"]} <= {volume["name"] for volume in pod["volumes"]}
            assert all("sizeLimit" in volume["emptyDir"] for volume in pod["volumes"] if "emptyDir" in volume)
        (container,) = pod["containers"]
        assert {"startupProbe", "readinessProbe", "livenessProbe"} <= container.keys()
        names = {port["name"] for port in container["ports"]}
        assert all(container[probe]["tcpSocket"]["port"] in names for probe in ("startupProbe", "readinessProbe"))
        written = {one["value"] for one in container["env"] if one["name"] in ("HOME", "XDG_CACHE_HOME")} | {"/tmp"}
        assert written <= {mount["mountPath"] for mount in container["volumeMounts"]}


def test_no_pod_starts_without_its_secrets(objects):
    wanted = {"controller": ("identity", ["authority.crt", "authority.key", "tokens", "operator.token"]), "worker": ("worker", ["worker.token"])}
    for template in templates(objects).values():
        pod, labels = template["spec"], template["metadata"]["labels"]
        suffix, files = wanted[component(labels)]
        (secret,) = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
        assert secret == {
            "secretName": f"{labels['app.kubernetes.io/instance']}-{suffix}",
            "optional": False,
            "defaultMode": 0o440,
            "items": [{"key": file, "path": file} for file in files],
        }
        (init,), (container,) = pod["initContainers"], pod["containers"]
        assert {"name": "secret", "mountPath": "/secrets", "readOnly": True} in init["volumeMounts"] and init["command"][2].startswith(
            "umask 077 && "
        )
        assert "secret" not in {mount["name"] for mount in container["volumeMounts"]}
        assert "--tls" not in container["args"] and not any("secret" in str(one).lower() for one in container["env"])
        if component(labels) == "worker":
            folder, _, file = after(container["args"], "--token-file").rpartition("/")
            assert f"mkdir -p {folder} && cp -L /secrets/* {folder}/" in init["command"][2] and [file] == files
        else:
            assert f"/pathways/identities/{after(container['args'], '--name')}" in init["command"][2]


def selects(selector, labels):
    return selector.items() <= labels.items()


def test_parts_name_each_other(objects):
    found = templates(objects)
    by_component = {kind: [one for one in found.values() if component(one["metadata"]["labels"]) == kind] for kind in ("controller", "worker")}
    (controller,) = by_component["controller"]
    args = controller["spec"]["containers"][0]["args"]
    islands, hosts = int(after(args, "--islands")), int(after(args, "--hosts"))
    assert len(by_component["worker"]) == islands
    sizes = [one["spec"]["replicas"] for one in of_kind(objects, "StatefulSet") if component(one["metadata"]["labels"]) == "worker"]
    sizes += [
        job["template"]["spec"]["completions"]
        for one in of_kind(objects, "JobSet")
        for job in one["spec"]["replicatedJobs"]
        if job["name"] != "controller"
    ]
    assert sizes == [hosts] * islands

    services = {one["metadata"]["name"]: one["spec"] for one in of_kind(objects, "Service")}
    for service in services.values():
        selected = [one for one in found.values() if selects(service["selector"], one["metadata"]["labels"])]
        (container,) = selected[0]["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert {port["targetPort"]: port["port"] for port in service["ports"]} == ports and len(selected) == 1
        assert all(f"0.0.0.0:{port}" in container["args"] for port in ports.values())
    for one in of_kind(objects, "StatefulSet"):
        assert one["spec"]["serviceName"] in services and selects(
            one["spec"]["selector"]["matchLabels"], one["spec"]["template"]["metadata"]["labels"]
        )
    for worker in by_component["worker"]:
        host, _, port = after(worker["spec"]["containers"][0]["args"], "--join").partition(":")
        assert int(port) in {one["port"] for one in services[host]["ports"]} and host == after(args, "--advertise")
    namespaces = {one["metadata"].get("namespace") for one in objects}
    assert len(namespaces) == 1


def test_hosts_are_on_nodes_of_their_own(objects):
    workers = [one for one in templates(objects).values() if component(one["metadata"]["labels"]) == "worker"]
    for worker in workers:
        (term,) = worker["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term["topologyKey"] == "kubernetes.io/hostname"
        assert all(selects(term["labelSelector"]["matchLabels"], other["metadata"]["labels"]) for other in workers)


def test_every_pod_has_a_budget(objects):
    budgets = [one["spec"] for one in of_kind(objects, "PodDisruptionBudget")]
    for template in templates(objects).values():
        labels = template["metadata"]["labels"]
        (budget,) = [one for one in budgets if selects(one["selector"]["matchLabels"], labels)]
        hosts = int(after(templates_of(objects, "controller")[0]["spec"]["containers"][0]["args"], "--hosts"))
        assert budget["minAvailable"] == (1 if component(labels) == "controller" else hosts - 1)


def templates_of(objects, kind):
    return [one for one in templates(objects).values() if component(one["metadata"]["labels"]) == kind]


def reaches(objects, source, target, port):
    """Whether the network policies let pods with labels `source` connect to this TCP port of pods with labels `target`."""

    def allows(labels, direction, side, peer):
        policies = [one["spec"] for one in of_kind(objects, "NetworkPolicy") if selects(one["spec"]["podSelector"]["matchLabels"], labels)]
        rules = [rule for policy in policies for rule in policy[direction]]
        return not policies or any(
            (side not in rule or any(selects(one["podSelector"].get("matchLabels", {}), peer) for one in rule[side]))
            and ("ports" not in rule or {"protocol": "TCP", "port": port} in rule["ports"])
            for rule in rules
        )

    return allows(target, "ingress", "from", source) and allows(source, "egress", "to", target)


def test_the_network_policies_let_in_what_the_cluster_needs_and_nothing_else(objects):
    controller, worker = (templates_of(objects, kind)[0]["metadata"]["labels"] for kind in ("controller", "worker"))
    program = {"app": "train"}
    wanted = [
        (program, controller, {8470}),
        (program, worker, {8474}),
        (worker, controller, {8470, 8471}),
        (worker, worker, {8470, 8471, 8472, 8474, 22, 40000}),
        (controller, worker, set()),
        (worker, program, set()),
        (controller, program, set()),
    ]
    for source, target, ports in wanted:
        assert {port for port in (8470, 8471, 8472, 8474, 22, 40000) if reaches(objects, source, target, port)} == ports, (source, target)
    for one in of_kind(objects, "NetworkPolicy"):
        assert one["spec"]["policyTypes"] == ["Ingress", "Egress"] and all("from" in rule for rule in one["spec"]["ingress"])


# ------------------------------------------------------------------------------- the files of deploy/
def test_the_example_is_what_the_command_prints(capsys):
    command = f"pathways up --on k8s {' '.join(EXAMPLE)} >deploy/kubernetes.yaml"
    assert (ROOT / "deploy" / "kubernetes.yaml").read_text() == printed(capsys, *EXAMPLE), f"write it again: {command}"


def helm():
    ours = ROOT / "build" / "helm" / "helm"
    return ours if ours.exists() else shutil.which("helm")


@pytest.mark.skipif(helm() is None, reason="helm is not installed: 'make test-helm' builds it, with Go")
@pytest.mark.parametrize(
    "values, options",
    [
        ([], []),
        (["hosts=4", "devices=8", "platform=cuda"], EXAMPLE),
        (["devices=16"], ["--devices", "16"]),
        (
            [
                "islands=2",
                "hosts=3",
                "jobset=true",
                "name=team-a",
                "image=r.example/p@sha256:00",
                "controller.flags={--policy,fifo,--spill}",
                "workers.flags={--checksum}",
                "workers.resources.memory=64Gi",
            ],
            [
                "--islands",
                "2",
                "--hosts",
                "3",
                "--jobset",
                "--name",
                "team-a",
                "--image",
                "r.example/p@sha256:00",
                "--policy",
                "fifo",
                "--spill",
                "--checksum",
                "--option",
                "memory=64Gi",
            ],
        ),
        (["platform=/opt/libtpu.so", "workers.resources.google\\.com/tpu=4"], ["--platform", "/opt/libtpu.so", "--option", "google.com/tpu=4"]),
    ],
)
def test_the_chart_renders_what_the_command_prints(capsys, values, options):
    words = ["--kube-version", "1.30.0", *itertools.chain(*(("--set", value) for value in values))]
    rendered = subprocess.run(
        [helm(), "template", "any", "deploy/helm/pathways", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout

    def named(text):
        return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(text) if one}

    assert named(rendered) == named(printed(capsys, *options))


@pytest.mark.skipif(helm() is None, reason="helm is not installed: 'make test-helm' builds it, with Go")
def test_helm_finds_no_fault_with_the_chart():
    done = subprocess.run([helm(), "lint", "--strict", "deploy/helm/pathways"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    refused = subprocess.run(
        [helm(), "template", "any", "deploy/helm/pathways", "--kube-version", "1.30.0", "--set", "platform=/opt/libtpu.so"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode != 0 and "workers.resources" in refused.stderr


def test_the_chart_has_the_version_of_the_package():
    chart = yaml.safe_load((ROOT / "deploy" / "helm" / "pathways" / "Chart.yaml").read_text())
    project = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{chart["version"]}"' in project and chart["appVersion"] == chart["version"]


# ------------------------------------------------------------------------------- options
@pytest.mark.parametrize(
    "options, says",
    [
        (["--gres", "gpu:8"], "--option=RESOURCE=AMOUNT"),
        (["--tls", "off"], "Leave out --tls off"),
        (["--listen", "0.0.0.0:1"], "leave out --listen"),
        (["--listen-workers", "0.0.0.0:1"], "leave out --listen-workers"),
        (["--listen-proxy", "none"], "leave out --listen-proxy"),
        (["--advertise", "me"], "leave out --advertise"),
        (["--no-workers"], "leave out --no-workers"),
        (["--python-user", "nobody"], "--host-python"),
        (["--metrics-port", "0"], "leave out --metrics-port"),
        (["--page", "0.0.0.0:9500"], "give --page a port alone"),
        (["--page-name", "board"], "leave out --page-name"),
        (["--page-tls", "on"], "leave out --page-tls"),
        (["--page-certificate", "page.crt"], "leave out --page-certificate"),
        (["--page-key", "page.key"], "leave out --page-key"),
        (["--simulated", "2x2"], "leave out --on k8s"),
        (["--foreground"], "leave out --foreground"),
        (["-d"], "leave out --detach"),
        (["--wait", "5"], "leave out --wait"),
        (["--name", "Team"], "small letters"),
        (["--name", "a" * 41], "at most 40"),
        (["--namespace", "-"], "small letters"),
        (["--platform", "/opt/libtpu.so"], "--option=google.com/tpu=4"),
        (["--option", "memory"], "RESOURCE=AMOUNT"),
        (["--option", "memory=much"], "RESOURCE=AMOUNT"),
    ],
)
def test_an_option_that_means_nothing_there_is_refused(capsys, options, says):
    assert cli.main(["up", "--on", "k8s", *options]) == cli.EXIT_USAGE
    out, err = capsys.readouterr()
    assert says in err and out == ""


@pytest.mark.parametrize("words, port", [(["--page"], "9500"), (["--page", "9600"], "9600"), ([], None)])
def test_the_page_is_on_the_loopback_of_the_controllers_pod(capsys, words, port):
    found = list(yaml.safe_load_all(printed(capsys, *words)))
    (controller,) = templates_of(found, "controller")
    args = controller["spec"]["containers"][0]["args"]
    assert (after(args, "--page") if "--page" in args else None) == port
    assert "9500" not in json.dumps([one for one in found if one["kind"] in ("Service", "NetworkPolicy")]), "no other pod reaches it"


def test_no_option_of_up_is_ignored():
    passed_on = {
        "islands",
        "hosts",
        "devices",
        "platform",
        "name",
        "json",
        "option",
        "policy",
        "spill",
        "dispatch",
        "hang_limit",
        "on_hang",
        "page",
        "client_grace",
        "host_grace",
        "controller_grace",
        "no_restart",
        "oidc_issuer",
        "oidc_audience",
        "oidc_user_claim",
        "oidc_operators",
        "oidc_keys",
    }
    passed_on |= {"checksum", "memory_limit", "device_options", "host_python", "python_memory", "python_processes", "python_seconds"}
    options = vars(cli.parser().parse_args(["up"])).keys() - {"command", "function", "on", "default_image"}
    assert options <= passed_on | set(k8s._REFUSED) | set(k8s._OWN) | {"tls", "wait"}, "pass it on in k8s.py, or refuse it there"


@pytest.mark.parametrize("option", [["--image", "x"], ["--namespace", "x"], ["--jobset"], ["--apply"]])
def test_its_options_are_refused_elsewhere(capsys, option):
    assert cli.main(["up", *option]) == cli.EXIT_USAGE
    assert f"{option[0]} is for --on k8s" in capsys.readouterr().err


def test_options_reach_the_pods_that_they_concern(capsys):
    found = list(
        yaml.safe_load_all(
            printed(
                capsys,
                "--policy",
                "fifo",
                "--dispatch",
                "sequential",
                "--hang-limit",
                "2.5",
                "--on-hang",
                "end",
                "--client-grace",
                "60",
                "--host-grace",
                "0",
                "--controller-grace",
                "30",
                "--no-restart",
                "--oidc-issuer",
                "https://id.example.org",
                "--oidc-audience",
                "pathways",
                "--spill",
                "--checksum",
                "--memory-limit",
                "1000",
                "--device-options",
                "memory_limit_bytes=4096",
                "asynchronous=true",
                "--host-python",
                "--python-memory",
                "5",
                "--python-seconds",
                "2.5",
                "--image",
                "r.example/p:1",
                "--option",
                "cpu=500m",
                "--option",
                "example.com/npu=2",
            )
        )
    )
    (controller,), (worker,) = templates_of(found, "controller"), templates_of(found, "worker")
    up, join = ([*one["spec"]["containers"][0]["args"]] for one in (controller, worker))
    assert [after(up, f"--{name}") for name in ("policy", "dispatch", "hang-limit", "on-hang", "client-grace", "host-grace", "controller-grace", "oidc-issuer", "oidc-audience")] == [
        "fifo",
        "sequential",
        "2.5",
        "end",
        "60",
        "0",
        "30",
        "https://id.example.org",
        "pathways",
    ]
    assert (
        "--spill" in up
        and "--no-restart" in up
        and "--checksum" in join
        and join[-1] == "--host-python"
        and after(join, "--memory-limit") == "1000"
        and join[join.index("--device-options") + 1 :][:2] == ["memory_limit_bytes=4096", "asynchronous=true"]
        and after(join, "--python-memory") == "5"
        and after(join, "--python-seconds") == "2.5"
    )
    for resources in worker["spec"]["containers"][0]["resources"].values():
        assert resources["cpu"] == "500m" and resources["example.com/npu"] == 2 and resources["memory"] == "16Gi"
    assert {one["image"] for template in (controller, worker) for one in template["spec"]["initContainers"] + template["spec"]["containers"]} == {
        "r.example/p:1"
    }
    for command in (up, join):  # the command line of the image takes them
        if "--token-file" in command:
            command.remove(after(command, "--token-file"))
            command.remove("--token-file")
        cli.parser().parse_args(command)


def test_json_has_the_same_objects(capsys):
    assert json.loads(printed(capsys, *EXAMPLE, "--json"))["items"] == list(yaml.safe_load_all(printed(capsys, *EXAMPLE)))


@pytest.mark.parametrize(
    "value",
    [
        {
            "a": "on",
            "b": "yes",
            "c": "null",
            "d": "~",
            "e": "1",
            "f": "1e3",
            "g": "0x1f",
            "h": "",
            "i": " x",
            "j": "a: b",
            "k": "a #b",
            "l": "-",
            "m": "*a",
            "n": "é\n",
        },
        {"a": True, "b": 0, "c": 1.5, "d": [], "e": {}, "f": [[1, [2]], {"a": [{"b": {}}]}], "g": {"on": {"1": []}}},
        {"a": {"long": ["x" * 30] * 9, "words": ["--listen", "0.0.0.0:1"], "flow": {f"k{i}": "v, w" for i in range(20)}}},
    ],
)
def test_yaml_is_read_as_it_was_written(value):
    assert list(yaml.safe_load_all(yaml_text.documents([value, value]))) == [value, value]


# ------------------------------------------------------------------------------- applying
@pytest.fixture
def kubectl(tmp_path, monkeypatch):
    """A kubectl that notes what it is told; returns the folder of its notes."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "kubectl"
    program.write_text(f"""#!/bin/sh
echo "$@" >{tmp_path}/words
cat >{tmp_path}/input
cat {tmp_path}/error >&2 2>/dev/null && exit 1
echo service/pathways-controller serverside-applied
""")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("PATHWAYS_HOME", str(tmp_path / "home"))
    return tmp_path


def identity(kubectl, *left_out):
    folder = kubectl / "home" / "identities" / "default"
    folder.mkdir(parents=True)
    for file in ("authority.crt", "authority.key", "tokens", "operator.token", "worker.token", "agent.token"):
        if file not in left_out:
            (folder / file).write_text(f"{file} of this test\n")
    return folder


def test_apply_hands_the_objects_and_the_secrets_to_kubectl(kubectl, capsys):
    folder = identity(kubectl)
    out = printed(capsys, *EXAMPLE, "--namespace", "ml", "--apply")
    applied = json.loads((kubectl / "input").read_text())["items"]
    assert (kubectl / "words").read_text().split() == ["apply", "--server-side", "--field-manager=pathways", "-f", "-"]
    secrets = {one["metadata"]["name"]: one for one in of_kind(applied, "Secret")}
    decoded = {name: {file: base64.b64decode(text).decode() for file, text in one["data"].items()} for name, one in secrets.items()}
    assert decoded == {
        "pathways-identity": {file: (folder / file).read_text() for file in ("authority.crt", "authority.key", "tokens", "operator.token")},
        "pathways-worker": {"worker.token": (folder / "worker.token").read_text()},
    }
    for one in secrets.values():
        kubernetes_validate.validate(one, KUBERNETES, strict=True)
    assert [one for one in applied if one["kind"] != "Secret"] == list(yaml.safe_load_all(printed(capsys, *EXAMPLE, "--namespace", "ml")))
    assert "of this test" not in out and not any(text in out for one in secrets.values() for text in one["data"].values())
    assert "kubectl port-forward -n ml service/pathways-controller 8470" in out


def test_apply_says_what_is_missing(kubectl, capsys, monkeypatch):
    identity(kubectl, "worker.token")
    assert cli.main(["up", "--on", "k8s", "--apply"]) == cli.EXIT_FAILED
    assert "lacks worker.token" in capsys.readouterr().err and not (kubectl / "input").exists()
    (kubectl / "home" / "identities" / "default" / "worker.token").write_text("x")
    (kubectl / "error").write_text("the server could not be reached")
    assert cli.main(["up", "--on", "k8s", "--apply"]) == cli.EXIT_FAILED
    assert "'kubectl apply' failed: the server could not be reached" in capsys.readouterr().err
    monkeypatch.setenv("PATH", str(kubectl))
    assert cli.main(["up", "--on", "k8s", "--apply"]) == cli.EXIT_USAGE
    assert "--apply needs 'kubectl'" in capsys.readouterr().err


def test_printing_needs_no_kubectl_and_no_identity(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATHWAYS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(k8s.subprocess, "run", None)
    assert printed(capsys).count("\n---\n") == 7 and not (tmp_path / "home").exists()
