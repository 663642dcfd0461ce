"""The rows of a figure. Each is written to a file as soon as it is measured. A figure that runs out of time or is killed keeps these rows, and a later
run measures the others."""

import json
import sys
import time

import _paper

NO_TIME = "no time left for it"


DERIVED = {"11": "8"}  # figures that are measured as part of another


def figures(report):
    """Returns {number: figure} of a report in the paper's order, DERIVED ones included."""
    found = dict(report["figures"])
    if "shared" in found.get("8", {}):
        found["11"] = found["8"]["shared"]
    return {number: found[number] for number in _paper.FIGURES if number in found}


def by_name(figure):
    """Returns {name: row} of a figure as written; {} for a figure without rows."""
    rows = (figure or {}).get("rows", {})
    return rows if isinstance(rows, dict) else {row["name"]: row for row in rows if "name" in row}


def kept(known, figure):
    """Says whether rows of `known`, the figure from an earlier run, are still in the figure."""
    now = by_name(figure)
    return any("error" not in row and now.get(name) == row for name, row in by_name(known).items())


def missing(figure):
    """Returns {name: error} of the rows that a figure lacks."""
    return {name: row["error"] for name, row in by_name(figure).items() if "error" in row}


class Rows:
    """Builds a figure: its own fields, and rows. path: the file to write; known: the figure from an earlier run; seconds: the time for all of it.
    as_list: rows are a list, and each has its name."""

    def __init__(self, path=None, known=None, seconds=float("inf")):
        self._path, self._end = path, time.monotonic() + seconds
        self._known = {name: row for name, row in by_name(known).items() if "error" not in row}
        self._fields, self._rows, self.as_list = {}, {}, False

    def left(self):
        """Returns the seconds that are left."""
        return self._end - time.monotonic()

    def begin(self, as_list=False, **fields):
        self.as_list, self._fields = as_list, fields

    def row(self, name, measure, needs=0):
        """Returns the row that `measure` returns, or {"error": why there is none}. Skips `measure` if fewer seconds are left than it needs."""
        if name in self._known:
            say(f"{name}: known from an earlier run")
            row = self._known[name]
        else:
            row = self.attempt(name, measure, needs)
        self.put(name, row)
        return row

    def put(self, name, row):
        self._rows[name] = {"name": name, **row} if self.as_list else row
        self._write()

    def together(self, names):
        """Says whether rows that take turns are all known, and makes them rows of this figure. If one is not, none of them counts as known: rounds of different
        runs cannot be compared one by one."""
        if all(name in self._known for name in names):
            for name in names:
                self.put(name, self._known[name])
            return True
        self._known = {name: row for name, row in self._known.items() if name not in names}
        return False

    def attempt(self, name, measure, needs=0):
        """Returns what `measure` returns, or {"error": why there is nothing}."""
        if self.left() < needs:
            say(f"{name}: {NO_TIME}")
            return {"error": f"{NO_TIME}: it needs {needs:.0f} s"}
        say(f"{name} ...")
        begin = time.monotonic()
        try:
            return measure()
        except (RuntimeError, OSError, KeyError, ValueError) as error:  # the other rows are still useful
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
