"""Registers the backend "pathways" with jax. jax finds this module by its `jax_plugins` entry point and calls initialize() when a
device is first needed. The factory runs, and processes start, only if the backend is selected."""

from pathways import (_async_collectives, _bootstrap, _buffer_callbacks, _callbacks, _client, _devices, _dlpack, _effects, _host_arrays, _host_memory,
                      _inspect, _reshard, _transformations, _unreduced)

PLATFORM = "pathways"
_PRIORITY = 500  # above every accelerator plugin: PATHWAYS_ADDRESS without JAX_PLATFORMS means this backend
_registered = []  # nonempty once registered; jax keeps factories for the life of the process


def _selected():
    """Returns the platforms selected in jax's config, which a script may set after its start; None if Pathways is not selected."""
    import os

    import jax

    platforms = jax.config.jax_platforms
    if not platforms:
        return [] if os.environ.get("PATHWAYS_ADDRESS") else None
    names = platforms.split(",")
    return names if PLATFORM in names else None


def initialize():
    import jax
    from jax.extend.backend import register_backend_factory

    names = _selected()
    if names is not None or "proxy" in (jax.config.jax_platforms or ""):  # "proxy": Google's pathwaysutils on our cluster
        _devices.let_meshes_span_islands()
    if names is None:
        return
    _bootstrap.set_environment()
    if names and "cpu" not in names:  # host callbacks and mixed programs need the local cpu backend
        jax.config.update("jax_platforms", ",".join([*names, "cpu"]))
    if not _registered:
        _registered.append(PLATFORM)
        register_backend_factory(PLATFORM, _client.make_client, priority=_PRIORITY, fail_quietly=False)
    _callbacks.install(_client.is_ours)
    _buffer_callbacks.install(_client.is_ours)
    _effects.install(_callbacks.registry)
    _inspect.install(_client.is_ours)
    _async_collectives.install(_client.is_ours)
    _transformations.install(_client.is_ours)
    _host_arrays.install()
    _reshard.install(_client.is_ours)
    _devices.install(_client.is_ours)
    _dlpack.install(_client.is_ours)
    _host_memory.install()
    _unreduced.install(_client.is_ours)
