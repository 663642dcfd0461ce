"""Training that outlives its hosts: `pw.elastic`. docs/elastic.md is the user's guide.

May import no other room.

    replicas.py   the devices of each data-parallel replica, and the meshes of the replicas that are present
    parts.py      splits a state into parts: the arrays of one replica
    snapshots.py  copies of parts in the host memory of other replicas
    watch.py      detects replicas that are back
    training.py   makes steps, and carries the state over a loss or a return
"""

from pathways._elastic.training import Elastic, elastic

__all__ = ["Elastic", "elastic"]
