"""Sends lines from standard input to a site, until the site has acknowledged all of them.

The site responds with the number of lines of a connection that it has for good. Lines that it had
taken in, but not acknowledged when the connection broke, are sent again.
"""

from __future__ import annotations

import os
import socket
import sys
import time

HOST, PORT = os.environ.get("METERS", "127.0.0.1:9642").split(":")
AT_ONCE = 1000
SILENCE_S = 30.0
RETRY_S = 0.5


def send(lines: list[bytes]) -> int:
    """Send lines over one connection until it ends; returns how many the site has."""
    has = 0
    try:
        with socket.create_connection((HOST, int(PORT)), timeout=SILENCE_S) as connection:
            responses = connection.makefile("rb")
            for begin in range(0, len(lines), AT_ONCE):
                part = lines[begin : begin + AT_ONCE]
                connection.sendall(b"".join(part))
                while has < begin + len(part):
                    response = responses.readline()
                    if not response.endswith(b"\n"):
                        return has
                    has = int(response)
    except OSError as error:
        sys.stderr.write(f"METERS, {HOST}:{PORT}: {error}; connecting again\n")
    return has


def main() -> None:
    """Send all of standard input."""
    lines = [line.rstrip(b"\r\n") + b"\n" for line in sys.stdin.buffer]
    left = lines
    while left:
        left = left[send(left) :]
        if left:
            time.sleep(RETRY_S)
    sys.stdout.write(f"{len(lines)} lines are at the site\n")


if __name__ == "__main__":
    main()
