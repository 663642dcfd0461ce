"""Tests programs as text, pictures and numbers, on jax's own cpu devices. Nothing runs."""

import re
import xml.etree.ElementTree as xml

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

import pathways as pw

SVG = "{http://www.w3.org/2000/svg}"
SIDE = 32
BYTES = SIDE * SIDE * 4


@pytest.fixture(scope="module")
def view():
    """Returns the view of a program: a product on device 0 moves to device 1, which doubles it, and sums both arrays. Names have angle brackets."""
    first, second = map(SingleDeviceSharding, jax.devices()[:2])
    product = jax.jit(lambda x, w: x @ w, in_shardings=first, out_shardings=first)
    double = jax.jit(lambda x: x * 2, in_shardings=second)
    add = jax.jit(lambda x, y: (x + y).sum(), in_shardings=second)

    @pw.program(donate_argnums=1)
    def f(w, x):
        y = product(x, w)
        return add(double(y), y)

    ones = lambda: jax.device_put(np.ones((SIDE, SIDE), np.float32), jax.devices()[0])
    return f.lower(ones(), ones())


def picture(view):
    root = xml.fromstring(view.as_svg())
    nodes = {node.get("id"): node for node in root.iter(f"{SVG}g") if (node.get("class") or "").startswith("node")}
    edges = [edge for edge in root.iter(f"{SVG}path") if (edge.get("class") or "").startswith("edge")]
    return nodes, edges


def test_the_text_says_what_where_and_how_much(view):
    lines = view.as_text().splitlines()
    assert lines[0] == "program f: 2 arguments, 3 computations (3 different), 1 transfers, 1 results"
    assert lines[1] == f"  %0:float32[{SIDE},{SIDE}]@0 = arg"
    assert lines[2].endswith("= arg donated")
    assert re.fullmatch(rf"  %2:float32\[32,32\]@0 = compute lambda\(%1, %0\)  # {2 * SIDE**3 / 1e3:.1f} kflop, test_program_view.py:\d+ in f",
                        lines[3].replace("<lambda>", "lambda"))
    assert re.fullmatch(r"  %3:float32\[32,32\]@1 = transfer %2  # 4.0 KiB, test_program_view.py:\d+ in f", lines[4])
    assert lines[7] == "  result %5"
    assert lines[8] == f"device 0: 1 computations, {2 * SIDE**3 / 1e3:.1f} kflop, receives 0 B, arguments 8.0 KiB, at most 12.0 KiB"
    assert lines[9].startswith("device 1: 2 computations") and "receives 4.0 KiB" in lines[9]


def test_each_device_s_share(view):
    first, second = view.per_device().values()
    assert (first.flops, first.computations, first.received_bytes, first.argument_bytes, first.peak_bytes) == (
        2 * SIDE**3, 1, 0, 2 * BYTES, 3 * BYTES)
    assert (second.computations, second.received_bytes, second.argument_bytes) == (2, BYTES, 0)
    assert second.flops == SIDE**2 * 3  # double, add, sum
    assert second.peak_bytes == 2 * BYTES + 4  # both arrays, and their sum


def test_the_picture_has_a_node_for_each_part_and_bytes_on_the_edges(view):
    nodes, edges = picture(view)
    assert sorted(node.get("data-kind") for node in nodes.values()) == ["arguments", "compute", "compute", "compute", "results", "transfer"]
    kind = lambda name: (nodes[name].get("data-kind"), nodes[name].get("data-devices"))
    found = sorted((kind(e.get("data-from")), kind(e.get("data-to")), int(e.get("data-bytes"))) for e in edges)
    assert found == sorted([
        (("arguments", "0"), ("compute", "0"), 2 * BYTES), (("compute", "0"), ("transfer", "1"), BYTES), (("transfer", "1"), ("compute", "1"), BYTES),
        (("transfer", "1"), ("compute", "1"), BYTES), (("compute", "1"), ("compute", "1"), BYTES), (("compute", "1"), ("results", "1"), 4)])
    assert [e.get("class") for e in edges].count("edge transfer") == 1
    texts = [text.text for text in xml.fromstring(view.as_svg()).iter(f"{SVG}text")]
    assert "device 0" in texts and "device 1" in texts and "4.0 KiB" in texts and "<lambda>" in texts


def test_boxes_of_a_lane_do_not_overlap_and_edges_go_down(view):
    nodes, edges = picture(view)
    places = {}
    for name, node in nodes.items():
        shape = node.find(f"{SVG}rect")
        if shape is not None:
            places[name] = (float(shape.get("x")), float(shape.get("y")), float(shape.get("height")))
    assert len({place[:2] for place in places.values()}) == len(places)
    drawn = [ends for edge in edges if None not in (ends := [places.get(edge.get(f"data-{end}")) for end in ("from", "to")])]
    assert drawn and all(upper[1] + upper[2] < lower[1] for upper, lower in drawn)


def test_a_transfer_moves_what_is_not_there_yet():
    devices = np.array(jax.devices()[:4])
    rows = NamedSharding(Mesh(devices, ("x",)), P("x"))
    everywhere = NamedSharding(Mesh(devices, ("x",)), P())
    half = NamedSharding(Mesh(devices[:2], ("x",)), P("x"))
    x = jax.device_put(np.zeros((8, 4), np.float32), rows)
    moved = lambda target: [use.received_bytes for use in pw.program(lambda x: jax.device_put(x, target)).lower(x).per_device().values()]
    assert moved(everywhere) == [128] * 4  # the size of the whole array, although each device has a quarter of it
    assert moved(half) == [64, 64, 0, 0]
    assert moved(NamedSharding(Mesh(devices[::-1], ("x",)), P("x"))) == [32] * 4


def test_a_sharded_computation_s_work_is_shared():
    mesh = Mesh(np.array(jax.devices()[:4]), ("x",))
    rows = NamedSharding(mesh, P("x"))
    f = jax.jit(lambda x: x @ x.T, in_shardings=rows, out_shardings=rows)
    view = pw.program(lambda x: f(x)).lower(jax.device_put(np.zeros((16, 8), np.float32), rows))
    uses = view.per_device()
    assert [(use.computations, use.argument_bytes) for use in uses.values()] == [(1, 16 * 8)] * 4
    assert sum(use.flops for use in uses.values()) == 2 * 16 * 16 * 8 + 16 * 8  # the product, and an operation for each transposed element
    assert "@0-3" in view.as_text()
    [lane] = {node.get("data-devices") for node in picture(view)[0].values()}
    assert lane == "0,1,2,3"


def test_1f1b_holds_less_than_gpipe():
    layer = lambda params, x: jnp.tanh(x @ params)
    params = [np.ones((SIDE, SIDE), np.float32)] * 4
    x = np.ones((256, SIDE), np.float32)
    peaks = {}
    for schedule in ("gpipe", "1f1b"):
        pipeline = pw.pipeline([layer] * 4, loss=lambda o, y: jnp.mean((o - y) ** 2), stages=jax.devices()[:4], microbatches=16, schedule=schedule,
                               optimizer=pytest.importorskip("optax").sgd(0.1))
        view = pipeline.lower(pipeline.init(params, x, x), x, x)
        peaks[schedule] = [use.peak_bytes for use in view.per_device().values()]
    assert all(less < more for less, more in zip(peaks["1f1b"], peaks["gpipe"])), peaks
    activation = 16 * SIDE * 4
    for stage, (less, more) in enumerate(zip(peaks["1f1b"], peaks["gpipe"])):
        # gpipe holds 16 microbatches, 1f1b at most 4 - stage, each of at least one activation. At its peak 1f1b also holds a gradient.
        assert more - less >= (16 - (4 - stage) - 1) * activation
