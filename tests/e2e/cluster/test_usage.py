"""`pathways usage` shows a program's device time and memory, also after the cluster has ended."""

import csv
import datetime
import io
import json

import pytest

from cli import CommandLine

PROGRAM = """
import time
import jax, numpy as np
x = jax.device_put(np.ones((256, 256), np.float32))
f = jax.jit(lambda v: v @ v / 256)
for _ in range(25):
    x = jax.block_until_ready(f(x))
print('done')
"""


@pytest.fixture
def pathways(tmp_path):
    return CommandLine(tmp_path / "home")


def test_what_a_program_used_is_kept_by_day_and_user(pathways):
    for count in (1, 2):
        started = pathways("up", "--devices", "1")
        assert pathways.run(started["address"], PROGRAM).splitlines()[-1] == "done"
        pathways("down")
        report = pathways("usage", "--days", "2")
        total = report["total"]
        assert total["computations"] >= 25 * count and total["sessions"] == count
        assert 0 < total["device_seconds"] < 60 and 0 < total["compile_seconds"] < 60
        assert {row["day"] for row in report["rows"]} <= {(datetime.datetime.now(datetime.timezone.utc).date() - datetime.timedelta(days=ago)).isoformat()
                                                          for ago in (0, 1)}
    rows = list(csv.DictReader(io.StringIO(pathways("usage", "--days", "2", "--csv", check=False).stdout)))
    assert sum(int(row["computations"]) for row in rows) == total["computations"]
    assert "nothing was used" in pathways("usage", "--user", "nobody", check=False).stdout


def test_a_cluster_without_a_file_says_how_to_get_one(pathways):
    done = pathways("usage", "--json", check=False)
    assert done.returncode == 2 and "--usage-file" in json.loads(done.stdout)["error"]
