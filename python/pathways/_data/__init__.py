"""Input pipelines on the hosts: `pw.data`. docs/host-python.md is the user's guide.

May import _client.

    feed.py     on each host: makes the host's part of each batch, and keeps the latest states of the host's iterator
    batches.py  in the client: requests batches ahead of their use, and returns them in order
"""

from pathways._data.batches import Batches, data

__all__ = ["Batches", "data"]
