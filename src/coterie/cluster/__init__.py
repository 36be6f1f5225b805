"""The leased quorum lock over real sockets: nodes that vote, and programs that take locks.

Every other world asks a process what it wishes and pretends; this one carries it out. A `Host`
(`runtime`) feeds a process with what arrives and with the time, and carries out its outbox in the
order *save, send, arm, tell*. Around it stand the connections (`wire`), the configuration (`membership`),
the voter of a node (`voter`), the program that takes locks (`client`), changes of the voters (`change`), and
questions to nodes (`admin`). `node` puts a voting node together. `classic` runs any other algorithm of the
catalogue, `store` the transactions.
"""

import logging

# A program that has not asked for logs gets none on its stderr.
logging.getLogger("coterie").addHandler(logging.NullHandler())
