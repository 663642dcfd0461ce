"""Trains examples/elastic_train.py on three islands of two devices, while hosts are killed (kill -9), stopped (SIGSTOP) and started again at random.

    python bench/elastic_soak.py --faults 100            # each replica has the state
    python bench/elastic_soak.py --faults 100 --cut      # no replica has all of it

A fault counts as recovered if the training makes steps again without its host, and again with it after its return. At the end all losses are
compared with those of an undisturbed run over the same batches. A host that is stopped is given up at the heartbeat limit, so the seconds
after a SIGSTOP are more than those after a kill by about that limit. The seed is printed, and repeats the same faults.
"""

import argparse
import contextlib
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

EXAMPLE = pathlib.Path(__file__).resolve().parents[1] / "examples" / "elastic_train.py"
STEP = re.compile(r"STEP (\d+) LOSS ([\d.]+) ON (\d)")
PATIENCE = 60  # seconds for a recovery; the fault counts as lost after it


class Cluster:
    """A controller, and a host for each island; host i is the only one of its island."""

    def __init__(self, folder, heartbeat):
        from pathways._cluster import binaries

        self._folder, self._binaries, self._life = folder, binaries, 0
        self.hosts = [None] * 3
        port = folder / "port"
        self.controller = self._start("pathways-controller", "--listen-workers", f"unix:{folder}/w", "--expect-hosts", 3, "--port-file", port,
                                      "--own-workers", "--heartbeat-limit", heartbeat, name="controller")
        _until(port.exists)
        for island in range(3):
            self.start(island)
        self.address = port.read_text().split()[0]

    def start(self, island):
        self._life += 1
        self.hosts[island] = self._start(
            "pathways-worker", "--controller", f"unix:{self._folder}/w", "--plugin", self._binaries.device_plugin("cpu"), "--island", f"i{island}",
            "--host-name", f"h{island}", "--exit-with-controller", "--devices", 2, "--listen", f"unix:{self._folder}/h{self._life}", name=f"h{island}.{self._life}")

    def stop(self):
        for process in (self.controller, *self.hosts):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

    def _start(self, binary, *arguments, name):
        with open(self._folder / f"{name}.log", "w") as log:
            return subprocess.Popen([str(self._binaries.find(binary)), *map(str, arguments), f"--exit-with-parent={os.getpid()}"], stdout=log, stderr=log)


class Training:
    def __init__(self, address, log, *options):
        env = {name: value for name, value in os.environ.items() if name not in ("PATHWAYS_LOCAL", "PATHWAYS_ADDRESS")}
        env |= {"JAX_PLATFORMS": "pathways"} | ({"PATHWAYS_ADDRESS": address} if address else {"PATHWAYS_LOCAL": "3x1x2"})
        self.process = subprocess.Popen([sys.executable, str(EXAMPLE), *options], env=env, stdout=subprocess.PIPE, stderr=log, text=True)
        self.steps = []  # (when, replicas)
        self.losses = {}
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        for line in self.process.stdout:
            if found := STEP.match(line):
                self.losses[int(found[1])] = float(found[2])
                self.steps.append((time.monotonic(), int(found[3])))

    def first_step(self, replicas, after):
        """Returns the time of the first step after `after` on that many replicas; None if none comes."""
        found = []

        def look():
            found.extend(when for when, on in self.steps[-1000:] if when > after and on == replicas)
            return found or self.process.poll() is not None

        _until(look, PATIENCE)
        return found[0] if found else None

    def end(self):
        self.process.kill()
        self.process.wait()
        self._thread.join()
        return self.losses

    def finish(self):
        self.process.wait()
        self._thread.join()
        return self.losses


def _until(condition, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)


def run(args, folder):
    rng = random.Random(args.seed)
    cluster = Cluster(folder, args.heartbeat)
    options = ["--pause", "0.01", "--steps", "10000000", *(["--cut"] if args.cut else [])]
    with open(folder / "training.log", "w") as log:
        training = Training(cluster.address, log, *options)
        recovered, seconds, back = 0, {"kill -9": [], "SIGSTOP": []}, []
        try:
            if training.first_step(3, 0) is None:
                raise SystemExit(f"the training has not begun: {(folder / 'training.log').read_text()}")
            for fault in range(args.faults):
                time.sleep(rng.uniform(0.2, 1.0))
                what = "SIGSTOP" if rng.random() < args.stops else "kill -9"
                island = rng.randrange(3)
                victim, begun = cluster.hosts[island], time.monotonic()
                victim.send_signal(signal.SIGSTOP if what == "SIGSTOP" else signal.SIGKILL)
                without = training.first_step(2, begun)
                time.sleep(rng.uniform(0, 0.5))
                victim.kill()  # a stopped host that goes on has lost its place, and ends
                victim.wait()
                cluster.start(island)
                returned = time.monotonic()
                again = training.first_step(3, returned)
                if without is not None:
                    seconds[what].append(without - begun)
                if again is not None:
                    back.append(again - returned)
                recovered += without is not None and again is not None
                print(f"{fault + 1}: {what} of h{island}: next step after {without and round(without - begun, 2)} s; with it again "
                      f"{again and round(again - returned, 2)} s after its start", flush=True)
                if training.process.poll() is not None:
                    print(f"the training has ended: {(folder / 'training.log').read_text()[-3000:]}", flush=True)
                    break
        finally:
            losses = training.end()
            cluster.stop()
        print(f"recovered {recovered} of {args.faults} faults")
        hangs = re.findall(r"computation \d+ of client \d+ .*hangs: .*", (folder / "controller.log").read_text())
        print(f"computations that the controller took for hanging: {len(hangs)}; a host that is stopped is lost before, so each is a false alarm", *hangs, sep="\n  ")
        for what, all_of in seconds.items():
            if all_of:
                print(f"{what}: {len(all_of)}; to the next step: median {statistics.median(all_of):.2f} s, longest {max(all_of):.2f} s")
        if back:
            print(f"from the start of a host to a step with it: median {statistics.median(back):.2f} s, longest {max(back):.2f} s")
        undisturbed = Training(None, log, "--pause", "0", "--steps", str(len(losses)), *options[4:]).finish()
    worst = max(abs(losses[step] - undisturbed[step]) / max(undisturbed[step], 1e-6) for step in losses)
    print(f"{len(losses)} steps, each made once: {sorted(losses) == list(range(len(losses)))}; largest relative difference of a loss from the undisturbed run: {worst:.1e}")
    return recovered == args.faults and not hangs and sorted(losses) == sorted(undisturbed) and worst < 1e-3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--stops", type=float, default=0.2, metavar="P", help="the part of the faults that are SIGSTOP")
    parser.add_argument("--heartbeat", default="3s", help="the heartbeat limit of the controller")
    parser.add_argument("--cut", action="store_true")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 100000)
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        raise SystemExit(0 if run(args, pathlib.Path(folder)) else 1)


if __name__ == "__main__":
    main()
