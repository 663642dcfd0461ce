"""Tests `pathways usage` on files that the test writes; tests/e2e/cluster/test_usage.py reads a controller's file."""

import contextlib
import csv
import datetime
import io
import json
import sqlite3

import pytest

from pathways import cli
from pathways._commands import usage

TODAY = datetime.datetime.now(datetime.timezone.utc).date()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "usage.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE usage (day TEXT, user TEXT, device_seconds REAL, computations INTEGER, compile_seconds REAL, array_byte_seconds REAL, "
                         "sessions INTEGER, PRIMARY KEY (day, user)) WITHOUT ROWID")
        rows = [(TODAY.isoformat(), "ada", 7.5, 3, 0.5, 3600.0 * (1 << 30), 1), (TODAY.isoformat(), 'b"o,b', 1.0, 2, 0.0, 0.0, 1),
                ((TODAY - datetime.timedelta(days=9)).isoformat(), "ada", 100.0, 50, 1.0, 0.0, 4)]
        database.executemany("INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        database.execute("PRAGMA user_version = 1")
    return path


def run(*words):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert cli.main(["usage", *map(str, words)]) == 0
    return out.getvalue()


def test_json_has_rows_and_their_total(file):
    report = json.loads(run("--file", file, "--json"))
    assert [(row["user"], row["device_seconds"]) for row in report["rows"]] == [("ada", 100.0), ("ada", 7.5), ('b"o,b', 1.0)]
    assert report["total"] == {"device_seconds": 108.5, "computations": 55, "compile_seconds": 1.5, "array_byte_seconds": 3600.0 * (1 << 30), "sessions": 6}


def test_days_and_users_are_chosen(file):
    assert [row["device_seconds"] for row in json.loads(run("--file", file, "--json", "--days", 9, "--user", "ada"))["rows"]] == [7.5]
    assert len(json.loads(run("--file", file, "--json", "--days", 10, "--user", "ada"))["rows"]) == 2


def test_csv_reads_back(file):
    rows = list(csv.DictReader(io.StringIO(run("--file", file, "--csv", "--days", 1))))
    assert [row["user"] for row in rows] == ["ada", 'b"o,b'] and rows[0]["device_seconds"] == "7.5" and set(rows[0]) == set(usage.COLUMNS)


def test_the_table_has_a_total_and_memory_in_hours(file):
    lines = run("--file", file, "--days", 1).splitlines()
    assert len(lines) == 4 and "1.000" in lines[1] and lines[-1].startswith("total") and "8.5" in lines[-1]


def test_an_empty_time_says_so(file):
    assert "nothing was used" in run("--file", file, "--user", "nobody")


def test_a_file_that_is_none_is_an_error(tmp_path, capsys):
    assert cli.main(["usage", "--file", str(tmp_path / "none")]) == 2
    assert "there is no file of usage" in capsys.readouterr().err
    (tmp_path / "text").write_text("x" * 5000)
    assert cli.main(["usage", "--file", str(tmp_path / "text")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_newer_file_is_refused(file, capsys):
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA user_version = 2")
    assert cli.main(["usage", "--file", str(file)]) == 2
    assert "newer release" in capsys.readouterr().err
