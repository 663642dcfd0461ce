"""Draws the View of `pathways top` as lines of text, for a terminal of some width and height. Pure; the colours are ANSI codes."""

from pathways._commands.status_text import amount, python_lines

BOLD, DIM, RED, YELLOW, GREEN, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[0m"
_BAR = 10
_SHOWN_EVENTS = 5
_SHOWN_LINES = 3  # of the Python code in which the threads of a program that hangs are


def _clean(text):
    """Returns text from the cluster without control characters: a client's name must not move the cursor."""
    return "".join(c if c.isprintable() else "?" for c in str(text))


def _bar(part):
    if part is None:
        return f"{'?':^{_BAR}}     "
    filled = round(min(max(part, 0.0), 1.0) * _BAR)
    return "#" * filled + "." * (_BAR - filled) + f"{part:5.0%}"


def _share(part):
    return "    -" if part is None else f"{part:5.0%}"


def _fit(line, width):
    return line if len(line) <= width else line[: max(0, width - 1)] + "~"


def _paint(line, color, colors):
    return f"{color}{line}{PLAIN}" if colors and color else line


def _hosts(view, room):
    lines = [("HOST              ISLAND      STATE   DEV  LOAD             MEMORY                     IN FLIGHT  PARKED  TRAFFIC/s", BOLD)]
    # If there is no room for all hosts, show those that do not answer, then the busiest.
    order = sorted(view.hosts, key=lambda host: (host.state == "up", -(host.load or 0.0)))
    shown = {id(host) for host in order[: max(1, room - 2)]} if len(order) > room - 1 else {id(host) for host in order}
    for host in view.hosts:
        if id(host) not in shown:
            continue
        memory = amount(host.used_bytes) + (f" of {amount(host.limit_bytes)}" if host.limit_bytes else "")
        lines.append((f"{_clean(host.name)[:16]:<16}  {_clean(host.island)[:10]:<10}  {host.state:<6} {host.devices:4}  {_bar(host.load)}  {memory:<25} "
                      f"{host.in_flight:9}  {host.waiting:6}  {amount(host.bytes_per_second):>9}", "" if host.state == "up" else RED))
    if len(shown) < len(view.hosts):
        lines.append((f"... and {len(view.hosts) - len(shown)} more hosts", DIM))
    return lines


def _clients(view, room):
    if not view.clients:
        return [("no clients", DIM)]
    lines = [("CLIENT  WEIGHT PRIO  ENTITLED   GOT   WAITING  RUNNING   DONE/s     ARRAYS  DESCRIPTION", BOLD)]
    order = sorted(view.clients, key=lambda client: (-(client.got or 0.0), client.id))
    shown = order[: max(1, room - 2)] if len(order) > room - 1 else order
    for client in shown:
        away = "" if client.seconds_away is None else f"away for {client.seconds_away:.0f} s: "
        behind = client.entitled is not None and client.waiting and (client.got or 0.0) < 0.5 * client.entitled
        lines.append((f"{client.id:<7} {client.weight:6g} {client.priority:4}     {_share(client.entitled)} {_share(client.got)}  {client.waiting:8} {client.running:8} "
                      f"{client.per_second:8.1f} {amount(client.array_bytes):>10}  {away}{_clean(client.description)}", YELLOW if behind or away else ""))
    if len(shown) < len(order):
        lines.append((f"... and {len(order) - len(shown)} more clients", DIM))
    return lines


def _troubles(view):
    lines = []
    for hang in view.hangs:
        where = ", ".join(f"{_clean(host['name'])}: {_clean(host['state'])}" for host in hang["hosts"])
        lines.append((f"HANGS: computation {hang['computation']} of client {hang['client']} {_clean(hang['program'])} for {hang['seconds']:.0f} s; {where}", RED))
        lines += ((f"  {_clean(line)}", RED) for line in python_lines(hang)[:_SHOWN_LINES])
    return lines


def _events(view):
    if not view.events:
        return []
    lines = [("EVENTS", BOLD)]
    for event in view.events[:_SHOWN_EVENTS]:
        color = RED if event["kind"] in ("hang", "host lost") else ""
        lines.append((f"{event['seconds_ago']:7.0f} s ago  {_clean(event['kind']):<16} {_clean(event['text'])}", color))
    return lines


def draw(view, address, width=120, height=40, colors=False):
    """Returns the lines, at most `height` of at most `width` characters (not counting colours)."""
    states = {state: sum(host.state == state for host in view.hosts) for state in ("up", "busy", "silent", "away")}
    amiss = states["busy"] or states["silent"] or states["away"]
    if not states["away"]:
        del states["away"]
    lines = [(f"pathways {address}   {view.state}, up for {view.uptime_seconds:.0f} s, policy {view.policy}", BOLD),
             (f"{len(view.hosts)} host(s): {', '.join(f'{count} {state}' for state, count in states.items())}   {len(view.clients)} client(s)   "
              f"queue: {view.queue} computation(s)   {view.granted_per_second:.1f} granted/s", RED if amiss else ""), ("", "")]
    troubles, events = _troubles(view), _events(view)
    room = max(6, height - len(lines) - len(troubles) - len(events) - 3)
    clients = _clients(view, max(3, min(len(view.clients) + 2, room // 2)))
    hosts = _hosts(view, max(3, room - len(clients)))
    lines += troubles + hosts + [("", "")] + clients + ([("", "")] + events if events else [])
    return [_paint(_fit(line, width), color, colors) for line, color in lines[:height]]
