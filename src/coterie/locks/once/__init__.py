"""Once per period: a job that machines begin at about the same time, and that one of them runs.

A record of the runs is the value of the job's lock. A program takes the lock, reads the record, writes *started* if the
period is due, and only then runs the job; then it writes how that ended.

Promise. A period is started at most `attempts` times, never after its success was recorded, and never after a later
period, whatever dies and however clocks are set. Two runs overlap only as far as a lock can be lost, and then they have
different tokens.

Argument. Only the holder of the lock writes the record, and the store refuses a late writer; so the starts of a job
are in one order, that of their tokens, and each of them has read the record of all before it. The start is durable
before the job runs. What a holder wrote whose end is unknown is decided by the next read. So the number of starts in
the record is never below that of the jobs which ran, and it is compared with `attempts` before each. A period that
is below the one in the record never runs, and that in the record only ever grows.

`period` says which period a moment belongs to, `record` is the record and its rule, both without clocks, tasks or
locks; `once` takes the lock, `report` is for operators.
"""
