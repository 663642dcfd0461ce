"""Certificates of servers that the tests run: of an authority that no system knows."""

import ssl
import subprocess


def openssl(*words, given=None):
    return subprocess.run(["openssl", *map(str, words)], input=given, capture_output=True, check=True).stdout


def of_localhost(folder):
    """Returns (the file of a new authority, a server's context with a certificate of it for "localhost")."""
    authority, key, certificate, request = (folder / name for name in ("ca.pem", "server.key", "server.pem", "server.csr"))
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=test authority", "-days", "2", "-keyout", folder / "ca.key", "-out", authority)
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", key, "-out", request)
    (folder / "names").write_text("subjectAltName=DNS:localhost\n")
    openssl("x509", "-req", "-in", request, "-CA", authority, "-CAkey", folder / "ca.key", "-CAcreateserial", "-days", "2", "-extfile", folder / "names", "-out", certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return authority, context
