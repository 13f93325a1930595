/*
 * recent.c - the memory of recent ids: two generations of entries in hash chains, and what takes a transaction back.
 *
 * An entry lies in two chains, by identity and by content, so that neither many identities of one key nor equal
 * contents make a chain long that must be short. The hash has a secret seed: whoever chooses keys chooses no chains.
 *
 * Look-ups of other threads walk the chains by identity only, under the lock of their shard (a range of chains); the
 * writer takes it to change a link, never to read. `dead` and `indexed` are the writer's own. So a look-up may meet a
 * dead entry; its reservation is then missing in the snapshot, which is a miss.
 *
 * Invariants: entries beyond `count` are in no chain; [0, merged) of `order` are committed to the index; between
 * transactions nothing is in `killed`, and `hand` is `merged`.
 */
#include "store/recent.h"

#include "store/allocate.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>

#define SHARDS      64
#define SLACK       1024 /* what one transaction may add beyond the limit */
#define MERGED_EACH 2    /* for each new one */
#define SLICE_MIN   128  /* fewer are not worth the pages above the leaves */

struct generation {
    struct recent_entry *entries;
    uint32_t *ids, *contents; /* heads of chains: numbers from 1 */
    uint64_t *order;          /* first 4 bytes of the prefix, number from 0; sorted once it is old */
    size_t capacity, count;
    size_t committed; /* of count */
    size_t hand;      /* of order: merged in this transaction too */
    size_t merged;
    uint64_t after_seq; /* old: all that is reserved later has this or more */
};

struct recent {
    struct generation generations[2], *young, *old;
    size_t limit, chains; /* a power of two */
    unsigned shift;       /* of a chain's number to its shard's */
    uint64_t seed;
    size_t owed; /* to be merged for what was added */
    struct recent_entry **killed;
    size_t killed_count, killed_capacity;
    struct {
        pthread_mutex_t lock;
        char padding[64];
    } shards[SHARDS];
};

struct recent_key recent_key_of(const struct store_id *id, const uint8_t content[STORE_HASH_LEN])
{
    return (struct recent_key){.prefix = record_get64(id->bytes),
                               .identity = record_get64(id->bytes + STORE_ID_LEN / 2) >> 8,
                               .content = record_get64(content) >> 8};
}

/* ---- chains ----------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t value)
{
    value = (value ^ value >> 32) * 0xD6E8FEB86659FD93u;
    value = (value ^ value >> 32) * 0xD6E8FEB86659FD93u;
    return value ^ value >> 32;
}

static size_t chain_of(const struct recent *recent, uint64_t prefix, uint64_t other)
{
    return mix(mix(prefix ^ recent->seed) + other) & (recent->chains - 1);
}

static pthread_mutex_t *lock_of(struct recent *recent, size_t chain)
{
    return &recent->shards[chain >> recent->shift].lock;
}

static void link_entry(struct recent *recent, struct generation *generation, size_t number)
{
    struct recent_entry *entry = &generation->entries[number];
    size_t id = chain_of(recent, entry->key.prefix, entry->key.identity);
    size_t content = chain_of(recent, entry->key.prefix, entry->key.content);
    entry->next_content = generation->contents[content];
    generation->contents[content] = (uint32_t)number + 1;
    pthread_mutex_lock(lock_of(recent, id));
    entry->next_id = generation->ids[id];
    generation->ids[id] = (uint32_t)number + 1;
    pthread_mutex_unlock(lock_of(recent, id));
}

/* The one that was linked last. */
static void unlink_last(struct recent *recent, struct generation *generation)
{
    struct recent_entry *entry = &generation->entries[--generation->count];
    size_t id = chain_of(recent, entry->key.prefix, entry->key.identity);
    size_t content = chain_of(recent, entry->key.prefix, entry->key.content);
    generation->contents[content] = entry->next_content;
    pthread_mutex_lock(lock_of(recent, id));
    generation->ids[id] = entry->next_id;
    pthread_mutex_unlock(lock_of(recent, id));
}

/* After it nobody walks a chain of this generation. */
static void empty(struct recent *recent, struct generation *generation)
{
    size_t chains = recent->chains / SHARDS;
    for (size_t shard = 0; shard < SHARDS; shard++) {
        pthread_mutex_lock(&recent->shards[shard].lock);
        memset(generation->ids + shard * chains, 0, chains * sizeof *generation->ids);
        pthread_mutex_unlock(&recent->shards[shard].lock);
    }
    memset(generation->contents, 0, recent->chains * sizeof *generation->contents);
    generation->count = generation->committed = generation->hand = generation->merged = 0;
    generation->after_seq = 0;
}

/* ---- generations ------------------------------------------------------------------------------ */

/* Zeroed by the system: what is not used takes no memory. */
static void make_room(struct generation *generation, size_t capacity)
{
    if (capacity <= generation->capacity)
        return;
    free(generation->entries);
    free(generation->order);
    generation->entries = store_must_allocate(calloc(capacity, sizeof *generation->entries));
    generation->order = store_must_allocate(calloc(capacity, 2 * sizeof *generation->order));
    generation->capacity = capacity;
}

/* By four bytes of the prefix: equal ones in any order, which costs nothing but the place of a page. */
static void sort(struct generation *generation)
{
    uint64_t *from = generation->order, *to = generation->order + generation->capacity;
    for (size_t i = 0; i < generation->count; i++)
        from[i] = (generation->entries[i].key.prefix >> 32) << 32 | i;
    for (unsigned byte = 4; byte < 8; byte++) {
        size_t starts[257] = {0};
        for (size_t i = 0; i < generation->count; i++)
            starts[(from[i] >> 8 * byte & 0xFF) + 1]++;
        for (unsigned i = 1; i < 256; i++)
            starts[i] += starts[i - 1];
        for (size_t i = 0; i < generation->count; i++)
            to[starts[from[i] >> 8 * byte & 0xFF]++] = from[i];
        uint64_t *other = from;
        from = to;
        to = other;
    }
    assert(from == generation->order); /* an even number of passes */
}

static void grow_old(struct recent *recent, uint64_t after_seq)
{
    struct generation *empty_one = recent->old;
    assert(empty_one->count == 0);
    recent->old = recent->young;
    recent->young = empty_one;
    recent->old->after_seq = after_seq;
    sort(recent->old);
}

struct recent *recent_new(size_t limit)
{
    struct recent *recent = STORE_NEW(struct recent);
    recent->limit = limit;
    recent->chains = SHARDS;
    while (recent->chains < limit) {
        recent->chains *= 2;
        recent->shift++;
    }
    if (getrandom(&recent->seed, sizeof recent->seed, 0) != (ssize_t)sizeof recent->seed)
        abort(); /* seeds of 8 bytes are never refused */
    for (size_t i = 0; i < SHARDS; i++)
        pthread_mutex_init(&recent->shards[i].lock, NULL);
    for (size_t i = 0; i < 2; i++) {
        struct generation *generation = &recent->generations[i];
        generation->ids = store_must_allocate(calloc(recent->chains, sizeof *generation->ids));
        generation->contents = store_must_allocate(calloc(recent->chains, sizeof *generation->contents));
        make_room(generation, limit + SLACK);
    }
    recent->young = &recent->generations[0];
    recent->old = &recent->generations[1];
    return recent;
}

void recent_free(struct recent *recent)
{
    if (!recent)
        return;
    for (size_t i = 0; i < 2; i++) {
        free(recent->generations[i].entries);
        free(recent->generations[i].order);
        free(recent->generations[i].ids);
        free(recent->generations[i].contents);
    }
    for (size_t i = 0; i < SHARDS; i++)
        pthread_mutex_destroy(&recent->shards[i].lock);
    free(recent->killed);
    free(recent);
}

/* ---- the start -------------------------------------------------------------------------------- */

static void add_to(struct recent *recent, struct generation *generation, const struct recent_key *key, uint64_t seq,
                   bool indexed)
{
    assert(generation->count < generation->capacity);
    generation->entries[generation->count] = (struct recent_entry){.key = *key, .seq = seq, .indexed = indexed};
    link_entry(recent, generation, generation->count++);
}

void recent_replay(struct recent *recent, size_t count)
{
    recent->killed_count = recent->owed = 0;
    empty(recent, recent->young);
    empty(recent, recent->old);
    make_room(recent->young, count);
}

void recent_replay_one(struct recent *recent, const struct recent_key *key, uint64_t seq)
{
    add_to(recent, recent->young, key, seq, true);
}

void recent_replayed(struct recent *recent, uint64_t after_seq)
{
    recent->young->committed = recent->young->count;
    if (recent->young->count)
        grow_old(recent, after_seq);
}

/* ---- steps ------------------------------------------------------------------------------------ */

bool recent_add(struct recent *recent, const struct recent_key *key, uint64_t seq)
{
    recent->owed += MERGED_EACH;
    if (recent->young->count == recent->young->capacity)
        return false;
    add_to(recent, recent->young, key, seq, false);
    return true;
}

/* The youngest of a chain that is meant, from `number` on. */
static const struct recent_entry *walk(const struct generation *generation, uint32_t number,
                                       const struct recent_key *key, bool by_content)
{
    while (number) {
        const struct recent_entry *entry = &generation->entries[number - 1];
        bool same = by_content ? entry->key.content == key->content : entry->key.identity == key->identity;
        if (same && entry->key.prefix == key->prefix && !entry->dead)
            return entry;
        number = by_content ? entry->next_content : entry->next_id;
    }
    return NULL;
}

static const struct recent_entry *first_of(const struct recent *recent, const struct generation *generation,
                                           const struct recent_key *key, bool by_content)
{
    size_t chain = chain_of(recent, key->prefix, by_content ? key->content : key->identity);
    return walk(generation, by_content ? generation->contents[chain] : generation->ids[chain], key, by_content);
}

static bool belongs_to(const struct generation *generation, const struct recent_entry *entry)
{
    return entry >= generation->entries && entry < generation->entries + generation->capacity;
}

static const struct recent_entry *next(const struct recent *recent, const struct recent_key *key,
                                       const struct recent_entry *after, bool by_content)
{
    const struct recent_entry *found;
    const struct generation *generation = after && belongs_to(recent->old, after) ? recent->old : recent->young;
    if (after)
        found = walk(generation, by_content ? after->next_content : after->next_id, key, by_content);
    else
        found = first_of(recent, generation, key, by_content);
    return found || generation == recent->old ? found : first_of(recent, recent->old, key, by_content);
}

const struct recent_entry *recent_next_id(const struct recent *recent, const struct recent_key *key,
                                          const struct recent_entry *after)
{
    return next(recent, key, after, false);
}

const struct recent_entry *recent_next_content(const struct recent *recent, const struct recent_key *key,
                                               const struct recent_entry *after)
{
    return next(recent, key, after, true);
}

bool recent_kill(struct recent *recent, const struct recent_key *key, uint64_t seq)
{
    const struct recent_entry *found = NULL;
    do
        found = next(recent, key, found, false);
    while (found && found->seq != seq);
    if (!found)
        return true; /* long merged */
    if (recent->killed_count == recent->killed_capacity) {
        recent->killed_capacity = recent->killed_capacity ? 2 * recent->killed_capacity : 64;
        recent->killed =
            store_must_allocate(realloc(recent->killed, recent->killed_capacity * sizeof(struct recent_entry *)));
    }
    struct generation *generation = belongs_to(recent->old, found) ? recent->old : recent->young;
    struct recent_entry *entry = &generation->entries[found - generation->entries];
    recent->killed[recent->killed_count++] = entry;
    entry->dead = true;
    return entry->indexed;
}

/* ---- merging ---------------------------------------------------------------------------------- */

const struct recent_entry *recent_merge_next(struct recent *recent)
{
    struct generation *old = recent->old;
    while (old->hand < old->count) {
        const struct recent_entry *entry = &old->entries[(uint32_t)old->order[old->hand++]];
        if (!entry->dead)
            return entry;
    }
    return NULL;
}

size_t recent_owes(const struct recent *recent)
{
    size_t least = recent->limit < SLICE_MIN ? recent->limit : SLICE_MIN;
    return recent->old->count && recent->owed >= least ? recent->owed : 0;
}

static bool is_merged(const struct generation *old)
{
    return old->count && old->hand == old->count;
}

uint64_t recent_mark(const struct recent *recent)
{
    return is_merged(recent->old) ? recent->old->after_seq : 0;
}

/* ---- the end of a transaction ----------------------------------------------------------------- */

void recent_commit(struct recent *recent, uint64_t next_seq, size_t enough)
{
    struct generation *young = recent->young, *old = recent->old;
    young->committed = young->count;
    recent->killed_count = 0;
    size_t paid = old->count ? old->hand - old->merged : recent->owed;
    recent->owed -= paid < recent->owed ? paid : recent->owed; /* the rest is made up for when merging was paused */
    for (; old->merged < old->hand; old->merged++)
        old->entries[(uint32_t)old->order[old->merged]].indexed = true;
    if (is_merged(old))
        empty(recent, old);
    if (!old->count && young->count && (young->count >= enough || young->count >= recent->limit))
        grow_old(recent, next_seq);
}

void recent_rollback(struct recent *recent)
{
    while (recent->young->count > recent->young->committed)
        unlink_last(recent, recent->young);
    while (recent->killed_count)
        recent->killed[--recent->killed_count]->dead = false;
    recent->old->hand = recent->old->merged;
}

/* ---- other threads ---------------------------------------------------------------------------- */

bool recent_peek(struct recent *recent, const struct recent_key *key, uint64_t *seq)
{
    size_t chain = chain_of(recent, key->prefix, key->identity);
    bool found = false;
    *seq = 0;
    pthread_mutex_lock(lock_of(recent, chain));
    for (size_t i = 0; i < 2; i++) {
        const struct generation *generation = &recent->generations[i];
        uint32_t number = generation->ids[chain];
        while (number) {
            const struct recent_entry *entry = &generation->entries[number - 1];
            if (entry->key.prefix == key->prefix && entry->key.identity == key->identity && entry->seq > *seq) {
                *seq = entry->seq;
                found = true;
            }
            number = entry->next_id;
        }
    }
    pthread_mutex_unlock(lock_of(recent, chain));
    return found;
}

size_t recent_count(const struct recent *recent)
{
    return recent->young->count + recent->old->count;
}
