"""Input pipelines on the hosts: `pw.data`. docs/host-python.md is the user's guide.

May import _client.

    feed.py     on each host: makes the host's part of each batch, and keeps the states of the iterator that may be asked for
    batches.py  in the client: has batches made ahead, and hands them out in order
"""

from pathways._data.batches import Batches, data

__all__ = ["Batches", "data"]
