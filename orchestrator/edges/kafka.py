"""What the source and the sink of Kafka share: settings, and the client library, which is optional.

Settings that only some brokers need, such as those of SASL and TLS, stand in a file at the site,
`name=value` a line. They hold passwords, which manifests and the store never do.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.documents.document import Section
from orchestrator.edges.drivers import DriverError, Unusable
from orchestrator.records import Record

if TYPE_CHECKING:
    from types import ModuleType

    from confluent_kafka import Consumer, Message

REACH_S = 10.0
"""How long a broker may take to tell of a topic."""


class Topic(Record, frozen=True, kw_only=True):
    """A topic, and how its brokers are reached.

    Attributes
    ----------
    brokers
        `host:port`, separated by commas.
    name
        Of the topic.
    properties_file
        File with further settings of librdkafka.
    """

    brokers: str
    name: str
    properties_file: str | None = None


def read_topic(section: Section) -> Topic:
    """The fields of a manifest that say which topic.

    Raises
    ------
    InvalidInput
        One is missing.
    """
    properties = section.get("propertiesFile")
    return Topic(
        brokers=section.need("brokers").text(),
        name=section.need("topic").text(),
        properties_file=None if properties is None else str(properties.path()),
    )


def settings_of(topic: Topic, **own: Any) -> dict[str, Any]:
    """Settings of librdkafka; those of the file, then ours, which win.

    Raises
    ------
    DriverError
        The file cannot be read.
    """
    found: dict[str, Any] = {}
    if topic.properties_file is not None:
        try:
            text = Path(topic.properties_file).read_text(encoding="utf-8")
        except OSError as error:
            raise DriverError(f"propertiesFile cannot be read: {error}") from None
        for number, line in enumerate(text.splitlines(), 1):
            stripped = line.strip()
            if not stripped or stripped.startswith("#"):
                continue
            name, equals, value = stripped.partition("=")
            if not equals:
                raise DriverError(f"propertiesFile, line {number}: write name=value")
            found[name.strip()] = value.strip()
    ours = {name.replace("_", "."): value for name, value in own.items()}
    return {**found, "bootstrap.servers": topic.brokers, **ours}


def library() -> ModuleType:
    """The package `confluent_kafka`.

    Raises
    ------
    DriverError
        It is not installed.
    """
    try:
        import confluent_kafka
    except ImportError as error:
        raise DriverError(
            f"Kafka needs the package confluent-kafka at the site (vivace[kafka]): {error}"
        ) from None
    return confluent_kafka


def come(consumer: Consumer, most: int, wait_s: float) -> list[Message]:
    """Messages and events that have come; waits for the first one only."""
    first = consumer.poll(wait_s)
    return [] if first is None else [first, *consumer.consume(most - 1, 0)]


def partitions_of(topic: Topic) -> int:
    """How many partitions a topic has; asks the brokers, and makes none.

    Raises
    ------
    Unusable
        No broker tells, or there is no such topic.
    """
    kafka = library()
    try:
        consumer = kafka.Consumer(settings_of(topic, group_id="vivace check"))
    except (DriverError, kafka.KafkaException) as error:
        remedy = "Correct the file; its settings are librdkafka's."
        raise Unusable(
            "propertiesFile", topic.properties_file, f"is no good: {error}", remedy
        ) from None
    try:
        found = consumer.list_topics(topic.name, timeout=REACH_S).topics[topic.name]
    except kafka.KafkaException as error:
        raise Unusable(
            "brokers",
            topic.brokers,
            f"do not tell the site of the topic within {REACH_S:g} s ({error.args[0].str()})",
            "Check that they run, and the address and `propertiesFile`.",
        ) from None
    finally:
        consumer.close()
    if found.error is not None or not found.partitions:
        why = "it has no partitions" if found.error is None else found.error.str()
        raise Unusable(
            "topic", topic.name, f"cannot be used ({why})", "Create it, or correct its name."
        )
    return len(found.partitions)
