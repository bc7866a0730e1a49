"""Stands in for `curl` on machines without it: the options that the examples use."""

from __future__ import annotations

import argparse
import http.client
import sys
from pathlib import Path
from urllib.parse import urlsplit


def main() -> None:
    """Send one request, and print the response as it comes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-s", action="store_true")
    parser.add_argument("-N", action="store_true")
    parser.add_argument("-H", action="append", default=[])
    parser.add_argument("-d", "--data-binary", dest="data")
    parser.add_argument("address")
    given = parser.parse_args()
    address: str = given.address
    data: str | None = given.data
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.netloc)
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    headers |= dict(header.split(": ", 1) for header in given.H)
    body: bytes | None = None
    if data is not None:
        body = Path(data[1:]).read_bytes() if data.startswith("@") else data.encode()
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    connection.request("GET" if body is None else "POST", path, body, headers)
    response = connection.getresponse()
    try:
        while part := response.read1():
            sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
    except BrokenPipeError:
        # Whoever read has what it wanted.
        sys.stderr.close()


if __name__ == "__main__":
    main()
