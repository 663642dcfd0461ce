"""`pathways page`: prints an address of a cluster's page that logs a browser in, once (docs/operators.md)."""

import http.client
import json
import os
import re

from pathways._cluster import addresses, processes, records
from pathways._cluster.admin import StatusError
from pathways._commands import cluster_commands

_SECONDS = 10


def _token(path):
    """Returns the secret in the file: its first word, or the field `token` of an operator's token file."""
    with open(path) as file:
        text = file.read(64 << 10)
    found = re.search(r"^token (\S+)$", text, re.M)
    words = text.split()
    if not found and not words:
        raise ValueError(f"{path} has no token")
    return found[1] if found else words[0]


def _ask(address, token):
    connection = http.client.HTTPConnection(address, timeout=_SECONDS)
    try:
        connection.request("GET", "/api/ticket", headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        return answer.status, answer.read(64 << 10)
    except (OSError, http.client.HTTPException) as error:
        raise StatusError(f"no page answers at {address}: {error}") from None
    finally:
        connection.close()


def url(address, token_file):
    """Returns an address that logs in once. `address`: HOST:PORT of the page."""
    host, _, port = address.rpartition(":")
    if addresses.is_wildcard(host):
        address = f"127.0.0.1:{port}"
    status, body = _ask(address, _token(token_file))
    if status == 401:
        raise StatusError(f"the page at {address} does not take the token in {token_file}: show the cluster's page.token, or an operator's token on the page's own machine")
    try:
        return f"http://{address}/#{json.loads(body)['ticket']}"
    except (ValueError, KeyError, TypeError):
        raise StatusError(f"what answers at {address} is no page of a controller (status {status})") from None


def page(args):
    address, token_file = args.address, args.token_file
    if address is None or token_file is None:
        folder = records.load(args.name).folder
        address = address or processes.read_port_file(folder / "page.port")
        token_file = token_file or folder / "page.token"
        if not address or not os.path.exists(token_file):
            raise ValueError(f"cluster '{args.name}' shows no page: 'pathways up --page' starts one that does")
    opens = url(address, token_file)
    cluster_commands.say(args, {"url": opens}, opens)
    return 0
