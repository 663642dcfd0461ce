"""Passes of the user's own inside the compiler (jax.extend.xla.register_hlo_module_transformation).

They are Python functions, and the compiler is another process, on another machine. jax would take the registration and forget it; here a program
that such a pass would have seen is refused, with its name.
"""

import functools

from pathways._jax import compilation

_registered = {}  # {(platform or None for all, name, stage)}, in order


def _platforms(platforms):
    return [platforms] if platforms is None or isinstance(platforms, str) else list(platforms)


def _forget(name, stage, platforms):
    """Whether it was registered for one of the platforms that this process has; None means all."""
    from jax.extend.backend import backends

    found = [key for key in _registered if key[1:] == (name, stage) and (platforms is None or key[0] in _platforms(platforms))]
    for key in found:
        del _registered[key]
    here = {None, *(client.platform for client in backends().values())}
    return any(platform in here for platform, *_ in found)


def _without_ours(platforms):
    """What jax is told. From 0.12 on "all" means the plugin of each backend, and ours are backends without one."""
    import jax
    from jax.extend.backend import backends

    from pathways import _client

    if platforms is not None or jax.__version_info__ < (0, 12):
        return platforms
    return [name for name, client in backends().items() if not _client.is_ours(client)]


def watch():
    """From now on registrations are remembered. Idempotent; does nothing where jax has no such passes."""
    try:
        from jax.extend import xla
    except ImportError:
        return
    register, clear = (getattr(xla, f"{verb}_hlo_module_transformation", None) for verb in ("register", "clear"))
    if register is None or clear is None or hasattr(register, "_pathways"):
        return

    @functools.wraps(register)
    def register_hlo_module_transformation(callback, *, name, stage=xla.PipelineStage.PRE_SCHEDULER, platforms=None):
        register(callback, name=name, stage=stage, platforms=_without_ours(platforms))
        _registered.update(dict.fromkeys((platform, name, stage) for platform in _platforms(platforms)))

    @functools.wraps(clear)
    def clear_hlo_module_transformation(name, stage=xla.PipelineStage.PRE_SCHEDULER, platforms=None):
        known = _forget(name, stage, platforms)
        return clear(name, stage, _without_ours(platforms)) or known

    register_hlo_module_transformation._pathways = True
    xla.register_hlo_module_transformation = register_hlo_module_transformation
    xla.clear_hlo_module_transformation = clear_hlo_module_transformation


class _Refuse(compilation.Pass):
    def before(self, backend, module):
        for where, name, _ in _registered:
            if where in (None, backend.platform):
                raise NotImplementedError(
                    f"the compiler pass {name!r} of register_hlo_module_transformation cannot run: Pathways compiles programs where their devices "
                    "are, not in this process. jax.extend.xla.clear_hlo_module_transformation takes it back")


_PASS = _Refuse()


def install(is_ours):
    """is_ours(client) tells our backends from others. Idempotent."""
    watch()
    compilation.add(_PASS, is_ours)
