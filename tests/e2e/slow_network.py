"""Puts two islands into separate network namespaces, connected by a link with delay and limited bandwidth. Our own relay is the link, because a
test machine's kernel may lack netem.

    island a ── veth ── this machine: the controller, clients ── veth ── island b
       └──────── tun ──── relay: delay, bandwidth, counters ──── tun ────────┘

A namespace ends with the process that holds it, so nothing stays behind. The relay is a separate process (`python slow_network.py ...`). It reads
the commands count, cut, heal and "watch HEX", one a line, and answers each with a line of JSON. After "watch" it counts the packets with these bytes.
"""

import collections
import contextlib
import fcntl
import ipaddress
import json
import os
import selectors
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
TCP, SYN = 6, 0x02
MTU = 65000


# ----------------------------------------------------------------------------------------------------------------- the relay
class Direction:
    """Forwards packets from one tun to the other. They are sent one after another at the bandwidth, and arrive after the delay."""

    def __init__(self, source, sink, delay, bandwidth):
        self.source, self.sink, self.delay, self.bandwidth = source, sink, delay, bandwidth
        self.free_at = 0.0
        self.waiting = collections.deque()
        self.bytes = self.packets = self.readable = 0
        self.watched = None
        self.next_of = {}  # connection: TCP's next sequence number

    def take(self, cut):
        with contextlib.suppress(BlockingIOError):
            while True:
                packet = os.read(self.source, MTU + 100)
                if cut or packet[0] >> 4 != 4:  # forward IPv4 only, no neighbour discovery
                    continue
                self.free_at = max(self.free_at, time.monotonic()) + len(packet) / self.bandwidth
                self.waiting.append((self.free_at + self.delay, packet))
                self.bytes += self.new_bytes(packet)
                self.packets += 1
                self.readable += self.watched is not None and self.watched in packet

    def new_bytes(self, packet):
        """Returns the bytes of data that TCP sends for the first time: a busy machine acknowledges late, and TCP then retransmits."""
        ip_header, (size,) = (packet[0] & 15) * 4, struct.unpack_from("!H", packet, 2)
        if packet[9] != TCP:
            return 0
        ports, first, _, offset, flags = struct.unpack_from("!4sIIBB", packet, ip_header)
        data = size - ip_header - (offset >> 4) * 4
        end = (first + data + bool(flags & SYN)) % (1 << 32)
        new = (end - self.next_of.get((packet[12:20], ports), first)) % (1 << 32)
        if new >= 1 << 31:  # a retransmission
            return 0
        self.next_of[packet[12:20], ports] = end
        return min(new, data)

    def deliver(self):
        """Delivers the packets that are due; returns the seconds until the next one is due, None if none waits."""
        while self.waiting:
            due = self.waiting[0][0] - time.monotonic()
            if due > 0:
                return due
            with contextlib.suppress(BlockingIOError):  # a full queue drops packets, as in real networks
                os.write(self.sink, self.waiting.popleft()[1])
        return None


def tun(name):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return device


def relay(names, delay, bandwidth):
    devices = [tun(name) for name in names]
    directions = [Direction(devices[0], devices[1], delay, bandwidth), Direction(devices[1], devices[0], delay, bandwidth)]
    selector = selectors.DefaultSelector()
    for direction in directions:
        selector.register(direction.source, selectors.EVENT_READ, direction)
    selector.register(sys.stdin, selectors.EVENT_READ)
    print(json.dumps("ready"), flush=True)
    cut = False
    while True:
        due = [wait for direction in directions if (wait := direction.deliver()) is not None]
        for key, _ in selector.select(min(due) if due else None):
            if key.data is not None:
                key.data.take(cut)
                continue
            command = sys.stdin.readline().strip()
            if not command:
                return
            cut = {"cut": True, "heal": False}.get(command, cut)
            if command.startswith("watch "):
                for direction in directions:
                    direction.watched, direction.readable = bytes.fromhex(command.split()[1]), 0
            counts = {name: [getattr(direction, name) for direction in directions] for name in ("bytes", "packets", "readable")}
            print(json.dumps(counts | {"cut": cut}), flush=True)


# ------------------------------------------------------------------------------------------------------------ the namespaces
def _run(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")


class Namespace:
    """A namespace of network, processes and mounts: workers that could open each other's memory would not use the network."""

    def __init__(self):
        self._holder = subprocess.Popen(["unshare", "--net", "--pid", "--mount-proc", "--fork", "--kill-child", "sh", "-c", "echo ready; exec sleep 100000"],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self._holder.stdout.readline() != "ready\n":
            raise OSError(self._holder.stderr.read().strip())
        self.pid = int(open(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children").read())

    def enter(self, *words):
        return ["nsenter", "-t", str(self.pid), "--net", "--pid", "--mount", *words]

    def ip(self, *words):
        _run(*self.enter("ip", *words))

    def stop(self):
        self._holder.kill()
        self._holder.wait()


class TwoIslands:
    """Sets up both namespaces and the relay. Raises OSError if the machine does not allow it."""

    def __init__(self, delay, bandwidth):
        self._stack = contextlib.ExitStack()
        try:
            self._make(delay, bandwidth)
        except BaseException:
            self._stack.close()
            raise

    def _make(self, delay, bandwidth):
        self.islands = []
        for _ in range(2):
            self.islands.append(Namespace())
            self._stack.callback(self.islands[-1].stop)
        mark = f"{os.getpid() % 100000}"
        net = ipaddress.ip_address("198.18.0.0") + os.getpid() % 8192 * 8  # from the range reserved for network tests
        tuns = [f"pwt{mark}{side}" for side in "ab"]
        self._relay = subprocess.Popen([sys.executable, __file__, *tuns, str(delay), str(bandwidth)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
        self._stack.callback(self._stop_relay)
        if self._relay.stdout.readline() != '"ready"\n':
            raise OSError(self._relay.stderr.read().strip().splitlines()[-1])
        self.heads = [str(net + 4 * i + 1) for i in range(2)]  # this machine, as each island sees it
        self.addresses = [str(net + 4 * i + 2) for i in range(2)]
        self.links = [f"pwv{mark}{side}" for side in "ab"]  # to each island, as this machine names them
        for i, (island, veth) in enumerate(zip(self.islands, self.links)):
            _run("ip", "link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", island.pid)
            # The kernel would delete it with its namespace, but a minute later.
            self._stack.callback(subprocess.run, ["ip", "link", "del", veth], stderr=subprocess.DEVNULL, check=False)
            _run("ip", "addr", "add", f"{self.heads[i]}/30", "dev", veth)
            _run("ip", "link", "set", veth, "up")
            # The machine's gateway must not answer for an island whose link is down: some refuse connections to addresses that they do not know.
            _run("ip", "route", "add", "unreachable", f"{net + 4 * i}/30", "metric", 9999)
            self._stack.callback(subprocess.run, ["ip", "route", "del", "unreachable", f"{net + 4 * i}/30", "metric", "9999"], stderr=subprocess.DEVNULL, check=False)
            _run("ip", "link", "set", tuns[i], "netns", island.pid)
            island.ip("link", "set", "lo", "up")
            island.ip("addr", "add", f"{self.addresses[i]}/30", "dev", "eth0")
            island.ip("link", "set", "eth0", "up")
            island.ip("link", "set", tuns[i], "up", "mtu", str(MTU))
            island.ip("route", "add", f"{self.addresses[1 - i]}/32", "dev", tuns[i], "src", self.addresses[i])

    def ask(self, command):
        self._relay.stdin.write(command + "\n")
        self._relay.stdin.flush()
        return json.loads(self._relay.stdout.readline())

    def set_link(self, island, up):
        """Takes an island's link down or up. While it is down, no packet passes between the island and this machine, and neither end is notified."""
        _run("ip", "link", "set", self.links[island], "up" if up else "down")

    @contextlib.contextmanager
    def counting(self):
        """Counts the bytes of data sent from a to b and from b to a within the block; retransmitted bytes count once."""
        before, counted = self.ask("count"), {}
        yield counted
        after = self.ask("count")
        counted["bytes"] = [y - x for x, y in zip(before["bytes"], after["bytes"])]

    def _stop_relay(self):
        self._relay.stdin.close()
        self._relay.wait(10)

    def stop(self):
        self._stack.close()


if __name__ == "__main__":
    relay(sys.argv[1:3], float(sys.argv[3]), float(sys.argv[4]))
