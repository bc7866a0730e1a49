"""A mock cluster of Kafka whose brokers can go away and come back.

librdkafka's own, as in `tests.mock_kafka`. Its Python package cannot tell brokers to go away, so
the C library beside the package is asked.
"""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int, c_void_p
from importlib.metadata import files

PRODUCER = 0
"""The kind of client that hosts the cluster."""


class MockBrokers:
    """Brokers until `close`.

    Attributes
    ----------
    brokers
        Addresses, which any client of this machine may use.
    """

    def __init__(self, count: int = 1) -> None:
        (path,) = [f for f in files("confluent-kafka") or () if f.match("*.libs/librdkafka*")]
        self._library = ctypes.CDLL(str(path.locate()))
        self._count = count
        said = ctypes.create_string_buffer(512)
        new = self._function("new", c_void_p, c_int, c_void_p, c_char_p, ctypes.c_size_t)
        self._client = new(PRODUCER, self._function("conf_new", c_void_p)(), said, len(said))
        assert self._client, said.value
        made = self._function("mock_cluster_new", c_void_p, c_void_p, c_int)
        self._cluster = made(self._client, count)
        addresses = self._function("mock_cluster_bootstraps", c_char_p, c_void_p)
        self.brokers: str = addresses(self._cluster).decode()

    def go_away(self) -> None:
        """Break all connections, and accept none."""
        self._set("mock_broker_set_down")

    def come_back(self) -> None:
        """Accept connections again."""
        self._set("mock_broker_set_up")

    def close(self) -> None:
        """End the brokers."""
        self._function("mock_cluster_destroy", None, c_void_p)(self._cluster)
        self._function("destroy", None, c_void_p)(self._client)

    def _set(self, name: str) -> None:
        function = self._function(name, c_int, c_void_p, ctypes.c_int32)
        for broker in range(1, self._count + 1):
            assert function(self._cluster, broker) == 0

    def _function(
        self, name: str, result: type | None, *arguments: type
    ) -> ctypes._NamedFuncPointer:  # pyright: ignore[reportPrivateUsage]
        function = self._library[f"rd_kafka_{name}"]
        function.restype, function.argtypes = result, list(arguments)
        return function
