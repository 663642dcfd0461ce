"""Training that outlives its hosts: `pw.elastic`. docs/elastic.md is the user's guide.

May import no other room.

    replicas.py   which devices are a data-parallel replica, and the meshes of those that are present
    parts.py      state as parts: what one replica holds, as arrays of its own
    snapshots.py  copies of parts in the host memory of other replicas
    watch.py      notices replicas that are back
    training.py   makes steps, and carries the state over a loss or a return
"""

from pathways._elastic.training import Elastic, elastic

__all__ = ["Elastic", "elastic"]
