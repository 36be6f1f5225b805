"""The leased quorum lock over real sockets: nodes that vote, and programs that take locks.

Every other world asks a process what it wishes and pretends; this one carries it out. A `Host`
(`runtime`) feeds a process with what arrives and with the time, and carries out its outbox in the
order *save, send, arm, tell*. Around it stand the connections (`wire`), the voting node (`voter`), the
program that takes locks (`client`), and what asks nodes how they are (`admin`). `classic` runs any
other algorithm of the catalogue, `store` the transactions.
"""

import logging

# A program that has not asked for logs gets none on its stderr.
logging.getLogger("coterie").addHandler(logging.NullHandler())
