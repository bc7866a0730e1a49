"""The API over HTTP: paths, discovery, OpenAPI, watches.

Watches of WebSockets are refused with 503: Spark's client then watches over plain HTTP. `attach`
and `port-forward` do not exist.
"""

from __future__ import annotations

import json
import logging
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from tests.platform.access import Access
from tests.platform.api import APPLY, Api, Sender
from tests.platform.certificate import Certificate
from tests.platform.discovery import document
from tests.platform.kinds import BY_PATH, NOTHING, POD, Kind, Object
from tests.platform.objects import ApiError, Change
from tests.platform.protobuf import PROTOBUF, read
from tests.platform.remote_commands import PROTOCOL, accepted, converse
from tests.platform.selectors import matches_fields, matches_labels

LOOK_S = 0.5
"""How often a watch looks whether its client is to be sent a bookmark, or the server ends."""

WATCH_S = 300.0
"""How long a watch lasts that does not say."""

Started = Callable[[Object, str, Sequence[str]], subprocess.Popen[bytes]]

SUCCESS: Object = {"kind": "Status", "apiVersion": "v1", "status": "Success", "metadata": {}}

INITIAL_EVENTS_END = "k8s.io/initial-events-end"

_log = logging.getLogger("platform.api")


class ApiServer:
    """Serves an API until it is closed.

    Parameters
    ----------
    log_of
        Text that a pod's container has written.
    started
        Starts a command in a pod's container.
    """

    def __init__(
        self, address: str, api: Api, access: Access, log_of: Callable[[Object, str], str],
        started: Started, certificate: Certificate, port: int = 0,
    ) -> None:  # fmt: skip
        self.ending = threading.Event()
        server = self

        class Bound(_Handler):
            pass

        Bound.api, Bound.access, Bound.log_of = api, access, staticmethod(log_of)
        Bound.started = staticmethod(started)
        Bound.server_ending = server.ending
        self._server = _Server((address, port), Bound)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.file, certificate.key)
        # Each connection's own thread shakes hands.
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    def close(self) -> None:
        self.ending.set()
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        _log.debug("a connection of %s ended", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    api: Api
    access: Access
    log_of: Callable[[Object, str], str]
    started: Started
    server_ending: threading.Event

    def log_message(self, format: str, *args: Any) -> None:
        _log.debug(format, *args)

    def do_GET(self) -> None:
        self._handle()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def _handle(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else b""
        try:
            if self._is_websocket and not urlsplit(self.path).path.endswith("/exec"):
                raise ApiError(503, "ServiceUnavailable", "no WebSockets here")
            self._route(body)
        except ApiError as error:
            self._respond(error.code, error.status())
        except OSError:
            # Its client is gone.
            self.close_connection = True
        except Exception as error:  # noqa: BLE001 - a client must get a response
            _log.exception("%s %s", self.command, self.path)
            status = ApiError(500, "InternalError", f"{type(error).__name__}: {error}").status()
            self._respond(500, status)

    @property
    def _is_websocket(self) -> bool:
        return "websocket" in self.headers.get("Upgrade", "").lower()

    def _route(self, body: bytes) -> None:
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        user = self.access.user(self.headers.get("Authorization", ""))
        if self.command == "GET" and (found := document(url.path, self.api.version)) is not None:
            self._respond(200, found)
            return
        parts = url.path.strip("/").split("/")
        size = 2 if parts[0] == "api" else 3
        base, rest = "/" + "/".join(parts[:size]), parts[size:]
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        kind = BY_PATH.get((base, rest[0])) if rest else None
        if kind is None:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        name = rest[1] if len(rest) > 1 else ""
        subresource = rest[2] if len(rest) > 2 else ""
        verb = self._verb(name, query)
        self.access.check(user, verb, kind, subresource, namespace, name)
        sender = Sender(
            user=user,
            manager=query.get("fieldManager")
            or self.headers.get("User-Agent", "unknown").partition("/")[0],
            dry_run=query.get("dryRun") == "All",
            force=query.get("force") == "true",
        )
        given = self._read(body)
        if verb in ("list", "watch"):
            self._list(kind, namespace, name, query)
        elif verb == "deletecollection":
            self._delete_all(kind, namespace, query, given or NOTHING, sender)
        else:
            self._one(kind, namespace, name, subresource, query, given, sender)

    def _verb(self, name: str, query: dict[str, str]) -> str:
        match self.command:
            case "GET" if query.get("watch") in ("true", "1"):
                return "watch"
            case "GET":
                return "get" if name else "list"
            case "POST":
                return "create"
            case "PUT":
                return "update"
            case "PATCH":
                return "patch"
            case _:
                return "delete" if name else "deletecollection"

    def _read(self, body: bytes) -> Any:
        if not body:
            return None
        content = self.headers.get("Content-Type", "").partition(";")[0]
        if content == PROTOBUF:
            return read(body)
        return yaml.safe_load(body) if "yaml" in content else json.loads(body)

    def _one(
        self, kind: Kind, namespace: str, name: str, subresource: str, query: dict[str, str],
        given: Any, sender: Sender,
    ) -> None:  # fmt: skip
        api = self.api
        if subresource == "log" and kind == POD:
            pod = api.objects.get(kind, namespace, name)
            self._respond_text(type(self).log_of(pod, query.get("container", "")))
            return
        if subresource == "exec" and kind == POD and self._is_websocket:
            self._execute(api.objects.get(kind, namespace, name), query.get("container", ""))
            return
        if subresource == "eviction" and kind == POD:
            api.evict(namespace, name, given.get("deleteOptions") or NOTHING, sender)
            self._respond(201, SUCCESS)
            return
        if subresource == "scale" and kind.has_scale:
            if self.command == "GET":
                self._respond(200, api.read_scale(kind, namespace, name))
            else:
                self._respond(200, api.write_scale(kind, namespace, name, given, sender))
            return
        if subresource not in ("", "status"):
            raise ApiError(404, "NotFound", f"the rig has no {kind.plural}/{subresource}")
        match self.command:
            case "GET":
                self._respond(200, api.objects.get(kind, namespace, name))
            case "POST":
                self._respond(201, api.create(kind, namespace, given, sender))
            case "PUT":
                given["metadata"].setdefault("namespace", namespace)
                self._respond(200, api.update(kind, given, sender, subresource))
            case "PATCH":
                content = self.headers.get("Content-Type", "").partition(";")[0]
                if content == APPLY and not query.get("fieldManager"):
                    raise ApiError(400, "BadRequest", "fieldManager is required for apply patch")
                existed = api.objects.find(kind, namespace, name) is not None
                found = api.patch(kind, namespace, name, content, given, sender, subresource)
                self._respond(200 if existed else 201, found)
            case _:
                options = _options(given, query)
                self._respond(200, api.delete(kind, namespace, name, options, sender))

    def _execute(self, pod: Object, container: str) -> None:
        """Run a command in a container, whose streams are the client's."""
        command = parse_qs(urlsplit(self.path).query)["command"]
        process = type(self).started(pod, container, command)
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", accepted(self.headers["Sec-WebSocket-Key"]))
        self.send_header("Sec-WebSocket-Protocol", PROTOCOL)
        self.end_headers()
        self.close_connection = True
        with process:
            converse(process, self.rfile, self.wfile)

    def _chosen(self, found: Object, name: str, query: dict[str, str]) -> bool:
        labels = found["metadata"].get("labels") or NOTHING
        return (
            name in ("", found["metadata"]["name"])
            and matches_labels(labels, query.get("labelSelector", ""))
            and matches_fields(found, query.get("fieldSelector", ""))
        )

    def _list(self, kind: Kind, namespace: str, name: str, query: dict[str, str]) -> None:
        objects = self.api.objects
        with objects.lock:
            revision = objects.revision
            found = [
                each for each in objects.list(kind, namespace) if self._chosen(each, name, query)
            ]
        if query.get("watch") in ("true", "1"):
            self._watch(kind, namespace, name, query, revision, found)
            return
        listed = {
            "kind": f"{kind.kind}List",
            "apiVersion": kind.api_version,
            "metadata": {"resourceVersion": str(revision)},
            "items": found,
        }
        self._respond(200, listed)

    def _delete_all(
        self, kind: Kind, namespace: str, query: dict[str, str], options: Object, sender: Sender
    ) -> None:
        chosen = [
            each for each in self.api.objects.list(kind, namespace) if self._chosen(each, "", query)
        ]
        for each in chosen:
            metadata = each["metadata"]
            self.api.delete(
                kind, metadata["namespace"], metadata["name"], _options(options, query), sender
            )
        self._respond(
            200, {"kind": "Status", "apiVersion": "v1", "status": "Success", "metadata": {}}
        )

    def _watch(
        self, kind: Kind, namespace: str, name: str, query: dict[str, str], revision: int,
        found: list[Object],
    ) -> None:  # fmt: skip
        began = query.get("resourceVersion", "")
        initial = query.get("sendInitialEvents") == "true" or began in ("", "0")
        bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if initial:
            for each in found:
                self._event("ADDED", each)
            if query.get("sendInitialEvents") == "true" and bookmarks:
                self._bookmark(kind, revision, {INITIAL_EVENTS_END: "true"})
        else:
            revision = int(began)
        until = time.monotonic() + float(query.get("timeoutSeconds") or WATCH_S)
        sent = revision
        while time.monotonic() < until and not self.server_ending.is_set():
            try:
                changes = self.api.objects.since(revision, LOOK_S)
            except ApiError as error:
                self._event("ERROR", error.status())
                break
            for change in changes:
                revision = change.revision
                if change.kind == kind and namespace in (
                    "",
                    change.found["metadata"].get("namespace"),
                ):
                    sent = self._pass_on(change, name, query, sent)
            if bookmarks and revision > sent and not changes:
                self._bookmark(kind, revision, {})
                sent = revision
        self.wfile.write(b"0\r\n\r\n")

    def _pass_on(self, change: Change, name: str, query: dict[str, str], sent: int) -> int:
        """Tell of a change as the watch's selector sees it."""
        was = change.before is not None and self._chosen(change.before, name, query)
        is_now = change.event != "DELETED" and self._chosen(change.found, name, query)
        if is_now:
            self._event("MODIFIED" if was else "ADDED", change.found)
        elif was:
            self._event("DELETED", change.found)
        else:
            return sent
        return change.revision

    def _bookmark(self, kind: Kind, revision: int, annotations: dict[str, str]) -> None:
        metadata: Object = {"resourceVersion": str(revision)}
        if annotations:
            metadata["annotations"] = annotations
        note = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        self._event("BOOKMARK", note)

    def _event(self, event: str, found: Object) -> None:
        line = json.dumps({"type": event, "object": found}).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.flush()

    def _respond(self, code: int, found: Object) -> None:
        self._send(code, "application/json", json.dumps(found).encode())

    def _respond_text(self, text: str) -> None:
        self._send(200, "text/plain", text.encode())

    def _send(self, code: int, content: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", content)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _options(given: Any, query: dict[str, str]) -> Object:
    options: Object = dict(given or NOTHING)
    if (seconds := query.get("gracePeriodSeconds")) is not None:
        options.setdefault("gracePeriodSeconds", int(seconds))
    if policy := query.get("propagationPolicy"):
        options.setdefault("propagationPolicy", policy)
    return options
