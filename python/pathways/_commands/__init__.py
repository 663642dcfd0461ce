"""The commands that use a running cluster, a recording or a checkout. _launchers has the commands that start and stop clusters.

May import _cluster and _client.
"""
