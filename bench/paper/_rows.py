"""The rows of a figure, each of which is written down as soon as it is measured: a figure that is not done in its time, or is killed, keeps those that it
has, and a later run goes on with the others."""

import json
import sys
import time

import _paper

NO_TIME = "no time left for it"


DERIVED = {"11": "8"}  # figures that another's measurement has


def figures(report):
    """{number: figure} of a report, with those that another one's measurement has, in their order."""
    found = dict(report["figures"])
    if "shared" in found.get("8", {}):
        found["11"] = found["8"]["shared"]
    return {number: found[number] for number in _paper.FIGURES if number in found}


def by_name(figure):
    """{name: row} of a figure as it was written down; {} of one that is measured as a whole."""
    rows = (figure or {}).get("rows", {})
    return rows if isinstance(rows, dict) else {row["name"]: row for row in rows if "name" in row}


def to_keep(figure):
    """Whether there are rows in it that a later run keeps."""
    return any("error" not in row for row in by_name(figure).values())


def missing(figure):
    """{name: why} of the rows that a figure was to have and has not."""
    return {name: row["error"] for name, row in by_name(figure).items() if "error" in row}


class Rows:
    """What a figure is made of: fields of its own, and rows. path: where it is written; known: the figure as an earlier run left it; seconds: how long there is
    for all of it; as_list: rows are a list, and say their names themselves."""

    def __init__(self, path=None, known=None, seconds=float("inf")):
        self._path, self._end = path, time.monotonic() + seconds
        self._known = {name: row for name, row in by_name(known).items() if "error" not in row}
        self._fields, self._rows, self.as_list = {}, {}, False

    def left(self):
        """Seconds."""
        return self._end - time.monotonic()

    def begin(self, as_list=False, **fields):
        self.as_list, self._fields = as_list, fields

    def row(self, name, measure, needs=0):
        """What `measure` returns, a dictionary, is this row; or why there is none. Not begun when fewer seconds are left than it needs."""
        if name in self._known:
            say(f"{name}: known from an earlier run")
            row = self._known[name]
        else:
            row = self._measured(name, measure, needs)
        self._rows[name] = {"name": name, **row} if self.as_list else row
        self._write()
        return row

    def _measured(self, name, measure, needs):
        if self.left() < needs:
            say(f"{name}: {NO_TIME}")
            return {"error": f"{NO_TIME}: it needs {needs:.0f} s"}
        say(f"{name} ...")
        begin = time.monotonic()
        try:
            return measure()
        except (RuntimeError, OSError, KeyError, ValueError) as error:  # the others are still worth having
            error = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
            say(f"{name}: {error}")
            return {"error": error}
        finally:
            say(f"{name}: {time.monotonic() - begin:.0f} s")

    def figure(self, **more):
        return {**self._fields, "rows": list(self._rows.values()) if self.as_list else self._rows, **more}

    def _write(self):
        if self._path is not None:
            new = self._path.with_suffix(".new")
            new.write_text(json.dumps(self.figure()))
            new.rename(self._path)


def say(text):
    print(f"paper:   {text}", file=sys.stderr, flush=True)
