"""`pathways usage`: shows each user's usage of the cluster by day, from the file that its controller writes (docs/operators.md)."""

import csv
import datetime
import json
import pathlib
import sys

from pathways._cluster import records

COLUMNS = ("day", "user", "device_seconds", "computations", "compile_seconds", "array_byte_seconds", "sessions")
_FORM = 1  # the version of the table: pathways/usage/usage_file.cc
_BYTE_SECONDS = (1 << 30) * 3600.0  # in a GiB hour


def read(path, since, user=None):
    """Returns the rows from the day `since` on (YYYY-MM-DD), each as a dictionary, by day and user."""
    import sqlite3  # other commands do not need it, and some Pythons lack it

    path = pathlib.Path(path)
    if not path.exists():
        raise ValueError(f"there is no file of usage at {path}: the controller writes it where it was started with --usage-file, as 'pathways up' does")
    query = f"SELECT {', '.join(COLUMNS)} FROM usage WHERE day >= ? {'AND user = ? ' if user is not None else ''}ORDER BY day, user"
    try:
        with sqlite3.connect(f"file:{path.absolute()}?mode=ro", uri=True, timeout=5) as database:
            form = database.execute("PRAGMA user_version").fetchone()[0]
            if form > _FORM:
                raise ValueError(f"{path} was written by a newer release of pathways: install that release here")
            rows = database.execute(query, (since,) if user is None else (since, user)).fetchall()
    except sqlite3.Error as error:
        raise ValueError(f"{path} cannot be read as a file of usage: {error}") from None
    return [dict(zip(COLUMNS, row)) for row in rows]


def total(rows):
    return {column: sum(row[column] for row in rows) for column in COLUMNS[2:]}


def _line(day, user, row):
    return (f"{day:<10}  {user:<24}  {row['device_seconds']:14.1f}  {row['computations']:12}  {row['compile_seconds']:10.1f}  "
            f"{row['array_byte_seconds'] / _BYTE_SECONDS:14.3f}  {row['sessions']:8}")


def text(rows):
    lines = [f"{'DAY (UTC)':<10}  {'USER':<24}  {'DEVICE SECONDS':>14}  {'COMPUTATIONS':>12}  {'COMPILE S':>10}  {'MEMORY, GiB h':>14}  {'SESSIONS':>8}"]
    lines += [_line(row["day"], row["user"], row) for row in rows]
    if len(rows) > 1:
        lines.append(_line("total", "", total(rows)))
    return "\n".join(lines) if rows else "nothing was used in these days"


def usage(args):
    if args.days < 1:
        raise ValueError(f"--days wants at least 1, not {args.days}")
    since = (datetime.datetime.now(datetime.timezone.utc).date() - datetime.timedelta(days=args.days - 1)).isoformat()
    rows = read(args.file or records.usage_file(args.name), since, args.user)
    if args.json:
        print(json.dumps({"rows": rows, "total": total(rows)}, indent=2))
    elif args.csv:
        writer = csv.DictWriter(sys.stdout, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    else:
        print(text(rows))
    return 0
