/*
 * test_recent.c - the memory of recent ids against a naive model: with an index that is a plain table, transactions
 * that count or do not, and restarts in between.
 *
 * What must hold whatever happens: a living record is found, in memory or in the index; of a dead one nothing is left
 * in either; what is read back at a restart is enough; and no more is in memory than was agreed.
 */
#include "store/recent.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define RECORDS 60000
#define LIMIT   200

struct truth {
    struct recent_key key;
    bool alive, indexed;         /* in this transaction */
    bool was_alive, was_indexed; /* as committed */
};

struct world {
    struct recent *recent;
    struct truth *records; /* by sequence number */
    uint64_t next_seq, begun_seq, mark, random;
    uint64_t touched[4096]; /* in this transaction */
    unsigned touched_count;
};

static unsigned roll(struct world *world, unsigned sides)
{
    world->random = world->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(world->random >> 33) % sides;
}

static struct truth *touch(struct world *world, uint64_t seq)
{
    world->touched[world->touched_count++] = seq;
    return &world->records[seq];
}

/* Few enough that ids, prefixes and contents meet again. */
static struct recent_key random_key(struct world *world)
{
    return (struct recent_key){(uint64_t)roll(world, 300) << 40 | (uint64_t)roll(world, 8) << 56, roll(world, 5),
                               roll(world, 5)};
}

static bool same_id(const struct recent_key *one, const struct recent_key *other)
{
    return one->prefix == other->prefix && one->identity == other->identity;
}

static uint64_t living(const struct world *world, const struct recent_key *key)
{
    for (uint64_t seq = world->next_seq; seq-- > 1;)
        if (world->records[seq].alive && same_id(&world->records[seq].key, key))
            return seq;
    return 0;
}

static bool in_memory(const struct world *world, const struct recent_key *key, uint64_t seq, bool by_content)
{
    const struct recent_entry *entry = NULL;
    while ((entry = by_content ? recent_next_content(world->recent, key, entry)
                               : recent_next_id(world->recent, key, entry))) {
        cr_assert(entry->key.prefix == key->prefix, "of the same prefix only");
        cr_assert(world->records[entry->seq].alive, "of a record that is gone, %llu", (unsigned long long)entry->seq);
        if (entry->seq == seq)
            return true;
    }
    return false;
}

static void check_record(struct world *world, uint64_t seq)
{
    const struct truth *record = &world->records[seq];
    bool found = in_memory(world, &record->key, seq, false);
    cr_assert(found == in_memory(world, &record->key, seq, true), "by identity and by content alike");
    if (record->alive)
        cr_assert(found || record->indexed, "record %llu is nowhere", (unsigned long long)seq);
    else
        cr_assert(!found && !record->indexed, "record %llu is gone, and still found", (unsigned long long)seq);
}

static void add(struct world *world)
{
    struct recent_key key = random_key(world);
    if (living(world, &key))
        return;
    struct truth *record = touch(world, world->next_seq);
    *record = (struct truth){.key = key, .alive = true};
    cr_assert(recent_add(world->recent, &key, world->next_seq++), "there is always room while it is merged");
}

static void erase(struct world *world)
{
    uint64_t back = 1 + roll(world, roll(world, 2) ? 50 : 3000);
    if (back >= world->next_seq || !world->records[world->next_seq - back].alive)
        return;
    struct truth *record = touch(world, world->next_seq - back);
    record->alive = false;
    if (recent_kill(world->recent, &record->key, world->next_seq - back))
        record->indexed = false;
}

static void merge(struct world *world)
{
    size_t owes = recent_owes(world->recent);
    const struct recent_entry *entry;
    uint64_t prefix = 0;
    while (owes-- && (entry = recent_merge_next(world->recent))) {
        cr_assert(entry->key.prefix >> 32 >= prefix >> 32, "in the order of the index");
        prefix = entry->key.prefix;
        touch(world, entry->seq)->indexed = true;
    }
}

static void end(struct world *world, bool counts)
{
    uint64_t mark = recent_mark(world->recent);
    if (counts)
        recent_commit(world->recent, world->next_seq, roll(world, 2 * LIMIT));
    else
        recent_rollback(world->recent);
    if (counts && mark)
        world->mark = mark;
    for (unsigned i = 0; i < world->touched_count; i++) {
        struct truth *record = &world->records[world->touched[i]];
        if (counts) {
            record->was_alive = record->alive;
            record->was_indexed = record->indexed;
        } else {
            record->alive = record->was_alive;
            record->indexed = record->was_indexed;
        }
    }
    for (unsigned i = 0; i < world->touched_count; i++)
        check_record(world, world->touched[i]);
    world->touched_count = 0;
    cr_assert(recent_count(world->recent) <= 2 * LIMIT + 64, "%zu are in memory", recent_count(world->recent));
}

/* Nothing of the memory is left; with the same memory, as when the environment is opened anew, or in a new process. */
static void restart(struct world *world)
{
    size_t count = 0;
    if (roll(world, 2)) {
        recent_free(world->recent);
        world->recent = recent_new(LIMIT);
    }
    for (uint64_t seq = world->mark; seq < world->next_seq; seq++)
        count += world->records[seq].alive;
    recent_replay(world->recent, count);
    for (uint64_t seq = world->mark; seq < world->next_seq; seq++)
        if (world->records[seq].alive)
            recent_replay_one(world->recent, &world->records[seq].key, seq);
    recent_replayed(world->recent, world->next_seq);
    for (uint64_t seq = world->mark; seq < world->next_seq; seq++)
        check_record(world, seq);
}

Test(recent, nothing_is_lost_and_nothing_is_left, .timeout = 120)
{
    static struct world world;
    world.recent = recent_new(LIMIT);
    world.records = calloc(RECORDS + 64, sizeof *world.records);
    world.next_seq = 1;
    world.random = 20261202;
    for (unsigned turn = 0; world.next_seq < 12000; turn++) {
        for (unsigned steps = roll(&world, 40); steps; steps--)
            if (roll(&world, 3))
                add(&world);
            else
                erase(&world);
        if (roll(&world, 10))
            merge(&world);
        end(&world, roll(&world, 5) != 0);
        check_record(&world, 1 + roll(&world, (unsigned)world.next_seq - 1));
        if (roll(&world, 100) == 0)
            restart(&world);
    }
    for (uint64_t seq = 1; seq < world.next_seq; seq++)
        check_record(&world, seq);
    recent_free(world.recent);
    free(world.records);
}

Test(recent, says_when_it_is_full)
{
    struct recent *recent = recent_new(LIMIT);
    struct recent_key key = {0};
    size_t count = 0;
    for (; count < 100000 && recent_add(recent, &key, count + 1); count++)
        key.prefix = (key.prefix + 0x9E3779B97F4A7C15u);
    cr_assert(count >= LIMIT && count < 100000, "not merged, it takes %zu", count);
    recent_rollback(recent);
    cr_assert(recent_count(recent) == 0 && recent_add(recent, &key, count + 2), "what was taken back made room");
    recent_free(recent);
}

Test(recent, keys_sort_like_bytes)
{
    struct store_id id = {.bytes = {1, 2, 3, 4, 5, 6, 7, 8, [16] = 9, 8, 7, 6, 5, 4, 3, 2}};
    uint8_t content[STORE_HASH_LEN] = {0xFF, 1, 2, 3, 4, 5, 6, 7};
    struct recent_key key = recent_key_of(&id, content);
    cr_assert(key.prefix == 0x0102030405060708u && key.identity == 0x09080706050403u &&
              key.content == 0xFF010203040506u);
}

/* ---- look-ups meanwhile ----------------------------------------------------------------------- */

struct shared {
    struct recent *recent;
    _Atomic uint64_t committed, indexed; /* all up to it */
    atomic_bool over;
    _Atomic uint64_t hits;
};

static struct recent_key key_of(uint64_t seq)
{
    return (struct recent_key){seq * 0x9E3779B97F4A7C15u, seq * 7, seq * 11};
}

static void *look_up(void *arg)
{
    struct shared *shared = arg;
    for (uint64_t step = 1; !atomic_load(&shared->over); step++) {
        uint64_t committed = atomic_load(&shared->committed), found;
        uint64_t seq = committed > step % 900 ? committed - step % 900 : committed;
        struct recent_key key = key_of(seq);
        if (!seq)
            continue;
        if (recent_peek(shared->recent, &key, &found)) {
            cr_assert(found == seq, "another's number");
            shared->hits++;
        } else {
            cr_assert(seq <= atomic_load(&shared->indexed), "%llu is neither here nor in the index",
                      (unsigned long long)seq);
        }
    }
    return NULL;
}

Test(recent, a_look_up_never_misses_what_is_committed, .timeout = 60)
{
    struct shared shared = {.recent = recent_new(LIMIT)};
    pthread_t threads[2];
    for (unsigned i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, look_up, &shared);
    for (uint64_t seq = 1; seq < 200000;) {
        for (unsigned i = 0; i < 30; i++, seq++) {
            struct recent_key key = key_of(seq);
            cr_assert(recent_add(shared.recent, &key, seq));
        }
        for (size_t owes = recent_owes(shared.recent); owes && recent_merge_next(shared.recent); owes--)
            ;
        if (seq % 7 == 0) { /* the whole transaction counts for nothing; the numbers are not given again */
            recent_rollback(shared.recent);
            for (unsigned i = 30; i; i--) {
                struct recent_key key = key_of(seq - i);
                cr_assert(recent_add(shared.recent, &key, seq - i));
            }
        }
        uint64_t mark = recent_mark(shared.recent);
        if (mark)
            atomic_store(&shared.indexed, mark - 1); /* the commit of the index… */
        recent_commit(shared.recent, seq, LIMIT);    /* …comes before it is forgotten here */
        atomic_store(&shared.committed, seq - 1);
    }
    atomic_store(&shared.over, true);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    cr_assert(shared.hits > 0);
    recent_free(shared.recent);
}
