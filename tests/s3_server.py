"""An S3-compatible server in this process: moto's, which keeps everything in memory.

Clients find their credentials in the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`).
"""

from __future__ import annotations

import logging
import urllib.request

from moto.server import ThreadedMotoServer
from pyarrow import fs

HOST = "127.0.0.1"
BUCKET = "kept"

KEY, SECRET = "the-key-of-tests", "the-secret/of+tests"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    # Nobody is to ask the network for credentials.
    "AWS_EC2_METADATA_DISABLED": "true",
}


class S3Server:
    """The server until `go_away`; the environment must have `CREDENTIALS`.

    Attributes
    ----------
    options
        What the URI of a folder there ends with.
    """

    def __init__(self) -> None:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._port = 0
        self.come_back()
        self.options = f"?endpoint_override={HOST}:{self._port}&scheme=http"
        allowed = f"s3://{BUCKET}{self.options}&allow_bucket_creation=true"
        fs.FileSystem.from_uri(allowed)[0].create_dir(BUCKET)

    def folder(self, prefix: str) -> str:
        """URI of a folder in the bucket."""
        return f"s3://{BUCKET}/{prefix}{self.options}"

    def objects(self, prefix: str) -> dict[str, bytes]:
        """Name below the folder → content of all that is there."""
        remote, root = fs.FileSystem.from_uri(self.folder(prefix))
        found = remote.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
        return {
            each.path.removeprefix(f"{root}/"): remote.open_input_stream(each.path).read()
            for each in found
            if each.is_file
        }

    def put(self, prefix: str, name: str, content: bytes) -> None:
        """Put an object there, whatever Vivace wrote."""
        remote, root = fs.FileSystem.from_uri(self.folder(prefix))
        with remote.open_output_stream(f"{root}/{name}") as stream:
            stream.write(content)

    def go_away(self) -> None:
        """Refuse connections; what it has kept stays."""
        self._server.stop()

    def come_back(self) -> None:
        """Take connections again."""
        self._server = ThreadedMotoServer(ip_address=HOST, port=self._port, verbose=False)
        self._server.start()
        _, self._port = self._server.get_host_and_port()

    def demand_known_keys(self, after: int = 0) -> None:
        """Refuse all requests but the first ones: no key is known."""
        url = f"http://{HOST}:{self._port}/moto-api/reset-auth"
        body, headers = str(after).encode(), {"Content-Type": "text/plain"}
        urllib.request.urlopen(urllib.request.Request(url, body, headers)).close()
