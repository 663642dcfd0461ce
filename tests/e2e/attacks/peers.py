"""Connections of strangers to a cluster's ports, in bytes: TLS without a certificate, and frames that are put together by hand (net/framing.h)."""

import contextlib
import os
import pathlib
import re
import socket
import ssl
import struct

from conftest import PATIENCE

LISTEN = "0A"  # a state in /proc/net/tcp


def dial(address):
    """Returns a TCP connection to HOST:PORT."""
    host, _, port = address.removeprefix("tcp:").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE)


def tls(address):
    """Returns a connection that is encrypted and proves nothing. A server that wants a certificate closes it afterwards. Raises OSError if the server does
    not speak TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(dial(address))


def speaks_tls(address):
    try:
        tls(address).close()
    except OSError:
        return False
    return True


def prefix(header_bytes, payload_bytes=0):
    return b"PWF1" + struct.pack("<IQ", header_bytes, payload_bytes)


def frame(header, payload=b""):
    return prefix(len(header), len(payload)) + header + payload


def field(number, contents):
    """Returns a field of bytes of a protobuf message. Its number is below 16."""
    size, encoded = len(contents), b""
    while size >= 128:
        encoded, size = encoded + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + encoded + bytes([size]) + contents


def say(connection, words):
    """Sends as much as the other end takes."""
    try:
        connection.sendall(words)
    except OSError:  # it has closed the connection
        pass


def heard(connection):
    """Returns what the other end says until it closes the connection. Fails if it does not."""
    said = b""
    try:
        while more := connection.recv(1 << 16):
            said += more
    except TimeoutError:
        raise AssertionError("the connection stays open") from None
    except OSError:  # closed without a goodbye, or refused within TLS
        pass
    return said


def sockets_of(pid):
    """Returns the inodes of a process's sockets."""
    inodes = set()
    for entry in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            if found := re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{entry}")):
                inodes.add(found.group(1))
    return inodes


def _listeners():
    """Returns the addresses, "HOST:PORT", at which processes of this machine listen for TCP, by the inodes of their sockets."""
    found = {}
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        columns = line.split()
        if columns[3] == LISTEN:
            host, port = columns[1].split(":")
            found[columns[9]] = f"{socket.inet_ntoa(struct.pack('<I', int(host, 16)))}:{int(port, 16)}"
    return found


def listening(pid):
    """Returns the addresses at which a process listens."""
    inodes = sockets_of(pid)
    return {address for inode, address in _listeners().items() if inode in inodes}


def listener(address):
    """Returns the process that listens at this address's port."""
    port = address.rpartition(":")[2]
    (inode,) = [inode for inode, one in _listeners().items() if one.endswith(f":{port}")]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if inode in sockets_of(pid):
                return int(pid)
    raise AssertionError(f"nobody listens at {address}")


def peak_memory(pid):
    """Returns the most bytes that the process has had in memory."""
    return int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)) << 10
