"""Starts a cluster of one host on another machine than its program. That machine is a network namespace, which shares neither memory nor sockets with
this one."""

import contextlib
import ipaddress
import os
import pathlib
import subprocess
import tempfile
import time

import _sides

NAMESPACE = ["unshare", "--net", "--pid", "--mount-proc", "--fork", "--kill-child", "sh", "-c", "echo ready; exec sleep 100000"]


def _run(*words):
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


@contextlib.contextmanager
def _machine():
    """Makes a network namespace with a link to this machine. Yields (the words that run a program there, its address). Raises OSError if this machine does
    not allow that."""
    with contextlib.ExitStack() as stack:
        holder = subprocess.Popen(NAMESPACE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        stack.callback(lambda: (holder.kill(), holder.wait()))
        if holder.stdout.readline() != "ready\n":
            raise OSError(f"no network namespace: {holder.stderr.read().strip()}")
        pid = pathlib.Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().strip()
        net = ipaddress.ip_address("198.18.128.0") + os.getpid() % 4096 * 4  # from the range reserved for network tests
        link, words = f"pwb{os.getpid() % 100000}", ["nsenter", "-t", pid, "--net", "--pid", "--mount"]
        try:
            _run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", pid)
            stack.callback(subprocess.run, ["ip", "link", "del", link], stderr=subprocess.DEVNULL, check=False)
            _run("ip", "addr", "add", f"{net + 1}/30", "dev", link)
            _run("ip", "link", "set", link, "up")
            for command in (["link", "set", "lo", "up"], ["addr", "add", f"{net + 2}/30", "dev", "eth0"], ["link", "set", "eth0", "up"]):
                _run(*words, "ip", *command)
        except (OSError, subprocess.CalledProcessError) as error:
            raise OSError(f"no link to a network namespace: {error}") from error
        yield words, str(net + 2)


@contextlib.contextmanager
def elsewhere(devices):
    """Starts a cluster of one host on a machine of its own; yields (its address, the environment of its clients, its processes)."""
    from pathways._cluster import admin, binaries, command_lines

    with _machine() as (words, address), tempfile.TemporaryDirectory(prefix="bench-elsewhere-") as folder, contextlib.ExitStack() as stack:
        security = command_lines.Security(tls="off")

        def start(binary, *arguments):
            process = subprocess.Popen([*words, str(binaries.find(binary)), *map(str, arguments)], stderr=subprocess.DEVNULL)
            stack.callback(lambda: (process.terminate(), process.wait(30)))
            return process.pid

        port = pathlib.Path(folder) / "port"
        controller = start("pathways-controller", "--listen-clients", f"{address}:0", "--listen-workers", "127.0.0.1:0", "--expect-hosts", 1, "--port-file",
                           port, "--own-workers", *security.controller_flags())
        while not port.exists():
            time.sleep(0.02)
        clients, workers = port.read_text().split()[:2]
        worker = start("pathways-worker", "--controller", workers.removeprefix("tcp:"), "--plugin", binaries.device_plugin("cpu"), "--island", "island0",
                       "--host-name", "host0", "--devices", devices, "--listen", f"{address}:0", "--advertise", address, *security.flags("worker"))
        access = security.flags("operator")
        while not admin.status(clients, access=access)["hosts"]:
            time.sleep(0.05)
        yield clients, {"PATHWAYS_TLS": "off"}, [pid for root in (controller, worker) for pid in _sides.tree(root)]
