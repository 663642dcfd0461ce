"""Translates programs for a front end, as its child process: python -m pathways._translator

It serves clients without our Python package. Standard input and output connect it to the front end:

    request   8 bytes little-endian, the length of the program; 1 byte, the length of the version; the version ("1.13.0"); the program
    answer    1 byte, 1 on success, else 0; 8 bytes little-endian, a length; the translated program, or the error text (UTF-8)

The process ends when the front end closes the connection. The front end limits its memory and time, and restarts it if it ends.
"""

import os
import struct
import sys

from pathways._jax import portable_programs

_REQUEST = struct.Struct("<QB")
_ANSWER = struct.Struct("<BQ")


def _read(stream, count):
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data


def answer_one(requests, answers):
    """Answers one request. Raises EOFError at the end of the requests."""
    program_bytes, version_bytes = _REQUEST.unpack(_read(requests, _REQUEST.size))
    version = _read(requests, version_bytes).decode()
    program = _read(requests, program_bytes)
    try:
        translated, result = 1, portable_programs.translate(program, version)
    except Exception as error:
        text = str(error) if isinstance(error, portable_programs.Unreadable) else f"{type(error).__name__}: {error}"
        translated, result = 0, text.encode(errors="replace")
    answers.write(_ANSWER.pack(translated, len(result)))
    answers.write(result)
    answers.flush()


def main():
    # Keep other output of this process to standard output away from the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        portable_programs.newest_version()  # imports jax while no request waits for it
    except ImportError as error:
        print(f"programs cannot be translated: {error}; install jax for {sys.executable}", file=sys.stderr, flush=True)
    try:
        while True:
            answer_one(sys.stdin.buffer, answers)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass


if __name__ == "__main__":
    main()
