"""The rows of a figure. Each is written to a file as soon as it is measured. A figure that runs out of time or is killed keeps these rows, and a later
run measures the others.

A row with an "error" is of one of two kinds. Either there was no time for it, and it is still to be measured; or a side failed, and that is its result, whichever
side it was: it is not measured again by itself, and may be published.
"""

import json
import sys
import time

import _paper

NO_TIME = "no time left for it"
NOT_YET, NOT_ALL = "not measured", "not all rounds were measured"  # of rows that take turns, until their turns are over


DERIVED = {"11": "8"}  # figures that are measured as part of another


def figures(report):
    """Returns {number: figure} of a report in the paper's order, DERIVED ones included."""
    found = dict(report["figures"])
    if "shared" in (simulated := by_name(found.get("8")).get("simulated", {})):
        found["11"] = simulated["shared"]
    return {number: found[number] for number in _paper.FIGURES if number in found}


def by_name(figure):
    """Returns {name: row} of a figure as written; {} for a figure without rows."""
    rows = (figure or {}).get("rows", {})
    return rows if isinstance(rows, dict) else {row["name"]: row for row in rows if "name" in row}


def kept(known, figure):
    """Says whether rows of `known`, the figure from an earlier run, are still in the figure."""
    now = by_name(figure)
    return any(not is_unmeasured(row.get("error", "")) and now.get(name) == row for name, row in by_name(known).items())


def is_unmeasured(error):
    """Says whether an error of a row means that it is still to be measured."""
    return error.startswith((NO_TIME, NOT_YET, NOT_ALL))


def missing(figure):
    """Returns {name: error} of the rows that are still to be measured."""
    return {name: row["error"] for name, row in by_name(figure).items() if is_unmeasured(row.get("error", ""))}


def failures(figure):
    """Returns {what: error} of the rows and of the sides of a figure that failed."""
    found = {}

    def look(what, value):
        if isinstance(value, dict):
            if "error" in value and not is_unmeasured(value["error"]):
                found[", ".join(what)] = value["error"]
            for key, one in value.items():
                look(what if key in CONTAINERS else (*what, str(key)), one)

    for name, row in by_name(figure).items():
        look((name,), row)
    return found


CONTAINERS = ("rates", "sides", "simulated", "cpu", "against")  # keys that say nothing to a reader


class Rows:
    """Builds a figure: its own fields, and rows. path: the file to write; known: the figure from an earlier run; seconds: the time for all of it.
    as_list: rows are a list, and each has its name."""

    def __init__(self, path=None, known=None, seconds=float("inf")):
        self._path, self._end = path, time.monotonic() + seconds
        self._known = {name: row for name, row in by_name(known).items() if not is_unmeasured(row.get("error", ""))}
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
