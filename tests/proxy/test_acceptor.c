/*
 * test_acceptor.c - one listening socket per address: whose it is, who may connect, and how many.
 */
#include "net.h"
#include "proxy/acceptor.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>

#define MANY 64

static int accepted[MANY], accepted_count;
static size_t accepted_listener;
static char accepted_peer[64];
static char directory[] = "/tmp/einmal-acceptor-XXXXXX";

static void take(void *arg, size_t listener, int fd, const char *peer)
{
    (void)arg, (void)listener;
    cr_assert_lt(accepted_count, MANY);
    accepted[accepted_count++] = fd;
    accepted_listener = listener;
    snprintf(accepted_peer, sizeof accepted_peer, "%s", peer);
}

static struct acceptor *start(struct conf_listen *listen_on, size_t count, uint32_t limit, char *error, size_t size)
{
    error[0] = '\0';
    return acceptor_new(base, listen_on, count, limit, take, NULL, error, size);
}

static struct conf_listen on_port(const char *host, uint16_t port)
{
    static char address[64];
    snprintf(address, sizeof address, "%s:%u", host, port);
    return (struct conf_listen){.address = address, .host = (char *)host, .port = port};
}

static struct conf_listen on_path(const char *path, unsigned mode)
{
    return (struct conf_listen){.address = (char *)path, .unix_path = (char *)path, .mode = mode};
}

static uint16_t free_port(void)
{
    uint16_t port;
    close(net_listen(&port));
    return port;
}

static int dial(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

static int dial_unix(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    strcpy(to.sun_path, path);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    close(fd);
    return -1;
}

static void drop_accepted(struct acceptor *acceptor)
{
    while (accepted_count) {
        close(accepted[--accepted_count]);
        acceptor_connection_closed(acceptor);
    }
}

static const char *path_in(const char *name)
{
    static char path[100];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

/* ---- TCP -------------------------------------------------------------------------------------- */

/* What it shows its clients depends on it. */
Test(acceptor, tells_where_a_connection_came_in)
{
    char error[200], addresses[2][32];
    struct conf_listen listen_on[2];
    net_begin();
    for (int i = 0; i < 2; i++) {
        listen_on[i] = on_port("127.0.0.1", free_port());
        snprintf(addresses[i], sizeof addresses[i], "%s", listen_on[i].address);
        listen_on[i].address = addresses[i];
    }
    struct acceptor *acceptor = start(listen_on, 2, 10, error, sizeof error);
    cr_assert(acceptor, "%s", error);
    for (int i = 1; i >= 0; i--) {
        int peer = dial(listen_on[i].port);
        cr_assert(NET_UNTIL(accepted_count == 1));
        cr_expect_eq(accepted_listener, (size_t)i);
        drop_accepted(acceptor);
        close(peer);
    }
    acceptor_free(acceptor);
    net_end();
}

Test(acceptor, hands_on_connections_ready_to_use)
{
    char error[200];
    net_begin();
    struct conf_listen listen_on = on_port("127.0.0.1", free_port());
    struct acceptor *acceptor = start(&listen_on, 1, 10, error, sizeof error);
    cr_assert(acceptor, "%s", error);
    int peer = dial(listen_on.port), value = 0;
    socklen_t len = sizeof value;
    cr_assert(NET_UNTIL(accepted_count == 1));
    cr_assert_str_eq(accepted_peer, "127.0.0.1");
    cr_assert(fcntl(accepted[0], F_GETFL) & O_NONBLOCK);
    cr_assert(fcntl(accepted[0], F_GETFD) & FD_CLOEXEC);
    cr_assert(getsockopt(accepted[0], IPPROTO_TCP, TCP_NODELAY, &value, &len) == 0 && value, "TCP_NODELAY");
    cr_assert_eq(acceptor_connections(acceptor), 1);
    drop_accepted(acceptor);
    cr_assert_eq(acceptor_connections(acceptor), 0);
    acceptor_free(acceptor);
    close(peer);
    net_end();
}

Test(acceptor, shares_an_address_with_nobody)
{
    char error[200];
    net_begin();
    struct conf_listen listen_on = on_port("127.0.0.1", free_port());
    struct acceptor *first = start(&listen_on, 1, 10, error, sizeof error);
    cr_assert(first, "%s", error);
    cr_assert_null(start(&listen_on, 1, 10, error, sizeof error), "a second instance would take half of the attempts");
    cr_assert(strstr(error, listen_on.address) && strstr(error, strerror(EADDRINUSE)), "%s", error);
    acceptor_stop(first);
    struct acceptor *second = start(&listen_on, 1, 10, error, sizeof error);
    cr_assert(second, "after the end of the first: %s", error);
    acceptor_free(first);
    acceptor_free(second);
    net_end();
}

Test(acceptor, says_which_address_cannot_be_had)
{
    char error[200];
    net_begin();
    struct conf_listen two[] = {on_port("127.0.0.1", free_port()), {0}};
    two[1] = (struct conf_listen){.address = (char *)"192.0.2.1:80", .host = (char *)"192.0.2.1", .port = 80};
    cr_assert_null(start(two, 2, 10, error, sizeof error));
    cr_assert(strstr(error, "192.0.2.1:80"), "%s", error);
    cr_assert_eq(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 0, "the first one is closed again");
    net_end();
}

Test(acceptor, pauses_at_the_limit_without_spinning)
{
    char error[200];
    int peers[5];
    net_begin();
    struct conf_listen listen_on = on_port("127.0.0.1", free_port());
    struct acceptor *acceptor = start(&listen_on, 1, 2, error, sizeof error);
    for (int i = 0; i < 5; i++)
        peers[i] = dial(listen_on.port);
    cr_assert(NET_UNTIL(accepted_count == 2));
    cr_assert(!net_spins(200));
    cr_assert_eq(accepted_count, 2);
    acceptor_connection_closed(acceptor);
    cr_assert(NET_UNTIL(accepted_count == 3), "one that closes makes room for one");
    net_run(20);
    cr_assert_eq(accepted_count, 3);
    acceptor_set_limit(acceptor, 4);
    cr_assert(NET_UNTIL(accepted_count == 5), "so does a higher limit");
    cr_assert_eq(acceptor_connections(acceptor), 4);
    for (int i = 0; i < 5; i++) {
        close(accepted[i]);
        close(peers[i]);
    }
    acceptor_free(acceptor);
    net_end();
}

Test(acceptor, survives_that_descriptors_are_used_up)
{
    char error[200];
    int fillers[200], filled = 0, peers[2];
    struct rlimit few = {64, 64};
    net_begin();
    struct conf_listen listen_on = on_port("127.0.0.1", free_port());
    struct acceptor *acceptor = start(&listen_on, 1, 100, error, sizeof error);
    peers[0] = dial(listen_on.port);
    peers[1] = dial(listen_on.port);
    getrlimit(RLIMIT_NOFILE, &few);
    few.rlim_cur = 64;
    setrlimit(RLIMIT_NOFILE, &few);
    while (filled < 200 && (fillers[filled] = dup(0)) >= 0)
        filled++;
    cr_assert(!net_spins(300), "a full table must not turn the loop");
    cr_assert_eq(accepted_count, 0);
    while (filled)
        close(fillers[--filled]);
    cr_assert(NET_UNTIL(accepted_count == 2), "they are accepted when there is room again");
    drop_accepted(acceptor);
    acceptor_free(acceptor);
    close(peers[0]);
    close(peers[1]);
    net_end();
}

Test(acceptor, stops_and_goes_on_counting)
{
    char error[200];
    net_begin();
    struct conf_listen listen_on = on_port("127.0.0.1", free_port());
    struct acceptor *acceptor = start(&listen_on, 1, 1, error, sizeof error);
    int peer = dial(listen_on.port);
    cr_assert(NET_UNTIL(accepted_count == 1));
    acceptor_stop(acceptor);
    drop_accepted(acceptor); /* the limit has paused it: nothing may be listened to again */
    net_run(20);
    cr_assert_eq(acceptor_connections(acceptor), 0);
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(listen_on.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int other = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert(connect(other, (struct sockaddr *)&to, sizeof to) != 0, "refused");
    close(other);
    close(peer);
    acceptor_free(acceptor);
    net_end();
}

/* ---- unix sockets ----------------------------------------------------------------------------- */

static void make_directory(void)
{
    net_begin();
    cr_assert(mkdtemp(directory));
}

static void remove_directory(void)
{
    cr_assert(rmdir(directory) == 0, "something is left in %s", directory);
    net_end();
}

Test(acceptor, gives_a_unix_socket_exactly_its_mode)
{
    static const unsigned modes[] = {0600, 0660, 0666}, masks[] = {0, 077, 0777};
    make_directory();
    for (size_t i = 0; i < 9; i++) {
        char error[200];
        struct stat made;
        struct conf_listen listen_on = on_path(path_in("mode"), modes[i / 3]);
        mode_t before = umask(masks[i % 3]);
        struct acceptor *acceptor = start(&listen_on, 1, 10, error, sizeof error);
        umask(before);
        cr_assert(acceptor, "%s", error);
        cr_assert(stat(listen_on.unix_path, &made) == 0);
        cr_assert_eq(made.st_mode & 07777, modes[i / 3], "mode %o under umask %o: %o", modes[i / 3], masks[i % 3],
                     made.st_mode & 07777);
        int peer = dial_unix(listen_on.unix_path);
        cr_assert(NET_UNTIL(accepted_count == 1));
        cr_assert_str_eq(accepted_peer, "unix");
        drop_accepted(acceptor);
        close(peer);
        acceptor_free(acceptor);
        cr_assert(stat(listen_on.unix_path, &made) != 0, "ours is removed at the end");
    }
    remove_directory();
}

static void leave_stale(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    strcpy(address.sun_path, path);
    cr_assert(bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 1) == 0);
    close(fd); /* as after kill -9 */
}

Test(acceptor, replaces_a_dead_socket_and_nothing_else)
{
    char error[200];
    struct stat found;
    make_directory();
    const char *path = path_in("socket");
    struct conf_listen listen_on = on_path(path, 0600);

    leave_stale(path);
    struct acceptor *acceptor = start(&listen_on, 1, 10, error, sizeof error);
    cr_assert(acceptor, "a socket that nobody listens on: %s", error);
    cr_assert_null(start(&listen_on, 1, 10, error, sizeof error), "one that somebody listens on");
    cr_assert(strstr(error, path), "%s", error);
    int peer = dial_unix(path);
    cr_assert(peer >= 0, "and the living one is untouched");
    cr_assert(NET_UNTIL(accepted_count == 2), "the second instance has knocked, too");
    drop_accepted(acceptor);
    close(peer);
    acceptor_free(acceptor);

    int file = open(path, O_CREAT | O_WRONLY, 0600);
    cr_assert(write(file, "data", 4) == 4);
    close(file);
    cr_assert_null(start(&listen_on, 1, 10, error, sizeof error), "a file");
    cr_assert(stat(path, &found) == 0 && found.st_size == 4, "somebody's data");
    unlink(path);
    cr_assert(symlink("/nowhere", path) == 0);
    cr_assert_null(start(&listen_on, 1, 10, error, sizeof error), "a link");
    unlink(path);
    remove_directory();
}

static const char *failing; /* "chmod", "lstat": the call that fails, once a socket stands there */

int chmod(const char *path, mode_t mode)
{
    if (failing && strcmp(failing, "chmod") == 0) {
        errno = EPERM;
        return -1;
    }
    return (int)syscall(SYS_fchmodat, AT_FDCWD, path, mode);
}

int lstat(const char *restrict path, struct stat *restrict found)
{
    int result = fstatat(AT_FDCWD, path, found, AT_SYMLINK_NOFOLLOW);
    if (result == 0 && failing && strcmp(failing, "lstat") == 0) {
        errno = EACCES;
        return -1;
    }
    return result;
}

Test(acceptor, leaves_no_socket_where_it_could_not_be_made_ready)
{
    static const struct {
        const char *call;
        int error;
    } rows[] = {{"chmod", EPERM}, {"lstat", EACCES}};
    char error[200];
    struct stat found;
    make_directory();
    struct conf_listen listen_on = on_path(path_in("socket"), 0600);
    for (size_t i = 0; i < 2; i++) {
        failing = rows[i].call;
        cr_assert_null(start(&listen_on, 1, 10, error, sizeof error), "%s", rows[i].call);
        failing = NULL;
        cr_assert(strstr(error, strerror(rows[i].error)), "%s: %s", rows[i].call, error);
        cr_assert(stat(listen_on.unix_path, &found) != 0, "%s: the socket is left behind", rows[i].call);
    }
    remove_directory();
}

Test(acceptor, removes_only_its_own_socket)
{
    char error[200];
    struct stat found;
    make_directory();
    char path[100], moved[100];
    snprintf(path, sizeof path, "%s", path_in("socket"));
    snprintf(moved, sizeof moved, "%s", path_in("moved"));
    struct conf_listen listen_on = on_path(path, 0600);
    struct acceptor *acceptor = start(&listen_on, 1, 10, error, sizeof error);
    cr_assert(acceptor, "%s", error);
    cr_assert(rename(path, moved) == 0);
    leave_stale(path);
    acceptor_free(acceptor);
    cr_assert(stat(path, &found) == 0, "another one stands there now");
    unlink(path);
    unlink(moved);
    remove_directory();
}

Test(acceptor, refuses_a_path_that_is_too_long)
{
    static char path[109];
    char error[300];
    make_directory();
    memset(path, 'x', 108);
    memcpy(path, "/tmp/", 5);
    struct conf_listen listen_on = on_path(path, 0600);
    cr_assert_null(start(&listen_on, 1, 10, error, sizeof error));
    cr_assert(strstr(error, "too long"), "%s", error);
    remove_directory();
}
