"""Writes objects as YAML: mappings, lists, strings, numbers and booleans. The package depends on no YAML library."""

import json
import re

_WIDTH = 140
_INDENT = "  "
# Strings that YAML 1.1 and 1.2 read as strings without quotes. "on", "null" or "0x1f" would be something else, so words of YAML are excluded below.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "inf", "nan"}


def documents(objects):
    """Returns the text of several documents."""
    return "---\n".join("\n".join(_lines(one)) + "\n" for one in objects)


def _scalar(value):
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value)


def _flow(value):
    """Returns a value in one line, as in [a, b] or {a: b}."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(name)}: {_flow(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value)


def _is_flat(value):
    """Whether a value fits into one line that people can read: it has no mappings or lists in it."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return not any(isinstance(one, (dict, list)) and one for one in parts)


def _wrapped(head, values):
    """Returns the lines of a list [a, b] that is too long for one."""
    lines, line, pad = [], f"{head} [", " " * (len(head) + 2)
    for i, one in enumerate(values):
        word = _scalar(one) + ("]" if i + 1 == len(values) else ",")
        if len(line) + 1 + len(word) > _WIDTH and line.strip():
            lines.append(line)
            line = pad
        line += word if line in (pad, f"{head} [") else f" {word}"
    return [*lines, line]


def _lines(value, depth=0):
    """Returns the lines of a mapping or a list."""
    pad = _INDENT * depth
    found = []
    for name, one in value.items() if isinstance(value, dict) else ((None, one) for one in value):
        head = pad + ("-" if name is None else f"{_scalar(name)}:")
        line = f"{head} {_flow(one)}"
        if depth and _is_flat(one) and len(line) <= _WIDTH or not isinstance(one, (dict, list)) or not one:
            found.append(line)
        elif isinstance(one, list) and _is_flat(one):
            found += _wrapped(head, one)
        elif name is None:  # the first line of an item stands behind its dash
            inner = _lines(one, depth + 1)
            found += [f"{pad}- {inner[0].lstrip()}", *inner[1:]]
        else:
            found += [head, *_lines(one, depth + 1)]
    return found
