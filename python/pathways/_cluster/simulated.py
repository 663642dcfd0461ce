"""Clusters whose hosts are simulated: `pathways up --simulated 512x4`.

The controller is real. One process, `pathways-worker --simulated-hosts`, runs the real worker code of all hosts. Their devices compile programs to
learn shapes, and compute nothing.
"""

import dataclasses
import math
import os
import re

from pathways._cluster import binaries
from pathways._cluster.shape import Shape

MOST_HOSTS, MOST_DEVICES = 4096, 16384


@dataclasses.dataclass(frozen=True)
class Device:
    """The performance of a simulated device. 0 means that the operation takes no time, or that memory is unlimited."""

    flops_per_second: float = 0
    bytes_per_second: float = 0
    memory_bytes: int = 0
    # The network between islands, for each host. Transfers between hosts of one island take no time.
    latency_seconds: float = 0
    uplink_bytes_per_second: float = 0
    # Collectives, which run over a ring of the devices: each device's bandwidth to the next, and the added latency of a step.
    ring_bytes_per_second: float = 0
    ring_latency_seconds: float = 0


# tpu-v3 is one core: half of a chip with 123 Tflop/s, 900 GB/s and 32 GiB. A host sends 100 Gbit/s to other islands. Links to neighbours
# have 656 Gbit/s.
DEVICES = {"tpu-v3": Device(61.5e12, 450e9, 16 << 30, 50e-6, 12.5e9, 82e9, 1e-6), "instant": Device()}


def parse_shape(text):
    """Parses "512x4" (hosts of one island, devices per host) or "4x128x4" (islands, hosts per island, devices per host)."""
    match = re.fullmatch(r"\s*(?:(\d+)\s*x\s*)?(\d+)\s*x\s*(\d+)\s*", text or "", re.IGNORECASE)
    if not match:
        raise ValueError(f"'{text}' is not the shape of a simulated cluster: expected HOSTSxDEVICES, such as 512x4, or ISLANDSxHOSTSxDEVICES, such as 4x128x4")
    shape = Shape(int(match[1] or 1), int(match[2]), int(match[3]))
    hosts = shape.islands * shape.hosts
    for what, value, limit in (("hosts", hosts, MOST_HOSTS), ("devices", hosts * shape.devices, MOST_DEVICES)):
        if not 1 <= value <= limit:
            raise ValueError(f"a simulated cluster has 1 to {limit} {what}, not {value}")
    return shape


def parse_device(text):
    """Parses a name in DEVICES, or "FLOPS:BANDWIDTH:MEMORY" such as 275e12:1.2e12:32e9, optionally followed by ":LATENCY:UPLINK" for the network
    between islands, then ":RING:STEP" for collectives."""
    if text in DEVICES:
        return DEVICES[text]
    try:
        numbers = [float(word) for word in text.split(":")]
        if len(numbers) not in (3, 5, 7) or not all(0 <= number < math.inf for number in numbers):
            raise ValueError
    except ValueError:
        raise ValueError(f"'{text}' is not a simulated device. Give a name ({', '.join(DEVICES)}) or OPERATIONS/S:BYTES/S:MEMORY-BYTES, such as "
                         "275e12:1.2e12:32e9. Two more numbers may describe the network between islands, :LATENCY-SECONDS:BYTES/S of each host, such as "
                         ":50e-6:25e9; and two more the collectives, :BYTES/S from a device to the next:SECONDS of each step, such as :82e9:1e-6") from None
    flops, bandwidth, memory, *links = numbers
    return Device(flops, bandwidth, int(memory), *links)


def environment():
    """Returns the environment of the worker process. It turns optimization off, because the compiled code never runs."""
    flags = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    return {**os.environ, "XLA_FLAGS": f"{flags} {os.environ.get('XLA_FLAGS', '')}".strip()}


def workers(controller_address, shape, device):
    """Returns the command line of the process that runs all hosts."""
    return [binaries.find("pathways-worker"), "--controller", controller_address, "--plugin", binaries.device_plugin("cpu"),
            "--simulated-hosts", shape.islands * shape.hosts, "--hosts-per-island", shape.hosts, "--devices", shape.devices,
            "--simulated-flops", device.flops_per_second, "--simulated-bandwidth", device.bytes_per_second, "--memory-limit", device.memory_bytes,
            "--simulated-latency", f"{device.latency_seconds * 1e6:.3f}us", "--simulated-uplink", device.uplink_bytes_per_second,
            "--simulated-ring", device.ring_bytes_per_second, "--simulated-ring-latency", f"{device.ring_latency_seconds * 1e6:.3f}us",
            "--exit-with-controller"]
