"""The messages between a worker and its Python process (host.py): pathways/worker/python/message.h describes them."""

import json
import mmap
import os
import socket
import struct

import numpy as np

from pathways._client.wire import bytes_field
from pathways._colocated.lent_files import LentFiles

_LENGTH = struct.Struct("<I")
_MOST_PACKET_BYTES = 4 << 10


def _align(offset):
    return -(-offset // 64) * 64


class Connection:
    """The socket to the worker. One thread receives; any thread may send."""

    def __init__(self, address, key):
        path = address.removeprefix("unix:")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.connect("\0" + path[1:] if path.startswith("@") else path)
        self._socket.send(bytes.fromhex(key))
        self._files = LentFiles()

    def receive(self):
        """Returns (header, [bytes-like parts]); None at the end of the connection."""
        packet, files, _, _ = socket.recv_fds(self._socket, _MOST_PACKET_BYTES, 1)
        if not packet:
            return None
        if not files:
            return _read(memoryview(packet)[1:])
        try:
            return _read(memoryview(mmap.mmap(files[0], int(packet[1:]), flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)))
        finally:
            os.close(files[0])

    def send(self, header, parts=()):
        """Sends a message; parts: contiguous arrays of bytes."""
        header = {**header, "bytes": [part.nbytes for part in parts]}
        text = json.dumps(header, separators=(",", ":")).encode()
        pieces, end = [(0, _LENGTH.pack(len(text)) + text)], _LENGTH.size + len(text)
        for part in parts:
            pieces.append((_align(end), part))
            end = pieces[-1][0] + part.nbytes
        if end < _MOST_PACKET_BYTES:
            message = bytearray(1 + end)
            message[0] = ord("M")
            for offset, piece in pieces:
                message[1 + offset:1 + offset + len(piece)] = piece if isinstance(piece, bytes) else piece.tobytes()
            self._socket.send(message)
            return
        with self._files.borrow(end) as (file, lend):
            for offset, piece in pieces:
                _write_at(file, memoryview(piece), offset)
            socket.send_fds(self._socket, [b"L%d" % end], [lend()])

    def trim(self):
        """Frees memory that is kept for further results."""
        self._files.trim()


def _write_at(file, piece, offset):
    while len(piece) > 0:
        written = os.pwrite(file, piece, offset)
        piece, offset = piece[written:], offset + written


def _read(message):
    (length,) = _LENGTH.unpack(message[:_LENGTH.size])
    offset = _LENGTH.size + length
    header = json.loads(bytes(message[_LENGTH.size:offset]))
    parts = []
    for size in header.get("bytes", ()):
        offset = _align(offset)
        parts.append(message[offset:offset + size])
        offset += size
    return header, parts


def bytes_of(array):
    """Returns the bytes of a numpy array, dense and row-major, as a uint8 array."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def strings_of(data, shape):
    """Parses strings that jaxlib has serialized (see bytes_of_strings); returns a numpy array of this shape."""
    strings, at = [], 0
    data = bytes(data)
    while at < len(data):
        if data[at] != 0x0A:
            raise ValueError("an array of strings is not serialized as one")
        size, shift, at = 0, 0, at + 1
        while True:
            size, shift, at = size | (data[at] & 0x7F) << shift, shift + 7, at + 1
            if data[at - 1] < 0x80:
                break
        strings.append(data[at:at + size].decode())
        at += size
    return np.array(strings, np.dtypes.StringDType()).reshape(shape)


def bytes_of_strings(array):
    """Returns the strings of a numpy array as jaxlib serializes them: a protobuf message with one bytes field, repeated."""
    return np.frombuffer(b"".join(bytes_field(1, text, keep_empty=True) for text in array.reshape(-1).tolist()), np.uint8)
