"""A real S3 server for tests: moto's, which checks every signature by Amazon's own code. Before it is a gate that can hold or fail requests."""

import http.client
import http.server
import json
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

from conftest import ROOT

PYTHON = ROOT / "build" / "venv-s3" / "bin" / "python"

# Makes the buckets and a user who may use them, and has all later requests checked.
PREPARE = """
import boto3, json, sys
url, where = sys.argv[1], dict(endpoint_url=sys.argv[1], region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
boto3.client("s3", **where).create_bucket(Bucket="bucket")
iam = boto3.client("iam", **where)
iam.create_user(UserName="cluster")
policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
iam.put_user_policy(UserName="cluster", PolicyName="all", PolicyDocument=json.dumps(policy))
iam.create_user(UserName="stranger")
print(json.dumps({user: iam.create_access_key(UserName=user)["AccessKey"] for user in ("cluster", "stranger")}, default=str))
"""
LIST = """
import boto3, json, os, sys
client = boto3.client("s3", endpoint_url=sys.argv[1], region_name="us-east-1")
keys = sorted(found["Key"] for found in client.list_objects_v2(Bucket="bucket", Prefix=sys.argv[2]).get("Contents", []))
for key in keys if len(sys.argv) > 3 else []:
    path = os.path.join(sys.argv[3], os.path.relpath(key, sys.argv[2]))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    client.download_file("bucket", key, path)
print(json.dumps(keys))
"""


def packages():
    """Returns the folder of moto's environment with its packages, s3fs among them."""
    (folder,) = (ROOT / "build" / "venv-s3").glob("lib/python3*/site-packages")
    return folder


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, folder):
        self.url = f"http://127.0.0.1:{_free_port()}"
        host, _, port = self.url.removeprefix("http://").partition(":")
        self._log = open(folder / "moto.log", "wb")
        self._moto = subprocess.Popen([PYTHON.parent / "moto_server", "-H", host, "-p", port], stdout=self._log, stderr=self._log)
        try:
            self._await()
            self.keys = self._prepare()
        except BaseException:
            self.stop()
            raise

    def _prepare(self):
        made = subprocess.run([PYTHON, "-c", PREPARE, self.url], capture_output=True, text=True, timeout=120)
        assert made.returncode == 0, made.stderr
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/moto-api/reset-auth", data=b"0", headers={"Content-Type": "text/plain"})).read()
        return json.loads(made.stdout)

    def _await(self):
        limit = time.monotonic() + 120
        while True:
            try:
                return urllib.request.urlopen(f"{self.url}/moto-api/", timeout=5).read()
            except (urllib.error.URLError, OSError):
                assert time.monotonic() < limit and self._moto.poll() is None, "moto's server did not start"
                time.sleep(0.1)

    def stop(self):
        self._moto.kill()
        self._moto.wait()
        self._log.close()

    def environment(self, user="cluster"):
        """Returns what Amazon's tools and TensorStore take the user's key from."""
        key = self.keys[user]
        return {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"], "AWS_REGION": "us-east-1"}

    def credentials(self, user="cluster", **changed):
        """Returns the text of a file of credentials."""
        key = {**self.keys[user], **changed}
        return f"[s3]\naws_access_key_id = {key['AccessKeyId']}\naws_secret_access_key = {key['SecretAccessKey']}\n"

    def download(self, prefix, folder):
        """Copies all objects below a prefix to a folder."""
        self.list(prefix, folder)

    def list(self, prefix, folder=None):
        listed = subprocess.run([PYTHON, "-c", LIST, self.url, prefix, *([folder] if folder else [])], env={**self.environment(), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True,
                                timeout=120)
        assert listed.returncode == 0, listed.stderr
        return json.loads(listed.stdout)


class Gate:
    """Passes requests to a server unchanged. `rule(method, path)` is called for each, may wait, and returns None to pass it, a status to answer instead,
    or "lose" to pass it and close the connection without an answer. tls: a server's context, if the gate speaks HTTPS."""

    def __init__(self, server, tls=None):
        self.rule = lambda method, path: None
        self.seen = []  # (method, path)
        self.bodies = 0  # bytes of all requests
        backend = server.url.removeprefix("http://")
        gate = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def serve(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                gate.seen.append((self.command, self.path))
                gate.bodies += len(body)
                verdict = gate.rule(self.command, self.path)
                self.close_connection = True
                if isinstance(verdict, int):
                    return self.reply(verdict, {}, b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>")
                behind = http.client.HTTPConnection(backend, timeout=120)
                behind.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    behind.putheader(name, value)
                behind.endheaders(body)
                answer = behind.getresponse()
                data = answer.read()
                if verdict != "lose":
                    self.reply(answer.status, dict(answer.getheaders()), data)

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = serve

            def reply(self, status, headers, data):
                self.send_response(status)
                for name, value in headers.items():
                    if name.lower() not in ("connection", "transfer-encoding", "date", "server", "content-length"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                try:
                    self.wfile.write(data)
                except OSError:
                    pass  # the process that asked was killed

            def log_message(self, *args):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
            self.url = f"https://localhost:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()
