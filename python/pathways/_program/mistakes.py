"""Extends the errors of jax and the controller about a program: names the argument and the remedy."""

import jax


def in_arguments(error, name, leaves, tree, static):
    """Adds notes to an error raised while making the cache key of a call."""
    for where, value in static:
        try:
            hash(value)
        except TypeError:
            error.add_note(f"static argument {where} of program {name}, {_short(value)}: static arguments must be hashable, because traces are found by their hashes. Pass an "
                           "immutable value, such as a tuple instead of a list, or make it an array argument")
            return
    for path, leaf in jax.tree_util.tree_flatten_with_path(jax.tree.unflatten(tree, leaves))[0]:
        try:
            jax.api_util.shaped_abstractify(leaf)
        except TypeError:
            error.add_note(f"argument {_argument(path)} of program {name}, {_short(leaf)}: arguments must be arrays or numbers, in any structure; name "
                           "others in static_argnums or static_argnames")
            return


def in_call(error, graph, arrays):
    """Raises a clearer error than `error` if the cause is one of these arrays."""
    for i, argument in enumerate(graph.arguments):
        twice = [j for j, array in enumerate(arrays) if j != i and array is arrays[i]] if argument.donated else []
        if twice:
            raise ValueError(f"program {graph.name} overwrites its argument {i}, which is donated, but the same array is argument {twice[0]} too: pass a "
                             "copy, or do not donate it") from error
    for i, array in enumerate(arrays):
        if array.is_deleted():  # jaxlib's error does not say so
            raise _deleted(array, f"argument {i} of program {graph.name}: an earlier call took it as a donated argument, or it was deleted. Pass another array")


def in_constants(graph):
    """Raises an error if the function closes over a deleted array."""
    for argument in graph.arguments:
        if not isinstance(argument.constant, jax.Array):
            continue
        if argument.constant.is_deleted():
            raise _deleted(argument.constant,
                           f"program {graph.name} uses it from the surrounding code: do not delete or donate it, or pass another array as an argument")


def _deleted(array, note):
    """Returns the error that jax raises for a deleted array."""
    error = RuntimeError(f"Array has been deleted with shape={array.aval.str_short()}.")
    error.add_note(note)
    return error


def _argument(path):
    (kind, which), rest = path[:2], path[2:]
    return (f"{which.idx}" if kind.idx == 0 else repr(which.key)) + jax.tree_util.keystr(rest)


def _short(value):
    text = repr(value)
    return f"{text[:60]}..." if len(text) > 60 else text
