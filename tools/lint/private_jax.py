"""Private names of jax and jaxlib are for one folder (python/pathways/_jax), where each is listed with what happens without it.

Every other module may import jax, its public modules, and jaxlib's version. Names are found in the syntax tree, not in comments and texts.
"""

import ast

import source

FOLDER = "python/pathways/"
DOOR = FOLDER + "_jax/"


def check():
    problems = []
    for path in sorted((source.ROOT / FOLDER).rglob("*.py")):
        name = path.relative_to(source.ROOT).as_posix()
        if not name.startswith(DOOR):
            problems += [f"{name}:{line}: {what} is private; list it in {DOOR}seams.py, or use a public name" for line, what in private_names(path.read_text())]
    return problems


def private_names(text):
    """[(line, module)] of what is imported, by a statement or by name."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            found += [(node.lineno, f"{node.module}.{one.name}") for one in node.names]
        elif isinstance(node, ast.Import):
            found += [(node.lineno, one.name) for one in node.names]
        elif isinstance(node, ast.Attribute) and (dotted := _dotted(node)):
            found.append((node.lineno, dotted))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:  # sys.modules, importlib
            found.append((node.lineno, node.value))
    private = {one for one in found if _is_private(one[1])}
    inner = {(line, name.rpartition(".")[0]) for line, name in private}  # jax._src, where jax._src.core is found too
    return sorted(private - inner)


def _dotted(node):
    """The text of jax.a.b, or None of anything else than names and dots."""
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
