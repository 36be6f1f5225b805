"""Where nodes are found: by the name and the disk that answer, whatever address is on record.

A machine that was renumbered keeps its disk, and its address in the configuration leads nowhere. So a
node is looked for at the addresses that a user wrote as well. An address is not an identity: the
handshake checks the cluster, the name and the disk, so a wrong one costs a call and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from coterie.cluster.wire.address import Address


class Met(NamedTuple):
    """A node that has answered."""

    node: str  # its name
    disk: str  # the identity of its disk; empty: it has none

    def may_be(self, node: str, disk: str) -> bool:
        """Return whether it may be the node of this name, with this disk if that is known."""
        return self.node == node and (self.disk == disk or not disk or not self.disk)


class Places:
    """The addresses that a user wrote, and which node was last met at each address."""

    def __init__(self, addresses: Sequence[Address] = ()) -> None:
        """Begin with addresses at which any of the nodes may be."""
        self.addresses = tuple(addresses)
        self._met: dict[Address, Met] = {}  # the latest last
        self._shared: set[Address] = set()  # where several nodes have answered

    def note(self, address: Address, node: str, disk: str) -> None:
        """Note which node has answered at an address."""
        before = self._met.pop(address, None)
        if before is not None and before.node != node:
            self._shared.add(address)
        self._met[address] = Met(node, disk)

    def met(self, node: str, disk: str) -> list[Address]:
        """List where a node was met that has this disk, or any if that is unknown: the latest first."""
        known = reversed(self._met.items())
        return [address for address, met in known if met.may_be(node, disk)]

    def ways(
        self, node: str, disk: str, recorded: Iterable[Address], taken: Collection[Address] = ()
    ) -> list[Address]:
        """List where to call a node, the likeliest first.

        That is where it was met, then where it is on record, then each address of the user at which no
        other node was met and that is not on record for another one, as those are `taken`. An address
        that leads now to one node and now to another, such as a balancer, comes last.
        """
        met = self.met(node, disk)
        certain = [address for address in met if address not in self._shared]
        unknown = [
            address
            for address in self.addresses
            if address not in self._met and address not in taken
        ]
        return list(dict.fromkeys([*certain, *recorded, *unknown, *met]))
