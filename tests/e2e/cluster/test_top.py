"""Tests `pathways top` in a terminal: it draws, follows the events of the cluster, and restores the terminal."""

import json
import os
import pty
import re
import select
import signal
import struct
import fcntl
import subprocess
import termios
import time

import pytest

from cli import CommandLine
from conftest import PATIENCE

CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def pathways(tmp_path):
    command_line = CommandLine(tmp_path / "home")
    command_line.started = command_line("up", "--hosts", "2", "--devices", "1")
    yield command_line
    command_line("down")


class Terminal:
    """A program in a separate terminal."""

    def __init__(self, words, env, rows=30, columns=130):
        self.end, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(other)
        self.other = other
        # A shell starts background jobs with SIGINT ignored, and children inherit that.
        self.popen = subprocess.Popen(words, env=dict(env, TERM="xterm"), stdin=other, stdout=other, stderr=other, start_new_session=True,
                                      preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.raw = ""

    def read_until(self, condition):
        """Reads until the text so far fulfils the condition; returns the text without codes."""
        deadline = time.monotonic() + PATIENCE
        while not condition(text := CODES.sub("", self.raw)):
            assert time.monotonic() < deadline and self.popen.poll() is None, text
            if select.select([self.end], [], [], 0.1)[0]:
                self.raw += os.read(self.end, 65536).decode(errors="replace")
        return text

    def press(self, key):
        os.write(self.end, key)

    def close(self):
        """Waits for the end; returns the exit status."""
        status = self.popen.wait(PATIENCE)
        while select.select([self.end], [], [], 0.0)[0]:
            self.raw += os.read(self.end, 65536).decode(errors="replace")
        assert termios.tcgetattr(self.other) == self.before, "the terminal is not as it was"
        os.close(self.end)
        os.close(self.other)
        return status


def test_it_draws_until_q_and_leaves_the_terminal_as_it_was(pathways):
    terminal = Terminal([pathways.python, "-m", "pathways", "top", "--interval", "0.2"], pathways.env)
    text = terminal.read_until(lambda text: text.count("2 up, 0 busy, 0 silent") >= 3)  # it draws again and again
    assert pathways.started["address"] in text and "no clients" in text
    terminal.press(b"q")
    assert terminal.close() == 0
    assert terminal.raw.startswith("\x1b[?1049h") and terminal.raw.rstrip().endswith("\x1b[?1049l")


def test_it_follows_a_client_and_a_stopped_host(pathways):
    program = pathways.program(pathways.started["address"], "import jax, numpy as np\njax.block_until_ready(jax.jit(lambda v: v + 1)(np.ones(4)))\nprint('ready', flush=True)\ninput()")
    assert program.stdout.readline() == "ready\n"
    pid = pathways("status")["hosts"][1]["pid"]
    terminal = Terminal([pathways.python, "-m", "pathways", "top", "--interval", "0.2"], pathways.env)
    terminal.read_until(lambda text: "jax client at" in text)
    os.kill(pid, signal.SIGSTOP)
    try:
        terminal.read_until(lambda text: "1 up, 0 busy, 1 silent" in text)
    finally:
        os.kill(pid, signal.SIGCONT)
    terminal.read_until(lambda text: "2 up, 0 busy, 0 silent" in text.rpartition("1 up, 0 busy, 1 silent")[2])
    terminal.popen.send_signal(signal.SIGINT)
    assert terminal.close() == 130
    program.communicate("\n")


def test_once_is_for_scripts(pathways):
    done = pathways("top", "--once", "--interval", "0.1", check=False)
    assert done.returncode == 0 and "2 up, 0 busy, 0 silent" in done.stdout and "\x1b" not in done.stdout
    view = json.loads(pathways("top", "--once", "--json", "--interval", "0.1", check=False).stdout)
    assert [host["state"] for host in view["hosts"]] == ["up", "up"] and view["clients"] == [] and view["queue"] == 0
