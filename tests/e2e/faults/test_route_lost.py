"""The host of an expert is killed while rows are on their way to it: what needs its rows fails and names it, and everything else goes on."""

from seats import Host, Program, hosts_of

PROGRAM = """
import sys, threading
import jax, numpy as np
import pathways as pw

home, near = jax.devices()[:2]
(far,) = [d for d in jax.devices() if d.host == "victim"]
x, where = (jax.device_put(v, home) for v in (np.arange(1, 9, dtype=np.float32), np.array([1, 0, 1, -1, 1, 0, 0, 1], np.int32)))
go, called = threading.Event(), threading.Event()

def wait(v):
    called.set()
    go.wait()
    return v

@pw.program
def program(x, where):
    late = jax.pure_callback(wait, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    routed = pw.route(late, where, [near, far], capacity=4)
    return routed.rows[0], routed.rows[1], routed.back(routed.rows), jax.jit(lambda v: v * 2)(x)

@pw.program
def without(x, where):
    routed = pw.route(x, where, [near, home], capacity=4)
    return routed.back(routed.rows)

def outcome(array):
    try:
        return np.asarray(array).tolist()
    except jax.errors.JaxRuntimeError as error:
        return str(error).splitlines()[0]

def begin():
    global results
    go.clear()
    called.clear()
    results = program(x, where)
    called.wait()  # the controller has sent the whole run to the hosts
    return "begun"

def end():
    go.set()
    return outcome(results[int(sys.stdin.readline())])

def whole():
    go.set()
    return outcome(program(x, where)[2])

def rest():
    return outcome(without(x, where))

for line in sys.stdin:
    try:
        print({"begin": begin, "end": end, "whole": whole, "rest": rest}[line.strip()](), flush=True)
    except jax.errors.JaxRuntimeError as error:
        print(str(error).splitlines()[0], flush=True)
"""

RETURNED = str([1.0, 2.0, 3.0, 0.0, 5.0, 6.0, 7.0, 8.0])


def test_the_host_of_an_expert_is_killed_and_returns(command, tmp_path):
    up = command("up", "--devices", "2")
    victim = Host(command, up["address"], "victim", "far", tmp_path, devices=1)
    hosts_of(command, 2)
    program = Program(command, up["address"], PROGRAM)
    assert program.says("whole") == RETURNED
    for _ in range(2):
        assert program.says("begin") == "begun"
        victim.kill()
        hosts_of(command, 1)
        for result in (1, 2):
            said = program.says(f"end\n{result}")
            assert said.startswith("DATA_LOSS: host 'victim' of island 'far' is gone"), said
        assert program.says("end\n0") == str([[2.0, 6.0, 7.0, 0.0]]), "the other expert has its rows"
        assert program.says("end\n3") == str([2.0 * i for i in range(1, 9)])
        assert program.says("whole").startswith("DATA_LOSS: host 'victim'")
        assert program.says("rest") == RETURNED, "a program of the hosts that are left"
        victim.start()
        program.comes_to_say("whole", RETURNED)
    program.end()
    victim.end()
