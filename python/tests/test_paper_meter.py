"""Tests how `make paper` counts the processor time of the sides, stops those that would disturb others, and ends what a figure leaves behind."""

import contextlib
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "paper"))
sys.path.insert(0, str(ROOT / "bench"))
import _breakdown  # noqa: E402
import _meter  # noqa: E402
import _sides  # noqa: E402
import _systems  # noqa: E402


def turn(side, what, calls, seconds, **used):
    return _meter.Turn(side, what, calls, seconds, {name.replace("_", " "): parts for name, parts in used.items()})


def test_processor_time_of_a_call_is_of_the_turns_that_made_it():
    turns = [turn("ours", "opbyop", 100, 0.2, ours={"client": 0.1, "workers": 0.2}, ray={"client": 0.0}),
             turn("ray", "opbyop", 10, 0.5, ours={"client": 0.0, "workers": 0.01}, ray={"client": 0.4}),
             turn("ours", "opbyop", 300, 0.6, ours={"client": 0.5, "workers": 0.2}, ray={"client": 0.0}),
             turn("ours", "fused", 7, 0.2, ours={"client": 0.1, "workers": 0.1}, ray={}),
             turn("ray", "fused", 7, 0.2, ours={"client": 0.0, "workers": 0.0}, ray={})]
    assert _meter.per_call_us(turns, "ours", "opbyop") == pytest.approx({"client": 1500.0, "workers": 1000.0})
    assert _meter.per_call_us(turns, "ray", "opbyop") == pytest.approx({"client": 40000.0})
    assert _meter.per_call_us(turns, "ray", "fused") == {} == _meter.per_call_us(turns, "ours", "chained"), "it was started in this turn; it had none"
    used = _meter.in_use(turns)
    assert used["ours"] == {"own": pytest.approx(1.2 / 1.0), "others": pytest.approx(0.01 / 0.7)}
    assert used["ray"] == {"own": pytest.approx(0.4 / 0.7), "others": 0.0}
    assert _meter.in_use(turns[:1])["ours"]["others"] is None
    entry = _breakdown.of_turns("ours", "opbyop", {"per_s": 500.0, "calling_us": 3.0, "waiting_us": 1997.0}, 1, turns)
    assert entry["wall_us"] == 2000.0 and entry["idle_us"] == pytest.approx(max(0, os.cpu_count() * 2000 - 2500))


def test_a_reading_counts_processes_that_were_there_all_the_time():
    before = {"ours": {"client": {1: 5.0, 2: 1.0}, "agent": {3: None}}, "gone": {}}
    after = {"ours": {"client": {1: 5.5, 2: None}, "agent": {3: None}}, "gone": {}}
    assert _meter.difference(before, after) == {"ours": {"client": 0.5, "agent": 0}, "gone": {}}


SPIN = "import time\nend = time.process_time() + 0.05\nwhile time.process_time() < end: pass\nprint('done', flush=True)\ninput()"


def test_a_meter_sees_what_each_side_used_in_a_turn():
    with subprocess.Popen([sys.executable, "-c", SPIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        meter = _meter.Meter({"one": lambda: {"client": _sides.tree(process.pid)}, "none": lambda: {}})
        answer = meter.turn("one", "spin", 5, lambda calls: {"per_s": calls, "said": process.stdout.readline()})
        assert answer == {"per_s": 5, "said": "done\n"}
        assert meter.turn("one", "spin", 5, lambda calls: {"error": "no"}) == {"error": "no"}
        (only,) = meter.turns
        assert 0 < only.used["one"]["client"] <= _sides.processor_seconds(process.pid) and only.used["none"] == {} and only.calls == 5
        process.communicate("end\n")
    with pytest.raises(OSError):
        _sides.processor_seconds(process.pid)


FAMILY = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
print(child.pid, flush=True)
for line in sys.stdin:
    print('{"said": 1}', flush=True)
child.communicate(b"end\\n")
"""


def states(pids):
    return [pathlib.Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] for pid in pids]


def test_a_side_that_is_paused_is_stopped_with_all_its_descendants_but_while_it_is_asked():
    seen = []

    @contextlib.contextmanager
    def start():
        side = _sides.Side("family", [sys.executable, "-c", FAMILY])
        with _sides.opened(side) as opened:
            assert _sides.tree(side.process.pid) == [side.process.pid, side.info]
            yield opened

    class Watched(_systems.Paused):
        def ask(self, do, **arguments):
            with self.awake():
                seen.append(states(_sides.tree(self.side.process.pid)))
                return super().ask(do, **arguments)

    with contextlib.ExitStack() as stack:
        one = Watched(stack, start)
        family = one.side.processes()
        assert states(family) == ["T", "T"]
        assert one.ask("anything") == {"said": 1} and "T" not in seen[0]
        assert states(family) == ["T", "T"]
        process = one.side.process
    assert process.returncode == 0, "it went on, and ended by itself"
    assert _sides.tree(process.pid) == [] and not any(map(_sides.tree, family))


OUTSIDERS = """
import subprocess, sys
import run
spin = "import time\\nend = time.process_time() + 0.5\\nwhile time.process_time() < end: pass"
ours = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
stranger = subprocess.Popen([sys.executable, "-c", spin + "\\nprint(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
outsiders = run.Outsiders(ours.pid)
stranger.stdout.readline()
spent = outsiders._now()["wall"] - outsiders._begin["wall"]
shares = outsiders.shares()
assert shares["stolen"] >= 0 and shares["others"] * run.os.cpu_count() * spent >= 0.3, shares
ours.communicate(b"end")
stranger.communicate(b"end")
"""


def test_what_others_use_is_all_that_is_outside_a_tree_and_is_kept_when_it_ends():
    uses = {1: (0, 5.0), 10: (1, 1.0), 11: (10, 2.0), 12: (11, 3.0), 30: (1, 4.0), 31: (30, 0.25), 40: (39, 8.0)}
    assert _sides.outside(uses, 10) == 5.0 + 4.0 + 0.25 + 8.0, "40's parent is not in this machine's table"
    ended = {pid: use for pid, use in uses.items() if pid not in (12, 31)} | {11: (10, 5.5), 30: (1, 4.75)}
    assert _sides.outside(ended, 10) - _sides.outside(uses, 10) == 0.5, "31 used half a second before it ended, and 30 waited for it"


def test_what_others_use_of_the_processors_is_told_from_what_a_figure_uses():
    subprocess.run([sys.executable, "-c", OUTSIDERS], check=True, env={**os.environ, "PYTHONPATH": f"{ROOT / 'bench' / 'paper'}:{ROOT / 'bench'}"})


ORPHAN = """
import os, signal, subprocess, sys
import run, _sides
run.adopt_orphans()
ours = set(_sides.tree(os.getpid()))
leave = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'], start_new_session=True, stdout=subprocess.DEVNULL).pid)"
orphan = int(subprocess.run([sys.executable, "-c", leave], stdout=subprocess.PIPE, check=True).stdout)
os.kill(orphan, signal.SIGSTOP)
assert orphan in _sides.tree(os.getpid())
short = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; [0 for _ in iter(lambda: time.process_time() < 0.3, False)]; print()'])"
ended = subprocess.run([sys.executable, "-c", short], stdout=subprocess.PIPE, check=True)  # returns when nothing holds the pipe: the orphan has ended
run.end_all_but(ours)
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    pass
else:
    raise AssertionError("an orphan that ended was not waited for")
assert set(_sides.tree(os.getpid())) == ours and not os.path.exists(f"/proc/{orphan}")
"""


def test_nothing_is_left_of_a_figure_not_even_what_is_stopped():
    subprocess.run([sys.executable, "-c", ORPHAN], check=True, env={**os.environ, "PYTHONPATH": f"{ROOT / 'bench' / 'paper'}:{ROOT / 'bench'}"})
