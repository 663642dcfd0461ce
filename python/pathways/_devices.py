"""What programs ask of a device and the client library does not answer."""

import numpy as np

from pathways import _client, _cluster
from pathways._jax import seams


def install(is_ours):
    """Idempotent. is_ours(client) tells our backends from others."""
    import jax

    device_class = jax.Device
    ordinary = device_class.memory_stats
    if getattr(ordinary, "_pathways", False):
        return

    def memory_stats(self):
        """Memory that arrays take on the device, by the names that jax's own accelerators use; None where it is not known."""
        return _memory_of(self) if is_ours(self.client) else ordinary(self)

    memory_stats._pathways = True
    device_class.memory_stats = memory_stats
    _install_cost_analysis(is_ours)


def _memory_of(device):
    """As the cluster's status report says (docs/status.md), which asks the hosts anew each time. The client library keeps what it need
    not send at once, ends of arrays above all: an empty array takes all of it along, and is there when the controller has it."""
    import jax

    with jax.ensure_compile_time_eval():
        jax.device_put(np.zeros(0, np.bool_), device).block_until_ready()
    for controller, _ in _client.connected():
        try:
            return memory_stats_in(_cluster.status(controller), device.id)
        except _cluster.StatusError:
            return None
    return None


def memory_stats_in(report, device):
    """The numbers of a device in a status report; of a virtual one those of the device that it is bound to. None: it has none."""
    for placed in report.get("slices", ()):
        bound = dict(zip(placed.get("virtual_devices", ()), placed.get("devices", ())))
        device = bound.get(device, device)
    memory = next((d.get("memory") for d in report.get("devices", ()) if d["id"] == device), None)
    if memory is None:
        return None
    stats = {"bytes_in_use": memory["used_bytes"], "peak_bytes_in_use": memory["peak_bytes"]}
    if memory["limit_bytes"] > 0:  # 0: nothing limits it
        stats["bytes_limit"] = memory["limit_bytes"]
    return stats


def _install_cost_analysis(is_ours):
    """Lowered.cost_analysis(): of a module that is not compiled yet, for which any backend of this process will do."""
    ordinary = seams.COST_ANALYSIS.find()
    if ordinary is None:
        return

    def hlo_module_cost_analysis(backend, module):
        if is_ours(backend):
            import jax

            backend = jax.devices("cpu")[0].client
        return ordinary(backend, module)

    hlo_module_cost_analysis._pathways = True
    seams.COST_ANALYSIS.replace(hlo_module_cost_analysis)


def let_meshes_span_islands():
    """Idempotent. jax.make_mesh() takes devices of several islands, as it takes those of several hosts.

    Devices of different islands have different `slice_index`, by which create_hybrid_device_mesh() finds the islands. make_mesh() (from jax 0.10
    on; before, on TPUs alone) refuses such devices, though it lays them out in their order as it would without: it asks hasattr(device,
    "slice_index") first. There is no option for it, and the function may have been imported long before us. So `hasattr` answers no to that one
    question in that one module. Where a newer jax asks otherwise, make_mesh() refuses again, in its own words.
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
