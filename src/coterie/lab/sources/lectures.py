"""The two lectures: Sato's on mutual exclusion and elections, Jakob's on mutual exclusion."""

from __future__ import annotations

from coterie.lab.sources.statement import Section, Source, holds, refuted, shown, under

PROBLEM = Section(
    "The problem",
    (
        shown(
            "Two cash machines read a balance of 1,000 Kč, both add 10,000 and write 11,000: 10,000 are lost.",
            "the history as it is told",
            "history histories/cash-machines.jsonl",
            (r"^not serializable", r"lost update"),
            page="history.md",
            status=1,
        ),
        shown(
            "If they enter a section before and leave it afterwards, nothing is lost.",
            "the same machines, one after the other: the second reads 11,000 and writes 21,000",
            "history histories/cash-machines-locked.jsonl",
            (r"^serializable: 3", r"^equivalent serial order"),
            page="history.md",
        ),
        holds(
            "Masked interrupts and test-and-set make a lock in one machine, and none between machines.",
            "check ../examples/test_and_set.py -N 2",
            (r": violated\. More than one is inside", r"! 1 and 2 are inside together"),
            page="algorithms/README.md",
            status=1,
            words="between the test and the set, which are two messages, another one tests",
        ),
    ),
)

COORDINATOR = Section(
    "A coordinator",
    (
        holds(
            "A coordinator that lets one in at a time excludes all others.",
            "prove centralized",
            (r"^centralized, for every N: proved", r"mutual exclusion"),
            page="algorithms/centralized.md",
        ),
        shown(
            "Every request is served, if each process leaves again and none fails.",
            "three processes with two entries each",
            "check centralized -N 3 --entries 2",
            (r": verified\.", r"every wait ends"),
            page="algorithms/centralized.md",
        ),
        under(
            "Requests are served in the order in which they come.",
            "the condition that it is their arrival that counts, and not which has led to which",
            "scenario centralized-overtaken",
            r"3 Entered",
            page="algorithms/centralized.md",
        ),
        shown(
            "An entry costs 2 messages and an exit 1; both delays are two message times.",
            "N = 3, 7, 13",
            "compare centralized -N 3,7,13",
            r"^centralized +\d+  3 .* 2 +2 +2 +2 +yes$",
            page="algorithms/centralized.md",
        ),
        shown(
            "To answer NG, and not to stay silent, is kinder to those that must wait.",
            "N = 3, 7, 13: it costs one message more where one had to wait",
            "compare centralized --variant denied -N 3,7,13",
            r"^centralized \(denied\).*yes$",
            page="algorithms/centralized.md",
        ),
        under(
            "If the coordinator crashes, everything stops.",
            "the condition that no other takes over",
            "check centralized --variant failover -N 3 --crashes 2",
            (r": verified\.", r"every wait ends"),
            page="algorithms/centralized-failover.md",
        ),
        holds(
            "With many processes it is the bottleneck.",
            "simulate centralized -N 20",
            r"^busiest +process 1: 570 messages, 57 on average",
            page="algorithms/centralized.md",
        ),
        shown(
            "Another coordinator for each section spreads that load, and leads on to hash tables.",
            "a resource whose name picks process 3 of 3",
            "scenario centralized-resource",
            r"3 > \d  Grant",
            page="algorithms/decentralized.md",
        ),
    ),
)

ALL_AGREE = Section(
    "All agree: Ricart and Agrawala",
    (
        holds(
            "Two are never inside together: each would have the smaller stamp.",
            "prove ricart-agrawala",
            (r"^ricart-agrawala, for every N: proved", r"mutual exclusion"),
            page="algorithms/ricart-agrawala.md",
        ),
        shown(
            "There is no deadlock and no starvation, as long as the stamps give the order.",
            "three processes, with entries without end",
            "check ricart-agrawala -N 3 --entries any --canonical",
            (r": verified\.", r"every wait ends"),
            page="algorithms/ricart-agrawala.md",
        ),
        holds(
            "It needs reliable messages.",
            "check ricart-agrawala -N 2 --losses 1",
            r"violated\. Deadlock",
            page="algorithms/ricart-agrawala.md",
            words="one loss stops two",
            status=1,
        ),
        shown(
            "The example of three: 0 and 2 ask at once with 8 and 12, and 0 goes first.",
            "the example, with 0 to 2 as 1 to 3",
            "scenario ricart-agrawala-lecture-three",
            r"Entered",
            page="algorithms/ricart-agrawala.md",
        ),
        shown(
            "The example of six: 1 is inside, 3 and 5 wait with ⟨42,3⟩ and ⟨49,5⟩.",
            "the example, with the stamps that a beginning from 0 gives: ⟨2,3⟩ and ⟨2,5⟩",
            "scenario ricart-agrawala-lecture-six",
            (r"inside: \d", r"waiting: "),
            page="algorithms/ricart-agrawala.md",
        ),
        shown(
            "An entry costs 2(N - 1) messages (Sato).",
            "N = 3, 7, 13, 31",
            "compare ricart-agrawala -N 3,7,13,31",
            r"^ricart-agrawala .*2\(N - 1\).*yes$",
            page="algorithms/ricart-agrawala.md",
        ),
        refuted(
            "An entry costs 2(N - 1) messages and an exit N - 1 more (Jakob).",
            "a count: 2(N - 1) are all there are, since a reply that is deferred to the exit is one of"
            " those that the next entry needs",
            "compare ricart-agrawala -N 13",
            r"^ricart-agrawala +13  24 .*yes$",
            page="algorithms/ricart-agrawala.md",
        ),
        under(
            "With native multicast it is N messages for an entry and 1 for an exit.",
            "the condition that the section is free: N, and nothing at the exit; where all want in the one"
            " of the exit answers many, and an entry costs 2 to 4 in all",
            "compare ricart-agrawala --multicast -N 3,7,13,31",
            (
                r"^ricart-agrawala .* N = 3 .* 2\.07 .*yes$",
                r"^ricart-agrawala .* N = 31 .* 3\.5 .*yes$",
            ),
            page="measure.md",
        ),
        shown(
            "To enter takes a round trip, and to hand over one message time.",
            "N = 3, 7, 13",
            "compare ricart-agrawala -N 3,7,13",
            r"^ricart-agrawala .* 2 +2 +1 +1 +yes$",
            page="algorithms/ricart-agrawala.md",
        ),
        refuted(
            "Requests are served in the order in which one led to another.",
            "three processes: replies carry no time, so one that has heard of a request asks with an"
            " older stamp",
            "scenario ricart-agrawala-overtaken",
            r"Entered",
            page="algorithms/ricart-agrawala.md",
        ),
        holds(
            "If one process crashes, all others stop.",
            "simulate ricart-agrawala -N 3 --fault 'crash 2 @ 5'",
            r"^violation +stuck",
            page="algorithms/ricart-agrawala.md",
            status=1,
        ),
        shown(
            "Silence may mean inside or failed; one could answer NG while inside.",
            "N = 3, 7, 13: it costs up to N - 1 messages more",
            "compare ricart-agrawala --variant denied -N 3,7,13",
            r"^ricart-agrawala \(denied\).*yes$",
            page="algorithms/ricart-agrawala-denied.md",
        ),
        refuted(
            "Then silence means that the other has failed, and who gets NG knows that it lives.",
            "a process that denies and then crashes, after 6 steps of two; only who had crashed before is"
            " found out",
            "check ricart-agrawala -N 2 --variant denied --patience 4 --crashes 1",
            (r"violated\. Process 2 can never enter", r"depth 6$"),
            page="algorithms/ricart-agrawala-denied.md",
            status=1,
        ),
        holds(
            "It is worse than a coordinator in messages and in failures.",
            "compare centralized ricart-agrawala -N 13",
            r"^(centralized|ricart-agrawala) +13 .*yes$",
            page="algorithms/README.md",
            words="but for the hand-over, which is faster",
        ),
    ),
)

RING = Section(
    "A token on a ring",
    (
        shown(
            "Only who has the token enters, and each gets it.",
            "three processes, with entries without end",
            "check token-ring --entries any",
            (r": verified\.", r"every wait ends"),
            page="algorithms/token-ring.md",
        ),
        shown(
            "The ring need not follow the network.",
            "another order of three",
            "check token-ring --ring 1,3,2 --entries any",
            r": verified\.",
            page="algorithms/token-ring.md",
        ),
        shown(
            "An entry costs from 1 message to any number, as the token goes round when no process wants it.",
            "a ring of five that is seldom wanted",
            "simulate token-ring -N 5 --workload poisson --rate 0.01 --entries 100",
            r"^per entry",
            page="algorithms/token-ring.md",
        ),
        under(
            "To enter takes 0 to N message times, to hand over 1 to N - 1.",
            "the condition that no process keeps an idle token for a pause: with the default pause it is"
            " about twice that",
            "compare token-ring --pause 0.001 -N 3,7,13",
            r"^token-ring .*yes$",
            page="algorithms/token-ring.md",
        ),
        holds(
            "If the token is lost, nothing goes on.",
            "simulate token-ring -N 3 --fault 'crash 2 @ 5'",
            r"^violation +stuck",
            page="algorithms/token-ring.md",
            status=1,
        ),
        under(
            "That it is lost cannot be found out by waiting.",
            "the condition that delays have no bound: with a detector of crashes the token is made again",
            "check token-ring --variant regenerating -N 3 --crashes 2",
            r": verified\.",
            page="algorithms/token-ring-regenerating.md",
        ),
    ),
)

QUORUMS = Section(
    "Quorums: Maekawa",
    (
        shown(
            "Quorums can have, and must have, about √N members where all bear the same load.",
            "N = 7, 13, 57, 133",
            "compare maekawa -N 7,13,57,133",
            r"^maekawa .*yes$",
            page="algorithms/maekawa.md",
        ),
        holds(
            "Without taking locks back three processes are enough for a deadlock.",
            "check maekawa --variant basic",
            (r"violated\. Deadlock", r"depth 6$"),
            page="algorithms/maekawa.md",
            status=1,
        ),
        shown(
            "Stamps with INQUIRE and RELINQUISH resolve it.",
            "three processes with two entries each; a proof is in Proving",
            "check maekawa -N 3 --entries 2",
            (r": verified\.", r"every wait ends"),
            page="algorithms/maekawa.md",
        ),
        refuted(
            "Under load these messages destroy the √N.",
            "both rules at their fullest load: by the paper's, 27.9 in place of 21 messages at N = 57,"
            " and 43.9 in place of 33 at N = 133, a third more at both sizes",
            "compare maekawa --variant displaced -N 57,133",
            (
                r"^maekawa \(displaced\) +57  21 .* 27\.92 .*yes$",
                r"^maekawa .*133  33 .* 43\.89 .*yes$",
            ),
            page="algorithms/maekawa.md",
        ),
        refuted(
            "... whichever rule takes the locks back.",
            "the eager rule: 21.2 and 33.3, one in a hundred more than when idle",
            "compare maekawa -N 57,133",
            (r"^maekawa +57  21 .* 21\.17 .*yes$", r"^maekawa +133  33 .* 33\.29 .*yes$"),
            page="algorithms/maekawa.md",
        ),
        refuted(
            "All classic algorithms guarantee the order of entries.",
            "Maekawa's: 2 asks again, having heard of the request of 3, and enters before it",
            "scenario maekawa-overtaken",
            r"Entered",
            page="algorithms/maekawa.md",
        ),
        holds(
            "None of them copes with failures.",
            "simulate maekawa -N 7 --fault 'crash 2 @ 5'",
            r"^violation +stuck",
            page="fault-tolerance.md",
            status=1,
        ),
    ),
)

ELECTIONS = Section(
    "Elections",
    (
        shown(
            "Bully, the example of eight (0 to 7): 7 is down, 4 notices, and 6 wins.",
            "the example, with 0 to 7 as 1 to 8",
            "scenario bully-lecture-eight",
            r"Elected\(7\)",
            page="algorithms/bully.md",
        ),
        refuted(
            "Who gets an answer from above has nothing more to do.",
            "a second crash, after 5 steps of three: the loser waits forever",
            "check bully --variant as-told -N 3 --crashes 2 --entries 0",
            (r"violated\.", r"depth 5$"),
            page="algorithms/elections-as-told.md",
            status=1,
        ),
        shown(
            "In the end all but one have lost, and the highest that lives has won.",
            "three processes and two crashes, where a loser watches those that answered",
            "check bully -N 3 --crashes 2 --entries 0",
            r": verified\.",
            page="algorithms/bully.md",
        ),
        shown(
            "Ring, the example of eight: 7 is down, and 2 and 5 notice at once.",
            "the example, with 0 to 7 as 1 to 8",
            "scenario ring-lecture-as-told",
            r"Elected\(7\)",
            page="algorithms/elections-as-told.md",
        ),
        refuted(
            "The result goes round until it is back at its sender; then all go on with their work.",
            "a crash of the sender: it goes round forever",
            "check ring --variant as-told -N 3 --crashes 2 --entries 0",
            r"violated\. From here on it never comes to rest",
            page="algorithms/elections-as-told.md",
            status=1,
        ),
        refuted(
            "That several notice at once costs little.",
            "a count: each of them has the whole election made once more, 300 messages in place of 25",
            "compare ring --variant as-told -N 13",
            r"^ring \(as-told\) +13  25 .*300 .*yes$",
            page="algorithms/elections-as-told.md",
        ),
        shown(
            "... and does no harm, since all elect the same.",
            "three processes, each of which may begin without need",
            "check ring -N 3",
            r": verified\.",
            page="algorithms/ring.md",
        ),
    ),
)

LECTURES = Source(
    "lectures",
    "The lectures",
    (PROBLEM, COORDINATOR, ALL_AGREE, RING, QUORUMS, ELECTIONS),
)
