/*
 * test_model.c - 40 000 random operations, or as many as EINMAL_MODEL_OPERATIONS says: all engines and a naive model
 * must give the same answers.
 *
 * The model is a table of a few actions, each a struct with the contract's words, and one `if` after the other; it
 * shares no code with the ledger. Operations are one at a time, so there is no line; what waiting means is the contract
 * test's subject. Now and then what the stores show to people is compared as well. Time is moved in steps, and the
 * model is told the store's time of each answer by the answer itself.
 */
#include "tests/store/driver.h"

#include <criterion/criterion.h>

#define OPERATIONS 40000
#define ENGINES    3
#define KEYS       24
#define IDENTITIES 3
#define CONTENTS   3
#define STEP       1000000 /* far more than passes while the test runs */
#define RETENTION  (10 * STEP)

struct model {
    bool present;
    enum store_state state;
    unsigned fingerprint, content;
    uint64_t token; /* of who executes it; 0: nobody */
    bool prior;     /* it was unknown before */
    bool has_response, prior_has_response;
    size_t len, prior_len;
    unsigned seed, prior_seed;
    enum store_reason reason, prior_reason;
    uint32_t executions;
    int64_t expires, prior_expires;
};

struct expected {
    enum store_answer answer;
    bool has_response;
    size_t len;
    unsigned seed;
    enum store_reason reason;
    uint32_t executions;
};

struct world {
    struct model actions[KEYS][IDENTITIES];
    uint64_t spent[KEYS][IDENTITIES]; /* an old token */
    int64_t now;
    uint64_t random;
};

static unsigned roll(struct world *world, unsigned sides)
{
    world->random = world->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(world->random >> 33) % sides;
}

static bool is_live(const struct world *world, const struct model *model)
{
    return model->present && (model->state == STORE_IN_PROGRESS || model->expires > world->now);
}

static bool has_other(const struct world *world, unsigned key, unsigned identity, unsigned content)
{
    for (unsigned i = 0; i < IDENTITIES; i++)
        if (i != identity && is_live(world, &world->actions[key][i]) && world->actions[key][i].content == content)
            return true;
    return false;
}

static struct expected of_record(enum store_answer answer, const struct model *model)
{
    return (struct expected){answer, model->has_response, model->len, model->seed, model->reason, model->executions};
}

/* ---- what the contract says ------------------------------------------------------------------- */

static struct expected model_reserve(struct world *world, unsigned key, unsigned identity, const struct store_op *op)
{
    struct model *model = &world->actions[key][identity];
    if (!is_live(world, model)) {
        if (op->reject_other_identity && has_other(world, key, identity, op->content[0]))
            return (struct expected){.answer = STORE_OTHER_IDENTITY};
        *model = (struct model){.present = true,
                                .state = STORE_IN_PROGRESS,
                                .fingerprint = op->fingerprint[0],
                                .content = op->content[0],
                                .token = 1};
        return (struct expected){.answer = STORE_GRANTED};
    }
    if (model->fingerprint != op->fingerprint[0])
        return (struct expected){.answer = STORE_MISMATCH};
    if (model->state == STORE_IN_PROGRESS)
        return (struct expected){.answer = STORE_BUSY};
    if (model->state == STORE_COMPLETED)
        return of_record(STORE_REPLAY, model);
    if (!op->retry_unknown)
        return of_record(STORE_REPORT_UNKNOWN, model);
    struct expected expected = of_record(STORE_GRANTED_UNKNOWN, model);
    model->prior = true;
    model->prior_has_response = model->has_response;
    model->prior_len = model->len;
    model->prior_seed = model->seed;
    model->prior_reason = model->reason;
    model->prior_expires = model->expires;
    model->state = STORE_IN_PROGRESS;
    model->token = 1;
    return expected;
}

static void model_record(struct world *world, struct model *model, enum store_state state, const struct store_op *op,
                         unsigned seed)
{
    model->state = state;
    model->executions++;
    model->token = 0;
    model->has_response = op->response != NULL;
    model->len = op->response ? op->response->len : 0;
    model->seed = seed;
    model->reason = state == STORE_UNKNOWN ? op->reason : STORE_REASON_NONE;
    model->expires = op->retention_ms == STORE_FOREVER ? STORE_FOREVER : world->now + op->retention_ms;
    model->prior = false;
}

static void model_put_back(struct model *model)
{
    model->state = STORE_UNKNOWN;
    model->token = 0;
    model->has_response = model->prior_has_response;
    model->len = model->prior_len;
    model->seed = model->prior_seed;
    model->reason = model->prior_reason;
    model->expires = model->prior_expires;
    model->prior = false;
}

static struct expected model_end(struct world *world, struct model *model, const struct store_op *op, bool owns,
                                 unsigned seed)
{
    if (!owns)
        return (struct expected){.answer = STORE_LOST};
    if (op->verb == STORE_COMPLETE)
        model_record(world, model, STORE_COMPLETED, op, seed);
    else if (op->verb == STORE_ABANDON)
        model_record(world, model, STORE_UNKNOWN, op, seed);
    else if (!model->prior || (op->verb == STORE_RELEASE && op->not_happened))
        *model = (struct model){.present = false};
    else if (op->verb == STORE_RELEASE && op->reason == STORE_REASON_STATUS)
        model_record(world, model, STORE_UNKNOWN, op, seed);
    else
        model_put_back(model);
    return (struct expected){.answer = STORE_DONE};
}

static struct expected model_person(struct world *world, struct model *model, const struct store_op *op, unsigned seed)
{
    if (!is_live(world, model) || model->state == STORE_IN_PROGRESS ||
        (op->verb == STORE_RESOLVE && model->state != STORE_UNKNOWN))
        return (struct expected){.answer = STORE_REFUSED};
    uint32_t executions = model->executions;
    if (op->verb == STORE_RESOLVE && op->to_state == STORE_COMPLETED) {
        model_record(world, model, STORE_COMPLETED, op, seed);
        model->executions = executions;
    } else {
        *model = (struct model){.present = false};
    }
    return (struct expected){.answer = STORE_DONE};
}

/* ---- asking all ------------------------------------------------------------------------- */

static size_t random_length(struct world *world)
{
    static const size_t lengths[] = {0, 1, 200, 1536, 1537, 4080, 4081, 20000};
    return lengths[roll(world, sizeof lengths / sizeof *lengths)];
}

static struct asked random_reserve(struct world *world, unsigned key, unsigned identity)
{
    struct asked asked = reserve_op(key, 1 + roll(world, CONTENTS));
    if (roll(world, 4) && world->actions[key][identity].present)
        memset(asked.op.fingerprint, (int)world->actions[key][identity].fingerprint, STORE_HASH_LEN);
    asked.op.id = id_of(key, identity + 1);
    asked.op.no_wait = true;
    asked.op.retry_unknown = roll(world, 2);
    asked.op.reject_other_identity = roll(world, 2);
    return asked;
}

static struct asked random_end(struct world *world, unsigned key, unsigned identity)
{
    static const struct {
        enum store_verb verb;
        enum store_reason reason;
    } endings[] = {{STORE_COMPLETE, 0},
                   {STORE_COMPLETE, 0},
                   {STORE_ABANDON, STORE_REASON_STALL},
                   {STORE_ABANDON, STORE_REASON_STATUS},
                   {STORE_RELEASE, STORE_REASON_UNSENT},
                   {STORE_RELEASE, STORE_REASON_WITHDRAWN},
                   {STORE_RELEASE, STORE_REASON_STATUS},
                   {STORE_RESTORE, STORE_REASON_UNSENT},
                   {STORE_RESTORE, STORE_REASON_PROBED}};
    unsigned which = roll(world, sizeof endings / sizeof *endings);
    struct asked asked = ending_op(endings[which].verb, key, 0, endings[which].reason);
    asked.op.id = id_of(key, identity + 1);
    asked.op.retention_ms = roll(world, 10) ? RETENTION : STORE_FOREVER;
    asked.op.not_happened = roll(world, 4) == 0;
    bool carries =
        endings[which].verb != STORE_RESTORE && endings[which].reason != STORE_REASON_UNSENT && roll(world, 5);
    if (carries)
        asked.op.response = body_of(random_length(world), (unsigned)world->random & 127);
    else
        asked.op.not_kept = roll(world, 2);
    return asked;
}

static struct asked random_person(struct world *world, unsigned key, unsigned identity)
{
    struct asked asked = ending_op(roll(world, 2) ? STORE_RESOLVE : STORE_FORGET, key, 0, 0);
    asked.op.id = id_of(key, identity + 1);
    asked.op.to_state = roll(world, 2) ? STORE_COMPLETED : STORE_RELEASED;
    asked.op.retention_ms = RETENTION;
    if (roll(world, 2))
        asked.op.response = body_of(random_length(world), (unsigned)world->random & 127);
    return asked;
}

static void compare(unsigned number, const char *engine, const struct store_op *op, const struct expected *expected)
{
    const struct store_result *got = &op->result;
    cr_assert(got->answer == expected->answer, "%s, operation %u, verb %d: answer %d and should be %d", engine, number,
              (int)op->verb, (int)got->answer, (int)expected->answer);
    if (got->answer != STORE_REPLAY && got->answer != STORE_REPORT_UNKNOWN && got->answer != STORE_GRANTED_UNKNOWN)
        return;
    cr_assert(got->executions == expected->executions && got->reason == expected->reason,
              "%s, operation %u: executions %u (%u), reason %d (%d)", engine, number, got->executions,
              expected->executions, (int)got->reason, (int)expected->reason);
    cr_assert(expected->has_response ? is_body(got->response, expected->len, expected->seed) : !got->response,
              "%s, operation %u: the response is another", engine, number);
}

/* What a snapshot says must be what the writer says. */
static void compare_look_up(unsigned number, struct driver *driver, struct asked asked)
{
    if (!store_look_up(driver->handle, &asked.op))
        return;
    struct asked again = asked;
    ask_now(driver, &again);
    cr_assert(again.op.result.answer == asked.op.result.answer, "operation %u: snapshot and writer differ", number);
    store_bytes_unref(again.op.result.response);
    store_bytes_unref(asked.op.result.response);
}

struct engine_state {
    struct driver driver;
    const char *name;
    uint64_t tokens[KEYS][IDENTITIES];
};

static void do_operation(struct world *world, struct engine_state *engines, unsigned number)
{
    unsigned key = roll(world, KEYS), identity = roll(world, IDENTITIES), kind = roll(world, 20);
    struct model *model = &world->actions[key][identity];
    struct asked asked = kind < 10   ? random_reserve(world, key, identity)
                         : kind < 19 ? random_end(world, key, identity)
                                     : random_person(world, key, identity);
    unsigned seed = (unsigned)world->random & 127;
    bool owns = model->present && model->state == STORE_IN_PROGRESS && roll(world, 5);
    struct expected expected;
    struct store_op *op = &asked.op;
    if (kind < 10)
        expected = model_reserve(world, key, identity, op);
    else if (kind < 19)
        expected = model_end(world, model, op, owns, seed);
    else
        expected = model_person(world, model, op, seed);
    if (op->response) { /* its bytes are made of the seed that the model has noted */
        struct store_bytes *body = body_of(op->response->len, seed);
        store_bytes_unref(op->response);
        op->response = body;
    }
    for (unsigned i = 0; i < ENGINES; i++) {
        struct asked one = asked;
        if (kind >= 10 && kind < 19)
            one.op.token = owns ? engines[i].tokens[key][identity] : world->spent[key][identity];
        if (kind < 10 && expected.answer != STORE_GRANTED && expected.answer != STORE_GRANTED_UNKNOWN)
            compare_look_up(number, &engines[i].driver, one);
        ask_now(&engines[i].driver, &one);
        compare(number, engines[i].name, &one.op, &expected);
        if (one.op.result.token) {
            cr_assert(one.op.result.token > engines[i].tokens[key][identity], "tokens only grow");
            engines[i].tokens[key][identity] = one.op.result.token;
        }
        store_bytes_unref(one.op.result.response);
    }
    store_bytes_unref(op->response);
}

static const struct model *model_of(const struct world *world, const struct store_id *id)
{
    for (unsigned key = 0; key < KEYS; key++)
        for (unsigned identity = 0; identity < IDENTITIES; identity++) {
            struct store_id one = id_of(key, identity + 1);
            if (memcmp(&one, id, sizeof one) == 0)
                return &world->actions[key][identity];
        }
    return NULL;
}

static void compare_action(const struct world *world, const char *engine, const struct store_action *action)
{
    const struct model *model = model_of(world, &action->id);
    cr_assert(model && is_live(world, model), "%s: what is listed must be there", engine);
    cr_assert(action->state == model->state, "%s: listed in state %d and should be %d", engine, (int)action->state,
              (int)model->state);
    cr_assert(action->executions == model->executions, "%s: listed with %u executions", engine, action->executions);
    if (action->state == STORE_UNKNOWN)
        cr_assert(action->reason == model->reason, "%s: listed with another reason", engine);
}

/* All pages of a query; returns how many actions there are. */
static unsigned read_pages(const struct world *world, const struct engine_state *engine, struct store_query query)
{
    unsigned count = 0;
    uint64_t number = 0;
    do {
        struct store_page page;
        cr_assert(store_scan(engine->driver.store, &query, &page) == STORE_READ_DONE);
        for (size_t i = 0; i < page.count; i++, count++) {
            cr_assert(page.actions[i].number > number, "%s: in order, and nothing twice", engine->name);
            number = page.actions[i].number;
            compare_action(world, engine->name, &page.actions[i]);
        }
        query.after = page.next;
        store_page_clear(&page);
    } while (query.after);
    return count;
}

static void compare_one(const struct world *world, const struct engine_state *engine, unsigned key, unsigned identity)
{
    const struct model *model = &world->actions[key][identity];
    struct store_action action;
    struct store_id id = id_of(key, identity + 1);
    enum store_read read = store_get(engine->driver.store, &id, &action);
    cr_assert((read == STORE_READ_DONE) == is_live(world, model), "%s: one is there or not", engine->name);
    if (read == STORE_READ_DONE)
        compare_action(world, engine->name, &action);
    if (read == STORE_READ_DONE && action.state != STORE_IN_PROGRESS)
        cr_assert(model->has_response ? is_body(action.response, model->len, model->seed) : !action.response,
                  "%s: one is shown with its response", engine->name);
    store_action_clear(&action);
}

/* What people see is what the model holds, no more and no less. */
static void compare_pages(struct world *world, const struct engine_state *engines)
{
    static const enum store_state states[] = {0, STORE_IN_PROGRESS, STORE_COMPLETED, STORE_UNKNOWN};
    struct store_query query = {
        .state = states[roll(world, 4)], .task = roll(world, 2) ? "t" : NULL, .limit = 1 + roll(world, 40)};
    unsigned expected = 0, key = roll(world, KEYS), identity = roll(world, IDENTITIES);
    for (unsigned i = 0; i < KEYS * IDENTITIES; i++) {
        const struct model *model = &world->actions[i / IDENTITIES][i % IDENTITIES];
        expected += is_live(world, model) && (!query.state || query.state == model->state);
    }
    for (unsigned i = 0; i < 2; i++) {
        unsigned count = read_pages(world, &engines[i], query);
        cr_assert(count == expected, "%s: %u listed and should be %u", engines[i].name, count, expected);
        compare_one(world, &engines[i], key, identity);
    }
}

/* The stores' clocks also run by themselves. Everything here is a multiple of STEP, so that what passes meanwhile
 * decides nothing. */
static void move_time(struct world *world, struct engine_state *engines)
{
    int64_t step = (int64_t)STEP * (1 + roll(world, 4));
    for (unsigned i = 0; i < ENGINES; i++)
        store_move_clock(engines[i].driver.store, step);
    world->now += step;
}

Test(model, all_engines_do_what_the_contract_says, .timeout = 300)
{
    static struct world world;
    static struct engine_state engines[ENGINES];
    static const char *const names[ENGINES] = {"memory", "lmdb", "lmdb-merging"};
    const char *seed = getenv("EINMAL_TEST_SEED");
    world.random = seed ? strtoull(seed, NULL, 10) : 20261201;
    world.now = 1;
    for (unsigned i = 0; i < ENGINES; i++) {
        engines[i].name = names[i];
        driver_start(&engines[i].driver, names[i]);
    }
    const char *wanted = getenv("EINMAL_MODEL_OPERATIONS");
    unsigned long operations = wanted ? strtoul(wanted, NULL, 10) : OPERATIONS;
    for (unsigned number = 0; number < operations; number++) {
        do_operation(&world, engines, number);
        if (number % 50 == 49)
            compare_pages(&world, engines);
        if (number % 200 == 199)
            move_time(&world, engines);
    }
    struct store_status status[ENGINES];
    for (unsigned i = 0; i < ENGINES; i++) {
        store_status(engines[i].driver.store, &status[i]);
        cr_assert(driver_stop(&engines[i].driver), "%s: everything is written", names[i]);
    }
    for (unsigned i = 1; i < ENGINES; i++)
        cr_assert(status[0].in_progress == status[i].in_progress, "%s: in progress %llu, %llu", names[i],
                  (unsigned long long)status[0].in_progress, (unsigned long long)status[i].in_progress);
}
