"""Checks that modules of python/pathways import only modules of rooms that they may import, and that imports make no circle.

A room is a folder of the package. The docstring of its `__init__.py` has its rule: "May import _jax and _cluster." or "May import no other room."
A rule may name rooms that come earlier in ORDER only. The modules beside the rooms may import everything. Imports within functions count too.
"""

import ast
import re

import source

FOLDER = "python/pathways/"
ORDER = ["_jax", "_cluster", "_callbacks", "_client", "_colocated", "_patches", "_program", "_pipeline", "_elastic", "_data", "_published", "_commands", "_launchers"]
DOORS = {"__init__", "__main__", "cli", "_plugin", "_bootstrap", "_translator"}  # the modules beside the rooms
RULE = re.compile(r"May\s+import\s+(.*?)\.(?:\s|$)", re.DOTALL)


def check():
    texts = {path.relative_to(source.ROOT / FOLDER).as_posix(): path.read_text() for path in sorted((source.ROOT / FOLDER).rglob("*.py"))}
    modules = {_module(path): ast.parse(text) for path, text in texts.items()}
    problems = _places(texts)
    rules = {room: _rule(room, texts.get(f"{room}/__init__.py"), problems) for room in _rooms(texts)}
    imports = {module: _imports(module, tree, set(modules)) for module, tree in modules.items()}
    for module, found in imports.items():
        room = module.split(".")[0] if module.split(".")[0] in rules else ""
        for line, other in found:
            theirs = other.split(".")[0]
            if room and theirs != room and theirs not in rules[room]:
                problems.append(f"{FOLDER}{module.replace('.', '/')}:{line}: {room} must not import {other or 'pathways'} "
                                f"(the rule is in {FOLDER}{room}/__init__.py)")
    return problems + _circles({module: {other for _, other in found} for module, found in imports.items()})


def _module(path):
    """Returns "_jax.seams" for _jax/seams.py, "_jax" for _jax/__init__.py and "" for __init__.py."""
    return path[:-3].replace("/", ".").removesuffix("__init__").removesuffix(".")


def _rooms(texts):
    return sorted({path.split("/")[0] for path in texts if "/" in path})


def _places(texts):
    """Returns a finding for each module and room that is missing from the lists above."""
    problems = [f"{FOLDER}{path}: not one of the modules beside the rooms: move it into a room, or name it in DOORS (tools/lint/python_rooms.py)"
                for path in texts if "/" not in path and path[:-3] not in DOORS]
    return problems + [f"{FOLDER}{room}: not a room of tools/lint/python_rooms.py ORDER" for room in _rooms(texts) if room not in ORDER]


def _rule(room, text, problems):
    """Returns the rooms that this one may import; appends the faults of its rule to `problems`."""
    found = RULE.findall(ast.get_docstring(ast.parse(text or "")) or "")
    if len(found) != 1:
        problems.append(f"{FOLDER}{room}/__init__.py: its docstring must have one sentence \"May import ...\", which names rooms or \"no other room\"")
        return set()
    named = set() if found[0] == "no other room" else set(re.split(r",\s*|\s+and\s+", found[0]))
    earlier = ORDER[:ORDER.index(room)] if room in ORDER else []
    problems += [f"{FOLDER}{room}/__init__.py: {one} does not come before {room} in tools/lint/python_rooms.py ORDER"
                 for one in sorted(named) if one not in earlier]
    return named


def _imports(module, tree, modules):
    """Returns [(line, module)] of the package's modules that a module imports. A package inside of a path, such as _jax of _jax.seams, is left out."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level > 0:
            found.append((node.lineno, "a relative name"))
        elif isinstance(node, ast.ImportFrom) and _is_ours(node.module):
            for one in node.names:
                full = f"{node.module}.{one.name}".partition(".")[2]
                found.append((node.lineno, full if full in modules else node.module.partition(".")[2]))
        elif isinstance(node, ast.Import):
            found += [(node.lineno, one.name.partition(".")[2]) for one in node.names if _is_ours(one.name)]
    return found


def _is_ours(name):
    return name == "pathways" or name.startswith("pathways.")


def _circles(graph):
    """Returns one finding for each circle that a search from each module, in order, meets first."""
    problems, done = [], set()

    def visit(module, path):
        if module in path:
            circle = path[path.index(module):] + [module]
            problems.append(f"{FOLDER}: imports make a circle: {' -> '.join(circle)}")
        elif module not in done:
            for other in sorted(graph.get(module, ())):
                visit(other, [*path, module])
            done.add(module)

    for module in sorted(graph):
        visit(module, [])
    return problems
