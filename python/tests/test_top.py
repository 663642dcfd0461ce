"""Tests `pathways top`: the view computed from two reports, and its lines of text; tests/e2e/cluster/test_top.py runs it in a terminal."""

import pytest

from pathways._commands import load_view, screen


def report(uptime, device_seconds, clients=(), hosts=1, pid=1, **more):
    return {"pid": pid, "uptime_seconds": uptime, "state": "formed", "policy": "share", "granted": int(10 * uptime), "islands": [{"id": 0, "name": "island0"}],
            "hosts": [{"id": i, "name": f"h{i}", "island": 0, "state": "up", "ops_in_flight": 3, "bytes_sent": int(1000 * uptime), "bytes_received": 0,
                       "health": {"commands_parked": 2}, "metrics": {"device_seconds": device_seconds}} for i in range(hosts)],
            "devices": [{"id": i, "host": i // 2, "memory": {"used_bytes": 100, "limit_bytes": 400}} for i in range(2 * hosts)],
            "clients": list(clients), **more}


def client(number, device_seconds, weight=1.0, waiting=0, completed=0):
    return {"id": number, "description": f"jax client {number}", "weight": weight, "priority": 0, "device_seconds": device_seconds, "waiting": waiting,
            "running": 0, "completed": completed, "array_bytes": 5}


def test_the_load_is_device_time_by_time_and_devices():
    (host,) = load_view.compare(report(12, 7.0), report(10, 4.0)).hosts
    assert host.load == pytest.approx(0.75) and (host.used_bytes, host.limit_bytes) == (200, 800) and host.bytes_per_second == pytest.approx(1000)


def test_shares_are_compared_with_weights_among_clients_with_work():
    before = [client(1, 10.0), client(2, 10.0), client(3, 10.0, weight=7)]
    now = [client(1, 11.0, waiting=5), client(2, 13.0, weight=3.0), client(3, 10.0, weight=7)]
    one, two, idle = load_view.compare(report(2, 0, now), report(1, 0, before)).clients
    assert (one.entitled, two.entitled, idle.entitled) == (0.25, 0.75, None)
    assert (one.got, two.got, idle.got) == pytest.approx((0.25, 0.75, 0.0))


def test_a_controller_that_began_anew_has_no_negative_rates():
    view = load_view.compare(report(3, 1.5, [client(1, 1.0, completed=6)], pid=2), report(100, 50.0, [client(1, 9.0, completed=99)]))
    assert view.granted_per_second == pytest.approx(10) and view.clients[0].per_second == pytest.approx(2)
    assert view.hosts[0].load is None  # there is nothing to compare with


def test_a_host_without_an_answer_has_no_load():
    silent = report(2, 1.0)
    del silent["hosts"][0]["metrics"]
    assert load_view.compare(silent, report(1, 0.5)).hosts[0].load is None


def test_the_screen_shows_hosts_clients_queue_and_events():
    view = load_view.compare(report(2, 1.0, [client(1, 1.0, waiting=4)], events=[{"seconds_ago": 9.0, "kind": "host joined", "text": "h0 came"}]), report(1, 0.0))
    text = "\n".join(screen.draw(view, "here:1"))
    for said in ("here:1", "1 up, 0 busy, 0 silent", "queue: 4 computation(s)", "h0 ", "200 B of 800 B", "#####.....  50%", "jax client 1", "host joined", "h0 came"):
        assert said in text


def test_a_host_that_is_away_is_shown():
    now = report(2, 1.0, hosts=2)
    now["hosts"][1]["state"] = "away"
    text = "\n".join(screen.draw(load_view.compare(now, report(1, 0.0, hosts=2)), "here:1"))
    assert "1 up, 0 busy, 0 silent, 1 away" in text


def test_a_hang_is_shown_first_and_in_red():
    hang = {"computation": 8, "client": 1, "program": "jit_step", "seconds": 12.0, "hosts": [{"name": "h0", "state": "launched, not finished"}],
            "stacks": [{"host": "h0", "process": "the program of client 1", "text": "  MainThread at train.py:7 in main: step()\x1b[2J\n    File\n"}]}
    lines = screen.draw(load_view.compare(report(2, 1.0, hangs=[hang]), report(1, 0.0)), "here:1", colors=True)
    (line,) = [line for line in lines if "HANGS" in line]
    assert line.startswith(screen.RED) and "h0: launched, not finished" in line and lines.index(line) < 5
    assert "the program of client 1: MainThread at train.py:7 in main: step()?[2J" in lines[lines.index(line) + 1]


@pytest.mark.parametrize("width, height", [(20, 5), (80, 24), (200, 60)])
def test_the_screen_fits_the_terminal(width, height):
    many = [client(i, float(i), waiting=1) for i in range(300)]
    view = load_view.compare(report(2, 1.0, many, hosts=500), report(1, 0.0, hosts=500))
    lines = screen.draw(view, "here:1", width, height)
    assert len(lines) <= height and max(map(len, lines)) <= width
    if height > 20:
        assert any("more hosts" in line for line in lines) and any("more clients" in line for line in lines)


def test_names_cannot_move_the_cursor():
    evil = client(1, 1.0)
    evil["description"] = "\x1b[2Jgone\r\n"
    assert "\x1b" not in "\n".join(screen.draw(load_view.compare(report(2, 1.0, [evil]), report(1, 0.0)), "here:1"))
