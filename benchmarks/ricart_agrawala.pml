/* Ricart and Agrawala (1981), as coterie explores it: one transition per call or delivery.
 *
 * One FIFO channel per ordered pair. Where a process stands (idle, waiting, critical) is its state
 * of control, so that Spin's own check of invalid end states finds whoever waits for ever. Each
 * option is one step. The last reply enters within its handler, leaving is a step of its own, only
 * requests carry a number, and numbers are raised by requests only.
 *
 * spin -a -DN=4 -DENTRIES=1
 */

#ifndef N
#define N 4
#endif
#ifndef ENTRIES
#define ENTRIES 1
#endif

#define REPLY 0 /* any other number is the time of a request */
#define BIT(p) (1 << (p))
#define OLDER(p) (stamp < m || (stamp == m && _pid < (p))) /* our own request than that of p */
#define LINK(from, to) link[(from) * N + (to)]

chan link[N * N] = [2] of { byte }; /* a request and a reply at most */
byte inside; /* how many are */
hidden byte m; /* the message at hand, no part of the state */

#if N == 2
#define EACH(rule) rule(0) rule(1)
#elif N == 3
#define EACH(rule) rule(0) rule(1) rule(2)
#else
#define EACH(rule) rule(0) rule(1) rule(2) rule(3)
#endif

#define MERGE highest = (highest > m -> highest : m)

#define ASK(p) if :: _pid != p -> LINK(_pid, p)!stamp :: else fi;
#define ANSWER(p) if :: deferred & BIT(p) -> LINK(_pid, p)!REPLY :: else fi;

#define WHILE_IDLE(p) \
    :: d_step { LINK(p, _pid)?m -> assert(m != REPLY); MERGE; LINK(_pid, p)!REPLY }

#define LAST_REPLY(p) (awaiting == BIT(p) && LINK(p, _pid)?[REPLY])

#define ENTER(p) \
    :: d_step { LAST_REPLY(p) -> LINK(p, _pid)?m; awaiting = 0; inside++; assert(inside == 1) } \
       goto critical

#define WHILE_WAITING(p) \
    :: d_step { nempty(LINK(p, _pid)) && !LAST_REPLY(p) -> \
           LINK(p, _pid)?m; \
           if \
           :: m == REPLY -> assert(awaiting & BIT(p)); awaiting = awaiting & ~BIT(p) \
           :: else -> \
               MERGE; \
               if \
               :: OLDER(p) -> deferred = deferred | BIT(p) \
               :: else -> LINK(_pid, p)!REPLY \
               fi \
           fi }

#define WHILE_CRITICAL(p) \
    :: d_step { LINK(p, _pid)?m -> \
           assert(m != REPLY && OLDER(p)); MERGE; deferred = deferred | BIT(p) }

active [N] proctype Process() {
    byte highest, stamp, awaiting, deferred;
    byte entries = ENTRIES;
end_idle:
    do
    :: d_step { entries > 0 ->
           entries--; highest++; stamp = highest; awaiting = (BIT(N) - 1) & ~BIT(_pid);
           EACH(ASK) }
       goto waiting
    EACH(WHILE_IDLE)
    od;
waiting:
    do
    EACH(ENTER)
    EACH(WHILE_WAITING)
    od;
critical:
    do
    :: d_step { true -> EACH(ANSWER) inside--; stamp = 0; deferred = 0 }
       goto end_idle
    EACH(WHILE_CRITICAL)
    od
}
