/*
 * test_resolver.c - names to addresses: known ones at once, the last good ones while resolving fails, and a getaddrinfo
 * that hangs holds up nobody but those who asked for that name (cases O04, O05).
 */
#include "net.h"
#include "proxy/resolver.h"
#include "resolve.h"

static struct resolver *resolver;
static struct resolver_client *client;

struct asked {
    struct resolver_query *query;
    struct resolver_addresses addresses;
    int times; /* that an answer came through the loop */
    bool at_once;
};

static void begin(void)
{
    net_begin();
    resolver = resolver_new();
    client = resolver_client_new(resolver, base);
}

static void end(void)
{
    resolver_client_free(client);
    resolver_free(resolver);
    cr_assert_eq(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 0);
    net_end();
}

static void done(void *arg, const struct resolver_addresses *addresses)
{
    struct asked *asked = arg;
    asked->addresses = *addresses;
    asked->query = NULL;
    asked->times++;
}

static void ask(struct asked *asked, const char *host)
{
    *asked = (struct asked){0};
    asked->at_once = resolver_look_up(client, host, 80, &asked->addresses, &asked->query, done, asked);
    cr_assert(asked->at_once == (asked->query == NULL), "either an answer or a query");
    cr_assert_eq(asked->times, 0, "never from inside the call");
}

static const char *first_address(const struct asked *asked)
{
    static char text[INET6_ADDRSTRLEN];
    const struct sockaddr_storage *first = &asked->addresses.items[0];
    if (!asked->addresses.count)
        return "none";
    if (first->ss_family == AF_INET6)
        return inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)first)->sin6_addr, text, sizeof text);
    return inet_ntop(AF_INET, &((const struct sockaddr_in *)first)->sin_addr, text, sizeof text);
}

/* Asks until the answer comes, whichever way. */
static const char *resolved(const char *host)
{
    static struct asked asked;
    ask(&asked, host);
    cr_assert(asked.at_once || NET_UNTIL(asked.times == 1), "%s: no answer", host);
    return first_address(&asked);
}

Test(resolver, takes_literals_without_asking)
{
    struct asked asked;
    begin();
    ask(&asked, "127.0.0.1");
    cr_assert(asked.at_once);
    cr_assert_str_eq(first_address(&asked), "127.0.0.1");
    cr_assert_eq(ntohs(((struct sockaddr_in *)&asked.addresses.items[0])->sin_port), 80);
    ask(&asked, "::1");
    cr_assert(asked.at_once);
    cr_assert_str_eq(first_address(&asked), "::1");
    cr_assert_eq(ntohs(((struct sockaddr_in6 *)&asked.addresses.items[0])->sin6_port), 80);
    cr_assert_eq(atomic_load(&resolve_calls), 0);
    end();
}

Test(resolver, answers_through_the_loop_and_then_at_once)
{
    struct asked asked, again;
    begin();
    ask(&asked, "two.test");
    cr_assert(!asked.at_once);
    ask(&again, "two.test");
    cr_assert(NET_UNTIL(asked.times == 1 && again.times == 1));
    cr_assert_eq(asked.addresses.count, 2);
    cr_assert_str_eq(first_address(&asked), "127.0.0.2", "in their order");
    ask(&asked, "two.test");
    cr_assert(asked.at_once && asked.addresses.count == 2);
    cr_assert_eq(atomic_load(&resolve_calls), 1, "asked once for all of them");
    end();
}

Test(resolver, says_that_a_name_is_not_to_be_had)
{
    struct asked asked;
    begin();
    ask(&asked, "none.test");
    cr_assert(NET_UNTIL(asked.times == 1));
    cr_assert_eq(asked.addresses.count, 0);
    for (int i = 0; i < 100; i++) {
        ask(&asked, "none.test");
        cr_assert(asked.at_once && asked.addresses.count == 0, "a moment later it is not asked again");
    }
    cr_assert_eq(atomic_load(&resolve_calls), 1);
    nap(1100);
    ask(&asked, "none.test");
    cr_assert(!asked.at_once, "but after a second it is");
    cr_assert(NET_UNTIL(asked.times == 1));
    end();
}

Test(resolver, resolves_again_after_a_failure_to_connect)
{
    struct asked asked;
    begin();
    atomic_store(&resolve_moving, "127.0.0.2");
    cr_assert_str_eq(resolved("moving.test"), "127.0.0.2");
    atomic_store(&resolve_moving, "127.0.0.3");
    cr_assert_str_eq(resolved("moving.test"), "127.0.0.2", "30 seconds long nobody asks");
    resolver_failed(client, "moving.test", 80);
    cr_assert_eq(atomic_load(&resolve_calls), 1, "not more than once a second");
    nap(1050);
    resolver_failed(client, "moving.test", 80);
    cr_assert(NET_UNTIL(atomic_load(&resolve_calls) == 2 && atomic_load(&resolve_inside) == 0));
    cr_assert(NET_UNTIL((ask(&asked, "moving.test"), strcmp(first_address(&asked), "127.0.0.3") == 0)));
    end();
}

Test(resolver, serves_the_last_good_addresses_while_resolving_fails)
{
    struct asked asked;
    begin();
    atomic_store(&resolve_moving, "127.0.0.2");
    cr_assert_str_eq(resolved("moving.test"), "127.0.0.2");
    atomic_store(&resolve_moving, NULL);
    nap(1050);
    resolver_failed(client, "moving.test", 80);
    cr_assert(NET_UNTIL(atomic_load(&resolve_calls) == 2 && atomic_load(&resolve_inside) == 0));
    net_run(20);
    ask(&asked, "moving.test");
    cr_assert(asked.at_once, "a name server that is down makes no API unreachable");
    cr_assert_str_eq(first_address(&asked), "127.0.0.2");
    end();
}

Test(resolver, lets_a_name_that_hangs_hold_up_nobody_else)
{
    struct asked hanging[20], other;
    char name[20];
    begin();
    ask(&hanging[0], "hang.test");
    ask(&other, "one.test");
    cr_assert(NET_UNTIL(other.times == 1));
    for (int i = 1; i < 20; i++) {
        snprintf(name, sizeof name, "hang%d.test", i);
        ask(&hanging[i], name);
    }
    net_run(50);
    cr_assert_leq(atomic_load(&resolve_inside_most), 8, "their threads are bounded");
    cr_assert_eq(atomic_load(&resolve_unblocked_signals), 0, "signals are the control thread's");
    atomic_store(&resolve_release, true);
    for (int i = 0; i < 20; i++)
        cr_assert(NET_UNTIL(hanging[i].times == 1), "name %d: those that had to wait have their turn", i);
    end();
}

Test(resolver, is_freed_while_a_thread_hangs)
{
    struct asked asked;
    begin();
    ask(&asked, "hang.test");
    net_run(10);
    resolver_cancel(asked.query);
    int64_t start = monotonic_ms();
    end();
    cr_assert_lt(monotonic_ms() - start, 4000, "shutting down waits for nobody");
    atomic_store(&resolve_release, true);
    for (int i = 0; i < 1000 && atomic_load(&resolve_inside); i++)
        nap(1);
    nap(50); /* the thread is the last one to hold the table; the sanitizer looks whether it gives it back */
    cr_assert_eq(asked.times, 0);
}

Test(resolver, tells_nothing_after_a_cancel)
{
    struct asked asked[3];
    begin();
    for (int i = 0; i < 3; i++)
        ask(&asked[i], "hang.test");
    resolver_cancel(asked[1].query);
    atomic_store(&resolve_release, true);
    cr_assert(NET_UNTIL(asked[0].times == 1 && asked[2].times == 1));
    net_run(20);
    cr_assert_eq(asked[1].times, 0);

    ask(&asked[0], "hang2.test");
    nap(50); /* its answer is in the inbox by now, unread */
    resolver_cancel(asked[0].query);
    net_run(20);
    cr_assert_eq(asked[0].times, 0, "nor when the answer was on its way");
    end();
}

Test(resolver, serves_each_worker_on_its_own_loop)
{
    struct event_base *first_base;
    struct resolver_client *first_client;
    struct asked mine, other;
    begin();
    first_base = base;
    first_client = client;
    ask(&mine, "hang.test");
    net_begin();
    client = resolver_client_new(resolver, base);
    ask(&other, "hang.test");
    atomic_store(&resolve_release, true);
    cr_assert(NET_UNTIL(other.times == 1));
    cr_assert_eq(mine.times, 0, "the first loop has not turned");
    resolver_client_free(client);
    net_end();
    base = first_base;
    client = first_client;
    cr_assert(NET_UNTIL(mine.times == 1));
    end();
}
