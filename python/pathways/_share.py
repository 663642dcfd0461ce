"""What this process is entitled to of the devices' time: PATHWAYS_WEIGHT, PATHWAYS_PRIORITY, and set_share while it runs.

The weight counts under the policy "share" (device time in proportion to the weights), the priority under "priority" (the highest goes first);
`pathways up --policy` chooses."""

import os

from pathways import _cluster

_VARIABLES = {"weight": "PATHWAYS_WEIGHT", "priority": "PATHWAYS_PRIORITY"}
_chosen = {}  # by set_share


def _number(name, value, where):
    """The controller checks the same (gang/share.h), but a connection that it refuses is tried again for half a minute."""
    convert, least, most = (float, 0.001, 1e6) if name == "weight" else (int, -1e6, 1e6)
    wanted = f"a {'number' if name == 'weight' else 'whole number'} from {least:{'g' if name == 'weight' else '.0f'}} to {most:.0f}"
    try:
        number = convert(value)
        if not least <= number <= most or (isinstance(value, float) and value != number):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{where} wants {wanted}, not {value!r}") from None
    return number


def checked(weight=None, priority=None, where="{}"):
    """{name: number} of those that are given. ValueError says what was expected."""
    given = {"weight": weight, "priority": priority}
    return {name: _number(name, value, where.format(name)) for name, value in given.items() if value is not None}


def wanted():
    """What a new connection asks for."""
    environment = {}
    for name, variable in _VARIABLES.items():
        if text := os.environ.get(variable):
            environment[name] = _number(name, text, variable)
    return {**environment, **_chosen}


def initialization_data():
    """For the session's opening, where the controller reads it."""
    return {f"pathways_{name}": str(value).encode() for name, value in wanted().items()}


def set_share(weight=None, priority=None):
    """Changes this process's share of the cluster, also while its computations run: those that have not started are ordered anew.

    weight    device time is shared out in proportion to the clients' weights (policy "share"); 1 unless set
    priority  the client with the highest goes first (policy "priority"); 0 unless set
    What is not given stays as it is. Before jax has connected, it holds from the connection on."""
    from pathways import _client

    change = checked(weight, priority)
    if not change:
        raise ValueError("set_share wants a weight, a priority or both")
    for address, client in _client.connected():
        _cluster.share(address, client, **change)
    _chosen.update(change)
