/*
 * test_people.c - what people see of the store, and what they decide: pages, one action, resolving, forgetting.
 *
 * Pages are compared with what the test itself wrote down while it made the records.
 */
#include "tests/store/cases.h"

#define KEY 7

struct seen {
    size_t count, pages, empty_pages;
    struct store_action *actions; /* of all pages; the texts are theirs */
};

/* The actions of a page become part of what was seen. */
static void see_page(struct fixture *fixture, struct seen *seen, struct store_page *page)
{
    seen->actions = realloc(seen->actions, (seen->count + page->count + 1) * sizeof *seen->actions);
    for (size_t i = 0; i < page->count; i++) {
        if (seen->count)
            CHECK(page->actions[i].number > seen->actions[seen->count - 1].number, "in order, nothing twice");
        seen->actions[seen->count++] = page->actions[i];
    }
    seen->pages++;
    seen->empty_pages += page->count == 0;
    free(page->actions);
}

static uint64_t next_page(struct fixture *fixture, struct seen *seen, struct store_query query)
{
    struct store_page page;
    CHECK_EQUAL(store_scan(fixture->driver.store, &query, &page), STORE_READ_DONE);
    CHECK(page.count <= query.limit);
    CHECK(!page.next || page.next > query.after, "the cursor goes forward");
    uint64_t next = page.next;
    see_page(fixture, seen, &page);
    return next;
}

static struct seen see_all(struct fixture *fixture, struct store_query query)
{
    struct seen seen = {0};
    while ((query.after = next_page(fixture, &seen, query)))
        ;
    return seen;
}

static void forget_seen(struct seen *seen)
{
    for (size_t i = 0; i < seen->count; i++)
        store_action_clear(&seen->actions[i]);
    free(seen->actions);
    *seen = (struct seen){0};
}

static size_t count_all(struct fixture *fixture, struct store_query query)
{
    struct seen seen = see_all(fixture, query);
    size_t count = seen.count;
    forget_seen(&seen);
    return count;
}

static bool is_id(const struct store_action *action, unsigned key)
{
    struct store_id id = id_of(key, 1);
    return memcmp(&action->id, &id, sizeof id) == 0;
}

static struct store_action got(struct fixture *fixture, unsigned key)
{
    struct store_action action;
    struct store_id id = id_of(key, 1);
    CHECK_EQUAL(store_get(fixture->driver.store, &id, &action), STORE_READ_DONE);
    return action;
}

static bool is_absent(struct fixture *fixture, unsigned key)
{
    struct store_action action;
    struct store_id id = id_of(key, 1);
    enum store_read read = store_get(fixture->driver.store, &id, &action);
    store_action_clear(&action);
    return read == STORE_READ_ABSENT;
}

static uint64_t granted_about(struct driver *driver, unsigned key, struct store_about about)
{
    struct asked asked = reserve_op(key, 1);
    asked.op.about = about;
    struct store_result result = tell(driver, asked);
    return result.answer == STORE_GRANTED ? result.token : 0;
}

/* ---- what is shown ---------------------------------------------------------------------------- */

static void each_state_is_shown(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    int64_t before = store_now_ms(driver->handle);
    tell_with(driver, ending_op(STORE_COMPLETE, 1, granted(driver, 1, 1), 0), 300, 9);
    tell(driver, ending_op(STORE_ABANDON, 2, granted(driver, 2, 1), STORE_REASON_STALL));
    granted(driver, 3, 1);
    struct store_about derived = {.route = "hooks", .scope_name = "s", .key_source = STORE_KEY_DERIVED};
    granted_about(driver, 4, derived);
    struct seen seen = see_all(fixture, (struct store_query){.limit = 100});
    CHECK_EQUAL(seen.count, 4);
    const struct store_action *done = &seen.actions[0], *unknown = &seen.actions[1], *open = &seen.actions[2],
                              *hook = &seen.actions[3];
    CHECK(is_id(done, 1) && is_id(unknown, 2) && is_id(open, 3) && is_id(hook, 4), "by first reservation");
    CHECK(done->state == STORE_COMPLETED && done->reason == STORE_REASON_NONE && done->status == 201);
    CHECK(done->executions == 1 && done->created_ms >= before && done->since_ms >= done->created_ms);
    CHECK_EQUAL(done->expires_ms, done->since_ms + 1000000);
    CHECK(!done->response && !done->decision && !done->not_kept, "a listing carries no responses");
    CHECK(strcmp(done->route, "orders") == 0 && strcmp(done->scope_name, "orders") == 0);
    CHECK(strcmp(done->task, "t") == 0 && strcmp(done->key, "k") == 0 && done->key_source == STORE_KEY_SENT);
    CHECK(unknown->state == STORE_UNKNOWN && unknown->reason == STORE_REASON_STALL && unknown->status == 0);
    CHECK(open->state == STORE_IN_PROGRESS && open->expires_ms == STORE_FOREVER && open->executions == 0);
    CHECK(!hook->task && !hook->key && hook->key_source == STORE_KEY_DERIVED && strcmp(hook->route, "hooks") == 0);
    forget_seen(&seen);
}

/* What is shown is what a RESERVE is told. */
static void agrees_with_reserve(struct fixture *fixture, unsigned key)
{
    struct asked asked = reserve_op(key, 1);
    asked.op.no_wait = true;
    struct store_result told = *ask_now(&fixture->driver, &asked);
    struct store_action action = got(fixture, key);
    CHECK_EQUAL(action.state, told.state);
    CHECK_EQUAL(action.since_ms, told.since_ms);
    CHECK_EQUAL(action.created_ms, told.created_ms);
    CHECK_EQUAL(action.expires_ms, told.expires_ms);
    CHECK_EQUAL(action.executions, told.executions);
    CHECK_EQUAL(action.status, told.status);
    CHECK_EQUAL(action.not_kept, told.not_kept);
    if (action.state == STORE_UNKNOWN)
        CHECK_EQUAL(action.reason, told.reason);
    if (action.state != STORE_IN_PROGRESS)
        CHECK((action.response != NULL) == (told.response != NULL));
    store_bytes_unref(told.response);
    store_action_clear(&action);
}

static void shows_what_a_reserve_is_told(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked retry = reserve_op(3, 1), too_large = ending_op(STORE_COMPLETE, 4, granted(driver, 4, 1), 0);
    granted(driver, 1, 1);
    tell_with(driver, ending_op(STORE_COMPLETE, 2, granted(driver, 2, 1), 0), 3000, 2);
    tell_with(driver, ending_op(STORE_ABANDON, 3, granted(driver, 3, 1), STORE_REASON_STATUS), 3000, 3);
    too_large.op.not_kept = true;
    tell(driver, too_large);
    for (unsigned key = 1; key <= 4; key++)
        agrees_with_reserve(fixture, key);
    retry.op.retry_unknown = true;
    uint64_t token = tell(driver, retry).token;
    CHECK(token != 0);
    agrees_with_reserve(fixture, 3);
    CHECK_EQUAL(count_all(fixture, (struct store_query){.state = STORE_UNKNOWN, .limit = 10}), 0);
    CHECK_EQUAL(count_all(fixture, (struct store_query){.state = STORE_IN_PROGRESS, .limit = 10}), 2);
    tell(driver, ending_op(STORE_RESTORE, 3, token, STORE_REASON_UNSENT));
    agrees_with_reserve(fixture, 3);
    CHECK_EQUAL(count_all(fixture, (struct store_query){.state = STORE_UNKNOWN, .limit = 10}), 1);
}

static void one_is_shown_with_its_response(struct fixture *fixture)
{
    static const size_t sizes[] = {0, 1, 1536, 1537, 4080, 4081, 100000};
    struct driver *driver = &fixture->driver;
    CHECK(is_absent(fixture, KEY));
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tell_with(driver, ending_op(STORE_COMPLETE, 100 + i, granted(driver, 100 + i, 1), 0), sizes[i], i);
        struct store_action action = got(fixture, 100 + i);
        CHECK(is_id(&action, 100 + i) && is_body(action.response, sizes[i], i) && action.status == 201);
        store_action_clear(&action);
        CHECK(!action.response && !action.route, "cleared");
        store_action_clear(&action);
    }
    granted(driver, KEY, 1);
    struct store_action action = got(fixture, KEY);
    CHECK(action.state == STORE_IN_PROGRESS && !action.response);
    store_action_clear(&action);
}

static void texts_are_what_they_were(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    char bytes[256], longer[700];
    for (int i = 0; i < 255; i++)
        bytes[i] = (char)(i + 1); /* every byte but NUL */
    bytes[255] = '\0';
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    struct store_about about = {
        .route = "r", .scope_name = bytes, .task = bytes, .key = bytes, .key_source = STORE_KEY_SENT};
    granted_about(driver, 1, about);
    about = (struct store_about){
        .route = longer, .scope_name = longer, .task = longer, .key = longer, .key_source = STORE_KEY_SENT};
    granted_about(driver, 2, about);
    about = (struct store_about){.route = "", .scope_name = "", .task = "", .key = "", .key_source = STORE_KEY_SENT};
    granted_about(driver, 3, about);
    struct seen seen = see_all(fixture, (struct store_query){.limit = 10});
    CHECK_EQUAL(seen.count, 3);
    CHECK(strcmp(seen.actions[0].key, bytes) == 0 && strcmp(seen.actions[0].task, bytes) == 0);
    CHECK_EQUAL(strlen(seen.actions[1].key), 511, "cut, not refused");
    CHECK(strcmp(seen.actions[2].route, "") == 0 && strcmp(seen.actions[2].key, "") == 0 && !seen.actions[2].task);
    forget_seen(&seen);
    CHECK_EQUAL(count_all(fixture, (struct store_query){.key = bytes, .limit = 10}), 1);
    CHECK_EQUAL(count_all(fixture, (struct store_query){.task = bytes, .limit = 10}), 1);
    CHECK_EQUAL(count_all(fixture, (struct store_query){.task = longer, .key = longer, .limit = 10}), 1,
                "of the query as much counts as was kept");
    CHECK_EQUAL(count_all(fixture, (struct store_query){.key = "", .limit = 10}), 1);
    CHECK_EQUAL(count_all(fixture, (struct store_query){.task = "", .limit = 10}), 0, "no task is called that");
}

static void expired_are_left_out(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked forever = ending_op(STORE_COMPLETE, 2, granted(driver, 2, 1), 0);
    forever.op.retention_ms = STORE_FOREVER;
    tell(driver, forever);
    tell(driver, ending_op(STORE_COMPLETE, 1, granted(driver, 1, 1), 0));
    tell(driver, ending_op(STORE_ABANDON, 3, granted(driver, 3, 1), STORE_REASON_STALL));
    granted(driver, 4, 1);
    CHECK_EQUAL(count_all(fixture, (struct store_query){.limit = 10}), 4);
    store_move_clock(driver->store, 1000001);
    struct seen seen = see_all(fixture, (struct store_query){.limit = 10});
    CHECK(seen.count == 2 && is_id(&seen.actions[0], 2) && is_id(&seen.actions[1], 4), "whether swept or not");
    forget_seen(&seen);
    CHECK_EQUAL(count_all(fixture, (struct store_query){.task = "t", .limit = 10}), 2);
    CHECK_EQUAL(count_all(fixture, (struct store_query){.state = STORE_UNKNOWN, .limit = 10}), 0);
    CHECK(is_absent(fixture, 1) && is_absent(fixture, 3));
    granted(driver, 1, 1);
    CHECK_EQUAL(count_all(fixture, (struct store_query){.task = "t", .limit = 10}), 3, "the same key, a new action");
}

/* ---- filters ---------------------------------------------------------------------------------- */

#define STATES 3
#define NAMES  3
#define MANY   (STATES * NAMES * NAMES * NAMES)

static const char *const routes[NAMES] = {"orders", "order", "notes"};
static const char *const tasks[NAMES] = {NULL, "task-1", "task-2"};
static const char *const keys[NAMES] = {NULL, "k1", "k2"}; /* NULL: derived */

/* The number of the record tells its fields. */
static unsigned digit(unsigned number, unsigned place)
{
    while (place--)
        number /= NAMES;
    return number % NAMES;
}

static void make_variants(struct driver *driver)
{
    for (unsigned i = 0; i < MANY; i++) {
        struct store_about about = {.route = routes[digit(i, 0)],
                                    .scope_name = "s",
                                    .task = tasks[digit(i, 1)],
                                    .key = keys[digit(i, 2)],
                                    .key_source = digit(i, 2) ? STORE_KEY_SENT : STORE_KEY_DERIVED};
        uint64_t token = granted_about(driver, 100 + i, about);
        if (digit(i, 3) == 1)
            tell(driver, ending_op(STORE_COMPLETE, 100 + i, token, 0));
        else if (digit(i, 3) == 2)
            tell(driver, ending_op(STORE_ABANDON, 100 + i, token, STORE_REASON_CLOSED));
    }
}

static void expect_variants(struct fixture *fixture, const unsigned *wanted, size_t limit)
{
    static const enum store_state states[STATES] = {STORE_IN_PROGRESS, STORE_COMPLETED, STORE_UNKNOWN};
    struct store_query query = {.limit = limit};
    query.route = wanted[0] < NAMES ? routes[wanted[0]] : NULL;
    query.task = wanted[1] < NAMES ? tasks[wanted[1]] : NULL; /* no task cannot be asked for */
    query.key = wanted[2] < NAMES ? keys[wanted[2]] : NULL;
    query.state = wanted[3] < STATES ? states[wanted[3]] : 0;
    struct seen seen = see_all(fixture, query);
    size_t at = 0;
    for (unsigned i = 0; i < MANY; i++) {
        bool fits = true;
        for (unsigned place = 0; place < 4; place++)
            fits &= wanted[place] == NAMES || (wanted[place] == 0 && (place == 1 || place == 2)) ||
                    wanted[place] == digit(i, place);
        if (fits)
            CHECK(at < seen.count && is_id(&seen.actions[at++], 100 + i), "each that fits, in order");
    }
    CHECK_EQUAL(at, seen.count, "and none that does not");
    forget_seen(&seen);
}

/* Every combination of filters, with several sizes of a page. */
static void filters_hold_together(struct fixture *fixture)
{
    static const size_t limits[] = {1, 2, 7, 1000};
    make_variants(&fixture->driver);
    for (unsigned i = 0; i < 4 * 4 * 4 * 4; i++) {
        unsigned wanted[4] = {i % 4, i / 4 % 4, i / 16 % 4, i / 64};
        expect_variants(fixture, wanted, limits[i % 4]);
    }
}

static void pages_have_limits(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    CHECK_EQUAL(count_all(fixture, (struct store_query){.limit = 1}), 0, "nothing there");
    for (unsigned i = 0; i < 10; i++)
        granted(driver, 100 + i, 1);
    struct seen seen = see_all(fixture, (struct store_query){.limit = 5});
    CHECK(seen.count == 10 && seen.pages == 2, "the last page knows that it is the last");
    uint64_t last = seen.actions[9].number;
    forget_seen(&seen);
    seen = see_all(fixture, (struct store_query){.limit = 3});
    CHECK(seen.count == 10 && seen.pages == 4);
    forget_seen(&seen);
    CHECK_EQUAL(count_all(fixture, (struct store_query){.limit = 3, .after = last}), 0);
    CHECK_EQUAL(count_all(fixture, (struct store_query){.limit = 3, .after = last - 1}), 1);
    CHECK_EQUAL(count_all(fixture, (struct store_query){.limit = 3, .after = UINT64_MAX}), 0);
    CHECK_EQUAL(count_all(fixture, (struct store_query){.limit = 3, .after = UINT64_MAX, .task = "t"}), 0);
}

/* ---- while records change --------------------------------------------------------------------- */

#define KEPT  60
#define SPARE 4000

struct churn {
    struct fixture *fixture;
    uint64_t random;
    unsigned next_key;
};

static unsigned roll(struct churn *churn, unsigned sides)
{
    churn->random = churn->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(churn->random >> 33) % sides;
}

/* Something comes, and something that is not among the kept changes or goes. */
static void stir(struct churn *churn)
{
    struct driver *driver = &churn->fixture->driver;
    unsigned key = SPARE + roll(churn, 40);
    struct asked op = reserve_op(key, 1);
    op.op.no_wait = true;
    op.op.retry_unknown = roll(churn, 2);
    struct store_result result = tell(driver, op);
    if (result.token) {
        static const enum store_verb verbs[] = {STORE_COMPLETE, STORE_ABANDON, STORE_RELEASE};
        tell(driver, ending_op(verbs[roll(churn, 3)], key, result.token, STORE_REASON_UNSENT));
    } else if (roll(churn, 2)) {
        tell(driver, ending_op(STORE_FORGET, key, 0, 0));
    }
    tell(driver, ending_op(STORE_ABANDON, churn->next_key, granted(driver, churn->next_key, 1), STORE_REASON_CLOSED));
    churn->next_key++;
}

/* An unknown one that was unknown all the while, although it was tried again and put back: its time in the tree of
 * unknown ones does not change, its place in the listing neither. */
static void retry_in_vain(struct driver *driver, unsigned key)
{
    struct asked retry = reserve_op(key, 1);
    retry.op.retry_unknown = true;
    tell(driver, ending_op(STORE_RESTORE, key, tell(driver, retry).token, STORE_REASON_UNSENT));
}

static void page_through_churn(struct fixture *fixture, struct store_query query)
{
    struct churn churn = {.fixture = fixture, .random = query.limit + query.state, .next_key = 10000};
    struct seen seen = {0};
    unsigned found = 0, rounds = 0;
    do {
        query.after = next_page(fixture, &seen, query);
        for (unsigned i = 0; i < 5; i++)
            stir(&churn);
        retry_in_vain(&fixture->driver, 100 + roll(&churn, KEPT));
    } while (query.after && ++rounds < 60); /* what comes meanwhile may well outrun small pages */
    for (size_t i = 0; i < seen.count; i++) {
        if (query.state)
            CHECK_EQUAL(seen.actions[i].state, query.state);
        for (unsigned key = 100; key < 100 + KEPT; key++)
            found += is_id(&seen.actions[i], key);
    }
    CHECK_EQUAL(found, KEPT, "each that stays is seen exactly once");
    forget_seen(&seen);
    for (unsigned key = 10000; key < churn.next_key; key++)
        tell(&fixture->driver, ending_op(STORE_FORGET, key, 0, 0));
}

static void paging_stays_right(struct fixture *fixture)
{
    static const size_t limits[] = {6, 7, 11, 64};
    struct driver *driver = &fixture->driver;
    for (unsigned i = 0; i < KEPT; i++) {
        tell(driver, ending_op(STORE_ABANDON, 100 + i, granted(driver, 100 + i, 1), STORE_REASON_STALL));
        granted(driver, SPARE + i, 1);
    }
    for (unsigned i = 0; i < sizeof limits / sizeof *limits; i++) {
        page_through_churn(fixture, (struct store_query){.limit = limits[i]});
        page_through_churn(fixture, (struct store_query){.limit = limits[i], .state = STORE_UNKNOWN});
        page_through_churn(fixture, (struct store_query){.limit = limits[i], .task = "t", .route = "orders"});
    }
}

/* ---- many ------------------------------------------------------------------------------------- */

#define RECORDS 100000
#define AT_ONCE 500

static void complete_many(struct fixture *fixture, unsigned from, struct asked *asked)
{
    struct driver *driver = &fixture->driver;
    for (unsigned i = 0; i < AT_ONCE; i++) {
        asked[i] = reserve_op(from + i, 1);
        asked[i].op.about.task = NULL;
        ask(driver, &asked[i]);
    }
    for (unsigned i = 0; i < AT_ONCE; i++)
        CHECK_EQUAL(answered(driver, &asked[i])->answer, STORE_GRANTED);
    for (unsigned i = 0; i < AT_ONCE; i++) {
        asked[i] = ending_op(STORE_COMPLETE, from + i, asked[i].op.result.token, 0);
        ask(driver, &asked[i]);
    }
    for (unsigned i = 0; i < AT_ONCE; i++)
        CHECK_EQUAL(answered(driver, &asked[i])->answer, STORE_DONE);
}

static void large_store(struct store_config *config)
{
    config->max_size = 1u << 30;
}

/* Two records among very many: pages are short or empty and go on, unless a tree leads straight to them. */
static void rare_among_many(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked *asked = calloc(AT_ONCE, sizeof *asked);
    struct store_about rare = {
        .route = "rare", .scope_name = "s", .task = "rare", .key = "rare", .key_source = STORE_KEY_SENT};
    for (unsigned i = 0; i < RECORDS / 2; i += AT_ONCE)
        complete_many(fixture, 1000 + i, asked);
    granted_about(driver, 1, rare);
    for (unsigned i = RECORDS / 2; i < RECORDS; i += AT_ONCE)
        complete_many(fixture, 1000 + i, asked);
    free(asked);
    tell(driver, ending_op(STORE_ABANDON, 2, granted_about(driver, 2, rare), STORE_REASON_CLOSED));
    struct seen seen = see_all(fixture, (struct store_query){.route = "rare", .limit = 100});
    CHECK(seen.count == 2 && is_id(&seen.actions[0], 1) && is_id(&seen.actions[1], 2));
    CHECK(seen.empty_pages >= 2 && seen.pages <= 10, "a call looks at a bounded number of records");
    forget_seen(&seen);
    CHECK_EQUAL(count_all(fixture, (struct store_query){.key = "rare", .state = STORE_IN_PROGRESS, .limit = 5}), 1);
    struct store_query straight[] = {
        {.task = "rare", .limit = 2}, {.state = STORE_UNKNOWN, .limit = 1}, {.state = STORE_IN_PROGRESS, .limit = 1}};
    for (unsigned i = 0; i < sizeof straight / sizeof *straight; i++) {
        seen = see_all(fixture, straight[i]);
        CHECK(seen.pages == 1 && seen.count == straight[i].limit, "found without looking at the others");
        forget_seen(&seen);
    }
}

/* ---- what people decide ----------------------------------------------------------------------- */

static struct asked resolve_op(unsigned key, enum store_state to_state, const char *decision)
{
    struct asked resolve = ending_op(STORE_RESOLVE, key, 0, 0);
    resolve.op.to_state = to_state;
    resolve.op.decision = decision;
    return resolve;
}

static void a_decision_is_kept(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    tell_with(driver, ending_op(STORE_ABANDON, KEY, granted(driver, KEY, 1), STORE_REASON_STATUS), 5000, 1);
    struct asked resolve = resolve_op(KEY, STORE_COMPLETED, "seen at the bank; ann, 2026-12-02T10:00:00Z");
    resolve.op.retention_ms = 7000000;
    CHECK_EQUAL(tell_with(driver, resolve, 2000, 2).answer, STORE_DONE);
    struct store_action action = got(fixture, KEY);
    CHECK(action.state == STORE_COMPLETED && action.reason == STORE_REASON_NONE && action.status == 201);
    CHECK(strcmp(action.decision, "seen at the bank; ann, 2026-12-02T10:00:00Z") == 0);
    CHECK(is_body(action.response, 2000, 2) && action.executions == 1, "a person executes nothing");
    CHECK_EQUAL(action.expires_ms, action.since_ms + 7000000);
    store_action_clear(&action);
    agrees_with_reserve(fixture, KEY);
    struct seen seen = see_all(fixture, (struct store_query){.state = STORE_COMPLETED, .limit = 10});
    CHECK(seen.count == 1 && strncmp(seen.actions[0].decision, "seen at the bank", 16) == 0);
    forget_seen(&seen);
    uint8_t first[STORE_HASH_LEN] = {1}, second[STORE_HASH_LEN] = {2};
    int64_t until;
    store_declare_scope(driver->store, "orders", first, 5000, &until);
    CHECK(store_declare_scope(driver->store, "orders", second, 5000, &until) == STORE_DECLARED_CHANGED);
    CHECK(until > store_now_ms(driver->handle) + 6000000, "its retention counts for the scope");
}

static void a_decision_without_response(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    char longer[700];
    memset(longer, 'd', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    tell_with(driver, ending_op(STORE_ABANDON, KEY, granted(driver, KEY, 1), STORE_REASON_STATUS), 5000, 1);
    struct asked resolve = resolve_op(KEY, STORE_COMPLETED, longer);
    resolve.op.status = 204;
    CHECK_EQUAL(tell(driver, resolve).answer, STORE_DONE);
    struct store_action action = got(fixture, KEY);
    CHECK(action.state == STORE_COMPLETED && action.status == 204 && action.not_kept && !action.response,
          "what was known before is not what was decided");
    CHECK_EQUAL(strlen(action.decision), 511);
    store_action_clear(&action);
    tell(driver, ending_op(STORE_ABANDON, 8, granted(driver, 8, 1), STORE_REASON_STATUS));
    CHECK_EQUAL(tell(driver, resolve_op(8, STORE_COMPLETED, NULL)).answer, STORE_DONE);
    action = got(fixture, 8);
    CHECK(action.state == STORE_COMPLETED && !action.decision);
    store_action_clear(&action);
}

/* Whatever a person may not do changes nothing. */
static void refusals_change_nothing(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked complete = resolve_op(0, STORE_COMPLETED, "no"), release = resolve_op(0, STORE_RELEASED, "no"),
                 forget = ending_op(STORE_FORGET, 0, 0, 0), waits = reserve_op(1, 1);
    uint64_t token = granted(driver, 1, 1);
    tell_with(driver, ending_op(STORE_COMPLETE, 2, granted(driver, 2, 1), 0), 3000, 2);
    ask(driver, &waits);
    until_noticed(driver, &waits);
    complete.op.id = release.op.id = forget.op.id = id_of(1, 1);
    struct asked *refused[] = {&complete, &release, &forget};
    for (unsigned i = 0; i < 3; i++) {
        struct store_result result = tell(driver, *refused[i]);
        CHECK(result.answer == STORE_REFUSED && result.state == STORE_IN_PROGRESS && !waits.done);
    }
    complete.op.id = release.op.id = id_of(2, 1);
    for (unsigned i = 0; i < 2; i++) {
        struct store_result result = tell(driver, *refused[i]);
        CHECK(result.answer == STORE_REFUSED && result.state == STORE_COMPLETED);
    }
    complete.op.id = release.op.id = forget.op.id = id_of(3, 1);
    for (unsigned i = 0; i < 3; i++)
        CHECK(tell(driver, *refused[i]).answer == STORE_REFUSED && tell(driver, *refused[i]).state == 0);
    struct store_action action = got(fixture, 2);
    CHECK(is_body(action.response, 3000, 2) && !action.decision);
    store_action_clear(&action);
    CHECK_EQUAL(tell_with(driver, ending_op(STORE_COMPLETE, 1, token, 0), 30, 3).answer, STORE_DONE);
    CHECK(is_body(answered(driver, &waits)->response, 30, 3), "those who wait are served by the owner");
    store_bytes_unref(waits.op.result.response);
    store_move_clock(driver->store, 1000001);
    for (unsigned i = 0; i < 3; i++) {
        refused[i]->op.id = id_of(2, 1);
        CHECK(tell(driver, *refused[i]).answer == STORE_REFUSED, "expired is absent");
    }
}

/* A repetition that comes with the decision gets it, and an owner that comes after it is fenced out. */
static void those_around_a_decision(struct fixture *fixture)
{
    static const enum store_verb verbs[] = {STORE_COMPLETE, STORE_RELEASE, STORE_ABANDON, STORE_RESTORE};
    struct driver *driver = &fixture->driver;
    struct asked repeats[5], resolve = resolve_op(KEY, STORE_COMPLETED, "yes");
    uint64_t token = granted(driver, KEY, 1);
    tell(driver, ending_op(STORE_ABANDON, KEY, token, STORE_REASON_CLOSED));
    resolve.op.response = body_of(40, 4);
    ask(driver, &resolve);
    for (unsigned i = 0; i < 5; i++) {
        repeats[i] = reserve_op(KEY, 1);
        repeats[i].op.retry_unknown = true;
        ask(driver, &repeats[i]);
    }
    CHECK_EQUAL(answered(driver, &resolve)->answer, STORE_DONE);
    for (unsigned i = 0; i < 5; i++) {
        CHECK_EQUAL(answered(driver, &repeats[i])->answer, STORE_REPLAY);
        CHECK(is_body(repeats[i].op.result.response, 40, 4));
        store_bytes_unref(repeats[i].op.result.response);
    }
    store_bytes_unref(resolve.op.response);
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQUAL(tell(driver, ending_op(verbs[i], KEY, token, STORE_REASON_UNSENT)).answer, STORE_LOST);
    token = granted(driver, 8, 1);
    tell(driver, ending_op(STORE_ABANDON, 8, token, STORE_REASON_CLOSED));
    CHECK_EQUAL(tell(driver, resolve_op(8, STORE_RELEASED, NULL)).answer, STORE_DONE);
    CHECK(is_absent(fixture, 8));
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQUAL(tell(driver, ending_op(verbs[i], 8, token, STORE_REASON_UNSENT)).answer, STORE_LOST);
    uint64_t second = granted(driver, 8, 1);
    CHECK(second > token, "executed again, as a new action");
    CHECK_EQUAL(tell(driver, ending_op(STORE_COMPLETE, 8, token, 0)).answer, STORE_LOST);
    CHECK_EQUAL(tell(driver, ending_op(STORE_COMPLETE, 8, second, 0)).answer, STORE_DONE);
}

static void what_is_forgotten_is_gone_everywhere(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    tell_with(driver, ending_op(STORE_COMPLETE, 1, granted(driver, 1, 1), 0), 9000, 3);
    tell_with(driver, ending_op(STORE_ABANDON, 2, granted(driver, 2, 1), STORE_REASON_STATUS), 9000, 3);
    for (unsigned key = 1; key <= 2; key++) {
        CHECK_EQUAL(tell(driver, ending_op(STORE_FORGET, key, 0, 0)).answer, STORE_DONE);
        CHECK(is_absent(fixture, key));
    }
    struct store_query queries[] = {{.limit = 9}, {.limit = 9, .task = "t"}, {.limit = 9, .state = STORE_UNKNOWN}};
    for (unsigned i = 0; i < 3; i++)
        CHECK_EQUAL(count_all(fixture, queries[i]), 0);
    struct store_status status;
    store_status(driver->store, &status);
    CHECK(status.completed == 0 && status.unknown == 0 && status.in_progress == 0 && status.oldest_unknown_ms == 0);
}

/* ---- status ----------------------------------------------------------------------------------- */

static void the_status_adds_up(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct store_status status;
    int64_t before = store_now_ms(driver->handle);
    for (unsigned i = 0; i < 20; i++)
        tell(driver, ending_op(STORE_COMPLETE, 100 + i, granted(driver, 100 + i, 1), 0));
    tell(driver, ending_op(STORE_ABANDON, 1, granted(driver, 1, 1), STORE_REASON_CLOSED));
    store_move_clock(driver->store, 5000);
    tell(driver, ending_op(STORE_ABANDON, 2, granted(driver, 2, 1), STORE_REASON_CLOSED));
    granted(driver, 3, 1);
    store_status(driver->store, &status);
    CHECK(status.completed == 20 && status.unknown == 2 && status.in_progress == 1);
    CHECK(status.oldest_unknown_ms >= before && status.oldest_unknown_ms < before + 5000, "the older of both");
    CHECK(!status.failing && !status.full && status.used_bytes > 0 && status.used_bytes < status.max_bytes);
    CHECK_EQUAL(status.commit_ops, 45);
    uint64_t commits = 0, groups = 0, least = 0, most = 0;
    for (unsigned i = 0; i < sizeof status.commit_ns_buckets / sizeof *status.commit_ns_buckets; i++)
        commits += status.commit_ns_buckets[i];
    for (unsigned i = 0; i < sizeof status.group_size_buckets / sizeof *status.group_size_buckets; i++) {
        groups += status.group_size_buckets[i];
        least += status.group_size_buckets[i] << i;
        most += status.group_size_buckets[i] * ((2u << i) - 1);
    }
    CHECK_EQUAL(commits, status.commits);
    CHECK(groups <= commits && least <= status.commit_ops && most >= status.commit_ops);
    uint64_t shortest = 0, longest = 0;
    for (unsigned i = 0; i < 20; i++) {
        shortest += i ? status.commit_ns_buckets[i] * (64000ull << (i - 1)) : 0;
        longest += status.commit_ns_buckets[i] * (64000ull << i);
    }
    CHECK(status.commit_ns_sum >= shortest && status.commit_ns_sum <= longest, "the sum lies within its buckets");
    tell(driver, resolve_op(1, STORE_RELEASED, NULL));
    store_status(driver->store, &status);
    CHECK(status.unknown == 1 && status.oldest_unknown_ms >= before + 5000);
}

static const struct store_case people_cases[] = {
    {"each state is shown", each_state_is_shown, NULL},
    {"shows what a reserve is told", shows_what_a_reserve_is_told, NULL},
    {"one is shown with its response", one_is_shown_with_its_response, NULL},
    {"texts are what they were", texts_are_what_they_were, NULL},
    {"expired are left out", expired_are_left_out, NULL},
    {"filters hold together", filters_hold_together, NULL},
    {"pages have limits", pages_have_limits, NULL},
    {"paging stays right", paging_stays_right, NULL},
    {"rare among many", rare_among_many, large_store},
    {"a decision is kept", a_decision_is_kept, NULL},
    {"a decision without response", a_decision_without_response, NULL},
    {"refusals change nothing", refusals_change_nothing, NULL},
    {"those around a decision", those_around_a_decision, NULL},
    {"what is forgotten is gone everywhere", what_is_forgotten_is_gone_everywhere, NULL},
    {"the status adds up", the_status_adds_up, NULL},
};

RUN_CASES(people, people_cases, "memory", "lmdb")
