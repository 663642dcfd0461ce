"""`pathways token create | list | revoke` and `pathways login`."""

import json
import os
import re
import sys
import time

from pathways._cluster import admin, credentials, records
from pathways._commands.cluster_commands import say

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(text):
    """Returns the seconds in "90s", "12h" or "30d"; 0 for "never"."""
    if text == "never":
        return 0
    match = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if not match or int(match[1]) == 0:
        raise ValueError(f"--expires wants a time such as 12h or 30d, or never, not '{text}'")
    return int(match[1]) * _SECONDS[match[2]]


def create(args):
    address = records.address_of(args)
    text = admin.create_token(address, args.user, args.role, seconds(args.expires), args.uses)
    if args.output:
        credentials.write(args.output, text)
        say(args, {"path": args.output}, f"The token file of {args.role} '{args.user}' is {args.output}.")
    else:
        say(args, credentials.fields(text), text.rstrip("\n"))
    return 0


def _line(token):
    until = time.strftime("%Y-%m-%d %H:%M", time.localtime(token["expires"])) if "expires" in token else "revoked"
    uses = f", {token['uses']} use(s) left" if "uses" in token else ""
    return f"{token['id']}  {token['role']:<8}  {token['user']:<24}  until {until}{uses}"


def list_all(args):
    found = admin.list_tokens(records.address_of(args))
    print(json.dumps(found) if args.json else "\n".join(map(_line, found)) or "There are no tokens.")
    return 0


def revoke(args):
    admin.revoke_token(records.address_of(args), args.id)
    say(args, {"revoked": args.id}, f"Token {args.id} is revoked, and its sessions have ended.")
    return 0


def login(args):
    """Stores a token file after the cluster has accepted it."""
    if args.token_from:
        if args.token_file or not args.authority:
            raise ValueError("--token-from goes with --authority, and without --token-file. The operator's 'pathways token create' prints the line 'authority sha256:...'")
        text = f"authority {args.authority}\ntoken-from {os.path.abspath(args.token_from)}\n"
    elif args.token_file:
        with open(args.token_file) as file:
            text = file.read()
    else:
        if sys.stdin.isatty():
            print("Paste the token file, then Ctrl-D:", file=sys.stderr)
        text = sys.stdin.read()
    fields = {**credentials.fields(text), "address": args.address}
    path = credentials.stored(args.address)
    trial = path.with_name(path.name + ".trial")
    credentials.write(trial, "".join(f"{key} {fields[key]}\n" for key in ("address", "authority", "token", "token-from", "tls") if key in fields))
    try:
        admin.status(args.address, access=["--token-file", trial])
        trial.rename(path)
    finally:
        trial.unlink(missing_ok=True)
    say(args, {"path": str(path)}, f"Programs of this user reach the cluster at {args.address} from now on: PATHWAYS_ADDRESS={args.address}")
    return 0
