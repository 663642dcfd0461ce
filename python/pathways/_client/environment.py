"""Environment variables that jax and jaxlib read when they are imported, or when they connect."""

import os


def set_environment():
    """Sets defaults; variables that the user has set keep their values."""
    # The client connects to a door on this machine over plain TCP; its default credentials exist on one cloud only.
    os.environ.setdefault("IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS", "true")
    # One cancelled upload ends a session, and a pmap call with hundreds of arguments starts thousands of uploads at once.
    os.environ.setdefault("IFRT_PROXY_GRPC_MAX_ONGOING_HOST_BUFFER_STORES", "64")
    # Log errors only: at every start and end jaxlib's client warns of the plain TCP and of the closed connection, both intended here. Importing
    # jax sets "1", perhaps in this process's parent; "0" shows the warnings.
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1") == "1":
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
