"""Checks that the tag of an invariant ("RT-5", defined in a header's comment) belongs to one file."""

import collections
import re

import source

_DEFINED = re.compile(r"^\s*//\s+(?:Invariants?:?\s+)?([A-Z]{2})-\d+\s", re.MULTILINE)


def duplicates(texts):
    """Returns {tag: files}, of the tags that several files define. `texts`: {file: its text}."""
    files = collections.defaultdict(set)
    for path, text in texts.items():
        for tag in _DEFINED.findall(text):
            files[tag].add(path)
    return {tag: sorted(found) for tag, found in sorted(files.items()) if len(found) > 1}


def check():
    texts = {path: source.read(path) for path in source.cpp_files() if path.endswith(".h")}
    return [f"the invariant tag {tag} is defined in {' and in '.join(files)}: rename one" for tag, files in duplicates(texts).items()]
