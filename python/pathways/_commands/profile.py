"""`pathways profile`: records a profile of the whole cluster, one XSpace for each host, into the folder layout that TensorBoard and XProf open
(docs/trace.md)."""

import os
import pathlib
import shutil
import sys
import time

from pathways._cluster import admin, records
from pathways._commands import cluster_commands, status_text

MOST_SECONDS = 599  # the controller gives up a profile that lasts ten minutes


def profile(args):
    address = records.address_of(args)
    if not 0 < args.seconds <= MOST_SECONDS:
        raise ValueError(f"--seconds wants more than 0 and at most {MOST_SECONDS}, not {args.seconds:g}")
    if not 0 < args.limit <= 1024:
        raise ValueError(f"--limit wants 1 to 1024 MiB, not {args.limit}")
    folder = _new_folder(pathlib.Path(args.out))
    if not args.json:
        print(f"recording {address} for {args.seconds:g} s ...", file=sys.stderr)
    try:
        report = admin.profile(address, args.seconds, folder, args.limit << 20)
        written = [host for host in report["hosts"] if "file" in host]
        if not written:
            raise admin.StatusError("no host has recorded a profile: " + "; ".join(f"{host['name']}: {host['missing']}" for host in report["hosts"]))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    lines = [f"{len(written)} host{'' if len(written) == 1 else 's'}, {status_text.amount(sum(host['bytes'] for host in written))}, in {folder}",
             f"open it with 'tensorboard --logdir {args.out}' or 'xprof --logdir {args.out}'"]
    lines += [f"host {host['name']} is not whole: {host['missing']}" for host in report["hosts"] if host["missing"]]
    cluster_commands.say(args, report, "\n".join(lines))
    return 0


def _new_folder(out):
    """Returns a new folder OUT/plugins/profile/TIME. TensorBoard lists profiles by TIME."""
    now = time.strftime("%Y_%m_%d_%H_%M_%S")
    for suffix in ("", *(f"_{n}" for n in range(2, 100))):
        folder = out / "plugins" / "profile" / (now + suffix)
        try:
            folder.mkdir(parents=True)
            return folder.resolve()
        except FileExistsError:
            continue
        except OSError as error:
            raise ValueError(f"cannot make the folder {folder}: {os.strerror(error.errno)}") from None
    raise ValueError(f"{folder.parent} has too many profiles of this second")
