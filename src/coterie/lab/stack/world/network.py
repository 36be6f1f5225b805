"""The simulated network: connections of two pipes each, and everything that can go wrong with them.

A pipe delivers in order. What goes wrong with it holds bytes back or ends the connection; bytes are
never lost in the middle or changed, as TCP promises.
"""

from __future__ import annotations

import errno
from collections import deque
from typing import TYPE_CHECKING, TypeAlias

from coterie.lab.stack.world.transport import Transport

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from random import Random

    from coterie.lab.stack.world.machine import Machine, Process
    from coterie.lab.stack.world.world import World

WINDOW_BYTES = 256 * 1024  # that one pipe takes before they are read
LOCAL_SECONDS = 30e-6  # between two processes of one machine
RETRANSMISSION_SECONDS_MAX = 0.4  # after a way is open again
REDIAL_SECONDS = 1.0  # until a lost request for a connection is sent again
FIN, RST = "FIN", "RST"

Segment: TypeAlias = bytes | str


class Socket:
    """What the kernel of one machine has of a connection."""

    def __init__(self, connection: Connection, process: Process, peer_name: str) -> None:
        """Open it in the name of a process."""
        self.connection = connection
        self.process = process
        self.machine = process.machine
        self.boots = process.machine.boots
        self.peer_name: str = peer_name
        self.transport: Transport | None = None
        self.incoming: deque[bytes] = deque()
        self.is_ended = False  # by the peer
        self.is_reset = False
        self.is_closed = False
        self.pipe = Pipe(connection, self)
        process.sockets[connection.number] = self

    @property
    def has_news(self) -> bool:
        """Whether there is something to read, be it an end."""
        return bool(self.incoming) or self.is_ended or self.is_reset

    def arrive(self, segment: Segment) -> None:
        """Take what comes from the network."""
        if not self.machine.is_up:
            return
        if self.is_closed or self.boots != self.machine.boots:
            if segment != RST:
                self.pipe.send(RST, self.machine.world.now)
            return
        if isinstance(segment, bytes):
            self.incoming.append(segment)
        elif segment == FIN:
            self.is_ended = True
        else:
            self.is_reset = True
            self.incoming.clear()
        if self.transport is not None:
            self.transport.note_readable()

    def take(self, random: Random | None) -> bytes:
        """Read everything that has arrived; with a generator, up to any place in it."""
        data = b"".join(self.incoming)
        self.incoming.clear()
        if random is not None and len(data) > 1:
            place = random.randrange(1, len(data))
            self.incoming.append(data[place:])
            data = data[:place]
        self.connection.other(self).pipe.has_been_read(len(data))
        return data

    def send(self, data: bytearray) -> int:
        """Hand bytes to the kernel; return how many it has taken."""
        if self.is_closed or self.is_reset:
            return len(data)
        room = self.pipe.room()
        if not room or not data:
            return 0
        chunk = bytes(data[:room])
        self.pipe.send(chunk, self.process.true_now())
        self.process.note_send()
        return len(chunk)

    def close(self, at: float) -> None:
        """End this end; the peer hears of it behind the bytes that are on their way."""
        if self.is_closed:
            return
        self.is_closed = True
        self.process.sockets.pop(self.connection.number, None)
        if not self.is_reset:
            self.pipe.send(RST if self.incoming else FIN, at)
        self.connection.forget_if_over()

    def vanish(self) -> None:
        """End without a word, with the machine."""
        self.is_closed = True
        self.process.sockets.pop(self.connection.number, None)


class Pipe:
    """One direction of a connection."""

    def __init__(self, connection: Connection, source: Socket) -> None:
        """Begin empty."""
        self.connection = connection
        self.source = source
        self.held: deque[Segment] = deque()  # back, until the way is open
        self._network = connection.network
        self._last = 0.0  # arrival
        self._flying = 0  # segments
        self._unread = 0

    @property
    def target(self) -> Socket:
        """The end at which it arrives."""
        return self.connection.other(self.source)

    def room(self) -> int:
        """Return how many bytes it takes now."""
        return max(0, WINDOW_BYTES - self._unread)

    def send(self, segment: Segment, at: float) -> None:
        """Let something travel; it arrives behind all that was sent before."""
        if isinstance(segment, bytes):
            self._unread += len(segment)
            self._network.world.note_sending(self, segment)
        # What flies arrives first, be it only to be held back; so nothing is put before it there.
        if not self._flying and (self.held or self.is_blocked()):
            self.held.append(segment)
        else:
            self._travel(segment, at)

    def _travel(self, segment: Segment, at: float) -> None:
        latency = self._network.latency(self.source.machine, self.target.machine)
        self._last = max(self._last, at + latency)
        self._flying += 1
        self._network.world.at(self._last, self._arrive, segment)

    def _arrive(self, segment: Segment) -> None:
        self._flying -= 1
        if self.held or self.is_blocked():
            self.held.append(segment)
            self.release()
        else:
            self.target.arrive(segment)

    def is_blocked(self) -> bool:
        """Return whether nothing gets through now."""
        return self.connection.is_stalled or self._network.is_blocked(self.source, self.target)

    def release(self) -> None:
        """Let what was held back travel, if the way is open."""
        if not self.held or self._flying or self.is_blocked():
            return
        world = self._network.world
        at = world.now + world.random.uniform(0, RETRANSMISSION_SECONDS_MAX)
        held = list(self.held)
        self.held.clear()
        for segment in held:
            self._travel(segment, at)

    def has_been_read(self, count: int) -> None:
        """Make room; the sender learns of it."""
        was_full = not self.room()
        self._unread -= count
        transport = self.source.transport
        if was_full and transport is not None and not self.source.is_closed:
            network = self._network
            latency = network.latency(self.target.machine, self.source.machine)
            network.world.at(network.world.now + latency, transport.note_writable)


class Connection:
    """Two sockets and the pipes between them."""

    def __init__(self, network: Network, number: int, dialer: Process, listener: Process) -> None:
        """Connect the dialer with the listener."""
        self.network = network
        self.number = number
        self.is_stalled = False
        self.dialer = Socket(self, dialer, listener.machine.name)
        self.listener = Socket(self, listener, dialer.machine.name)

    def other(self, socket: Socket) -> Socket:
        """Return the other end."""
        return self.listener if socket is self.dialer else self.dialer

    def release(self) -> None:
        """Let what is held back travel where the way is open."""
        self.dialer.pipe.release()
        self.listener.pipe.release()

    def reset(self) -> None:
        """Break the connection at both ends."""
        for socket in (self.dialer, self.listener):
            if not socket.is_closed:
                socket.arrive(RST)

    def forget_if_over(self) -> None:
        """Leave the list of connections when both ends are closed and nothing is held back."""
        if self.dialer.is_closed and self.listener.is_closed:
            held = self.dialer.pipe.held or self.listener.pipe.held
            if not held:
                self.network.connections.pop(self.number, None)


class Listener:
    """A port on which a process listens."""

    def __init__(
        self, process: Process, port: int, factory: Callable[[], asyncio.Protocol]
    ) -> None:
        """Listen."""
        self.process = process
        self.port = port
        self.is_open = True
        self._factory = factory

    def accept(self, socket: Socket) -> None:
        """Give a new connection to the process, in its next turn."""
        self.process.loop.hand_in(self._connect, socket)

    def _connect(self, socket: Socket) -> None:
        Transport(self.process.loop, socket, self._factory())

    def stop_accepting(self) -> bool:
        """Let callers wait, or find the port closed."""
        was_open, self.is_open = self.is_open, False
        return was_open

    def close(self) -> None:
        """Give up the port."""
        self.is_open = False
        ports = self.process.machine.listeners
        if ports.get(self.port) is self:
            del ports[self.port]


class Dial:
    """A request for a connection on its way."""

    def __init__(
        self,
        network: Network,
        process: Process,
        host: str,
        port: int,
        answer: asyncio.Future[Socket],
    ) -> None:
        """Call that port; the answer is a socket, or an error."""
        self._network = network
        self._process = process
        self._host = host
        self._port = port
        self._answer = answer
        self._socket: Socket | None = None
        self._given_up = False

    def give_up(self) -> None:
        """Want the connection no more."""
        self._given_up = True
        if self._socket is not None:
            self._socket.close(self._process.true_now())

    def send(self, at: float) -> None:
        """Send the request, again and again while it gets lost."""
        network, world = self._network, self._network.world
        target = world.machines.get(network.owners.get(self._host, self._host))
        if self._given_up or not self._process.is_alive:
            return
        if target is None or not network.is_open_to_dial(self._process.machine, target):
            world.at(at + REDIAL_SECONDS * world.random.uniform(0.5, 1), self._send_again)
            return
        world.at(at + network.latency(self._process.machine, target), self._reach, target)

    def _send_again(self) -> None:
        self.send(self._network.world.now)

    def _reach(self, target: Machine) -> None:
        """Arrive at the other machine."""
        network, world = self._network, self._network.world
        if self._given_up or not self._process.is_alive:
            return
        if not target.is_up or not network.is_open_to_dial(self._process.machine, target):
            self.send(world.now + REDIAL_SECONDS)
            return
        back = world.now + network.latency(target, self._process.machine)
        listener = target.listeners.get(self._port)
        if listener is None or target.name in network.refusing:
            world.at(back, self._process.loop.hand_in, self._refuse)
            return
        connection = network.connect(self._process, listener.process)
        self._socket = connection.dialer
        listener.accept(connection.listener)
        world.at(back, self._process.loop.hand_in, self._succeed, connection.dialer)

    def _refuse(self) -> None:
        if not self._answer.done():
            text = f"Connect call failed ({self._host!r}, {self._port})"
            self._answer.set_exception(ConnectionRefusedError(errno.ECONNREFUSED, text))

    def _succeed(self, socket: Socket) -> None:
        if not self._answer.done():
            self._answer.set_result(socket)


class Network:
    """All connections between all machines, and the faults of the ways between them."""

    def __init__(self, world: World, random: Random) -> None:
        """Begin in good order."""
        self.world = world
        self.connections: dict[int, Connection] = {}
        self.blocked: dict[tuple[str, str], int] = {}  # directions, with the number of causes
        self.stalled_dials: dict[tuple[str, str], int] = {}  # by who dials and who is dialled
        self.refusing: set[str] = set()
        self.owners: dict[str, str] = {}  # of addresses that another machine has now
        self.delay = 0.0005  # one way, at least
        self.spread = 0.0005  # more, on average
        self._random = random
        self._numbers = 0

    def latency(self, source: Machine, target: Machine) -> float:
        """Draw how long a segment travels."""
        if source is target:
            return LOCAL_SECONDS
        return self.delay + self._random.expovariate(1.0) * self.spread

    def listen(
        self, process: Process, port: int, factory: Callable[[], asyncio.Protocol]
    ) -> Listener:
        """Open a port; raise `OSError` if it is taken."""
        ports = process.machine.listeners
        if port in ports:
            raise OSError(errno.EADDRINUSE, "address already in use")
        listener = ports[port] = Listener(process, port, factory)
        return listener

    def dial(self, process: Process, host: str, port: int, answer: asyncio.Future[Socket]) -> Dial:
        """Call a port."""
        dial = Dial(self, process, host, port, answer)
        dial.send(process.true_now())
        return dial

    def connect(self, dialer: Process, listener: Process) -> Connection:
        """Make a connection."""
        self._numbers += 1
        connection = Connection(self, self._numbers, dialer, listener)
        self.connections[self._numbers] = connection
        return connection

    # Faults

    def is_blocked(self, source: Socket, target: Socket) -> bool:
        """Return whether nothing gets from one end to the other."""
        if not self.blocked and not self.stalled_dials:
            return False
        if (source.machine.name, target.machine.name) in self.blocked:
            return True
        connection = source.connection
        ends = connection.dialer.machine.name, connection.listener.machine.name
        return ends in self.stalled_dials

    def is_open_to_dial(self, source: Machine, target: Machine) -> bool:
        """Return whether a new connection can be made."""
        there, back = (source.name, target.name), (target.name, source.name)
        blocked = there in self.blocked or back in self.blocked
        return not blocked and there not in self.stalled_dials

    def block(self, source: str, target: str) -> None:
        """Let nothing pass in this direction."""
        self.blocked[source, target] = self.blocked.get((source, target), 0) + 1

    def unblock(self, source: str, target: str) -> None:
        """Take back one `block`."""
        _decrease(self.blocked, (source, target))
        self.release()

    def stall_dials(self, source: str, target: str) -> None:
        """Stall all connections that one machine has dialled to another, old and new."""
        self.stalled_dials[source, target] = self.stalled_dials.get((source, target), 0) + 1

    def unstall_dials(self, source: str, target: str) -> None:
        """Take back one `stall_dials`."""
        _decrease(self.stalled_dials, (source, target))
        self.release()

    def release(self) -> None:
        """Let everything travel for which the way is open."""
        for connection in list(self.connections.values()):
            connection.release()
            connection.forget_if_over()

    def heal(self) -> None:
        """End all faults."""
        self.blocked.clear()
        self.stalled_dials.clear()
        self.refusing.clear()
        for connection in self.connections.values():
            connection.is_stalled = False
        self.release()

    def forget_unsent(self, machine: Machine) -> None:
        """Lose what the kernel of a machine would have sent again."""
        for connection in self.connections.values():
            for socket in (connection.dialer, connection.listener):
                if socket.machine is machine:
                    socket.pipe.held.clear()

    def between(self, first: str, second: str) -> list[Connection]:
        """List the connections between two machines, whichever dialled."""
        found = []
        for connection in self.connections.values():
            ends = {connection.dialer.machine.name, connection.listener.machine.name}
            if ends == {first, second}:
                found.append(connection)
        return found


def _decrease(counts: dict[tuple[str, str], int], key: tuple[str, str]) -> None:
    left = counts.get(key, 0) - 1
    if left > 0:
        counts[key] = left
    else:
        counts.pop(key, None)
