"""Proof that a configuration is known to a holder of the operator secret: a MAC over all that it says.

Programs pass on what voters have told them, so that a voter which was away hears of a change whose
changer is gone; and nodes learn from each other what the secret of the cluster opens. Neither says who
has decided. So each node proves what it has adopted, and adopts nothing without a proof but what a
caller says that has proven to be an operator. A program has no part of the secret: it can pass on a
proof, and can neither make nor judge one.

The notes are covered as well: what is closed, and the floor of the tokens. They change after the
decision, and every node may make a new proof, as it has the secret. So nothing has to be kept: a node
proves again what is on its disk when it starts, also what an earlier version has saved there, or what
was proven with a secret that has been changed since.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

import msgspec

from coterie.algorithms.mutex.quorum.leased.configuration import Configuration
from coterie.errors import ProtocolError

if TYPE_CHECKING:
    from coterie.cluster.wire.security import Security

PURPOSE = b"a configuration"  # no proof of a handshake, which has the same key, begins like this


class UnprovenError(ProtocolError):
    """No process that has the operator secret vouches for a configuration."""

    def __init__(self, number: int) -> None:
        """Say what may be the reason."""
        super().__init__(
            f"configuration {number} is not proven: nodes of this cluster have no operator secret or another"
            " one than here, or run an earlier version of coterie, or a program has made it up"
        )


class Prover:
    """Makes and judges the proofs of one cluster."""

    def __init__(self, cluster: str, security: Security) -> None:
        """Prepare; without an operator secret every program is an operator, and nothing is proven."""
        self._cluster = cluster
        self._secret = security.operator_bytes() if security.has_operators else b""

    def prove(self, configuration: Configuration) -> Configuration:
        """Return a configuration with its proof."""
        if not self._secret or configuration.number == 0:
            return configuration
        return msgspec.structs.replace(configuration, proof=self._proof(configuration))

    def is_proven(self, configuration: Configuration) -> bool:
        """Return whether a holder of the operator secret vouches for it; number 0 is the file."""
        if not self._secret or configuration.number == 0:
            return True
        return hmac.compare_digest(configuration.proof, self._proof(configuration))

    def check(self, configuration: Configuration) -> None:
        """Raise `UnprovenError` unless it is proven."""
        if not self.is_proven(configuration):
            raise UnprovenError(configuration.number)

    def _proof(self, configuration: Configuration) -> bytes:
        # As it is after it has travelled: a number that stands for a time becomes one.
        sent = msgspec.msgpack.encode(msgspec.structs.replace(configuration, proof=b""))
        said = msgspec.msgpack.decode(sent, type=Configuration)
        content = msgspec.msgpack.encode((PURPOSE, self._cluster, said))
        return hmac.digest(self._secret, content, "sha256")
