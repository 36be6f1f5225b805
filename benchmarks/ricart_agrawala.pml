/* Ricart and Agrawala (1981), as coterie explores it: one transition per call or delivery.
 *
 * One FIFO channel per ordered pair. A process is one state of control, so that a global state is
 * nothing but variables and channels; every option of the loop is one atomic step. The last reply
 * enters within its handler, leaving is a step of its own, only requests carry a number, and
 * numbers are raised by requests only.
 *
 * Compile with -DN=4 -DENTRIES=1 (spin passes them on).
 */

#ifndef N
#define N 4
#endif
#ifndef ENTRIES
#define ENTRIES 1
#endif

#define REPLY 0 /* any other number is the time of a request */
#define CAPACITY 3 /* a request and two replies at most; -DCAPACITY to try others */

chan link[N * N] = [CAPACITY] of { byte };
byte inside; /* how many are */

#define LINK(from, to) link[(from) * N + (to)]

