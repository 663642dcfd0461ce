"""What this process asks of the controller: its share of the devices' time, and what follows when one of its computations hangs (PATHWAYS_ON_HANG).

The share is PATHWAYS_WEIGHT and PATHWAYS_PRIORITY at the start, set_share while it runs.

The policy "share" uses the weight (device time in proportion to weights), the policy "priority" the priority (the highest goes first);
`pathways up --policy` chooses."""

import os

_VARIABLES = {"weight": "PATHWAYS_WEIGHT", "priority": "PATHWAYS_PRIORITY"}
chosen = {}  # the values that set_share was given: {"weight": number, "priority": number}


def _number(name, value, where):
    """Converts and checks a number. The controller checks it too (gang/share.h), but a refused connection is retried for half a minute."""
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
    """Returns {name: number} of the values given. Raises ValueError, which names the expected range."""
    given = {"weight": weight, "priority": priority}
    return {name: _number(name, value, where.format(name)) for name, value in given.items() if value is not None}


def wanted():
    """Returns the share that a new connection requests."""
    environment = {}
    for name, variable in _VARIABLES.items():
        if text := os.environ.get(variable):
            environment[name] = _number(name, text, variable)
    return {**environment, **chosen}


def initialization_data():
    """Returns the requested share, and what follows when a computation hangs, as initialization data of a session, where the controller reads it."""
    return {f"pathways_{name}": str(value).encode() for name, value in {**wanted(), **on_hang()}.items()}


def on_hang():
    """Returns {"on_hang": what follows when a computation of this process hangs}; {} if the user has not said."""
    asked = os.environ.get("PATHWAYS_ON_HANG", "")
    if asked not in ("", "end", "report"):
        raise ValueError(f"PATHWAYS_ON_HANG wants end or report, not {asked!r}")
    return {"on_hang": asked} if asked else {}
