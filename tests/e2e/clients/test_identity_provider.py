"""Tests tokens of an identity provider: a real HTTPS server under an authority of its own publishes keys, and its tokens open the cluster to stock jax."""

import base64
import http.server
import json
import os
import pathlib
import threading
import time

import certificates
import pytest
from certificates import openssl
from cli import User, operator_at
from conftest import PATIENCE, eventually

ADD = "import jax; print(float(jax.jit(lambda v: v + 1)(jax.numpy.float32(1))))"
AUDIENCE = "pathways"


def _encoded(data):
    return base64.urlsafe_b64encode(data if isinstance(data, bytes) else json.dumps(data).encode()).rstrip(b"=").decode()


class Key:
    """A key pair that signs tokens."""

    def __init__(self, folder, name, algorithm):
        self.name, self.algorithm, self._file = name, algorithm, folder / f"{name}.pem"
        options = ("-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048") if algorithm == "RS256" else ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
        openssl("genpkey", *options, "-out", self._file)

    def public(self):
        """Returns the public half as a JWK."""
        common = {"kid": self.name, "alg": self.algorithm, "use": "sig"}
        if self.algorithm == "RS256":
            modulus = openssl("rsa", "-in", self._file, "-noout", "-modulus").decode().strip().removeprefix("Modulus=")
            return {**common, "kty": "RSA", "n": _encoded(bytes.fromhex(modulus)), "e": "AQAB"}
        point = openssl("pkey", "-in", self._file, "-pubout", "-outform", "DER")[-64:]  # x and y end the encoding
        return {**common, "kty": "EC", "crv": "P-256", "x": _encoded(point[:32]), "y": _encoded(point[32:])}

    def sign(self, claims, header=None):
        text = f"{_encoded(header or {'alg': self.algorithm, 'kid': self.name})}.{_encoded(claims)}"
        signature = openssl("dgst", "-sha256", "-sign", self._file, given=text.encode())
        return f"{text}.{_encoded(signature if self.algorithm == 'RS256' else _two_numbers(signature))}"


def _two_numbers(der):
    """Returns the two numbers of a DER signature as JWTs have them: 32 bytes each."""
    numbers, at = b"", 2
    for _ in range(2):
        length = der[at + 1]
        numbers += int.from_bytes(der[at + 2:at + 2 + length], "big").to_bytes(32, "big")
        at += 2 + length
    return numbers


class Provider:
    """An HTTPS server on this machine that publishes the keys in `self.keys`."""

    def __init__(self, folder):
        self.authority, context = certificates.of_localhost(folder)
        self.keys, self.asked = [], 0
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                found = provider.documents().get(self.path)
                provider.asked += self.path == "/keys"
                body = json.dumps(found).encode()
                self.send_response(200 if found else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://localhost:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def documents(self):
        return {"/.well-known/openid-configuration": {"issuer": self.url, "jwks_uri": f"{self.url}/keys"},
                "/keys": {"keys": [key.public() for key in self.keys]}}

    def claims(self, user, **more):
        return {"iss": self.url, "aud": AUDIENCE, "sub": user, "exp": int(time.time()) + 3600, **more}

    def stop(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def provider(tmp_path_factory):
    folder = tmp_path_factory.mktemp("provider")
    one = Provider(folder)
    one.keys = [Key(folder, "rsa", "RS256"), Key(folder, "ec", "ES256")]
    yield one
    one.stop()


@pytest.fixture(scope="module")
def operator(tmp_path_factory):
    with operator_at(tmp_path_factory.mktemp("operator")) as command:
        yield command


@pytest.fixture(scope="module")
def cluster(operator, provider):
    up = operator("up", "--devices", "2", "--listen", "127.0.0.1:0", "--listen-proxy", "none", "--oidc-issuer", provider.url, "--oidc-audience", AUDIENCE,
                  "--oidc-ca", str(provider.authority), "--oidc-operators", "groups=operators")
    assert operator("token", "create", "--user", "someone")["authority"] == up["authority"]
    return up


@pytest.fixture
def shows(cluster, tmp_path):
    """Returns a function that makes a user who has a token, and logs the user in: its finished process, and the user."""

    def login(token, name="ada"):
        user = User(tmp_path / name)
        file = user.home / "token.jwt"
        file.touch(mode=0o600)
        file.write_text(token + "\n")
        return user("login", cluster["address"], "--token-from", str(file), "--authority", cluster["authority"], check=False), user

    return login


@pytest.mark.parametrize("number", [0, 1], ids=["RS256", "ES256"])
def test_a_token_of_the_provider_opens_the_cluster(provider, operator, cluster, shows, number):
    def entered():
        done, user = shows(provider.keys[number].sign(provider.claims(f"ada{number}")), name=f"{time.monotonic_ns()}")
        return user if done.returncode == 0 else None

    user = eventually(entered)  # once the controller has read the keys
    assert user.run(cluster["address"], ADD) == "2.0\n"
    program = user.program(cluster["address"], "import jax, sys; jax.devices(); print('ready', flush=True); sys.stdin.readline()")
    try:
        assert program.stdout.readline() == "ready\n"
        clients = operator("status", "--address", cluster["address"])["clients"]
        assert [client["user"] for client in clients] == [f"ada{number}"]
        assert user("token", "list", "--address", cluster["address"], check=False).returncode == 1, "users may not"
    finally:
        program.kill()
        program.communicate()


def test_a_field_of_the_token_makes_operators(provider, cluster, shows):
    done, user = shows(provider.keys[0].sign(provider.claims("olga", groups=["staff", "operators"])))
    assert done.returncode == 0, done.stderr
    assert any(token["user"] == "someone" for token in user("token", "list", "--address", cluster["address"]))


def test_what_does_not_count_is_refused_and_the_reason_is_said(provider, operator, shows, tmp_path):
    rsa, ec = provider.keys
    strange = Key(tmp_path, "rsa", "RS256")
    ada = provider.claims("ada")
    signed = rsa.sign(ada)
    cases = {
        "ended at": rsa.sign({**ada, "exp": int(time.time()) - 3600}),
        "is not for 'pathways'": rsa.sign({**ada, "aud": "mail"}),
        "is of another issuer": rsa.sign({**ada, "iss": "https://elsewhere.example"}),
        "names another algorithm": ec.sign(ada, header={"alg": "RS256", "kid": "ec"}),
        "has a wrong signature": strange.sign(ada),
        "does not publish": rsa.sign(ada, header={"alg": "RS256", "kid": "other"}),
        "has no user's name": rsa.sign({**ada, "sub": "../root"}),
        "has more than": rsa.sign({**ada, "filling": "x" * 4000}),
    }
    cases = list(cases.items()) + [
        ("names another algorithm", f"{_encoded({'alg': 'none', 'kid': 'rsa'})}.{_encoded(ada)}."),
        ("names another algorithm", f"{_encoded({'alg': 'HS256', 'kid': 'rsa'})}.{_encoded(ada)}.{_encoded(bytes(32))}"),
        ("has a wrong signature", f"{signed.split('.')[0]}.{_encoded({**ada, 'sub': 'root'})}.{signed.split('.')[2]}"),
    ]
    for number, (why, token) in enumerate(cases):
        done, _ = shows(token, name=f"u{number}")
        assert done.returncode == 1 and why in done.stderr, (why, done.stderr)
        assert token.split(".")[1] not in done.stderr
    logs = "".join(path.read_text() for path in pathlib.Path(operator.env["PATHWAYS_HOME"]).rglob("*.log"))
    assert "refused a client" in logs
    assert not any(part in logs for _, token in cases for part in token.split(".")[1:] if part), "no log has a token"


def test_a_new_key_counts_soon_and_a_silent_provider_changes_nothing(provider, cluster, shows, tmp_path):
    new = Key(tmp_path, "new", "ES256")
    provider.keys.append(new)
    turn = iter(range(1000))

    def enters(key):
        return shows(key.sign(provider.claims("ada")), name=f"n{next(turn)}")[0].returncode == 0

    assert eventually(lambda: enters(new)), "a token with an unknown key makes the controller look again"
    provider.stop()
    assert enters(new) and enters(provider.keys[0])


def test_options_that_mean_nothing_are_refused(operator, provider):
    for words, why in ((["--oidc-issuer", provider.url], "--oidc-audience"), (["--oidc-audience", "x"], "--oidc-issuer"),
                       (["--oidc-issuer", provider.url, "--oidc-audience", "x", "--tls", "off"], "--tls off")):
        done = operator("up", "--name", "other", "--devices", "1", *words, check=False, timeout=PATIENCE)
        assert done.returncode != 0 and why in done.stderr, done.stderr


def test_a_token_file_of_others_is_not_read(provider, cluster, tmp_path):
    user = User(tmp_path / "ada")
    file = user.home / "token.jwt"
    file.write_text(provider.keys[0].sign(provider.claims("ada")))
    os.chmod(file, 0o644)
    done = user("login", cluster["address"], "--token-from", str(file), "--authority", cluster["authority"], check=False)
    assert done.returncode == 1 and "chmod 600" in done.stderr, done.stderr
