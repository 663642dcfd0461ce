"""Checks that every name that Python code reads is defined: by the module, by a scope around it, or by Python itself."""

import builtins
import subprocess
import symtable

import source

KNOWN = {*dir(builtins), "__file__", "__path__"}


def check():
    return [problem for path in _python_files() for problem in _undefined(path)]


def _python_files():
    out = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.py"], cwd=source.ROOT, check=True, capture_output=True,
                         text=True).stdout
    return sorted(path for path in out.split("\n") if path and not path.endswith(".cfg.py") and (source.ROOT / path).exists())  # lit gives names to .cfg.py


def _undefined(path):
    text = source.read(path)
    module = symtable.symtable(text, path, "exec")
    defined = KNOWN | {symbol.get_name() for scope in _scopes(module) for symbol in scope.get_symbols() if _defines(scope, symbol)}
    return [f"{path}:{scope.get_lineno()}: {scope.get_name()} reads '{symbol.get_name()}', which nothing defines"
            for scope in _scopes(module) for symbol in scope.get_symbols()
            if symbol.is_referenced() and not _is_bound(symbol) and (symbol.is_global() or scope is module) and symbol.get_name() not in defined]


def _defines(scope, symbol):
    """Whether the symbol becomes a name of the module here."""
    return _is_bound(symbol) and (scope.get_type() == "module" or symbol.is_declared_global())


def _is_bound(symbol):
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace() or symbol.is_parameter()


def _scopes(table):
    yield table
    for child in table.get_children():
        yield from _scopes(child)
