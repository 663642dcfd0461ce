"""Calls a function once a module has been imported. Imports no jax: interpreters start with it."""

import sys


def call_after_import(name, then):
    """Calls then(module) now if the module has been imported, or else as soon as it has been. Only the first function that waits for a name is kept."""
    if name in sys.modules:
        then(sys.modules[name])
    elif not any(isinstance(finder, _AfterImport) and finder.name == name for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterImport(name, then))


class _AfterImport:
    """A meta path finder that lets the other finders load the module, then calls."""

    def __init__(self, name, then):
        self.name, self._then = name, then

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
                self._then(module)

            spec.loader.exec_module = exec_module
        return spec
