"""The commands of the command line that use a running cluster, a recording or a checkout. _launchers has those that start and stop clusters.

May import _cluster and _client.
"""
