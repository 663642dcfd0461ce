"""Drives Debian's chromium over its DevTools protocol: opens a page, reads it, presses keys, takes pictures."""

import base64
import collections
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import time

PATIENCE = 120


def program():
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class _WebSocket:
    """The client's half of RFC 6455, as far as DevTools needs it: text messages."""

    def __init__(self, port, path):
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        key = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall((f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
                              "Sec-WebSocket-Version: 13\r\n\r\n").encode())
        self._file = self._socket.makefile("rb")
        status = self._file.readline()
        assert b" 101 " in status, status
        while self._file.readline().strip():
            pass

    def send(self, text):
        data = text.encode()
        mask = os.urandom(4)
        length = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack(">H", len(data)) if len(data) < 1 << 16 else b"\xff" + struct.pack(">Q", len(data))
        mask_of = (mask * (len(data) // 4 + 1))[: len(data)]
        self._socket.sendall(b"\x81" + length + mask + (int.from_bytes(data, "big") ^ int.from_bytes(mask_of, "big")).to_bytes(len(data), "big"))

    def receive(self):
        """Returns a message, which may arrive in several frames."""
        text = b""
        while True:
            first, second = self._file.read(2)
            length = second & 0x7F
            if length == 126:
                (length,) = struct.unpack(">H", self._file.read(2))
            elif length == 127:
                (length,) = struct.unpack(">Q", self._file.read(8))
            payload = self._file.read(length)
            if first & 0x0F == 8:
                raise ConnectionError("the browser has closed the connection")
            if first & 0x0F in (0, 1):
                text += payload
                if first & 0x80:
                    return text.decode()

    def close(self):
        self._socket.close()


class Browser:
    """A browser with one tab. Use it as a context."""

    def __init__(self, folder, width=1440, height=1000, dark=False):
        self.folder = pathlib.Path(folder)
        self._size = (width, height)
        self._dark = dark
        self._number = 0
        self._events = collections.deque()
        self.complaints = []  # errors, and violations of the page's own policy

    def __enter__(self):
        flags = ["--headless=new", "--remote-debugging-port=0", f"--user-data-dir={self.folder}", "--no-first-run", "--disable-extensions", "--disable-sync",
                 "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars", "--force-device-scale-factor=1",
                 f"--window-size={self._size[0]},{self._size[1]}"]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")  # chromium's own cannot be used by root
        self.folder.mkdir(parents=True, exist_ok=True)
        self._log = open(self.folder / "chromium.log", "w")
        self.process = subprocess.Popen([program(), *flags, "about:blank"], stdout=self._log, stderr=self._log, start_new_session=True)
        port, path = self._endpoint()
        self._connection = _WebSocket(port, path)
        self._session = None
        (tab, *_) = [one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        self._session = self.call("Target.attachToTarget", targetId=tab["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=self._size[0], height=self._size[1], deviceScaleFactor=1, mobile=False)
        self.prefer("dark" if self._dark else "light")
        return self

    def __exit__(self, *_):
        self._connection.close()
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._log.close()

    def _endpoint(self):
        file = self.folder / "DevToolsActivePort"
        deadline = time.monotonic() + PATIENCE
        while not file.exists() or len(file.read_text().split()) < 2:
            assert self.process.poll() is None and time.monotonic() < deadline, (self.folder / "chromium.log").read_text()
            time.sleep(0.05)
        port, path = file.read_text().split()[:2]
        return int(port), path

    def call(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._connection.send(json.dumps(message))
        while True:
            answer = json.loads(self._connection.receive())
            if answer.get("id") == message["id"]:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._hear(answer)

    def _hear(self, event):
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.complaints.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")

    def prefer(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def evaluate(self, expression, promise=False):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=promise)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, condition, seconds=PATIENCE):
        """Waits until a JavaScript expression is true; returns the seconds that it waited."""
        began = time.monotonic()
        while not self.evaluate(f"!!({condition})"):
            assert time.monotonic() - began < seconds, f"never true: {condition}\nthe page says: {self.text()}"
            time.sleep(0.02)
        return time.monotonic() - began

    def text(self):
        return self.evaluate("document.body.innerText")

    def press(self, key):
        more = {"text": key} if len(key) == 1 else {"windowsVirtualKeyCode": {"Escape": 27, "ArrowUp": 38, "ArrowDown": 40}[key]}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **more)

    def move(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def box(self, selector):
        """Returns the place of an element: x, y, width, height."""
        return self.evaluate(f"(({{x, y, width, height}}) => [x, y, width, height])(document.querySelector({json.dumps(selector)}).getBoundingClientRect())")

    def picture(self, path):
        path = pathlib.Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
