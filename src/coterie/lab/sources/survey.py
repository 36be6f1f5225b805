"""The survey of 1987: clocks, mutual exclusion, concurrency control and deadlocks."""

from __future__ import annotations

from coterie.lab.sources.statement import Section, Source, holds, refuted, shown, under

TIME = Section(
    "Time",
    (
        holds(
            "If one node controls everything, the whole system is as fast as that node.",
            "simulate centralized -N 20",
            r"^busiest +process 1: 570 messages, 57 on average",
            page="algorithms/centralized.md",
        ),
        under(
            "If that node fails, everything stops.",
            "the condition that no other node takes over: the variant `failover` goes on",
            "simulate centralized -N 3 --fault 'crash 1 @ 5'",
            r"^violation +stuck",
            page="algorithms/centralized-failover.md",
            status=1,
        ),
        shown(
            "A later request can overtake an earlier one that led to it, and is served first (figure 1).",
            "the figure, played",
            "scenario centralized-overtaken",
            r"3 Entered",
            page="algorithms/centralized.md",
        ),
    ),
)

CLOCKS = Section(
    "Clocks",
    (
        shown(
            "Counters that travel with messages agree with happened-before, and process numbers"
            " make a total order of it.",
            "twenty runs in which Lamport's algorithm serves no request before one that led to it",
            "simulate lamport -N 5 --latency exponential:1 --seeds 20",
            r"^runs +20, 0 of them failed",
            page="clocks.md",
        ),
        shown(
            "What people tell each other by telephone is not in these clocks: the later request can"
            " have the smaller stamp.",
            "two processes",
            "scenario lamport-telephone",
            r"1 Entered",
            page="clocks.md",
        ),
        shown(
            "Clocks with a drift of at most κ that tell their neighbours the time every τ, with"
            " delays that vary by ξ, stay within about d(2κτ + ξ) in a graph of diameter d.",
            "a line of five",
            "clocks --graph line",
            (r"^together", r"^bound +0\.1200 s"),
            page="clocks.md",
        ),
        shown(
            "It is the diameter that counts.",
            "five clocks of which each tells all others: a quarter of that bound",
            "clocks --graph complete",
            (r"^together", r"^bound +0\.0300 s"),
            page="clocks.md",
        ),
        under(
            "With such clocks the stamps agree with the telephone, too.",
            "the condition that the call takes longer than clocks are apart",
            "clocks --graph line",
            r"^telephone",
            page="clocks.md",
        ),
    ),
)

EXCLUSION = Section(
    "Mutual exclusion",
    (
        under(
            "A central process needs two messages an entry, the request and the answer.",
            "the condition that the release is not counted: it makes three",
            "compare centralized -N 3,7,13",
            r"^centralized +\d+  3 .*yes$",
            page="algorithms/centralized.md",
        ),
        shown(
            "A distributed control needs five properties: equal data, one rule, equal load, equal"
            " cost from every node, and no node whose failure stops all.",
            "seven processes: of the survey's own none has the fifth, and trees share no load equally; the"
            " algorithm of 1996 has all five",
            "distribution lamport ricart-agrawala maekawa suzuki-kasami raymond fault-tolerant",
            (
                r"^lamport .* 1 2 3 4 -$",
                r"^ricart-agrawala .* 1 2 3 4 -$",
                r"^maekawa .* 1 2 3 4 -$",
                r"^suzuki-kasami .* 1 2 - 4 -$",
                r"^raymond .* - 2 - - -$",
                r"^fault-tolerant .* 1 2 3 4 5$",
            ),
            page="algorithms/README.md",
        ),
        shown(
            "Lamport's four rules exclude each other and serve every request.",
            "three processes; that they exclude each other is proved for every number in Proving",
            "check lamport -N 3",
            (r": verified\.", r"every wait ends"),
            page="algorithms/lamport.md",
        ),
        holds(
            "They need messages that arrive in the order in which they were sent.",
            "check lamport -N 2 --channel unordered",
            r"violated\. More than one is inside",
            page="algorithms/lamport.md",
            status=1,
        ),
        shown(
            "Lamport's algorithm sends 3(N - 1) messages an entry.",
            "N = 3, 7, 13",
            "compare lamport -N 3,7,13",
            r"^lamport .*3\(N - 1\).*yes$",
            page="algorithms/lamport.md",
        ),
        holds(
            "The rules of Ricart and Agrawala exclude each other.",
            "prove ricart-agrawala",
            (r"^ricart-agrawala, for every N: proved", r"^  mutual exclusion"),
            page="algorithms/ricart-agrawala.md",
        ),
        shown(
            "They send 2(N - 1) messages an entry.",
            "N = 3, 7, 13",
            "compare ricart-agrawala -N 3,7,13",
            r"^ricart-agrawala .*2\(N - 1\).*yes$",
            page="algorithms/ricart-agrawala.md",
        ),
        holds(
            "Both need the permission of all others.",
            "simulate ricart-agrawala -N 3 --fault 'crash 2 @ 5'",
            r"^violation +stuck",
            page="algorithms/ricart-agrawala.md",
            words="one crash is enough to stop all",
            status=1,
        ),
        shown(
            "The permission of a majority is enough (Thomas).",
            "three processes",
            "check majority -N 3",
            r": verified\.",
            page="algorithms/majority.md",
        ),
        under(
            "A majority halves the processes that take part, and the messages.",
            "the condition that one compares with Lamport's algorithm; it is three quarters of"
            " Ricart and Agrawala's",
            "compare lamport ricart-agrawala majority -N 13",
            (r"^lamport +13  36 .*yes$", r"^ricart\S+ +13  24 .*yes$", r"^majority +13  18 .*yes$"),
            page="algorithms/majority.md",
        ),
        shown(
            "More than half of the votes is enough, however they are given out (Gifford).",
            "three processes with 2, 1 and 1 votes",
            "check weighted -N 3 --votes 2,1,1",
            r": verified\.",
            page="algorithms/weighted.md",
        ),
        shown(
            "With all votes at one process this is the central control.",
            "five processes: three messages an entry, as with a coordinator",
            "compare weighted -N 5 --votes 1,0,0,0,0",
            r"^weighted +5  3 .*yes$",
            page="algorithms/weighted.md",
        ),
        shown(
            "With one vote each it is Thomas's majority.",
            "N = 13",
            "compare weighted majority -N 13",
            (r"^weighted +13  18 .*yes$", r"^majority +13  18 .*yes$"),
            page="algorithms/weighted.md",
        ),
        holds(
            "Any two request sets of Maekawa's must meet.",
            "check maekawa -N 4 --coterie '1,2 3,4'",
            r"have no member in common",
            page="coteries.md",
            words="others are refused",
            status=78,
        ),
        shown(
            "With sets of equal size K, and each process in as many of them, K is about √N.",
            "planes of 7, 13, 57 and 133, where K is 3, 4, 8 and 12",
            "compare maekawa -N 7,13,57,133",
            r"^maekawa .*yes$",
            page="algorithms/maekawa.md",
        ),
        under(
            "No distributed algorithm asks fewer than about √N others.",
            "the conditions of equal size and equal load: without them a tree of 57 asks 4.9 on"
            " average, where the plane asks 7",
            "compare maekawa --coterie tree -N 57",
            r"3\(K - 1\) = 14\.79 .*yes$",
            page="coteries.md",
        ),
        shown(
            "Such sets are the lines of a projective plane; figure 2 has those of 7.",
            "7 processes, where our plane has the lines of the figure",
            "simulate fault-tolerant -N 7",
            r"^coterie +\[\[1,2,3\],\[1,4,5\],\[1,6,7\],\[2,4,6\],\[2,5,7\],\[3,4,7\],\[3,5,6\]\]$",
            page="coteries.md",
        ),
        shown(
            "... and those of 13.",
            "13 processes, likewise",
            "simulate fault-tolerant -N 13 --entries 1",
            r"^coterie .*\[2,7,10,13\],\[3,5,10,12\],\[3,6,8,13\],\[3,7,9,11\],\[4,5,9,13\],\[4,6,10,11\]",
            page="coteries.md",
        ),
        holds(
            "There is a plane where K - 1 is the power of a prime; 6 is none.",
            "check maekawa -N 43 --coterie plane:6",
            r"no projective plane of order 6",
            page="coteries.md",
            status=64,
        ),
        shown(
            "For other N one relaxes equal size and equal load.",
            "N = 10, 32, 100",
            "compare maekawa -N 10,32,100",
            r"^maekawa .*yes$",
            page="coteries.md",
        ),
        refuted(
            "Maekawa's rules 2 to 7, as printed, let every process in at last.",
            "a deadlock of three after 7 steps: rule 3 forgets an inquiry that comes before a failure",
            "check maekawa --variant survey",
            (r"violated\. Deadlock", r"depth 7$"),
            page="algorithms/maekawa.md",
            status=1,
        ),
        under(
            "They send C√N messages an entry, with C from 3 to 5.",
            "the condition that the section is wanted: less than 2.9√N where it is free, 3.8√N where all"
            " always want in; 6(K - 1) is the most",
            "compare maekawa --variant displaced -N 57,133",
            (
                r"^maekawa \(displaced\) +57  21 .* 27\.92 .*yes$",
                r"^maekawa \(displaced\) +133  33 .* 43\.89 .*yes$",
            ),
            page="algorithms/maekawa.md",
        ),
        holds(
            "In all of these no process keeps the privilege while none is inside; a token is kept, which"
            " saves messages.",
            "compare maekawa suzuki-kasami -N 13",
            (r"3\(K - 1\) = 9  9  .*yes$", r"N = 13 +0  .*yes$"),
            page="algorithms/suzuki-kasami.md",
            words="to enter again costs 9 messages and 0",
        ),
        shown(
            "Suzuki and Kasami's token needs N messages an entry.",
            "N = 3, 7, 13",
            "compare suzuki-kasami -N 3,7,13",
            r"^suzuki-kasami +\d+ .* N = \d+ .*yes$",
            page="algorithms/suzuki-kasami.md",
        ),
        refuted(
            "Its four rules, as printed, serve every request.",
            "a request that meets the token on its way, after 8 steps: only the holder keeps requests",
            "check suzuki-kasami --variant survey",
            (r"violated\. Deadlock", r"depth 8$"),
            page="algorithms/suzuki-kasami.md",
            status=1,
        ),
        under(
            "Along a tree (Raymond) a request makes about log N hops.",
            "the condition that the tree is balanced: on a line it is N/3 there and N/3 back",
            "simulate raymond -N 64 --tree chain --workload one-at-random --entries 20",
            r"^per entry +4\d\.",
            page="algorithms/raymond.md",
        ),
        shown(
            "Trehel and Naimi's need O(log N) messages on average.",
            "N = 7, 31, 127, with requesters at random",
            "compare naimi-trehel -N 7,31,127",
            r"^naimi-trehel .*H\(N - 1\).*yes$",
            page="algorithms/naimi-trehel.md",
        ),
        refuted(
            "In both the token goes back the way that the request has come.",
            "Trehel and Naimi's, where it goes straight: one message, whatever the way",
            "compare raymond naimi-trehel -N 31",
            (r"^raymond .* distance = 1…8 +yes$", r"^naimi-trehel .* 1 +1 +yes$"),
            page="algorithms/naimi-trehel.md",
        ),
    ),
)

LOCKS = Section(
    "Concurrency control: locks",
    (
        shown(
            "Transactions that run at once must leave what some order of them would have left.",
            "two transfers that do not: one is lost",
            "history histories/transfer.jsonl",
            (r"^not serializable", r"lost update"),
            page="history.md",
            status=1,
        ),
        shown(
            "Transactions that are well-formed and two-phase are serializable.",
            "a run of the six transactions of SmallBank by 32 clients, on one site and on two",
            "compare-schemes two-phase-locking --check --workload smallbank --theta 0.99 --sites 1,2"
            " --duration 50ms",
            (r"^smallbank +0\.99 +1 .*two-phase-locking .*yes$", r"^smallbank +0\.99 +2 .*yes$"),
            page="transactions/two-phase-locking.md",
        ),
        shown(
            "Who uses what it has not locked spoils this (not well-formed).",
            "two cash machines that do not lock the account",
            "history histories/cash-machines.jsonl",
            (r"^not serializable", r"lost update"),
            page="history.md",
            status=1,
        ),
        shown(
            "Who locks after it has unlocked spoils it as well (not two-phase).",
            "a transfer that gives the first account free before it locks the second",
            "history histories/not-two-phase.jsonl",
            (r"^not serializable", r"read skew"),
            page="history.md",
            status=1,
        ),
        shown(
            "Two-phase locks can still end in a deadlock.",
            "three programs with crossed locks",
            "deadlock graphs/crossed.json",
            r"^ann is deadlocked",
            page="deadlock.md",
            status=1,
        ),
        refuted(
            "Locking is the most efficient kind of concurrency control.",
            "transactions that read some keys and write others: with stamps five times as many commit",
            "compare-schemes two-phase-locking multiversion --workload ycsb-a --theta 0.99"
            " --duration 50ms",
            (r"^ycsb-a .*two-phase-locking +1\d\d\d ", r"^ycsb-a .*multiversion +5\d\d\d "),
            page="transactions/comparison.md",
        ),
    ),
)

STAMPS = Section(
    "Concurrency control: stamps, versions, hope",
    (
        shown(
            "Basic timestamp ordering serializes.",
            "a run of the six transactions of SmallBank by 32 clients, on one site and on two",
            "compare-schemes timestamp-ordering --check --workload smallbank --theta 0.99 --sites 1,2"
            " --duration 50ms",
            (r"^smallbank +0\.99 +1 .*timestamp-ordering .*yes$", r"^smallbank +0\.99 +2 .*yes$"),
            page="transactions/timestamp-ordering.md",
        ),
        shown(
            "It refuses what comes too late, and never lets it wait.",
            "transfers among 1,000 accounts: more than half of all attempts",
            "compare-schemes two-phase-locking timestamp-ordering --workload bank --theta 0.8"
            " --duration 50ms",
            r"^bank .*timestamp-ordering +\d+  [4-9]\d\.\d%   0%",
            page="transactions/timestamp-ordering.md",
        ),
        refuted(
            "What an aborted transaction has written in place is undone, and all that have read it are"
            " aborted as well.",
            "a write over what is undone: no one has read it, and it is lost; ours writes nothing in place",
            "history histories/undone.jsonl",
            (r"^not serializable", r"T3 read x before T2 replaced it"),
            page="transactions/timestamp-ordering.md",
            status=1,
        ),
        refuted(
            "Rule 4' of Thomas, as printed, serializes: refuse a write with W < M < R, skip one with"
            " M < W.",
            "three operations: the write that is skipped should have been read",
            "history histories/thomas-printed.jsonl",
            (r"^not serializable", r"lost update"),
            page="transactions/thomas-write-rule.md",
            status=1,
        ),
        shown(
            "It refuses fewer, where writes meet writes.",
            "a mix of reads and writes",
            "compare-schemes timestamp-ordering thomas-write-rule --workload ycsb-a --theta 0.99"
            " --duration 50ms",
            (r"^ycsb-a .*timestamp-ordering .* 17\.6%", r"^ycsb-a .*thomas-write-rule .* 17\.0%"),
            page="transactions/thomas-write-rule.md",
        ),
        shown(
            "With old versions kept no read comes too late.",
            "a mix of reads and writes: whatever is refused is a write before a later read",
            "compare-schemes multiversion --workload ycsb-a --theta 0.99 --duration 50ms -o json",
            # Reasons are sorted: a read that came too late, "... has written it", would follow a comma.
            r'^ +"a later transaction has read it": \d+$',
            page="transactions/multiversion.md",
        ),
        refuted(
            "A read takes the newest version with W < M.",
            "two operations: a transaction does not see what it has written itself; W ≤ M is right",
            "history histories/own-write.jsonl",
            (r"^not serializable", r"own write"),
            page="transactions/multiversion.md",
            status=1,
        ),
        shown(
            "Conservative timestamp ordering aborts no transaction.",
            "transfers among 1,000 accounts",
            "compare-schemes conservative --workload bank --theta 0.99 --duration 50ms",
            r"conservative +\d+  0\.0%",
            page="transactions/conservative.md",
        ),
        shown(
            "It waits for every site that may still begin something, and needs null requests for it.",
            "eight sites: twice the messages of locks",
            "compare-schemes conservative two-phase-locking --workload bank --theta 0 --sites 8"
            " --duration 50ms",
            (r"^bank .*conservative .* 25\.71 ", r"^bank .*two-phase-locking .* 11\.08 "),
            page="transactions/conservative.md",
        ),
        shown(
            "It lets wait also those that do not conflict, unless transactions are analysed beforehand.",
            "keys that hardly meet: analysed, and not",
            "compare-schemes conservative conservative:unanalysed --workload ycsb-b --theta 0"
            " --duration 50ms",
            (r"^ycsb-b .*conservative +7\d\d\d ", r"^ycsb-b .*unanalysed +2\d\d "),
            page="transactions/conservative.md",
        ),
        shown(
            "An optimistic transaction waits for no other, and is refused at its end if another has"
            " changed what it read.",
            "a mix of reads and writes, with one hot key",
            "compare-schemes optimistic --workload ycsb-a --theta 0.99 --duration 50ms",
            r"optimistic +\d+  \d\d\.\d%   \d%",
            page="transactions/optimistic.md",
        ),
    ),
)

DEADLOCKS = Section(
    "Deadlocks",
    (
        under(
            "To detect deadlocks and resolve them is better than to prevent them.",
            "the condition that an attempt is dear: detection refuses one in a hundred, prevention by"
            " age more than half, which all the same commit more here, where nothing else costs time",
            "compare-schemes two-phase-locking two-phase-locking:wait-die two-phase-locking:wound-wait"
            " --workload bank --theta 0.99 --duration 50ms",
            (
                r"^bank .*two-phase-locking +\d+  1\.3%",
                r"^bank .*wait-die +\d+  70\.1%",
                r"^bank .*wound-wait +\d+  61\.4%",
            ),
            page="transactions/two-phase-locking.md",
        ),
        under(
            "To avoid them by a table of what each may still want restricts too much.",
            "the condition that jobs cannot say beforehand exactly what they will take: if they claim three"
            " times as much, they take longer than under detection, otherwise less",
            "compare-deadlocks --claims 9 --seeds 5",
            (r"^detect +400 of 400 .* 84\.41 ", r"^avoid +400 of 400 .* 107\.93 "),
            page="deadlock-detectors.md",
        ),
        under(
            "Distributed detection is better than central detection, or hierarchical.",
            "the condition that no process should bear most of it: one in eleven of all messages, and not"
            " one in four, but nearly four times as many",
            "detect -N 30 --seeds 6",
            (r"^diffusing .* 9%", r"^central .* 28%", r"^hierarchical .* 16%"),
            page="deadlock-detectors.md",
        ),
        under(
            "To look when a deadlock may have come about is better than to look from time to time.",
            "the condition that time counts: it takes four to six times the messages, and victims wait a"
            " little more than half as long, or a ninth",
            "detect --period 5 --period 50",
            (
                r"^diffusing .* 7\.58 .* 6\.46$",
                r"^diffusing +every 5 .* 1\.67 .* 11\.21$",
                r"^diffusing +every 50 .* 1\.36 .* 56$",
            ),
            page="deadlock-detectors.md",
        ),
        shown(
            "Where all waits are AND, deadlock is a cycle.",
            "four processes",
            "deadlock graphs/and-cycle.json",
            r"in a cycle of 3",
            page="deadlock.md",
            status=1,
        ),
        shown(
            "Where all are OR, a cycle is not enough ...",
            "three processes",
            "deadlock graphs/or-cycle.json",
            r"^no deadlock",
            page="deadlock.md",
        ),
        shown(
            "... it takes a knot.",
            "four processes; the one that waits for the knot is deadlocked outside of it",
            "deadlock graphs/or-knot.json",
            (r"in a knot of 3", r"waiting for a knot"),
            page="deadlock.md",
            status=1,
        ),
        refuted(
            "Where both are mixed, a deadlock is a knot among the processes passed, too.",
            "a deadlock without any knot: P2 waits for P1 and for a process that runs",
            "deadlock graphs/no-knot.json",
            r"in a cycle of 2",
            page="deadlock.md",
            status=1,
        ),
        shown(
            "Detection messages by rules 1 to 3, with a to c, find deadlocks of AND and of OR waits,",
            "a knot of three",
            "detect graphs/or-knot.json",
            r"^survey +P3 +none",
            page="deadlock-detectors.md",
        ),
        refuted(
            "... and where both are mixed.",
            "four processes: rule a drops what no other message tells, and all wait forever",
            "detect graphs/missed.json",
            (r"^diffusing +P4 +none", r"^survey +none +P1, P2, P3, P4"),
            page="deadlock-detectors.md",
            status=1,
        ),
    ),
)

SURVEY = Source(
    "survey",
    "The survey of 1987",
    (TIME, CLOCKS, EXCLUSION, LOCKS, STAMPS, DEADLOCKS),
)
