"""Starts the processes of a cluster on this machine, records them, and sends an operator's requests to a controller. Knows nothing of jax.

May import no other room.

    binaries.py       finds our executables and device plugins
    command_lines.py  builds the processes' command lines, for every launcher
    credentials.py    finds this user's token for a cluster
    addresses.py      parses and compares the processes' addresses
    processes.py      starts child processes, and reports why one ended early
    shape.py          islands x hosts x devices
    simulated.py      hosts that are simulated
    local.py          starts a cluster on this machine
    records.py        the clusters that `pathways up` started, for later commands
    run_folders.py    folders for sockets and logs
    admin.py          requests to a running controller
"""
