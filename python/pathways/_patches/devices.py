"""Adds to jax's devices what the client library lacks: memory statistics, cost analysis, and meshes that span islands."""

import copy

from pathways._client import questions
from pathways._jax import seams


def install(is_ours):
    """Adds memory_stats and cost analysis to our devices. is_ours(client): whether the client is a Pathways backend. Idempotent."""
    import jax

    device_class = jax.Device
    ordinary = device_class.memory_stats
    if getattr(ordinary, "_pathways", False):
        return

    def memory_stats(self):
        """Returns the memory used by arrays on the device, under the names that jax's own accelerators use; None if unknown."""
        return _memory_of(self) if is_ours(self.client) else ordinary(self)

    memory_stats._pathways = True
    device_class.memory_stats = memory_stats
    _install_cost_analysis(is_ours)


def _memory_of(device):
    """Reads the device's memory from the cluster's status report (docs/status.md), which queries the hosts each time."""
    import jax

    try:
        return memory_stats_in(questions.ask(device.client, {"statusRequest": {}}), device.id)
    except jax.errors.JaxRuntimeError:  # the cluster is lost, or is older than this request
        return None


def memory_stats_in(report, device):
    """Returns the memory statistics of a device in a status report; for a virtual device, those of the device it is bound to. None if absent."""
    for placed in report.get("slices", ()):
        bound = dict(zip(placed.get("virtual_devices", ()), placed.get("devices", ())))
        device = bound.get(device, device)
    memory = next((d.get("memory") for d in report.get("devices", ()) if d["id"] == device), None)
    if memory is None:
        return None
    stats = {"bytes_in_use": memory["used_bytes"], "peak_bytes_in_use": memory["peak_bytes"]}
    if memory["limit_bytes"] > 0:  # 0: no limit
        stats["bytes_limit"] = memory["limit_bytes"]
    return stats


def _install_cost_analysis(is_ours):
    """Makes Lowered.cost_analysis() work. Its module is not compiled yet, so this process's cpu backend can analyse it."""
    ordinary = seams.COST_ANALYSIS.find()
    if ordinary is None or getattr(ordinary, "_pathways", False):
        return

    def cost_analysis(self):
        if not is_ours(self.compile_args["backend"]):
            return ordinary(self)
        import jax

        on_cpu = copy.copy(self)
        on_cpu.compile_args = self.compile_args | {"backend": jax.devices("cpu")[0].client}
        return ordinary(on_cpu)

    cost_analysis._pathways = True
    seams.COST_ANALYSIS.replace(cost_analysis)


def let_meshes_span_islands():
    """Makes jax.make_mesh() accept devices of several islands, as it accepts devices of several hosts. Idempotent.

    Devices of different islands have different `slice_index` values, by which create_hybrid_device_mesh() finds the islands. Since jax 0.10,
    and earlier on TPUs, `make_mesh` checks hasattr(device, "slice_index"). It refuses devices with different values, although it does not use
    them. No option of jax changes this, and a script may have imported make_mesh earlier. So we shadow `hasattr` in jax's module of meshes;
    it returns False for `slice_index` of our devices. If a newer jax checks in another way, make_mesh() refuses again, with its own message.
    """
    import builtins

    module = seams.MESHES.find()
    if module is None or "hasattr" in vars(module):
        return

    def hasattr(owner, name):
        if name == "slice_index" and builtins.hasattr(getattr(owner, "client", None), "pathways_client"):
            return False
        return builtins.hasattr(owner, name)

    module.hasattr = hasattr
