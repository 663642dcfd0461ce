"""Addresses of a cluster's processes: HOST:PORT, tcp:HOST:PORT or unix:PATH."""

import pathlib


def split(address, what):
    """Splits "HOST:PORT" into ("host", "port"); raises ValueError, which names `what`."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{what} wants HOST:PORT, not '{address}'")
    return host, port


def local_by_default(text, what):
    """Splits "[HOST:]PORT" into ("host", "port"); without a host this machine alone reaches the port. Raises ValueError, which names `what`."""
    return split(text if ":" in text else f"127.0.0.1:{text}", what)


def listens_here(address):
    """Whether an address can be reached from this machine only."""
    return address.startswith("unix:") or is_loopback(address.removeprefix("tcp:").rpartition(":")[0])


def is_loopback(host):
    return host in ("localhost", "[::1]") or host.startswith("127.")


def listen_proxy(wanted, listen):
    """Returns the address at which the agent for programs without our package listens: `wanted`, or by default a free port on the host of `listen`.
    Returns None if `wanted` is "none": there is no such agent."""
    if wanted == "none":
        return None
    if wanted is None:
        return f"{split(listen, '--listen')[0]}:0"
    split(wanted, "--listen-proxy")
    return wanted


def is_wildcard(host):
    return host in ("0.0.0.0", "[::]")


def reachable(address, name):
    """Returns a listening address as other processes reach it: a wildcard host becomes `name`."""
    if address.startswith("unix:"):
        return address
    scheme, host_port = ("tcp:", address[4:]) if address.startswith("tcp:") else ("", address)
    host, _, port = host_port.rpartition(":")
    return f"{scheme}{name if is_wildcard(host) else host}:{port}"


def read_ports(port_file):
    """Returns (the clients' address, the workers' address), or None while the controller does not serve yet."""
    try:
        lines = pathlib.Path(port_file).read_text().splitlines()
    except OSError:
        return None
    return (lines[0], lines[1]) if len(lines) >= 2 else None
