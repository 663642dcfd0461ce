"""`pw.set_share`: changes this process's share of the devices' time while it runs."""

from pathways._client import connection, shares
from pathways._cluster import admin


def set_share(weight=None, priority=None):
    """Changes this process's share of the cluster. Computations that have not started yet are reordered.

    weight    device time is divided in proportion to the clients' weights (policy "share"); default 1
    priority  the client with the highest priority goes first (policy "priority"); default 0
    Omitted values stay unchanged. Before jax connects, the change applies from the connection on."""
    change = shares.checked(weight, priority)
    if not change:
        raise ValueError("set_share wants a weight, a priority or both")
    for address, client in connection.connected():
        admin.share(address, client, **change)
    shares.chosen.update(change)
