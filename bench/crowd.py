"""Measures how strangers share a cluster: 64 clients of eight users within their shares, and a decoder beside a trainer.

- crowd: eight users, of weights 1 and 2, one of whom asks for much more than the operator allows. Each has eight clients with computations always
  waiting, over TLS, with tokens. tests/crowd/crowd.cc counts the results that each client has received. The memory of the controller is read twice, to
  see that it does not grow.
- decode: a client that waits for each of its short computations, alone and beside a trainer whose long computations always wait. A computation that
  runs is not interrupted. So a call may have to wait for one computation of the trainer, whatever the decoder's share: `floor_us` is that and its own time.

The devices are simulated, so their time is exact, and all processors are left for the control path. All else is real.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile

import _report
import _sides
from fairness import OPERATION_A_US, Flood, open_clients

USERS = {f"user{i}": 1 if i < 4 else 2 for i in range(7)} | {"greedy": 1000}
MOST = 2  # the weight that the operator lets users have
CLIENTS = 8  # of each user
PER_SECOND = 200  # computations that the device of the crowd can do: each takes 5 ms
SHARE_LIMIT = 0.02
TRAINER_US, DECODER_US = 20_000, 1_000
# name: (the scheduler's policy, settings of the decoder's session)
TOGETHER = {"equal shares": ("share", {}), "eight times the weight": ("share", {"weight": 8.0}), "higher priority": ("priority", {"priority": 10})}


class CommandLine:
    """`pathways` with a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.env = {**os.environ, "PATHWAYS_HOME": f"{folder}/home"}

    def __call__(self, *words):
        done = subprocess.run([sys.executable, "-m", "pathways", *words, "--json"], env=self.env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"pathways {' '.join(words)}: {done.stderr}")
        return json.loads(done.stdout)


@contextlib.contextmanager
def crowded_cluster():
    """Yields (the command line, the cluster's address, an argument of the crowd for each user)."""
    with tempfile.TemporaryDirectory(prefix="bench-crowd-") as folder:
        command = CommandLine(folder)
        address = command("up", "--simulated", "1x1", "--simulated-device", OPERATION_A_US, "--listen-proxy", "none")["address"]
        try:
            command("quota", "set", "--user", "*", "--weight", str(MOST))
            users = []
            for user, weight in USERS.items():
                command("token", "create", "--user", user, "--output", f"{folder}/{user}")
                users.append(f"{folder}/{user}={weight}")
            yield command, address, users
        finally:
            command("down")


def counts_of(tree, seconds):
    """Returns ([the results of each user's clients], the controller's memory when they have begun and at the end, in bytes, computations that it took for
    hanging)."""
    results = round(seconds * PER_SECOND)
    with crowded_cluster() as (command, address, users):
        crowd = subprocess.Popen([tree / "crowd" / "crowd", address, str(CLIENTS), str(results), *users], env=command.env, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True)
        try:
            pid = command("status")["pid"]
            while len(command("status")["clients"]) < len(USERS) * CLIENTS and crowd.poll() is None:
                pass
            begun = _sides.resident_bytes(pid)
            line = crowd.stdout.readline()
            ended, hangs = _sides.resident_bytes(pid), command("status")["hangs_named"]
        finally:
            crowd.kill()
            crowd.communicate()
    counts = [int(word) for word in line.split()]
    if sum(counts) != results:
        raise RuntimeError("the crowd has ended before it had all results; see its standard error")
    return [counts[at:at + CLIENTS] for at in range(0, len(counts), CLIENTS)], begun, ended, hangs


def measure_crowd(tree, seconds):
    of_users, begun, ended, hangs = counts_of(tree, seconds)
    weights = [min(weight, MOST) for weight in USERS.values()]
    one = sum(map(sum, of_users)) / (CLIENTS * sum(weights))  # the share of a client of weight 1
    return {"seconds": seconds, "results": dict(zip(USERS, of_users)), "controller_bytes": [begun, ended], "hangs_named": hangs,
            "users_off": max(abs(sum(counts) / (CLIENTS * one * weight) - 1) for counts, weight in zip(of_users, weights)),
            "clients_off": max(abs(count / (one * weight) - 1) for counts, weight in zip(of_users, weights) for count in counts)}


def beside_a_trainer(policy, settings, calls):
    """Returns the decoder's latencies alone and beside the trainer."""
    from pathways._cluster import admin

    own, long = f"gang {DECODER_US} 0", f"gang {TRAINER_US} 1"
    with _sides.simulated_cluster(1, OPERATION_A_US, policy=policy) as cluster, contextlib.ExitStack() as stack:
        sides = open_clients(stack, cluster.address, 2)
        (number, decoder), (_, trainer) = sides.items()
        if settings:
            admin.share(cluster.address, number, **settings)
        decoder.ask("prepare", program=own)
        trainer.ask("prepare", program=long)
        alone = decoder.ask("latency", program=own, calls=calls)
        longest = 3 * calls * (TRAINER_US + DECODER_US) / 1e6
        with Flood([(trainer, long)], longest) as flood:
            flood.until_begin()
            beside = decoder.ask("latency", program=own, calls=calls)
            trainer.process.kill()
            flood.programs = []
    return {"alone": alone, "beside": beside, "floor_us": TRAINER_US + DECODER_US}


def main():
    def add(parser):
        parser.add_argument("--seconds", type=float, default=600, help="of the crowd")
        parser.add_argument("--calls", type=int, default=500, help="of the decoder")

    args = _report.arguments(__doc__, add)
    decode = {name: beside_a_trainer(*how, args.calls) for name, how in TOGETHER.items()}
    for name, row in decode.items():
        print(f"decode, {name}: p50 / p99 alone {row['alone']['p50_us'] / 1e3:.2f} / {row['alone']['p99_us'] / 1e3:.2f} ms, beside a trainer "
              f"{row['beside']['p50_us'] / 1e3:.2f} / {row['beside']['p99_us'] / 1e3:.2f} ms; the trainer's computation and its own take {row['floor_us'] / 1e3:.0f} ms")
    crowd = measure_crowd(args.tree, args.seconds)
    begun, ended = crowd["controller_bytes"]
    print(f"crowd: {CLIENTS * len(USERS)} clients of {len(USERS)} users for {crowd['seconds']:.0f} s: users off by at most {100 * crowd['users_off']:.2f} %, clients by "
          f"{100 * crowd['clients_off']:.2f} %; the controller's memory {begun / 1e6:.0f} MB at the begin, {ended / 1e6:.0f} MB at the end")
    targets = [_report.target("results of a user off its weight", crowd["users_off"], SHARE_LIMIT),
               _report.target("results of a client off its weight", crowd["clients_off"], SHARE_LIMIT),
               _report.target("computations of the crowd taken for hanging", crowd["hangs_named"], 0),
               *(_report.target(f"p99 of a decoder beside a trainer, {name}, / one computation of each", row["beside"]["p99_us"] / row["floor_us"], 1.5)
                 for name, row in decode.items() if name != "equal shares")]
    _report.finish(args, "crowd", {"crowd": crowd, "decode": decode}, targets)


if __name__ == "__main__":
    main()
