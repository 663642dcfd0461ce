"""Refuses programs that the user's own compiler passes would see (jax.extend.xla.register_hlo_module_transformation).

Such passes are Python functions of this process, but our compilers run in other processes. jax alone would accept the registration and never call the
pass. Instead we refuse to compile, and name the pass.
"""

import functools

from pathways._jax import compilation

_registered = {}  # {(platform or None for all, name, stage)}, in order


def _platforms(platforms):
    return [platforms] if platforms is None or isinstance(platforms, str) else list(platforms)


def _forget(name, stage, platforms):
    """Forgets a pass; returns whether it was registered for a platform that this process has. platforms: None means all."""
    from jax.extend.backend import backends

    found = [key for key in _registered if key[1:] == (name, stage) and (platforms is None or key[0] in _platforms(platforms))]
    for key in found:
        del _registered[key]
    here = {None, *(client.platform for client in backends().values())}
    return any(platform in here for platform, *_ in found)


def _without_ours(platforms):
    """Returns the platforms to pass to jax. Since 0.12 "all" (None) requires a plugin of every backend, and ours have none."""
    import jax
    from jax.extend.backend import backends

    from pathways._client import connection

    if platforms is not None or jax.__version_info__ < (0, 12):
        return platforms
    return [name for name, client in backends().items() if not connection.is_ours(client)]


def watch():
    """Records registrations from now on. Idempotent; does nothing if this jax has no such passes."""
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
                    "are, not in this process. jax.extend.xla.clear_hlo_module_transformation removes the pass")


_PASS = _Refuse()


def install(is_ours):
    """Registers the check. is_ours(client): whether the client is a Pathways backend. Idempotent."""
    watch()
    compilation.add(_PASS, is_ours)
