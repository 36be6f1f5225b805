// The hash table of states on a device. What each kernel does to `count` items, `EACH` divides
// among threads; the tests define it as a plain loop and compile this file for the host.
//
// A slot of the table is a pair: the key, and the number of that key. The number says what the slot
// is: FREE, the number itself, or CLAIM + the position of a new key in the batch that is being added.
// Numbers are smaller than claims, and claims than FREE. So whatever the order in which threads come
// to a slot, the smallest position of a key wins by a minimum, and the numbers that are given by
// position afterwards do not depend on that order. Which slot of a chain a key ends in does depend on
// it, and shows nowhere.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int i32;
typedef long long i64;
typedef unsigned long long u64;

#define FREE 0xFFFFFFFFFFFFFFFFull
#define CLAIM 0x4000000000000000ull

#ifndef EACH
#define EACH(i, count)                                                      \
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < (count); \
         i += (i64)gridDim.x * blockDim.x)
#endif

struct __align__(16) Slot {
    u64 key;     // written only once the slot has its number
    u64 number;
};

// The table need not be a power of two: the high bits of a key are scattered as well as the others.
static __device__ u64 home(u64 key, u64 slots) { return __umul64hi(key, slots); }

// Find each key, or claim a free slot for it: `numbers` gets the number, or -1 - slot of a new key.
extern "C" __global__ void claim(const u64 *keys, i64 count, Slot *table, u64 slots, i64 *numbers) {
    EACH(i, count) {
        u64 key = keys[i], at = home(key, slots);
        for (;;) {
            Slot here = table[at];  // maybe stale: the exchange and the minimum see the latest
            if (here.number == FREE) {
                here.number = atomicCAS(&table[at].number, FREE, CLAIM + i);
                if (here.number == FREE) {
                    numbers[i] = -1 - (i64)at;
                    break;
                }
            }
            if (here.number >= CLAIM) {
                if (keys[here.number - CLAIM] == key) {
                    if (here.number > CLAIM + i) atomicMin(&table[at].number, CLAIM + i);
                    numbers[i] = -1 - (i64)at;
                    break;
                }
            } else if (here.key == key) {
                numbers[i] = (i64)here.number;
                break;
            }
            at = at + 1 == slots ? 0 : at + 1;
        }
    }
}

// Flag the first position of each new key.
extern "C" __global__ void winners(const i64 *numbers, i64 count, const Slot *table, bool *won) {
    EACH(i, count) won[i] = numbers[i] < 0 && table[-1 - numbers[i]].number == CLAIM + i;
}

// Number the winners, which are given by their positions, from `size` on.
extern "C" __global__ void settle(const i64 *fresh, i64 count, const u64 *keys, const i64 *numbers,
                                  Slot *table, i64 size) {
    EACH(i, count) {
        Slot *slot = table + (-1 - numbers[fresh[i]]);
        slot->key = keys[fresh[i]];
        slot->number = (u64)(size + i);
    }
}

// Replace each slot by the number in it.
extern "C" __global__ void resolve(i64 *numbers, i64 count, const Slot *table) {
    EACH(i, count) if (numbers[i] < 0) numbers[i] = (i64)table[-1 - numbers[i]].number;
}

// Look keys up; -1 for one that is not there.
extern "C" __global__ void find(const u64 *keys, i64 count, const Slot *table, u64 slots,
                                i64 *numbers) {
    EACH(i, count) {
        u64 key = keys[i], at = home(key, slots);
        while (table[at].number != FREE && table[at].key != key) at = at + 1 == slots ? 0 : at + 1;
        numbers[i] = table[at].number == FREE ? -1 : (i64)table[at].number;
    }
}

// Place distinct keys, numbered from `first` on, in a table that has none of them.
extern "C" __global__ void place(const u64 *keys, i64 count, Slot *table, u64 slots, i64 first) {
    EACH(i, count) {
        u64 at = home(keys[i], slots);
        while (atomicCAS(&table[at].number, FREE, (u64)(first + i)) != FREE)
            at = at + 1 == slots ? 0 : at + 1;
        table[at].key = keys[i];
    }
}

// A number, none below 0, of an array whose items have `size` bytes.
static __device__ i64 load(const void *items, i64 size, i64 i) {
    switch (size) {
        case 1: return ((const u8 *)items)[i];
        case 2: return ((const u16 *)items)[i];
        case 4: return ((const u32 *)items)[i];
        default: return ((const i64 *)items)[i];
    }
}

// The value of an item: in a table, or the item itself without one.
static __device__ i32 value(const void *items, i64 size, i64 i, const i32 *table) {
    i64 item = load(items, size, i);
    return table ? table[item] : (i32)item;
}

// Count, for each tile of items, those whose value is not 0.
extern "C" __global__ void tally(i32 *counts, i64 tiles, i64 tile, const void *items, i64 size,
                                 i64 length, const i32 *table) {
    EACH(t, tiles) {
        i64 end = (t + 1) * tile < length ? (t + 1) * tile : length;
        i32 count = 0;
        for (i64 i = t * tile; i < end; ++i) count += value(items, size, i, table) != 0;
        counts[t] = count;
    }
}

// Write the positions of these items, in order, and their values; `ends` are where tiles end.
extern "C" __global__ void gather_tiles(const i64 *ends, i64 tiles, i64 tile, const void *items,
                                        i64 size, i64 length, const i32 *table, i64 *positions,
                                        i32 *values) {
    EACH(t, tiles) {
        i64 end = (t + 1) * tile < length ? (t + 1) * tile : length;
        i64 at = t ? ends[t - 1] : 0;
        for (i64 i = t * tile; i < end; ++i) {
            i32 here = value(items, size, i, table);
            if (here) {
                positions[at] = i;
                values[at++] = here;
            }
        }
    }
}

// Copy the chosen columns of a matrix of `height` rows, which begin `pitch` items after each other.
extern "C" __global__ void copy_columns(const i64 *columns, i64 count, const void *matrix, i64 size,
                                        i64 pitch, i64 height, void *copy) {
    EACH(i, count) {
        i64 column = columns[i];
        for (i64 row = 0; row < height; ++row) {
            i64 from = row * pitch + column, to = row * count + i;
            if (size == 2) ((u16 *)copy)[to] = ((const u16 *)matrix)[from];
            else ((u32 *)copy)[to] = ((const u32 *)matrix)[from];
        }
    }
}

// Write the chosen ones of some numbers into a row of as many.
extern "C" __global__ void write_row(const i64 *chosen, i64 count, const void *numbers, i64 size,
                                     void *row, i64 row_size) {
    EACH(i, count) {
        i64 number = load(numbers, size, chosen[i]);
        if (row_size == 2) ((u16 *)row)[i] = (u16)number;
        else ((u32 *)row)[i] = (u32)number;
    }
}

// Look pairs up in a table of all pairs; where one has no value yet, `missed` is set. Without an array
// of first numbers, `base` is where the row of their only one begins.
extern "C" __global__ void look_up(const void *second, i64 count, i64 second_size, const void *first,
                                   i64 first_size, i64 base, const i32 *table, i64 width, i32 *values,
                                   i32 *missed) {
    EACH(i, count) {
        i64 row = first ? load(first, first_size, i) * width : base;
        i32 found = table[row + load(second, second_size, i)];
        values[i] = found;
        if (!found) *missed = 1;
    }
}

// Bring hashes up to date with one change in each state.
extern "C" __global__ void rehash(u64 *hashes, i64 count, const void *olds, i64 old_size,
                                  const void *news, i64 new_size, const u64 *zobrist) {
    EACH(i, count) hashes[i] += zobrist[load(news, new_size, i)] - zobrist[load(olds, old_size, i)];
}

// Unite sets of bits, each of which stands in a table.
extern "C" __global__ void unite(const i32 *items, i64 count, const u64 *table, u64 *all) {
    EACH(i, count) {
        u64 bits = table[items[i]];
        if (bits & ~*(volatile u64 *)all) atomicOr(all, bits);
    }
}
