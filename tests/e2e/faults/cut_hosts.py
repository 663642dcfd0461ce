"""A cluster of two hosts over TCP, with tokens, whose networks a test cuts; and programs that a test tells when to go on."""

import signal
import subprocess

from cli import CommandLine
from conftest import PATIENCE, eventually

from pathways._cluster import command_lines


class CutHosts:
    """The hosts a and b, each an island. A subclass starts them, behind the networks that it cuts, and puts these into `networks`."""

    def __init__(self, folder, grace):
        self.command = CommandLine(folder / "home")
        self.folder, self.networks, self._started = folder, [], []
        self.up = self.command("up", "--no-workers", "--hosts", "2", "--listen", "0.0.0.0:0", "--advertise", "127.0.0.1", "--listen-proxy", "none",
                               "--host-grace", str(grace))
        try:
            status = self.command("status")
            self.controller = status["pid"]
            self.command("token", "create", "--user", "rack", "--role", "worker", "--output", str(folder / "rack.token"))
            self.start_hosts(status["workers_address"].rpartition(":")[2])
            assert eventually(lambda: self.command("status")["state"] == "formed"), self.log("a") + self.log("b")
        except BaseException:
            self.stop()
            raise

    def start_hosts(self, port):
        """Starts the hosts. port: the controller's, for workers."""
        raise NotImplementedError

    def start_worker(self, name, address, *options, **shape):
        words = command_lines.worker(f"tcp:{address}", name, f"i{name}", "cpu", 2, access=["--token-file", self.folder / "rack.token"], **shape)
        with open(self.folder / f"{name}.log", "a") as log:
            self._started.append(subprocess.Popen([str(word) for word in [*words, *options]], env=self.command.env, stdout=log, stderr=log))
        return self._started[-1]

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def program(self, code):
        program = self.command.program(self.up["address"], code)
        assert program.stdout.readline() == "ready\n", program.communicate()[1]
        return program

    def stop(self):
        for worker in self._started:
            worker.send_signal(signal.SIGCONT)
            worker.kill()
            worker.wait()
        for network in self.networks:
            network.close()
        self.command("down", check=False)


def ask(program, line=""):
    program.stdin.write(line + "\n")
    program.stdin.flush()


def end(program):
    out, err = program.communicate(timeout=PATIENCE)
    assert program.returncode == 0, out + err
