"""`pathways quota set | list`: limits for the users of a cluster (docs/security.md, Quotas)."""

from pathways._cluster import admin, records
from pathways._commands.cluster_commands import say

LIMITS = {"sessions": "SESSIONS", "device_seconds": "DEVICE SECONDS A DAY", "weight": "WEIGHT", "priority": "PRIORITY", "devices": "DEVICES",
          "device_memory": "BYTES A DEVICE", "host_memory": "BYTES A HOST", "host_processes": "PROCESSES A HOST"}


def _number(value):
    return f"{value:,.1f}".removesuffix(".0") if isinstance(value, float) else f"{value:,}"


def text(found):
    """Returns the answer as lines: each user's limits, with what is used of them today."""
    used = {one["user"]: one for one in found["users"]}
    limits = {one["user"]: one for one in found["quotas"]}
    if not limits:
        return "No user has a limit."
    lines = [f"{'USER':<24}" + "".join(f"  {head:>22}" for head in LIMITS.values())]
    for user in [*limits, *(user for user in used if user not in limits)]:
        cells = []
        for name in LIMITS:
            limit = _number(limits[user][name]) if name in limits.get(user, {}) else "-"
            has = _number(used[user][name]) if name in used.get(user, {}) else None
            cells.append(f"  {limit if has is None else has if limit == '-' else f'{has} of {limit}':>22}")
        lines.append(f"{user:<24}{''.join(cells)}")
    return "\n".join(lines)


def list_all(args):
    found = admin.quotas(records.address_of(args))
    say(args, found, text(found))
    return 0


def change(args):
    limits = {name: value for name in LIMITS if (value := getattr(args, name)) is not None}
    if args.remove:
        limits = {name: limits.get(name, "none") for name in LIMITS}
    if not limits:
        raise ValueError("nothing to set: name a limit, such as --sessions 2, or --remove")
    found = admin.quotas(records.address_of(args), args.user, limits)
    say(args, found, text(found))
    return 0
