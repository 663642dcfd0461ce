"""`pathways status` for people. The report's fields are described in docs/status.md."""


def amount(count):
    """Bytes in a unit a person reads."""
    count = float(count or 0)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def _memory(device):
    used, limit = device.get("used_bytes", 0), device.get("limit_bytes", 0)
    return f"{amount(used)} of {amount(limit)}" if limit else amount(used)


def render(report, address):
    lines = [f"controller  {address}"]
    islands = report.get("islands", [])
    devices = [d for i in islands for h in i.get("hosts", []) for d in h.get("devices", [])]
    lines.append(f"{len(islands)} island(s), {sum(len(i.get('hosts', [])) for i in islands)} host(s), {len(devices)} device(s), "
                 f"{len(report.get('clients', []))} client(s)")
    for island in islands:
        lines.append(f"\nisland {island.get('name', '?')}")
        for host in island.get("hosts", []):
            members = host.get("devices", [])
            used = sum(d.get("used_bytes", 0) for d in members)
            state = host.get("state", "")
            lines.append(f"  host {host.get('name', '?'):<14} {len(members)} x {_kind(members)}   memory {amount(used)}   {state}".rstrip())
            for device in members:
                lines.append(f"    device {device.get('id', '?'):<5} {_memory(device)}")
    clients = report.get("clients", [])
    if clients:
        lines.append("\nclients")
    for client in clients:
        lines.append(f"  {client.get('session', client.get('id', '?'))}  {client.get('description', '')}   "
                     f"{client.get('arrays', 0)} arrays, {amount(client.get('bytes', 0))}")
    return "\n".join(lines)


def _kind(devices):
    kinds = sorted({d.get("kind", d.get("platform", "device")) for d in devices})
    return ", ".join(kinds) or "device"
