"""`pathways page`: prints an address of a cluster's page that logs a browser in, once (docs/operators.md).

A page with HTTPS shows a certificate of the cluster's authority, or of one that the system trusts. The authority of a cluster on another machine is read
from the page itself, and counts if it has the fingerprint in the token file.
"""

import hashlib
import http.client
import json
import os
import re
import ssl
import urllib.parse

from pathways._cluster import addresses, credentials, local, records
from pathways._cluster.admin import StatusError
from pathways._commands import cluster_commands

_SECONDS = 10
_MOST_BYTES = 64 << 10


def _token(text, path):
    """Returns the secret in a file: the field `token` of an operator's token file, or the file's first word."""
    found = re.search(r"^token (\S+)$", text, re.M)
    words = text.split()
    if not found and not words:
        raise ValueError(f"{path} has no token")
    return found[1] if found else words[0]


def _read(path):
    with open(path) as file:
        return file.read(_MOST_BYTES)


def _get(where, path, token=None, context=None):
    """Returns (status, body) of the answer of the page at `where`, a parsed address."""
    make = http.client.HTTPSConnection if where.scheme == "https" else http.client.HTTPConnection
    connection = make(where.netloc, timeout=_SECONDS, **({"context": context} if where.scheme == "https" else {}))
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        return answer.status, answer.read(_MOST_BYTES)
    except ssl.SSLCertVerificationError as error:
        raise StatusError(f"the page at {where.netloc} shows a certificate that this command does not trust: {error.verify_message}. Use a token file of its "
                          "cluster, which names the authority; or the name for which the certificate was made") from None
    except (OSError, http.client.HTTPException) as error:
        raise StatusError(f"no page answers at {where.netloc}: {error}") from None
    finally:
        connection.close()


def _known_authority(where, fingerprint):
    """Returns the certificate (PEM) of the authority with this fingerprint, which the page at `where` hands out; None if it does not. Nothing secret is
    sent, so the connection need not be trusted: only the fingerprint decides."""
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    status, body = _get(where, "/authority.crt", context=unverified)
    try:
        text = body.decode("ascii")
        found = "sha256:" + hashlib.sha256(ssl.PEM_cert_to_DER_cert(text)).hexdigest()
    except ValueError:
        return None
    return text if status == 200 and found == fingerprint else None


def authority_of(name):
    """Returns the certificate (PEM) of the authority of a cluster of this machine; None if it has none."""
    try:
        return _read(records.identity_folder(name) / "authority.crt")
    except FileNotFoundError:
        return None


def _trusting(authority):
    context = ssl.create_default_context()
    if authority is not None:
        context.load_verify_locations(cadata=authority)
    return context


def parse(address):
    """Returns the parsed form of [http://|https://]HOST:PORT. Raises ValueError."""
    if "://" not in address:
        address = ("http://" if addresses.listens_here(address) else "https://") + address
    where = urllib.parse.urlsplit(address)
    if where.scheme not in ("http", "https") or where.path not in ("", "/"):
        raise ValueError(f"--address wants http://HOST:PORT or https://HOST:PORT, not '{address}'")
    host, port = addresses.split(where.netloc, "--address")
    return where._replace(netloc=f"127.0.0.1:{port}") if addresses.is_wildcard(host) else where


def url(address, token_file, authority=None):
    """Returns an address that logs in once. `address`: of the page. `authority`: the certificate of the cluster's; None: the token file may know it."""
    where, text = parse(address), _read(token_file)
    context = None
    if where.scheme == "https":
        fingerprint = _fingerprint(text) if authority is None else None
        context = _trusting(authority if fingerprint is None else _known_authority(where, fingerprint))
    status, body = _get(where, "/api/ticket", _token(text, token_file), context)
    if status == 401:
        raise StatusError(f"the page at {where.netloc} does not take the token in {token_file}: show the cluster's page.token, or an operator's token. Where the page "
                          "is not encrypted, an operator's token opens it on its own machine only")
    try:
        return f"{where.scheme}://{where.netloc}/#{json.loads(body)['ticket']}"
    except (ValueError, KeyError, TypeError):
        raise StatusError(f"what answers at {where.netloc} is no page of a controller (status {status})") from None


def _fingerprint(text):
    """Returns the fingerprint of the authority that a token file names; None: it is no token file."""
    try:
        return credentials.fields(text).get("authority")
    except ValueError:
        return None


def _advice(opens, name):
    """Returns how a browser comes to trust the page, if its certificate may be one of the authority of this machine's cluster."""
    authority = records.identity_folder(name) / "authority.crt"
    if not opens.startswith("https:") or not authority.exists():
        return ""
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(_read(authority))).hexdigest().upper()
    pairs = ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))
    return (f"\n  If the browser does not know the page's authority, compare the SHA-256 fingerprint of the authority that it shows with\n  {pairs}\n"
            f"  or let it trust {authority} (docs/operators.md)")


def page(args):
    address, token_file, authority = args.address, args.token_file, None
    if address is None or token_file is None:
        folder = records.load(args.name).folder
        if address is None:
            address, authority = local.read_page_url(folder), authority_of(args.name)
        token_file = token_file or folder / "page.token"
        if not address or not os.path.exists(token_file):
            raise ValueError(f"cluster '{args.name}' shows no page: 'pathways up --page' starts one that does")
    opens = url(address, token_file, authority)
    cluster_commands.say(args, {"url": opens}, opens + (_advice(opens, args.name) if args.address is None else ""))
    return 0
