"""Hosts that are killed and return, and programs that read commands line by line, for the tests of this folder."""

import signal
import time

from cli import PATIENCE


def hosts_of(command, count):
    """Waits until the cluster has `count` hosts; returns {name: host}."""
    deadline = time.monotonic() + PATIENCE
    while True:
        report = command("status")
        if report["joined_hosts"] == count and report["state"] == "formed":
            return {host["name"]: host for host in report["hosts"]}
        assert time.monotonic() < deadline, report


class Host:
    """A worker that joins a cluster, and can be killed and started again."""

    def __init__(self, command, address, name, island, folder, devices=2, more=()):
        self._command, self._log = command, folder / f"{name}.log"
        self._words = ["worker", "--join", address, "--host", name, "--island", island, "--devices", str(devices), *more]
        self.start()

    def start(self):
        self.process = self._command.start(*self._words, log=self._log)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


class Program:
    def __init__(self, command, address, code):
        self._running = command.program(address, code)

    def tell(self, line):
        self._running.stdin.write(line + "\n")
        self._running.stdin.flush()

    def answer(self):
        answer = self._running.stdout.readline().strip()
        assert answer, self._running.communicate()
        return answer

    def says(self, line):
        self.tell(line)
        return self.answer()

    def comes_to_say(self, line, answer):
        deadline = time.monotonic() + PATIENCE
        while (said := self.says(line)) != answer:
            assert said.startswith("DATA_LOSS") and time.monotonic() < deadline, said

    def end(self):
        out, err = self._running.communicate(timeout=PATIENCE)
        assert self._running.returncode == 0, out + err
