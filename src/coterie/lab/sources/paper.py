"""The paper of 1996: mutual exclusion by a coterie that is updated when processes fail."""

from __future__ import annotations

from coterie.lab.sources.statement import Section, Source, holds, refuted, shown, under

INTRODUCTION = Section(
    "Why",
    (
        holds(
            "Where all processes are asked, an entry costs Ω(N) messages.",
            "compare ricart-agrawala -N 7,57",
            r"^ricart-agrawala .*2\(N - 1\).*yes$",
            page="algorithms/ricart-agrawala.md",
        ),
        shown(
            "With a coterie whose largest quorum has c members it costs O(c).",
            "planes and majorities of 7 and 57: three messages for each member but oneself",
            "compare maekawa majority -N 7,57",
            r"^(maekawa|majority) .*yes$",
            page="algorithms/maekawa.md",
        ),
        shown(
            "One failure stops the algorithms that ask all.",
            "three processes",
            "simulate ricart-agrawala -N 3 --fault 'crash 2 @ 5'",
            r"^violation +stuck",
            page="algorithms/ricart-agrawala.md",
            status=1,
        ),
        shown(
            "A coterie does not help if a process fails while the algorithm runs: those that need it"
            " wait forever.",
            "the plane of 7",
            "simulate maekawa -N 7 --fault 'crash 2 @ 5'",
            (r"^unserved +6", r"^violation +stuck"),
            page="algorithms/maekawa.md",
            status=1,
        ),
    ),
)

DEFINITIONS = Section(
    "Definitions, and Maekawa's algorithm",
    (
        holds(
            "Quorums of a coterie meet pairwise.",
            "check maekawa -N 4 --coterie '1,2 3,4'",
            r"have no member in common",
            page="coteries.md",
            words="others are refused",
            status=78,
        ),
        holds(
            "Who has a lock of each member of a quorum is alone, if a lock is not given away without"
            " its owner's consent.",
            "prove maekawa",
            (r"^maekawa, for every N.*proved", r"mutual exclusion"),
            page="prove.md",
        ),
        holds(
            "This alone may end in a deadlock.",
            "check maekawa --variant basic",
            r"violated\. Deadlock",
            page="algorithms/maekawa.md",
            words="after 6 steps of three processes",
            status=1,
        ),
        shown(
            "If a younger owner gives its lock back for an older request, it does not.",
            "three processes with two entries each; a proof is in Proving",
            "check maekawa -N 3 --entries 2",
            (r": verified\.", r"every wait ends"),
            page="algorithms/maekawa.md",
        ),
        holds(
            "Where all quorums contain failed processes, no process can enter.",
            "simulate maekawa -N 7 --fault 'crash 1 @ 0' --fault 'crash 2 @ 0' --fault 'crash 3 @ 0'",
            (r"^entries +0 ", r"^violation +stuck"),
            page="coteries.md",
            status=1,
        ),
        shown(
            "Who then asks another quorum must take its first requests back (figure 1).",
            "votes: who tries again gives back what it has got, and a vote whose return is lost is given to"
            " no one any more",
            "scenario decentralized-loss",
            (r"1 > 2  Return\(1\) is lost", r"waiting: 2"),
            page="algorithms/decentralized.md",
        ),
    ),
)

PROPOSAL = Section(
    "The proposal",
    (
        under(
            "Without failures the algorithm is Maekawa's.",
            "the condition that no process waits longer than T_max: who does asks whether the others live",
            "compare fault-tolerant maekawa -N 7",
            r"^(fault-tolerant|maekawa) .*yes$",
            page="algorithms/fault-tolerant.md",
        ),
        under(
            "Who does not answer within 2σ + λ has failed.",
            "the condition that no message is later than σ: one that is lets two in",
            "scenario fault-tolerant-late",
            r"!.*inside together",
            page="algorithms/fault-tolerant-runs.md",
        ),
        holds(
            "A table that can replace K failed processes has no cycle of K or fewer (definition 8,"
            " lemma 1).",
            "simulate fault-tolerant -N 3 --table '1>2,2>1,3>1' --failures 2",
            r"replace only each other",
            page="coteries.md",
            words="others are refused, with the cycle",
            status=78,
        ),
        shown(
            "The cycle through all processes can replace N - 1 (lemma 2).",
            "six crashes of seven: the last one enters alone",
            "simulate fault-tolerant -N 7 --hold 3 --fault 'crash 1 @ 20' --fault 'crash 2 @ 20'"
            " --fault 'crash 3 @ 20' --fault 'crash 4 @ 20' --fault 'crash 5 @ 20'"
            " --fault 'crash 6 @ 20'",
            (r"^unserved +0", r"^coterie +\[\[7\]\]"),
            page="coteries.md",
        ),
        shown(
            "The updated family is a coterie again (theorem 1); so figure 5 draws it after 1 and 5 fail.",
            "the figure: the same five quorums, and all are served",
            "simulate fault-tolerant -N 7 --fault 'crash 1 @ 20' --fault 'crash 5 @ 40' --hold 3",
            (r"^unserved +0", r"^coterie +\[\[2,3\],\[2,4,6\],\[2,6,7\],\[3,4,7\],\[3,6\]\]$"),
            page="coteries.md",
        ),
        shown(
            "The order of the failures does not matter, for table and coterie (lemmas 3 and 4).",
            "figure 5 with 5 failing first",
            "simulate fault-tolerant -N 7 --fault 'crash 5 @ 20' --fault 'crash 1 @ 40' --hold 3",
            r"^coterie +\[\[2,3\],\[2,4,6\],\[2,6,7\],\[3,4,7\],\[3,6\]\]$",
            page="coteries.md",
        ),
        shown(
            "Some new quorum contains the rest of the old one (theorem 2), so that no request has to be"
            " taken back.",
            "figure 5: who has asked 1 and 5 asks 6 alone after 5 has failed; it needs the larger of two"
            " nested quorums",
            "scenario fault-tolerant-rest",
            (r"4 > 1  Request", r"4 > 6  Request", r"4 Entered"),
            page="coteries.md",
        ),
        refuted(
            "The algorithm excludes each other (theorem 3).",
            "one crash of three, who is inside by the lock of the dead is forgotten; our repair is checked in"
            " Surviving crashes",
            "check fault-tolerant --variant published",
            (r"violated\. 2 and 3 are inside together", r"depth 33$"),
            page="fault-tolerance.md",
            status=1,
        ),
    ),
)

OPEN = Section(
    "Left open",
    (
        shown(
            "How many messages a failure costs.",
            "seven processes, of which one crashes: n(n - 1) Down among the n = 6 that are left",
            "simulate fault-tolerant -N 7 --fault 'crash 1 @ 20'",
            r"Down 30",
            page="algorithms/fault-tolerant.md",
        ),
        shown(
            "How a failed process returns.",
            "a crash and a return; all is as before",
            "simulate fault-tolerant -N 7 --fault 'crash 1 @ 20' --fault 'restart 1 @ 60'",
            (r"^unserved +0", r"^coterie +\[\[1,2,3\],", r"^down +\[\]"),
            page="fault-tolerance.md",
        ),
    ),
)

PAPER = Source("paper", "The paper of 1996", (INTRODUCTION, DEFINITIONS, PROPOSAL, OPEN))
