"""What must happen in the end, decided on the finite graph of states that a search has kept.

A run is fair if it takes every step that stays possible (weak fairness). A step is here the
delivery of the first message on a FIFO link, of each message on a link that may reorder; the ring of
each timer that stays armed, also if it is set again and again; the report of each crash to each process
that watches; and the leaving of a process that is inside. Calls that a user may make or not need never
be made, and faults need never happen. A process starves where some fair run lets it wait without end: a
cycle, within reach, in which it waits throughout and which leaves out no step that stays possible all
the way round; or a state, within reach, in which it waits and no step is possible.
"""
