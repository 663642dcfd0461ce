"""Changes to jax that let scripts written for stock jax run on a cluster. Each module changes one thing; _plugin.py installs them.

May import _jax, _cluster, _callbacks and _client.
"""
