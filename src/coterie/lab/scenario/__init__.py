"""Scenarios: short plays for the processes of an algorithm, written as transcripts.

Commands stand flush left and what they caused is indented, so a transcript is both the script and
its outcome; `perform` ignores the indented lines and writes them again::

    ricart-agrawala 2
    acquire 1
      1 > 2  Request(1.1)
    deliver 1 > 2
      2 > 1  Reply
    deliver 2 > 1
      1 Entered

The first line names the algorithm and the number of processes, then what else there is to choose,
such as `variant=deferred coterie=grid`, `channel=unordered` for weaker links than the algorithm
asks for, or `clock=none` for clocks that stand still, as they do for the explorer. The commands are:

    acquire 1               a call, by the name that the user of the process has for it
    deliver 1 > 2           the oldest message on that link
    deliver 1 > 2 Reply     the oldest of that kind, or with that text, where links may reorder
    repeat 1 > 2            deliver it and keep it, to be delivered once more
    drop 1 > 2              lose it
    ring 2 NAME             let a timer run out
    crash 2                 stop a process
    restart 2               let it begin again, without memory
    down 1 2                let 1, which watches 2, hear that it has crashed
    suspect 1 2             let 1, which watches 2, hear so wrongly
    run                     deliver whatever is on its way, oldest first, until nothing is
    show                    print who is inside, who waits and what is on its way
    # words                 a comment; one above the first line is the title
"""

from coterie.lab.scenario.performance import Performance, from_trace, perform

__all__ = ["Performance", "from_trace", "perform"]
