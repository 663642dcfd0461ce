"""Registers the backend "pathways" with jax. jax finds this module by its `jax_plugins` entry point and calls initialize() when a
device is first needed. The factory runs, and processes start, only if the backend is selected."""

from pathways._callbacks import buffer_callbacks, callbacks, effect_errors
from pathways._client import connection, doors, environment, host_memory, profiler
from pathways._colocated import functions
from pathways._patches import async_collectives, devices, dlpack, host_arrays, inspect_sharding, reshard, transformations, unreduced

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
        devices.let_meshes_span_islands()
    if names is None:
        return
    environment.set_environment()
    if names and "cpu" not in names:  # host callbacks and mixed programs need the local cpu backend
        jax.config.update("jax_platforms", ",".join([*names, "cpu"]))
    if not _registered:
        _registered.append(PLATFORM)
        register_backend_factory(PLATFORM, connection.make_client, priority=_PRIORITY, fail_quietly=False)
    _install_what_clusters_lack()
    if doors.chosen() == "ifrt":
        _install_what_the_proxy_lacks()


def _install_what_clusters_lack():
    """Patches jax where devices elsewhere, or their XLA, lack what devices of this process have."""
    callbacks.install(connection.is_ours)
    buffer_callbacks.install(connection.is_ours)
    effect_errors.install(callbacks.registry)
    async_collectives.install(connection.is_ours)
    transformations.install(connection.is_ours)
    dlpack.install(connection.is_ours)
    unreduced.install(connection.is_ours)
    inspect_sharding.install(connection.is_ours)
    reshard.install(connection.is_ours)
    devices.install(connection.is_ours)
    functions.install(connection.is_ours)
    profiler.install(connection.live_clients)


def _install_what_the_proxy_lacks():
    """Patches jax where the client of the IFRT proxy lacks what the clients of jax's other backends have."""
    host_arrays.install()
    host_memory.install()
