"""Checks sizes: headers have at most 300 lines, sources 600, functions 70 (aim: 250 and 30)."""

import re

import source

CEILING = {".h": 300, ".cc": 600}
FUNCTION = 70
_CONTAINER = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")
_NAME = re.compile(r"([~\w:]+|operator\s*\S+?)\s*\(")


def functions(text):
    """Yields (name, first line, number of lines) of each function that is not inside another one."""
    line, start, head, stack, found = 1, 0, "", [], []
    for char in source.blank(text):
        if char == "\n":
            line += 1
        if char == "{":
            head = head.strip()
            kind = "inner" if "function" in stack else _classify(head)
            if kind == "function":
                start = line
                name = _NAME.search(head)
                stack.append("function")
                found.append([name.group(1) if name else "?", line - head.count("\n"), 0])
            else:
                stack.append(kind)
            head = ""
        elif char == "}":
            if stack and stack.pop() == "function":
                found[-1][2] = line - start + 1
            head = ""
        elif char == ";" and "(" not in head.split(")")[-1]:
            head = ""
        else:
            head += char
    return [tuple(f) for f in found]


def _classify(head):
    head = "\n".join(line for line in head.split("\n") if not line.lstrip().startswith("#"))
    head = re.sub(r"template\s*<[^{}]*?>\s*(?=\w)", "", head)
    if "(" not in head or (_CONTAINER.match(head.lstrip()) and not head.rstrip().endswith((")", "const", "override", "noexcept"))):
        return "container"
    return "function"


def check():
    problems = []
    files, waived = source.waivers("file"), source.waivers("function")
    for path in source.cpp_files():
        text = source.read(path)
        ceiling = CEILING[".h" if path.endswith(".h") else ".cc"]
        lines = text.count("\n")
        if lines > ceiling and path not in files:
            problems.append(f"{path}: {lines} lines, the ceiling is {ceiling}: split it by what it does")
        for name, line, length in functions(text):
            if length > FUNCTION and f"{path}:{name}" not in waived:
                problems.append(f"{path}:{line}: {name} has {length} lines, the ceiling is {FUNCTION}")
    return problems
