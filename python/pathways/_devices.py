"""What programs ask of a device and the client library does not answer."""


def install(is_ours):
    """Idempotent. is_ours(client) tells our backends from others."""
    from jaxlib import _jax

    device_class = _jax.Device
    ordinary = device_class.memory_stats
    if getattr(ordinary, "_pathways", False):
        return

    def memory_stats(self):
        """Memory in use on the device, or None where it is not known (as on jax's own cpu)."""
        if is_ours(self.client):
            return None
        return ordinary(self)

    memory_stats._pathways = True
    device_class.memory_stats = memory_stats
    _install_cost_analysis(is_ours, _jax)


def _install_cost_analysis(is_ours, _jax):
    """Lowered.cost_analysis(): of a module that is not compiled yet, for which any backend of this process will do."""
    ordinary = _jax.hlo_module_cost_analysis

    def hlo_module_cost_analysis(backend, module):
        if is_ours(backend):
            import jax

            backend = jax.devices("cpu")[0].client
        return ordinary(backend, module)

    _jax.hlo_module_cost_analysis = hlo_module_cost_analysis
