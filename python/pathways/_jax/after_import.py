"""Calls a function once a module has been imported. Imports no jax: interpreters start with it."""

import sys


def call_after_import(name, then):
    """Calls then(module) now if the module has been imported, or else as soon as it has been. Functions that wait for one module are called in order."""
    if name in sys.modules:
        return then(sys.modules[name])
    for finder in sys.meta_path:
        if isinstance(finder, _AfterImport) and finder.name == name:
            return finder.then.append(then)
    sys.meta_path.insert(0, _AfterImport(name, then))


class _AfterImport:
    """A meta path finder that lets the other finders load the module, then calls."""

    def __init__(self, name, then):
        self.name, self.then = name, [then]

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        import importlib.util

        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                for then in self.then:
                    then(module)

            spec.loader.exec_module = exec_module
        return spec
