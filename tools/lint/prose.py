"""Finds prose that is hard to read, in comments, docstrings and docs. It helps authors, and fails no check.

    build/venv/bin/python tools/lint/prose.py [PATH ...]         # default: the whole tree; one line a finding, then the counts

It finds openings with Who, What, Whose, Where or How, sentences of more than MOST_WORDS words, and the phrases of PHRASES with better ones.
"""

import ast
import collections
import io
import re
import subprocess
import sys
import tokenize

import source

MOST_WORDS = 30
OPENING = re.compile(r"(?:Who|What|Whose|Where|How)\b(?!.*\?$)")
PHRASES = {
    "in place of": "instead of",
    "that there is": "(name the thing)",
    "likewise": "(say it again)",
    "whatever": "for any, or: however",
    "as well as": "and",
    "so many": "the number of",
    "its like": "(name the thing)",
    "has it that": "(say it plainly)",
    "is to be": "must be, or: will be",
    "are to be": "must be, or: will be",
    "nobody": "(name the process, client or host)",
    "somebody": "(name the process, client or host)",
}
_PHRASE = re.compile(r"\b(" + "|".join(map(re.escape, PHRASES)) + r")\b", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`(])")
_NO_PROSE = re.compile(r"^\s*([|#>`]|```|[-=/*]{3,}|\$|\w+\(.*\);?$)")


def paragraphs_of_cpp(text):
    """Yields (line, text) of each block of // comments, and of each comment behind code. Also reads .proto and .td."""
    block, start = [], 0
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped.startswith("//"):
            block, start = [*block, stripped.lstrip("/").strip()], start or number
            continue
        if block:
            yield from _split(block, start)
            block, start = [], 0
        behind = re.search(r"\s// (.*)", line)
        if behind and '"' not in line:
            yield number, behind.group(1)
    if block:
        yield from _split(block, start)


def _split(lines, start):
    """Yields (line, text) of the paragraphs of a comment. Blank lines and list items separate them."""
    part, begin = [], start
    for number, line in enumerate([*lines, ""], start):
        if (not line or re.match(r"([-*]|[A-Z]{2}-\d+)\s", line)) and part:
            yield begin, " ".join(part)
            part = []
        if line and not _NO_PROSE.match(line):
            begin = begin if part else number
            part.append(line)


def paragraphs_of_python(text):
    """Yields (line, text) of the paragraphs of docstrings and comments."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node):
            yield from _split(ast.get_docstring(node).split("\n"), node.body[0].lineno)
    block, start = [], 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if block and token.start[0] != start + len(block):
                yield from _split(block, start)
                block = []
            start = start if block else token.start[0]
            block.append(token.string.lstrip("#! ").strip())
    if block:
        yield from _split(block, start)


def paragraphs_of_markdown(text):
    """Yields (line, text) of the paragraphs outside code, tables and headings."""
    lines, code = [], False
    for line in text.split("\n"):
        code ^= line.startswith("```")
        lines.append("" if code or line.startswith("```") else line.strip())
    yield from _split(lines, 1)


GENERATED = ("docs/ir.md", "docs/flags.md", "docs/paper.md")
READERS = {".h": paragraphs_of_cpp, ".cc": paragraphs_of_cpp, ".proto": paragraphs_of_cpp, ".td": paragraphs_of_cpp,
           ".py": paragraphs_of_python, ".md": paragraphs_of_markdown}


def findings(paragraph):
    """Yields (kind, text) of each finding in a paragraph."""
    text = re.sub(r"`[^`]*`", "x", paragraph)
    if OPENING.match(text):
        yield "opening", " ".join(text.split()[:6])
    for sentence in _SENTENCE.split(text):
        words = len(re.findall(r"[A-Za-z0-9'-]+", sentence))
        if words > MOST_WORDS:
            yield "long", f"{words} words: {' '.join(sentence.split()[:8])} ..."
    for phrase in _PHRASE.finditer(text):
        yield "phrase", f"'{phrase.group(1)}': {PHRASES[phrase.group(1).lower()]}"


def files(paths):
    command = ["git", "ls-files", "--", *(paths or ["."])]
    listed = subprocess.run(command, cwd=source.ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    return [path for path in listed if path not in GENERATED and "." + path.rsplit(".", 1)[-1] in READERS]


def check(paths=()):
    """Returns (a line for each finding, {kind: count})."""
    lines, counts = [], collections.Counter()
    for path in files(list(paths)):
        for line, paragraph in READERS["." + path.rsplit(".", 1)[-1]](source.read(path)):
            for kind, text in findings(paragraph):
                counts[kind] += 1
                lines.append(f"{path}:{line}: {kind}: {text}")
    return lines, counts


if __name__ == "__main__":
    found, counted = check(sys.argv[1:])
    print("\n".join(found))
    print("prose:", ", ".join(f"{counted[kind]} {kind}" for kind in ("opening", "long", "phrase")))
