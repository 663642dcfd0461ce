"""`pw.publish` and `pw.published`: arrays that other programs of the same user read, under names and versions. docs/published.md is the user's guide.

May import _jax and _client.

    arrays.py   trees of arrays as publications, by both doors
"""

from pathways._published.arrays import PublishError, publish, published, withdraw

__all__ = ["PublishError", "publish", "published", "withdraw"]
