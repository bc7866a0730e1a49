"""Commands of the parts of a host's core, gathered until the core returns them to its caller."""

from __future__ import annotations

from collections import Counter, deque

from ha.feeding import Producer, feed_subscribers
from ha.messages import Message
from orchestrator.host.events import Command, Report, Send


class Outbox:
    """Commands of one host, and the messages that it sends to itself.

    Parameters
    ----------
    node
        Name of the host.

    Attributes
    ----------
    to_itself
        Messages between two replicas, sources or sinks of this host, taken so far.
    counters
        Events counted by the host's core, for its record in the store.
    """

    def __init__(self, node: str) -> None:
        self.to_itself: deque[Message] = deque()
        self.counters: Counter[str] = Counter()
        self._node = node
        self._commands: list[Command] = []

    def add(self, *commands: Command) -> None:
        """Have commands carried out."""
        self._commands += commands

    def send(self, to: str, message: Message) -> None:
        """Have a message sent."""
        self._commands.append(Send(to=to, message=message))

    def report(self, kind: str, subject: str, detail: str) -> None:
        """Have a report logged."""
        self._commands.append(Report(kind=kind, subject=subject, detail=detail))

    def feed(self, producer: Producer) -> None:
        """Send each subscriber of a producer the output that it has not been sent yet."""
        for node, data in feed_subscribers(producer):
            self.send(node, data)

    def take(self) -> list[Command]:
        """Everything gathered since the last call; messages to the host itself stay here."""
        commands: list[Command] = []
        for command in self._commands:
            if isinstance(command, Send) and command.to == self._node:
                self.to_itself.append(command.message)
            else:
                commands.append(command)
        self._commands = []
        return commands
