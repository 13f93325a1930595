/*
 * test_server.c - a drain that another thread orders (the admin side does): the process stays until a signal, which
 * continues the drain that runs. Drains by signal alone are in tests/e2e.
 *
 * A whole einmal runs on a thread of the test, which is its client and its API.
 */
#include "proxy/deadline.h"
#include "proxy/server.h"

#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 10000

static struct {
    char directory[40], file[64];
    uint16_t port;
    int api; /* listening */
    pthread_t thread;
    struct server *_Atomic server;
    atomic_bool ended;
    int code;
} run;

#define UNTIL(condition)                                      \
    ({                                                        \
        int64_t until_ms = monotonic_ms() + PATIENCE_MS;      \
        while (!(condition) && monotonic_ms() < until_ms)     \
            nanosleep(&(struct timespec){0, 2000000L}, NULL); \
        (condition);                                          \
    })

static int listen_on(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(bind(fd, (struct sockaddr *)&address, len) == 0 && listen(fd, 16) == 0);
    getsockname(fd, (struct sockaddr *)&address, &len);
    *port = ntohs(address.sin_port);
    return fd;
}

/* -1: refused. */
static int dial(void)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(run.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    cr_assert_eq(errno, ECONNREFUSED);
    close(fd);
    return -1;
}

static void say(int fd, const char *text)
{
    cr_assert_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* What comes until `text` stands in it, or the end of the connection. */
static const char *hear(int fd, const char *text)
{
    static char heard[4096];
    size_t len = 0;
    heard[0] = '\0';
    while (!strstr(heard, text) && len + 1 < sizeof heard) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        cr_assert_gt(poll(&wait, 1, PATIENCE_MS), 0, "heard only '%s'", heard);
        ssize_t got = recv(fd, heard + len, sizeof heard - 1 - len, 0);
        if (got <= 0)
            break;
        len += (size_t)got;
        heard[len] = '\0';
    }
    return heard;
}

static void started(void *arg, struct server *server)
{
    (void)arg;
    atomic_store(&run.server, server);
}

static const char *no_environment(void *arg, const char *name)
{
    (void)arg, (void)name;
    return NULL;
}

static void *serve(void *arg)
{
    (void)arg;
    run.code =
        server_run(&(struct server_options){.file = run.file, .environment = no_environment, .started = started});
    atomic_store(&run.ended, true);
    return NULL;
}

static void start(const char *timeouts)
{
    uint16_t api_port;
    strcpy(run.directory, "/tmp/einmal-server-XXXXXX");
    cr_assert_not_null(mkdtemp(run.directory));
    snprintf(run.file, sizeof run.file, "%s/einmal.yaml", run.directory);
    run.api = listen_on(&api_port);
    close(listen_on(&run.port));
    FILE *file = fopen(run.file, "w");
    fprintf(file,
            "listen: [{address: \"127.0.0.1:%u\"}]\nworkers: 2\nlog: {level: error, access: false}\n"
            "store: {path: %s/store, max_size: 16MiB}\ntimeouts: {%s}\n"
            "upstreams: {api: {url: \"http://127.0.0.1:%u\"}}\nroutes: [{name: r}]\n",
            run.port, run.directory, timeouts, api_port);
    fclose(file);
    pthread_create(&run.thread, NULL, serve, NULL);
    cr_assert(UNTIL(atomic_load(&run.server) || atomic_load(&run.ended)));
    cr_assert(!atomic_load(&run.ended), "starts");
}

static void expect_end(int code)
{
    cr_assert(UNTIL(atomic_load(&run.ended)), "ends");
    pthread_join(run.thread, NULL);
    cr_expect_eq(run.code, code);
    char command[100];
    snprintf(command, sizeof command, "rm -r '%s'", run.directory);
    cr_expect_eq(system(command), 0);
}

/* A keyed request that has reached the API, which does not answer yet. */
static void begin_request(int *client, int *api)
{
    *client = dial();
    say(*client, "POST / HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nContent-Length: 2\r\n\r\nok");
    *api = accept(run.api, NULL, NULL);
    cr_assert(strstr(hear(*api, "\r\n\r\nok"), "\r\n\r\nok"));
}

static bool refused(void)
{
    int fd = dial();
    if (fd >= 0)
        close(fd);
    return fd < 0;
}

static void stays(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
    cr_assert(!atomic_load(&run.ended), "the process stays");
}

Test(server_drain, by_order_finishes_what_runs_and_stays_until_a_signal)
{
    int client, api;
    start("");
    begin_request(&client, &api);
    cr_expect(!server_is_draining(run.server) && !server_is_idle(run.server));
    server_begin_drain(run.server);
    cr_expect(server_is_draining(run.server), "at once");
    cr_expect(UNTIL(refused()), "listeners are closed");
    stays(50);
    cr_expect(!server_is_idle(run.server), "something runs");
    say(api, "HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\ndone");
    const char *answer = hear(client, "done");
    cr_expect(strstr(answer, " 201 ") && strstr(answer, "Connection: close"), "%s", answer);
    cr_expect_str_eq(hear(client, "never"), "", "closed after it");
    cr_expect(UNTIL(server_is_idle(run.server)));
    stays(100);
    server_begin_drain(run.server); /* once more changes nothing */
    stays(50);
    kill(getpid(), SIGTERM);
    expect_end(0);
}

Test(server_drain, by_order_when_nothing_runs)
{
    start("");
    int idle = dial();
    say(idle, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    int api = accept(run.api, NULL, NULL);
    cr_assert(strstr(hear(api, "\r\n\r\n"), "GET"));
    say(api, "HTTP/1.1 204 No Content\r\n\r\n");
    cr_assert(strstr(hear(idle, "\r\n\r\n"), " 204 "));
    server_begin_drain(run.server);
    cr_expect_str_eq(hear(idle, "never"), "", "an idle connection closes");
    cr_expect(UNTIL(server_is_idle(run.server)));
    cr_expect(refused());
    stays(100);
    kill(getpid(), SIGINT);
    expect_end(0);
}

Test(server_drain, a_signal_continues_it_and_the_limit_counts_from_its_start)
{
    int client, api;
    start("drain: 1500ms");
    begin_request(&client, &api);
    int64_t began = monotonic_ms();
    server_begin_drain(run.server);
    stays(1000);
    kill(getpid(), SIGTERM);
    expect_end(0);
    int64_t took = monotonic_ms() - began;
    cr_expect(took >= 1490, "not before the limit: %lld ms", (long long)took);
    cr_expect(took < 2400, "the limit was not begun anew: %lld ms", (long long)took);
    (void)client, (void)api;
}

Test(server_drain, the_limit_passes_also_without_a_signal)
{
    int client, api;
    start("drain: 100ms");
    begin_request(&client, &api);
    server_begin_drain(run.server);
    cr_expect(UNTIL(server_is_idle(run.server)), "what ran has been ended");
    stays(50);
    int64_t began = monotonic_ms();
    kill(getpid(), SIGTERM);
    expect_end(0);
    cr_expect_lt(monotonic_ms() - began, 5000, "nothing is waited for any more");
}

Test(server_drain, a_signal_begins_no_second_delay)
{
    start("drain_delay: 1500ms");
    int64_t began = monotonic_ms();
    server_begin_drain(run.server);
    stays(200);
    cr_expect(server_is_draining(run.server) && !server_is_idle(run.server));
    cr_expect(!refused(), "still accepting");
    kill(getpid(), SIGTERM);
    stays(50); /* the delay goes on */
    cr_expect(!refused(), "still accepting");
    expect_end(0);
    int64_t took = monotonic_ms() - began;
    cr_expect(took >= 1490, "the delay is kept: %lld ms", (long long)took);
}

Test(server_drain, the_second_signal_quits_at_once, .exit_code = 1)
{
    int client, api;
    start("");
    begin_request(&client, &api);
    server_begin_drain(run.server);
    kill(getpid(), SIGTERM);
    stays(100);
    kill(getpid(), SIGTERM);
    UNTIL(atomic_load(&run.ended));
    cr_assert_fail("the process ends before");
}

Test(server_drain, an_order_after_the_signal_changes_nothing)
{
    int client, api;
    start("");
    begin_request(&client, &api);
    kill(getpid(), SIGTERM);
    cr_expect(UNTIL(server_is_draining(run.server)));
    server_begin_drain(run.server);
    stays(50);
    say(api, "HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\ndone");
    cr_expect(strstr(hear(client, "done"), "done"));
    expect_end(0);
}
