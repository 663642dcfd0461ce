"""Checks that only python/pathways/_jax uses private names of jax and jaxlib. That folder lists each, with the behaviour without it.

Every other module may import jax, its public modules, and jaxlib's version. Names are found in the syntax tree, not in comments and texts.
Private attributes of objects (sharding._x) count as well: a private name that nothing in our package defines belongs to another package.
"""

import ast
import re

import source

FOLDER = "python/pathways/"
DOOR = FOLDER + "_jax/"
DOCUMENTED = {"_current_frames", "_exit", "_getframe"}  # of os and sys


def check():
    problems = []
    texts = {path.relative_to(source.ROOT).as_posix(): path.read_text() for path in sorted((source.ROOT / FOLDER).rglob("*.py"))}
    own = DOCUMENTED.union(*map(defined_names, texts.values()))
    for name, text in texts.items():
        if not name.startswith(DOOR):
            found = private_names(text)
            told = {line for line, _ in found}
            found += [(line, what) for line, what in private_attributes(text) if what not in own and line not in told]
            problems += [f"{name}:{line}: {what} is private; list it in {DOOR}seams.py, or use a public name" for line, what in found]
    return problems


def defined_names(text):
    """Returns the names that a module defines, imports, or sets on an object."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {one.asname or one.name for one in node.names}
    return found


def private_attributes(text):
    """Returns [(line, name)] of the private attributes that are read, by name or by getattr."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            found.append((node.lineno, node.attr))
        elif isinstance(node, ast.Call) and _dotted(node.func) in ("getattr", "hasattr") and isinstance(node.args[1], ast.Constant):
            found.append((node.lineno, node.args[1].value))
    return [(line, name) for line, name in found if re.match(r"_[a-z]", name)]


def private_names(text):
    """Returns [(line, name)] of the private names that a module imports, by statements or as strings."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            found += [(node.lineno, f"{node.module}.{one.name}") for one in node.names]
        elif isinstance(node, ast.Import):
            found += [(node.lineno, one.name) for one in node.names]
        elif isinstance(node, ast.Attribute) and (dotted := _dotted(node)):
            found.append((node.lineno, dotted))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:  # for sys.modules or importlib
            found.append((node.lineno, node.value))
    private = {one for one in found if _is_private(one[1])}
    inner = {(line, name.rpartition(".")[0]) for line, name in private}  # such as jax._src, if jax._src.core is found too
    return sorted(private - inner)


def _dotted(node):
    """Returns the text of an expression such as jax.a.b; None for others."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def _is_private(name):
    package, _, rest = name.partition(".")
    if package == "jaxlib":
        return rest not in ("", "__version__")
    return package == "jax" and rest.split(".")[0] == "_src"
