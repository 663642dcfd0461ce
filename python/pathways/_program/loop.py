"""`pw.while_loop`: runs functions again and again, as long as a value is true.

    @pw.program
    def f(x):
        return pw.while_loop(lambda c: error(c) > 1e-3, improve, x)

Inside a program the functions may call compiled functions on any slices. The hosts decide about each turn: no turn waits for the controller or the client.
Outside a program Python decides. Inside `jax.jit` or a gradient it becomes `jax.lax.while_loop`.

A program's node runs *turns*: a turn is the body, and then the condition of the next turn. The first condition stands before the node.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray, Tracer
from jax.extend.core import Jaxpr, Primitive
from jax.sharding import SingleDeviceSharding

from pathways._jax import public
from pathways._program import choice, meshes, tokens
from pathways._program.nodes import Argument, Node, Value, While

while_p = Primitive("pathways_while")
while_p.multiple_results = True


@while_p.def_effectful_abstract_eval
def _results(*_, condition, body, **others):
    return [ShapedArray(aval.shape, aval.dtype) for aval in body.out_avals], condition.effects | body.effects


def while_loop(cond_fun, body_fun, init_val):
    """Returns init_val, or body_fun of it, or body_fun of that, and so on: the first for which cond_fun is false. The carried value may be a pytree.
    It keeps its structure, shapes, types, and in a program its shardings. Like jax.lax.while_loop, it has no reverse-mode gradient."""
    leaves, tree = jax.tree.flatten(init_val)
    if choice.is_program():
        return _in_program(cond_fun, body_fun, init_val)
    if public.is_tracing() or any(isinstance(leaf, Tracer) for leaf in leaves):
        return jax.lax.while_loop(cond_fun, body_fun, init_val)
    value, types = init_val, [jax.api_util.shaped_abstractify(leaf) for leaf in leaves]
    while _is_true(cond_fun(value)):
        value = body_fun(value)
        made, made_tree = jax.tree.flatten(value)
        _check_carry(body_fun, init_val, tree, types, made_tree, [jax.api_util.shaped_abstractify(leaf) for leaf in made])
    return value


def _is_true(value):
    _check_condition([jax.api_util.shaped_abstractify(leaf) for leaf in jax.tree.leaves(value)])
    return bool(jax.tree.leaves(value)[0])


def _check_condition(avals):
    if len(avals) != 1 or avals[0].shape or avals[0].dtype != bool:
        raise TypeError(f"the condition of pw.while_loop must return one bool, not {', '.join(aval.str_short() for aval in avals) or 'nothing'}")


def _check_carry(body_fun, init_val, tree, types, made_tree, made):
    name = choice.name_of(body_fun)
    if made_tree != tree:
        raise TypeError(f"the body of pw.while_loop must return what it takes: {name} takes {tree} and returns {made_tree}")
    for path, before, after in zip(_paths(init_val), types, made):
        if (before.shape, before.dtype) != (after.shape, after.dtype):
            raise TypeError(f"the body of pw.while_loop must keep the types of what it carries: {name} takes {path} as {before.str_short()} and returns it as "
                            f"{after.str_short()}")


def _paths(value):
    return ["the carry" + jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(value)[0]]


def _in_program(cond_fun, body_fun, init_val):
    leaves, tree = jax.tree.flatten(init_val)
    body, made_tree = choice.trace(body_fun, [init_val])
    promoted = [_promoted(leaf, after) for leaf, after in zip(leaves, body.out_avals)] if made_tree == tree else leaves
    if any(new is not old for new, old in zip(promoted, leaves)):
        leaves = promoted
        body, made_tree = choice.trace(body_fun, [jax.tree.unflatten(tree, leaves)])
    init_val = jax.tree.unflatten(tree, leaves)
    _check_carry(body_fun, init_val, tree, [jax.api_util.shaped_abstractify(leaf) for leaf in leaves], made_tree, body.out_avals)
    condition, _ = choice.trace(cond_fun, [init_val])
    _check_condition(condition.out_avals)
    if condition.effects:
        raise NotImplementedError(f"the condition of pw.while_loop in a program, {choice.name_of(cond_fun)}, has effects, such as callbacks: move them to the body")
    results = while_p.bind(*condition.consts, *body.consts, *map(_array, leaves), condition=condition, body=body, name=choice.name_of(body_fun),
                           paths=tuple(_paths(init_val)))
    return jax.tree.unflatten(tree, results)


def _promoted(leaf, after):
    """Returns the leaf with the type of what the body makes of it, if jax may change the leaf's own type, such as that of a Python number."""
    before = jax.api_util.shaped_abstractify(leaf)
    if not before.weak_type or before.shape != after.shape or before.dtype == after.dtype:
        return leaf
    if jnp.promote_types(before.dtype, after.dtype) != after.dtype:
        return leaf
    return jax.lax.convert_element_type(leaf, after.dtype)


def _array(leaf):
    if isinstance(leaf, (jax.Array, Tracer)):
        return leaf
    return np.asarray(leaf, jax.api_util.shaped_abstractify(leaf).dtype)


# -- the node

def add(graph, eqn, values, location):
    """Adds the nodes of a loop; returns its results."""
    condition, body, paths = (eqn.params[name] for name in ("condition", "body", "paths"))
    of_condition, of_body, carry = _split(values, len(condition.consts), len(body.consts))
    ordered = tokens.ordered(eqn.effects)
    carry = carry + [graph.token(effect) for effect in ordered]
    turn = graph.branch(eqn.params["name"])
    constants = {value: _inside(turn, value) for value in dict.fromkeys(of_condition + of_body)}
    carried = [_inside(turn, value) for value in carry]
    turn.tokens = dict(zip(ordered, carried[len(paths):]))
    made = turn.run(_open(body), (), [constants[value] for value in of_body] + carried[:len(paths)])
    made += [turn.tokens[effect] for effect in ordered]
    committed = [before.committed or after.committed for before, after in zip(carried, made)]
    made = [_kept(turn, *each, location) for each in zip([*paths, *map(str, ordered)], carried, made)]
    predicate, = turn.run(_open(condition), (), [constants[value] for value in of_condition] + made[:len(paths)])
    predicate = _single(turn, predicate, location)
    _check_turn(turn)
    inside = [*constants.values(), *carried]
    outside = [graph.place(value, _sharding(one), location) for value, one in zip([*constants, *carry], inside)]
    literals = [argument.value for argument in turn.arguments if argument.constant is not None]
    first = [graph.argument(argument.value.aval, _sharding(argument.value), constant=argument.constant) for argument in turn.arguments
             if argument.constant is not None]
    count = len(constants)
    turn.arguments = [Argument(value) for value in [*inside[:count], *literals]] + [Argument(value, donated=True) for value in carried]
    turn.finish([*made, predicate])
    node = Node(location, [_first_predicate(graph, condition, of_condition, dict(zip(constants, outside)), outside[count:], predicate, location),
                           *outside[:count], *first, *outside[count:]], [], waits=While(turn))
    node.outputs = [Value(value.aval, _sharding(value), committed=said) for value, said in zip(carried, committed)]
    graph.tokens.update(zip(ordered, node.outputs[len(paths):]))
    graph.nodes.append(node)
    return node.outputs[:len(paths)]


def _split(values, *counts):
    parts, at = [], 0
    for count in counts:
        parts.append(values[at:at + count])
        at += count
    return *parts, values[at:]


def _inside(turn, value):
    argument = turn.argument(value.aval, value.sharding)
    argument.committed = value.committed
    return argument


def _open(closed):
    """Returns the jaxpr with its constants as arguments."""
    jaxpr = closed.jaxpr
    return Jaxpr((), [*jaxpr.constvars, *jaxpr.invars], jaxpr.outvars, jaxpr.eqns, jaxpr.effects, debug_info=jaxpr.debug_info.with_unknown_names())


def _sharding(value):
    value.sharding = value.sharding or SingleDeviceSharding(jax.devices()[0])
    return value.sharding


def _kept(turn, path, before, after, location):
    """Returns what the body makes of a carried value, in the sharding in which the turn takes it."""
    if before.sharding is None:
        before.sharding = after.sharding
    kept = turn.place(after, _sharding(before), location)
    if kept is not after and before.committed and after.committed:
        turn.nodes.pop()
        raise ValueError(f"pw.while_loop carries values that keep their shardings: {path}, {before.aval.str_short()}, is on {_where(before)} before a turn and on "
                         f"{_where(after)} after it. Move it back at the end of the body, by jax.device_put, or move the initial value before the loop")
    return kept


def _where(value):
    spec = getattr(value.sharding, "spec", None)
    return meshes.named(meshes.devices_of(value.sharding)) + (f" as {spec}" if spec is not None else "")


def _single(graph, value, location):
    """Places the value whole on one device, so that a host can read it."""
    return graph.place(value, SingleDeviceSharding(meshes.devices_of(_sharding(value))[0]), location)


def _check_turn(turn):
    for node in turn.nodes:
        if node.waits is not None:
            what = getattr(node.waits, "name", None) or type(node.waits).__name__.lower()
            error = NotImplementedError(f"a turn of pw.while_loop in a program has compiled functions and transfers only, not {what}: callbacks, pw.cond, pw.switch, pw.route, "
                                        "functions on hosts and other loops of programs cannot be in its body. Call it inside a compiled function, or "
                                        "outside of the loop")
            error.add_note(f"at {node.location}")
            raise error


def _first_predicate(graph, condition, of_condition, outside_of, carry, predicate, location):
    """Adds the nodes of the first condition; returns its value where the turns have it."""
    debug_info, at = graph._debug_info, graph._at
    value, = graph.run(_open(condition), (), [outside_of[value] for value in of_condition] + carry[:len(condition.in_avals)])
    graph._debug_info, graph._at = debug_info, at
    return graph.place(value, predicate.sharding, location)
