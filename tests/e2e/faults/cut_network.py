"""Forwards the connections between two processes to another address, and ends them when a test cuts the network."""

import socket
import struct
import threading


class Network:
    """`lives` returns, for each connection, the number of bytes after which it is cut; None: never. `listen`: the address that is forwarded."""

    def __init__(self, address, lives=lambda: None, listen=("127.0.0.1", 0)):
        host, _, port = address.rpartition(":")
        self._target = (host, int(port))
        self._lives = lives
        self._lock = threading.Lock()
        self._is_cut = False
        self._open = set()
        self.cuts = 0
        self._listener = socket.create_server(listen, backlog=128)
        self.address = "{}:{}".format(*self._listener.getsockname())
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Ends all connections, and each new one until the network heals."""
        with self._lock:
            self._is_cut = True
            self.cuts += bool(self._open)
            for connection in self._open:
                connection.end()
            self._open.clear()

    def heal(self):
        with self._lock:
            self._is_cut = False

    def redirect(self, address):
        """Forwards new connections to another address, and ends the present ones."""
        host, _, port = address.rpartition(":")
        with self._lock:
            self._target = (host, int(port))
        self.cut()
        self.heal()

    def calm(self):
        """Stops cutting connections by their age."""
        self.age(lambda: None)

    def age(self, lives):
        """Cuts each connection, present ones included, when it has carried a number of further bytes that `lives` returns."""
        with self._lock:
            self._lives = lives
            for connection in self._open:
                connection.age(lives())

    def close(self):
        self._listener.close()
        self.cut()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._is_cut:
                    _reset(near)
                    continue
                try:
                    far = socket.create_connection(self._target)
                except OSError:
                    _reset(near)
                    continue
                self._open.add(_Connection(self, near, far, self._lives()))

    def ended(self, connection, cut):
        with self._lock:
            if connection in self._open:
                self._open.discard(connection)
                self.cuts += cut


class _Connection:
    def __init__(self, network, near, far, life):
        self._network, self._ends, self._life = network, (near, far), life
        self._lock = threading.Lock()
        for source, sink in ((near, far), (far, near)):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source, sink):
        try:
            while data := source.recv(4096):
                with self._lock:
                    if self._life is not None:
                        data, self._life = data[: self._life], self._life - len(data)
                    over = self._life is not None and self._life <= 0
                sink.sendall(data)
                if over:
                    self._network.ended(self, cut=True)
                    return self.end()
            self._network.ended(self, cut=False)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            self.end()

    def age(self, life):
        with self._lock:
            self._life = life

    def end(self):
        """Closes both ends; bytes in flight are lost."""
        for end in self._ends:
            _reset(end)


def _reset(connection):
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RD)  # wakes the thread that reads from it
        connection.close()
    except OSError:
        pass  # it has ended already
