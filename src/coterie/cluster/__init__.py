"""The leased quorum lock over real sockets: nodes that vote, and programs that take locks.

Every other world asks a process what it wishes and pretends; this one carries it out. A `Driver`
feeds a part of the protocol with what arrives and with the time, and carries out its outbox in the
order *save, send, arm, tell*. Around it stand the links (`connection`, `handshake`, `link`), the
voting node (`voting`), the participant with its local queues (`attending`, `queues`), and the engine
that a coordinator stands on (`engine`). `classic` runs any other algorithm of the catalogue.
"""

import logging

# A program that has not asked for logs gets none on its stderr.
logging.getLogger("coterie").addHandler(logging.NullHandler())
