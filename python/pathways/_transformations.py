"""Passes of the user's own inside the compiler (jax.extend.xla.register_hlo_module_transformation).

They are Python functions, and the compiler is another process, on another machine. jax would take the registration and forget it; here a program
that such a pass would have seen is refused, with its name.
"""

import functools

_registered = {}  # {(platform, name, stage)}, in order


def _wrap(module, kind, platform_of):
    """jaxlib keeps those of the compiler in this process, and those of one client's compiler; `platform_of` the arguments of either."""
    register, clear = getattr(module, f"register_xla_transform{kind}"), getattr(module, f"clear_xla_transform{kind}")
    first = len(kind) > 0  # the client comes first

    def register_xla_transform(*arguments):
        _registered[platform_of(*arguments), *arguments[first:first + 2]] = None
        return register(*arguments)

    def clear_xla_transform(*arguments):
        known = _registered.pop((platform_of(*arguments), *arguments[first:first + 2]), False) is None
        try:
            return clear(*arguments) or known
        except RuntimeError:
            if known:
                return True
            raise

    setattr(module, f"register_xla_transform{kind}", register_xla_transform)
    setattr(module, f"clear_xla_transform{kind}", clear_xla_transform)


def watch():
    """From now on registrations are remembered. Idempotent; does nothing where jaxlib has no such passes."""
    try:
        from jax._src.lib import _xla
    except ImportError:
        return
    if not hasattr(_xla, "register_xla_transform_c_api") or hasattr(_xla, "_pathways"):
        return
    _wrap(_xla, "", lambda *_: "cpu")
    _wrap(_xla, "_c_api", lambda client, *_: client.platform)
    _xla._pathways = True


def _check(platform):
    for where, name, _ in _registered:
        if where == platform:
            raise NotImplementedError(
                f"the compiler pass {name!r} of register_hlo_module_transformation cannot run: Pathways compiles programs where their devices "
                "are, not in this process. jax.extend.xla.clear_hlo_module_transformation takes it back")


def install(is_ours):
    """is_ours(client) tells our backends from others. Idempotent."""
    from jax._src import compiler

    watch()
    ordinary = compiler.backend_compile_and_load
    if getattr(ordinary, "_pathways_transformations", False):
        return

    @functools.wraps(ordinary)
    def backend_compile_and_load(backend, *others, **named):
        if _registered and is_ours(backend):
            _check(backend.platform)
        return ordinary(backend, *others, **named)

    backend_compile_and_load._pathways_transformations = True
    compiler.backend_compile_and_load = backend_compile_and_load
