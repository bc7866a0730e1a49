"""`kubectl exec`, and `cp` with it: a command in a container, with the streams of a WebSocket.

Each message begins with the number of its stream, as `v5.channel.k8s.io` has it. The last one of
the server is the command's status.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from io import BufferedIOBase
from typing import IO

PROTOCOL = "v5.channel.k8s.io"

STDIN, STDOUT, STDERR, STATUS, CLOSE = 0, 1, 2, 3, 255

CHUNK = 32 * 1024

_guid = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

_final, _binary, _close, _ping, _pong = 0x80, 2, 8, 9, 10


def accepted(key: str) -> str:
    """The header that shows a client that its WebSocket is one."""
    return base64.b64encode(hashlib.sha1(key.encode() + _guid).digest()).decode()


def messages(source: BufferedIOBase, sink: WebSocket) -> Iterator[bytes]:
    """What a client sends, until it closes."""
    whole = b""
    while len(head := source.read(2)) == 2:
        opcode, length = head[0] & 15, head[1] & 127
        if length >= 126:
            length = int.from_bytes(source.read(2 if length == 126 else 8))
        mask = source.read(4)
        given = source.read(length)
        payload = bytes(b ^ mask[i & 3] for i, b in enumerate(given)) if any(mask) else given
        if opcode == _close:
            return
        if opcode == _ping:
            sink.send(_pong, payload)
        elif opcode != _pong:
            whole += payload
            if head[0] & _final:
                yield whole
                whole = b""


class WebSocket:
    """What the server sends."""

    def __init__(self, sink: BufferedIOBase) -> None:
        self._sink = sink
        self._lock = threading.Lock()

    def send(self, opcode: int, payload: bytes) -> None:
        size = len(payload)
        if size < 126:
            head = bytes([_final | opcode, size])
        elif size < 2**16:
            head = bytes([_final | opcode, 126]) + size.to_bytes(2)
        else:
            head = bytes([_final | opcode, 127]) + size.to_bytes(8)
        with self._lock:
            self._sink.write(head + payload)
            self._sink.flush()

    def tell(self, stream: int, payload: bytes) -> None:
        self.send(_binary, bytes([stream]) + payload)

    def close(self) -> None:
        self.send(_close, (1000).to_bytes(2))


def converse(
    process: subprocess.Popen[bytes], source: BufferedIOBase, sink: BufferedIOBase
) -> None:
    """Connect a process with a client, until it has ended."""
    socket = WebSocket(sink)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None

    def pass_on(stream: int, output: IO[bytes]) -> None:
        while chunk := os.read(output.fileno(), CHUNK):
            socket.tell(stream, chunk)

    def feed(given: IO[bytes]) -> None:
        for message in messages(source, socket):
            if message[:1] == bytes([CLOSE]):
                given.close()
            elif message[:1] == bytes([STDIN]) and not given.closed:
                given.write(message[1:])
                given.flush()

    threading.Thread(target=feed, args=(process.stdin,), daemon=True).start()
    outputs = [
        threading.Thread(target=pass_on, args=pair, daemon=True)
        for pair in ((STDOUT, process.stdout), (STDERR, process.stderr))
    ]
    for each in outputs:
        each.start()
    for each in outputs:
        each.join()
    socket.tell(STATUS, json.dumps(_status(process.wait())).encode())
    socket.close()


def _status(code: int) -> dict[str, object]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with exit code {code}",
        "details": {"causes": causes},
    }
