/*
 * The TLS half of a stream, on a socketpair with a bare OpenSSL at the other end: what the kernel no longer tells about
 * is told by stream_has_pending(), every kind of end is told apart, nothing is lost where a socket takes little.
 */
#include "net.h"
#include "proxy/stream.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

struct pair {
    struct stream ours; /* non-blocking, as in the proxy */
    int fd;
    SSL *theirs; /* the peer's, non-blocking, too */
    SSL_CTX *server, *client;
};

/* A certificate that says nothing but has a name of `len` letters in it. */
static X509 *certificate(EVP_PKEY *key, size_t len)
{
    X509 *made = X509_new();
    char *name = calloc(1, len + 5);
    memcpy(name, "DNS:", 4);
    memset(name + 4, 'a', len);
    X509_set_version(made, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(made), 1);
    X509_gmtime_adj(X509_getm_notBefore(made), -3600);
    X509_gmtime_adj(X509_getm_notAfter(made), 3600);
    X509_set_pubkey(made, key);
    X509_EXTENSION *names = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, name);
    cr_assert(names && X509_add_ext(made, names, -1));
    cr_assert(X509_sign(made, key, EVP_sha256()));
    X509_EXTENSION_free(names);
    free(name);
    return made;
}

static void set_context(SSL_CTX *context)
{
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_read_ahead(context, 1);
}

static void begin(struct pair *pair, bool we_serve, int version, size_t name_len)
{
    int fds[2], small = 4096;
    signal(SIGPIPE, SIG_IGN);
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
    for (int i = 0; i < 2; i++)
        setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    *pair = (struct pair){.ours = {.fd = fds[0]}, .fd = fds[1]};
    pair->server = SSL_CTX_new(TLS_server_method());
    pair->client = SSL_CTX_new(TLS_client_method());
    set_context(pair->server);
    set_context(pair->client);
    SSL_CTX_set_max_proto_version(pair->server, version);
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *made = certificate(key, name_len);
    cr_assert(SSL_CTX_use_certificate(pair->server, made) && SSL_CTX_use_PrivateKey(pair->server, key));
    X509_free(made);
    EVP_PKEY_free(key);
    pair->ours.ssl = SSL_new(we_serve ? pair->server : pair->client);
    pair->theirs = SSL_new(we_serve ? pair->client : pair->server);
    SSL_set_fd(pair->ours.ssl, fds[0]);
    SSL_set_fd(pair->theirs, fds[1]);
    (we_serve ? SSL_set_accept_state : SSL_set_connect_state)(pair->ours.ssl);
    (we_serve ? SSL_set_connect_state : SSL_set_accept_state)(pair->theirs);
}

static void end(struct pair *pair)
{
    if (pair->ours.fd >= 0)
        stream_reset(&pair->ours);
    SSL_free(pair->theirs);
    if (pair->fd >= 0)
        close(pair->fd);
    SSL_CTX_free(pair->server);
    SSL_CTX_free(pair->client);
}

/* Returns how often our side had to wait until it could write. */
static int shake_hands(struct pair *pair)
{
    int waits = 0;
    for (int turn = 0; turn < 1000; turn++) {
        enum stream_result result = pair->ours.ready ? STREAM_OK : stream_handshake(&pair->ours);
        cr_assert(result == STREAM_OK || result == STREAM_AGAIN);
        waits += pair->ours.read_wants_write;
        if (SSL_do_handshake(pair->theirs) == 1 && pair->ours.ready)
            return waits;
    }
    cr_assert_fail("the handshake does not end");
    return 0;
}

struct row {
    const char *name;
    bool we_serve;
    int version;
};

static const struct row rows[] = {
    {"server, 1.3", true, TLS1_3_VERSION},
    {"server, 1.2", true, TLS1_2_VERSION},
    {"client, 1.3", false, TLS1_3_VERSION},
    {"client, 1.2", false, TLS1_2_VERSION},
};
#define EACH_ROW(row)                        \
    const struct row *row = rows;            \
    row < rows + sizeof rows / sizeof *rows; \
    row++

static enum stream_result read_all(struct stream *stream, char *to, size_t size, size_t *total)
{
    enum stream_result result;
    size_t len;
    *total = 0;
    do {
        result = stream_read(stream, to + *total, size - *total, &len);
        *total += len;
    } while (result == STREAM_OK && *total < size && stream_has_pending(stream));
    return result;
}

Test(stream_tls, bytes_that_openssl_holds_are_told)
{
    for (EACH_ROW(row)) {
        struct pair pair;
        char bytes[3000], got[64];
        size_t len;
        begin(&pair, row->we_serve, row->version, 10);
        shake_hands(&pair);
        memset(bytes, 'x', sizeof bytes);
        cr_assert(SSL_write(pair.theirs, bytes, 100) == 100);
        cr_assert(SSL_write(pair.theirs, bytes, 50) == 50);
        cr_expect(stream_read(&pair.ours, got, 60, &len) == STREAM_OK && len == 60, "%s", row->name);
        cr_expect(stream_has_pending(&pair.ours), "%s: the rest of the record", row->name);
        cr_expect(stream_read(&pair.ours, got, 40, &len) == STREAM_OK && len == 40, "%s", row->name);
        cr_expect(stream_has_pending(&pair.ours), "%s: the next record, read ahead", row->name);
        cr_expect(stream_read(&pair.ours, got, sizeof got, &len) == STREAM_OK && len == 50, "%s", row->name);
        cr_expect(!stream_has_pending(&pair.ours), "%s: nothing more", row->name);
        cr_expect(stream_read(&pair.ours, got, sizeof got, &len) == STREAM_AGAIN && len == 0, "%s", row->name);
        cr_expect(!stream_has_pending(&pair.ours) && stream_is_quiet(&pair.ours), "%s: quiet", row->name);
        SSL_write(pair.theirs, bytes, 1);
        cr_expect(!stream_is_quiet(&pair.ours), "%s: a byte waits", row->name);
        end(&pair);
    }
}

/* Half a record is here: the event tells about the rest, asking again without one would spin. */
Test(stream_tls, half_a_record_is_nothing_pending)
{
    struct pair pair;
    char record[400], got[64];
    size_t len;
    begin(&pair, true, TLS1_3_VERSION, 10);
    shake_hands(&pair);
    BIO *kept = BIO_new(BIO_s_mem());
    SSL_set0_wbio(pair.theirs, kept);
    SSL_write(pair.theirs, "hello", 5);
    int size = BIO_read(kept, record, sizeof record);
    cr_assert(size > 20 && send(pair.fd, record, 10, 0) == 10);
    cr_expect(stream_read(&pair.ours, got, sizeof got, &len) == STREAM_AGAIN);
    cr_expect(!stream_has_pending(&pair.ours));
    cr_expect(!stream_is_quiet(&pair.ours), "but a kept connection on which half a record lies is not fresh");
    cr_assert(send(pair.fd, record + 10, (size_t)size - 10, 0) == size - 10);
    cr_expect(stream_read(&pair.ours, got, sizeof got, &len) == STREAM_OK && len == 5);
    end(&pair);
}

Test(stream_tls, ends_are_told_apart)
{
    enum { NOTIFY, NOTIFY_BEHIND_DATA, FIN, FIN_BEHIND_DATA, GARBAGE };
    static const struct {
        const char *name;
        int how;
        size_t data;
        enum stream_result result;
    } endings[] = {
        {"close_notify", NOTIFY, 0, STREAM_END},
        {"close_notify in the packet with data, no FIN", NOTIFY_BEHIND_DATA, 7, STREAM_END},
        {"FIN alone", FIN, 0, STREAM_CUT},
        {"FIN behind data", FIN_BEHIND_DATA, 7, STREAM_CUT},
        {"no TLS", GARBAGE, 0, STREAM_BROKEN},
    };
    for (EACH_ROW(row))
        for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
            struct pair pair;
            char got[100];
            size_t total, len;
            begin(&pair, row->we_serve, row->version, 10);
            shake_hands(&pair);
            if (endings[i].data)
                SSL_write(pair.theirs, "1234567", 7);
            if (endings[i].how == NOTIFY || endings[i].how == NOTIFY_BEHIND_DATA)
                SSL_shutdown(pair.theirs);
            if (endings[i].how == FIN || endings[i].how == FIN_BEHIND_DATA)
                shutdown(pair.fd, SHUT_WR);
            if (endings[i].how == GARBAGE)
                cr_assert(send(pair.fd, "GET / HTTP/1.1\r\n", 16, 0) == 16);
            enum stream_result result = read_all(&pair.ours, got, sizeof got, &total);
            if (result == STREAM_OK && endings[i].how == FIN_BEHIND_DATA)
                result = stream_read(&pair.ours, got, sizeof got, &len); /* the socket tells */
            cr_expect(total == endings[i].data, "%s, %s: %zu bytes", row->name, endings[i].name, total);
            cr_expect(result == endings[i].result, "%s, %s: %d", row->name, endings[i].name, result);
            cr_expect(stream_read(&pair.ours, got, sizeof got, &len) == result, "%s, %s: and again", row->name,
                      endings[i].name);
            end(&pair);
        }
}

/* Everything that a write took must come, in order, whatever the socket takes at once. */
Test(stream_tls, long_writes_in_parts)
{
    enum { LEN = 200000 };
    static const size_t cuts[][2] = {{0, 0},         {1, 0},         {100, 300}, {16383, 1},
                                     {16384, 16384}, {20000, 40000}, {5, 199990}};
    char *sent = malloc(LEN), *got = malloc(LEN);
    for (size_t i = 0; i < LEN; i++)
        sent[i] = (char)(i * 7 + i / 251);
    for (EACH_ROW(row))
        for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
            struct pair pair;
            size_t at = 0, came = 0, moved;
            begin(&pair, row->we_serve, row->version, 10);
            shake_hands(&pair);
            while (came < LEN) {
                size_t first = cuts[i][0] < LEN - at ? cuts[i][0] : LEN - at;
                size_t second = cuts[i][1] < LEN - at - first ? cuts[i][1] : LEN - at - first;
                struct iovec parts[3] = {{sent + at, first},
                                         {sent + at + first, second},
                                         {sent + at + first + second, LEN - at - first - second}};
                enum stream_result result = stream_write(&pair.ours, parts, 3, &moved);
                cr_assert(result == STREAM_OK || result == STREAM_AGAIN, "%s: %d", row->name, result);
                at += moved;
                int len;
                while ((len = SSL_read(pair.theirs, got + came, (int)(LEN - came))) > 0)
                    came += (size_t)len;
            }
            cr_expect(at == LEN && memcmp(sent, got, LEN) == 0, "%s, cut %zu %zu", row->name, cuts[i][0], cuts[i][1]);
            end(&pair);
        }
    free(sent);
    free(got);
}

/* A head and a short body are one record: the peer's first read brings both. */
Test(stream_tls, short_parts_are_one_record)
{
    struct pair pair;
    char got[100];
    size_t moved;
    struct iovec parts[] = {{(char *)"head", 4}, {NULL, 0}, {(char *)"body", 4}};
    begin(&pair, true, TLS1_3_VERSION, 10);
    shake_hands(&pair);
    cr_expect(stream_write(&pair.ours, parts, 3, &moved) == STREAM_OK && moved == 8);
    cr_expect(SSL_read(pair.theirs, got, sizeof got) == 8 && memcmp(got, "headbody", 8) == 0);
    end(&pair);
}

/* Our certificate does not fit into the socket: the handshake, which reading carries on, waits for writing. */
Test(stream_tls, a_handshake_waits_for_writing)
{
    for (EACH_ROW(row)) {
        struct pair pair;
        if (!row->we_serve)
            continue;
        begin(&pair, true, row->version, 30000);
        cr_expect(shake_hands(&pair) > 0, "%s: it had to wait", row->name);
        cr_expect(!pair.ours.read_wants_write, "%s: and waits no more", row->name);
        end(&pair);
    }
}

/* Tickets that lie on a kept connection are no bytes of a response. */
Test(stream_tls, tickets_leave_a_connection_quiet)
{
    struct pair pair;
    begin(&pair, false, TLS1_3_VERSION, 10);
    shake_hands(&pair);
    char byte;
    cr_assert(recv(pair.ours.fd, &byte, 1, MSG_PEEK) == 1, "tickets are here");
    cr_expect(stream_is_quiet(&pair.ours));
    cr_expect(recv(pair.ours.fd, &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN, "they have been taken");
    SSL_new_session_ticket(pair.theirs);
    SSL_do_handshake(pair.theirs);
    cr_expect(stream_is_quiet(&pair.ours), "late ones, too");
    SSL_key_update(pair.theirs, SSL_KEY_UPDATE_REQUESTED);
    SSL_do_handshake(pair.theirs);
    cr_expect(stream_is_quiet(&pair.ours), "and new keys");
    size_t moved;
    char got[10];
    cr_expect(stream_write(&pair.ours, &(struct iovec){(char *)"ask", 3}, 1, &moved) == STREAM_OK && moved == 3);
    cr_expect(SSL_read(pair.theirs, got, sizeof got) == 3, "the connection goes on");
    shutdown(pair.fd, SHUT_WR);
    cr_expect(!stream_is_quiet(&pair.ours), "an end is noticed");
    end(&pair);
}

Test(stream_tls, ending_says_goodbye_and_resetting_does_not)
{
    for (EACH_ROW(row)) {
        struct pair pair;
        char byte, late[10];
        size_t len;
        begin(&pair, row->we_serve, row->version, 10);
        shake_hands(&pair);
        cr_expect(stream_end(&pair.ours) == STREAM_OK, "%s", row->name);
        int result = SSL_read(pair.theirs, &byte, 1);
        cr_expect(SSL_get_error(pair.theirs, result) == SSL_ERROR_ZERO_RETURN, "%s: close_notify", row->name);
        cr_expect(stream_end(&pair.ours) == STREAM_OK, "%s: twice is once", row->name);
        cr_expect(SSL_write(pair.theirs, "late", 4) == 4);
        cr_expect(stream_read(&pair.ours, late, sizeof late, &len) == STREAM_OK && len == 4,
                  "%s: the other half goes on", row->name);
        end(&pair);
        begin(&pair, row->we_serve, row->version, 10);
        shake_hands(&pair);
        stream_reset(&pair.ours);
        result = SSL_read(pair.theirs, &byte, 1);
        cr_expect(SSL_get_error(pair.theirs, result) != SSL_ERROR_ZERO_RETURN, "%s: no close_notify", row->name);
        end(&pair);
    }
}

/* A close_notify that finds no room is not lost: the caller is told to come again. */
Test(stream_tls, goodbye_waits_for_room)
{
    struct pair pair;
    char filler[65536], byte;
    size_t moved;
    begin(&pair, true, TLS1_3_VERSION, 10);
    shake_hands(&pair);
    memset(filler, 'f', sizeof filler);
    cr_assert(SSL_read(pair.theirs, &byte, 1) <= 0, "tickets are out of the way");
    while (send(pair.ours.fd, filler, 1, 0) == 1) /* beneath the TLS: only room matters */
        ;
    cr_expect(stream_end(&pair.ours) == STREAM_AGAIN);
    while (recv(pair.fd, filler, sizeof filler, 0) > 0)
        ;
    cr_expect(stream_end(&pair.ours) == STREAM_OK);
    stream_stop_understanding(&pair.ours);
    int result = SSL_read(pair.theirs, &byte, 1);
    cr_expect(SSL_get_error(pair.theirs, result) == SSL_ERROR_ZERO_RETURN);
    cr_expect(stream_read(&pair.ours, &byte, 1, &moved) == STREAM_AGAIN, "afterwards the stream is a plain one");
    end(&pair);
}
