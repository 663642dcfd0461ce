"""Tests the operators' page: the cluster, its programs, a host that dies, a computation that hangs; by pointer and by keys, light and dark."""

import json
import os
import pathlib
import signal

import pytest

import devtools

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURES = pathlib.Path(os.environ.get("PAGE_PICTURES") or ROOT / "build" / "page" / "pictures")

pytestmark = pytest.mark.skipif(devtools.program() is None, reason="chromium is not installed: 'make test-page' does that")

FIGURE = "(name => [...document.querySelectorAll('.figures span')].find(one => one.firstChild.textContent === name)?.querySelector('b').textContent)"


def figure(browser, name):
    return browser.evaluate(f"{FIGURE}({json.dumps(name)})")


def wait_figure(browser, name, value):
    return browser.wait(f"{FIGURE}({json.dumps(name)}) === {json.dumps(value)}")


INK = """((selector, from, to) => {
    const canvas = document.querySelector(selector);
    const copy = document.createElement('canvas');
    [copy.width, copy.height] = [canvas.width, canvas.height];
    const context = copy.getContext('2d');
    context.drawImage(canvas, 0, 0);
    const [left, right] = [from ?? 0, to ?? copy.width];
    return new Set(new Uint32Array(context.getImageData(left, 0, right - left, copy.height - 20).data.buffer)).size;
})"""


def ink(browser, selector):
    """Returns the number of colours on a canvas."""
    return browser.evaluate(f"{INK}({json.dumps(selector)})")


def wait_full(browser):
    """Waits until the timeline has bars at its left end."""
    browser.wait(f"{INK}('.timeline', 130, 220) > 4")


def frames(browser, number):
    """Waits until the page has drawn `number` times."""
    for _ in range(number):
        browser.evaluate("new Promise(requestAnimationFrame)", promise=True)


def test_clients_and_a_lost_host_are_seen(start, browser):
    cluster = start("--hosts", "3", "--devices", "4")
    browser.open(cluster.login())
    seen = {"the page": browser.wait("document.querySelector('.state')?.textContent === 'live'")}
    assert browser.evaluate("location.hash") == "" and browser.evaluate("history.length") == 2
    assert figure(browser, "Hosts") == "3" and figure(browser, "Devices") == "12" and figure(browser, "Clients") == "0"
    assert "no program is connected" in browser.text() and "nothing hangs" in browser.text()
    cluster.program(size=256, steps=8)
    seen["the first client"] = wait_figure(browser, "Clients", "1")
    cluster.program(size=256, steps=8, PATHWAYS_WEIGHT="2")
    seen["the second client"] = wait_figure(browser, "Clients", "2")
    browser.wait("document.querySelectorAll('.table')[1].innerText.includes('%')")
    browser.wait(f"Number({FIGURE}('Granted / s')) > 0")
    assert ink(browser, ".timeline") > 4 and ink(browser, ".devicemap") > 2
    hover(browser)
    wait_full(browser)
    browser.picture(PICTURES / "page-light.png")
    host = cluster.run("status")["hosts"][-1]
    os.kill(host["pid"], signal.SIGKILL)
    seen["the lost host"] = wait_figure(browser, "Hosts", "2 of 3")
    assert f"1 of 3 hosts is lost: {host['name']}" in browser.evaluate("document.querySelector('.alerts').innerText")
    browser.wait(f"[...document.querySelectorAll('.events li')].some(one => one.innerText.includes('host lost') && one.innerText.includes({json.dumps(host['name'])}))")
    browser.move(5, 5)
    browser.press("t")
    frames(browser, 3)
    browser.picture(PICTURES / "page-dark.png")
    report(seen)


def hover(browser):
    """Finds a computation under the pointer."""
    x, y, width, height = browser.box(".timeline")
    for step in range(40):
        browser.move(x + width - 20 - step * (width - 140) / 40, y + height / 4)
        frames(browser, 2)
        tip = browser.evaluate("document.querySelector('.tip').hidden ? '' : document.querySelector('.tip').textContent")
        if "jit_" in tip:
            assert "computation" in tip and "12 devices" in tip and "host" in tip
            return
    raise AssertionError("no computation was found on the timeline")


def report(seen):
    PICTURES.mkdir(parents=True, exist_ok=True)
    (PICTURES / "seconds.json").write_text(json.dumps({what: round(seconds, 2) for what, seconds in seen.items()}, indent=2))
    print(f"\nseconds until the page shows it: {seen}")


# Its fourth step waits for a line of input.
STUCK = """
import sys, threading
import jax, numpy as np
gate = threading.Event()
gate.set()

def wait(x):
    gate.wait()
    return x

@jax.jit
def stuck_step(x):
    return jax.pure_callback(wait, jax.ShapeDtypeStruct((4,), np.float32), x) + 1

x = np.ones(4, np.float32)
for _ in range(3):
    jax.block_until_ready(stuck_step(x))
gate.clear()
y = stuck_step(x)
print("ready", flush=True)
sys.stdin.readline()
gate.set()
jax.block_until_ready(y)
sys.stdin.readline()
"""


def test_a_computation_that_hangs_is_named(start, browser):
    cluster = start("--devices", "1", "--hang-limit", "1")
    browser.open(cluster.login())
    browser.wait("document.querySelector('.state')?.textContent === 'live'")
    program = cluster.python(STUCK)
    assert program.stdout.readline() == "ready\n"
    wait_figure(browser, "Hangs", "1")
    (host,) = cluster.run("status")["hosts"]
    said = browser.evaluate("document.querySelector('.hangs').innerText")
    assert "stuck_step" in said and host["name"] in said and "launched, not finished" in said
    assert "hangs on" in browser.evaluate("document.querySelector('.alerts').innerText")
    browser.wait("[...document.querySelectorAll('.hangs details')].some(one => one.textContent.includes('in wait: gate.wait()'))")
    browser.evaluate("[...document.querySelectorAll('.hangs summary')].find(one => one.textContent.includes('the program of client')).click()")
    browser.wait("document.querySelector('.hangs details[open] pre').innerText.includes('gate.wait()')")
    assert browser.evaluate("document.title") == "(1) Pathways"
    program.stdin.write("go on\n")
    program.stdin.flush()
    wait_figure(browser, "Hangs", "0")
    browser.wait("document.querySelector('.events').innerText.includes('hang ended')")


def test_all_of_it_is_to_be_had_by_keys(start, browser):
    cluster = start("--hosts", "3", "--devices", "2")
    browser.open(cluster.login())
    browser.wait("document.querySelector('.state')?.textContent === 'live'")
    browser.press("ArrowDown")
    browser.wait("document.querySelector('.tr.selected')")
    assert "only" in browser.evaluate("document.querySelector('.chosen').textContent")
    first = browser.evaluate("document.querySelector('.tr.selected').innerText")
    browser.press("ArrowDown")
    assert browser.evaluate("document.querySelector('.tr.selected').innerText") != first
    browser.press("Escape")
    assert not browser.evaluate("document.querySelector('.tr.selected')") and browser.evaluate("document.querySelector('.chosen').textContent") == ""
    pressed = lambda label: browser.evaluate(f"[...document.querySelectorAll('button')].find(one => one.textContent === {json.dumps(label)}).ariaPressed")
    for key, label in (("1", "1 s"), ("4", "30 s"), ("m", "memory"), (" ", "hold")):
        browser.press(key)
        assert pressed(label) == "true", label
    browser.press(" ")
    assert pressed("hold") == "false"
    browser.press("?")
    assert browser.evaluate("document.querySelector('dialog').open") and "hold the timeline" in browser.text()
    browser.press("Escape")
    dark = lambda: browser.evaluate("getComputedStyle(document.body).backgroundColor")
    before = dark()
    browser.press("t")
    assert dark() != before
    browser.open(cluster.started["page"])  # the page keeps the session and the choice of colours
    browser.wait("document.querySelector('.state')?.textContent === 'live'")
    assert dark() != before


# A program of two computations, one on each of two hosts.
GRAPH = """
import sys
import jax, jax.numpy as jnp
import pathways as pw
first, second = (jax.sharding.SingleDeviceSharding(d) for d in (jax.devices()[0], jax.devices()[-1]))
doubled = jax.jit(lambda x: x * 2, in_shardings=first)
squared = jax.jit(lambda x: x * x, in_shardings=second)

@pw.program
def two_steps(v):
    return squared(doubled(v))

two_steps(jax.device_put(jnp.ones(8), first)).block_until_ready()
print("ready", flush=True)
sys.stdin.readline()
"""


def open_panel(browser, title):
    browser.evaluate(f"document.querySelector('section[aria-label=\"{title}\"] button').click()")


def test_logs_and_graphs_of_programs_are_shown_on_demand(start, browser):
    cluster = start("--hosts", "2", "--devices", "1")
    browser.open(cluster.login())
    browser.wait("document.querySelector('.state')?.textContent === 'live'")
    assert browser.evaluate("document.querySelectorAll('.logs li').length") == 0, "nothing is read while the panel is closed"
    open_panel(browser, "Logs")
    browser.wait("document.querySelector('.logs ol').innerText.includes('joined the controller')")
    browser.evaluate("(field => { field.value = 'no line has this'; field.dispatchEvent(new Event('input')); })(document.querySelector('input[type=search]'))")
    browser.wait("document.querySelector('.logs').innerText.includes('no such lines')")
    open_panel(browser, "Programs of many nodes")
    browser.wait("document.querySelector('.graphs').innerText.includes('no client has loaded')")
    program = cluster.python(GRAPH)
    assert program.stdout.readline() == "ready\n"
    browser.wait("document.querySelectorAll('.graph .node.compute').length === 2 && document.querySelectorAll('.graph .edge').length >= 3")
    shown = browser.evaluate("document.querySelector('.graph').textContent")
    assert "on host0" in shown and "on host1" in shown
    browser.picture(PICTURES / "page-graph.png")
    program.stdin.write("end\n")
    program.stdin.flush()
    browser.wait("document.querySelectorAll('.graph .node').length === 0")


def test_nobody_sees_it_without_a_login(start, browser):
    cluster = start("--devices", "1")
    opens = cluster.login()
    browser.open(cluster.started["page"])
    browser.wait("document.querySelector('.login')")
    assert "island" not in browser.text()
    browser.open(opens)
    browser.wait("document.querySelector('.state')?.textContent === 'live'")
    browser.evaluate("[...document.querySelectorAll('button')].find(one => one.textContent === 'log out').click()")
    browser.wait("document.querySelector('.login')")
    browser.open("about:blank")
    browser.open(opens)
    browser.wait("document.querySelector('.login [role=alert]')?.textContent.includes('was used before')")
    secret = pathlib.Path(cluster.started["logs"], "page.token").read_text()
    browser.evaluate(f"document.querySelector('input').value = {json.dumps(secret)}; document.querySelector('form').requestSubmit()")
    browser.wait("document.querySelector('.state')?.textContent === 'live'")
    refused = [one for one in browser.complaints if "401" in one]
    assert refused
    browser.complaints[:] = [one for one in browser.complaints if "401" not in one]


def test_thousands_of_devices_are_few_elements(start, browser):
    cluster = start("--simulated", "512x4")
    browser.open(cluster.login())
    wait_figure(browser, "Devices", "2048")
    cluster.program(size=8, steps=1)
    wait_figure(browser, "Clients", "1")
    browser.wait(f"Number({FIGURE}('Granted / s')) > 0")
    assert browser.evaluate("document.querySelectorAll('*').length") < 1500
    assert ink(browser, ".devicemap") > 2
    wait_full(browser)
    browser.picture(PICTURES / "page-2048.png")
