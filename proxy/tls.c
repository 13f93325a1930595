/*
 * tls.c - contexts of OpenSSL, from the files of a configuration.
 *
 * Loading goes on after an error, so that one run tells all of them, each at the place where the file is named. A
 * context is only used once all are whole.
 *
 * Left out: revocation lists and OCSP, passphrases (nobody is there to type one), renewal of ticket keys in a running
 * process (TLS 1.3 resumes with a fresh key exchange all the same), early data (it could be replayed).
 */
#include "proxy/tls.h"

#include "proxy/ascii.h"
#include "proxy/span.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>

#define SESSIONS_KEPT 16 /* of one upstream */

struct tls_server {
    atomic_uint refs;
    SSL_CTX *context;
};

struct tls_client {
    atomic_uint refs;
    SSL_CTX *context;
    char *name; /* for SNI; NULL where the upstream is an address */
    pthread_mutex_t lock;
    SSL_SESSION *sessions[SESSIONS_KEPT]; /* newest last; those of TLS 1.3 are good for one use */
    size_t session_count;
};

struct tls {
    atomic_uint refs;
    size_t server_count, client_count;
    struct tls_server **servers; /* as conf->listen; NULL: plain */
    struct tls_client **clients; /* as conf->upstreams; NULL: plain */
};

/* ---- what is wrong with a file ---------------------------------------------------------------- */

struct loading {
    const struct conf *conf;
    FILE *messages;
    char setting[128]; /* the section that is read: "listen[0].tls" */
    bool failed;
};

static const char *reason(void)
{
    const char *text = ERR_reason_error_string(ERR_peek_last_error());
    return text ? text : "no reason given";
}

static void complain(struct loading *loading, const struct conf_file *file, const char *name, const char *what,
                     const char *why)
{
    loading->failed = true;
    if (file->line)
        fprintf(loading->messages, "%s:%d:%d: error: ", loading->conf->file, file->line, file->column);
    else
        fputs("einmal: ", loading->messages);
    fprintf(loading->messages, "%s.%s: %s: %s%s%s\n", loading->setting, name, file->path, what, why ? ": " : "",
            why ? why : "");
}

/* What OpenSSL would say about a missing file is hard to read. */
static bool is_readable(struct loading *loading, const struct conf_file *file, const char *name)
{
    FILE *in = fopen(file->path, "re");
    int error = in ? 0 : errno;
    if (in && fgetc(in) == EOF && ferror(in))
        error = errno; /* a directory opens, and cannot be read */
    if (in)
        fclose(in);
    if (error)
        complain(loading, file, name, strerror(error), NULL);
    return !error;
}

static int no_passphrase(char *to, int size, int writing, void *arg)
{
    (void)to, (void)size, (void)writing, (void)arg;
    return -1;
}

static void load_certificate(struct loading *loading, SSL_CTX *context, const struct conf_file *certificate,
                             const struct conf_file *key)
{
    SSL_CTX_set_default_passwd_cb(context, no_passphrase);
    bool readable = is_readable(loading, certificate, "certificate");
    readable &= is_readable(loading, key, "key");
    if (!readable)
        return;
    ERR_clear_error();
    bool has_certificate = SSL_CTX_use_certificate_chain_file(context, certificate->path) == 1;
    if (!has_certificate)
        complain(loading, certificate, "certificate", "not accepted as a certificate chain in PEM form", reason());
    ERR_clear_error();
    if (SSL_CTX_use_PrivateKey_file(context, key->path, SSL_FILETYPE_PEM) != 1) {
        bool other = ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH ||
                     ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_TYPE_MISMATCH;
        if (has_certificate && other)
            complain(loading, key, "key", "does not belong to the certificate", certificate->path);
        else
            complain(loading, key, "key", "not accepted as a private key in PEM form without a passphrase", reason());
    } else if (has_certificate && SSL_CTX_check_private_key(context) != 1) {
        complain(loading, key, "key", "does not belong to the certificate", certificate->path);
    }
}

static void load_authorities(struct loading *loading, SSL_CTX *context, const struct conf_file *file, const char *name)
{
    if (!is_readable(loading, file, name))
        return;
    ERR_clear_error();
    if (SSL_CTX_load_verify_locations(context, file->path, NULL) != 1)
        complain(loading, file, name, "not accepted as certificates in PEM form", reason());
}

static SSL_CTX *new_context(const SSL_METHOD *method)
{
    SSL_CTX *context = must_allocate(SSL_CTX_new(method));
    bool set = SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1;
    assert(set);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_read_ahead(context, 1); /* a record in one system call, not header and rest in two */
    return context;
}

/* ---- listeners -------------------------------------------------------------------------------- */

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
                           unsigned in_len, void *arg)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *chosen;
    (void)ssl, (void)arg;
    if (SSL_select_next_proto(&chosen, out_len, ours, sizeof ours - 1, in, in_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* Names the listener and who may come in there, whatever the files are called. */
static void set_session_context(SSL_CTX *context, const struct conf_listen *listen)
{
    unsigned char digest[EVP_MAX_MD_SIZE], piece[4096];
    unsigned len;
    size_t got;
    EVP_MD_CTX *hash = must_allocate(EVP_MD_CTX_new());
    EVP_DigestInit_ex(hash, EVP_sha256(), NULL);
    EVP_DigestUpdate(hash, listen->address, strlen(listen->address) + 1);
    FILE *in = listen->client_ca.path ? fopen(listen->client_ca.path, "re") : NULL;
    while (in && (got = fread(piece, 1, sizeof piece, in)) > 0)
        EVP_DigestUpdate(hash, piece, got);
    if (in)
        fclose(in);
    EVP_DigestFinal_ex(hash, digest, &len);
    EVP_MD_CTX_free(hash);
    SSL_CTX_set_session_id_context(context, digest, len);
}

static void require_certificates(struct loading *loading, SSL_CTX *context, const struct conf_file *authorities)
{
    load_authorities(loading, context, authorities, "client_ca");
    SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(authorities->path)); /* the names that are asked for */
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
}

static struct tls_server *load_server(struct loading *loading, const struct conf_listen *listen,
                                      const struct tls_ticket_keys *keys)
{
    struct tls_server *server = NEW(struct tls_server);
    SSL_CTX *context = server->context = new_context(TLS_server_method());
    atomic_init(&server->refs, 1);
    /* A FIN without close_notify is an ordinary half-close here: requests are framed by themselves. */
    SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
    load_certificate(loading, context, &listen->certificate, &listen->key);
    if (listen->client_ca.path)
        require_certificates(loading, context, &listen->client_ca);
    set_session_context(context, listen);
    if (keys) {
        assert(SSL_CTX_get_tlsext_ticket_keys(context, NULL, 0) == TLS_TICKET_KEYS_LEN);
        SSL_CTX_set_tlsext_ticket_keys(context, (void *)keys->bytes, TLS_TICKET_KEYS_LEN);
    }
    return server;
}

void tls_make_ticket_keys(struct tls_ticket_keys *keys)
{
    int made = RAND_bytes(keys->bytes, sizeof keys->bytes);
    assert(made == 1 && "without random numbers there is no TLS");
}

struct tls_server *tls_server_ref(struct tls_server *server)
{
    if (server)
        atomic_fetch_add(&server->refs, 1);
    return server;
}

void tls_server_unref(struct tls_server *server)
{
    if (!server || atomic_fetch_sub(&server->refs, 1) > 1)
        return;
    SSL_CTX_free(server->context);
    free(server);
}

void tls_server_begin(struct tls_server *server, struct stream *stream)
{
    stream->ssl = must_allocate(SSL_new(server->context));
    if (SSL_set_fd(stream->ssl, stream->fd) != 1)
        abort(); /* out of memory */
    SSL_set_accept_state(stream->ssl);
}

/* ---- upstreams -------------------------------------------------------------------------------- */

static int keep_session(SSL *ssl, SSL_SESSION *session)
{
    struct tls_client *client = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    SSL_SESSION *oldest = NULL;
    pthread_mutex_lock(&client->lock);
    if (client->session_count == SESSIONS_KEPT) {
        oldest = client->sessions[0];
        memmove(client->sessions, client->sessions + 1, (SESSIONS_KEPT - 1) * sizeof *client->sessions);
        client->session_count--;
    }
    client->sessions[client->session_count++] = session;
    pthread_mutex_unlock(&client->lock);
    SSL_SESSION_free(oldest);
    return 1; /* the reference is ours */
}

/* With a reference of the caller's; NULL: none. */
static SSL_SESSION *take_session(struct tls_client *client)
{
    SSL_SESSION *session = NULL;
    pthread_mutex_lock(&client->lock);
    if (client->session_count) {
        session = client->sessions[client->session_count - 1];
        if (SSL_SESSION_get_protocol_version(session) == TLS1_3_VERSION)
            client->session_count--;
        else
            SSL_SESSION_up_ref(session);
    }
    pthread_mutex_unlock(&client->lock);
    return session;
}

/* As it stands in certificates: lower case, without the dot that ends a full name. */
static char *reference_name(const struct conf_upstream *upstream)
{
    const char *given = upstream->tls_settings.server_name ? upstream->tls_settings.server_name : upstream->host;
    char *name = copy_string(given);
    size_t len = strlen(name);
    if (len > 1 && name[len - 1] == '.')
        name[len - 1] = '\0';
    for (char *c = name; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c | 0x20);
    return name;
}

static bool is_address(const char *name)
{
    unsigned char address[16];
    return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

static void set_verification(struct loading *loading, SSL_CTX *context, const struct conf_upstream *upstream,
                             const char *name)
{
    X509_VERIFY_PARAM *parameters = SSL_CTX_get0_param(context);
    if (upstream->tls_settings.ca.path)
        load_authorities(loading, context, &upstream->tls_settings.ca, "ca");
    else
        SSL_CTX_set_default_verify_paths(context);
    if (!upstream->tls_settings.verify)
        return; /* OpenSSL's own default */
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    X509_VERIFY_PARAM_set_hostflags(parameters,
                                    X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    int set = is_address(name) ? X509_VERIFY_PARAM_set1_ip_asc(parameters, name)
                               : X509_VERIFY_PARAM_set1_host(parameters, name, 0);
    assert(set == 1 && "the configuration was checked");
}

static struct tls_client *load_client(struct loading *loading, const struct conf_upstream *upstream)
{
    struct tls_client *client = NEW(struct tls_client);
    SSL_CTX *context = client->context = new_context(TLS_client_method());
    char *name = reference_name(upstream);
    atomic_init(&client->refs, 1);
    pthread_mutex_init(&client->lock, NULL);
    set_verification(loading, context, upstream, name);
    if (upstream->tls_settings.certificate.path)
        load_certificate(loading, context, &upstream->tls_settings.certificate, &upstream->tls_settings.key);
    SSL_CTX_set_alpn_protos(context, (const unsigned char *)"\x08http/1.1", 9);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_set_app_data(context, client);
    SSL_CTX_sess_set_new_cb(context, keep_session);
    if (is_address(name))
        free(name);
    else
        client->name = name;
    return client;
}

struct tls_client *tls_client_ref(struct tls_client *client)
{
    if (client)
        atomic_fetch_add(&client->refs, 1);
    return client;
}

void tls_client_unref(struct tls_client *client)
{
    if (!client || atomic_fetch_sub(&client->refs, 1) > 1)
        return;
    for (size_t i = 0; i < client->session_count; i++)
        SSL_SESSION_free(client->sessions[i]);
    SSL_CTX_free(client->context);
    pthread_mutex_destroy(&client->lock);
    free(client->name);
    free(client);
}

void tls_client_begin(struct tls_client *client, struct stream *stream)
{
    SSL_SESSION *session = take_session(client);
    SSL *ssl = stream->ssl = must_allocate(SSL_new(client->context));
    if (SSL_set_fd(ssl, stream->fd) != 1 || (client->name && SSL_set_tlsext_host_name(ssl, client->name) != 1))
        abort(); /* out of memory */
    if (session)
        SSL_set_session(ssl, session);
    SSL_SESSION_free(session);
    SSL_set_connect_state(ssl);
}

/* ---- all of a configuration ------------------------------------------------------------------- */

struct tls *tls_load(const struct conf *conf, const struct tls_ticket_keys *keys, FILE *messages)
{
    struct loading loading = {.conf = conf, .messages = messages};
    struct tls *tls = NEW(struct tls);
    atomic_init(&tls->refs, 1);
    tls->server_count = conf->listen_count;
    tls->client_count = conf->upstream_count;
    tls->servers = NEW_ARRAY(struct tls_server *, conf->listen_count);
    tls->clients = NEW_ARRAY(struct tls_client *, conf->upstream_count);
    for (size_t i = 0; i < conf->listen_count; i++) {
        snprintf(loading.setting, sizeof loading.setting, "listen[%zu].tls", i);
        if (conf->listen[i].tls)
            tls->servers[i] = load_server(&loading, &conf->listen[i], keys);
    }
    for (size_t i = 0; i < conf->upstream_count; i++) {
        snprintf(loading.setting, sizeof loading.setting, "upstreams.%s.tls", conf->upstreams[i].name);
        if (conf->upstreams[i].tls)
            tls->clients[i] = load_client(&loading, &conf->upstreams[i]);
    }
    ERR_clear_error();
    if (!loading.failed)
        return tls;
    tls_unref(tls);
    return NULL;
}

struct tls *tls_ref(struct tls *tls)
{
    atomic_fetch_add(&tls->refs, 1);
    return tls;
}

void tls_unref(struct tls *tls)
{
    if (!tls || atomic_fetch_sub(&tls->refs, 1) > 1)
        return;
    for (size_t i = 0; i < tls->server_count; i++)
        tls_server_unref(tls->servers[i]);
    for (size_t i = 0; i < tls->client_count; i++)
        tls_client_unref(tls->clients[i]);
    free(tls->servers);
    free(tls->clients);
    free(tls);
}

struct tls_server *tls_server_of(const struct tls *tls, size_t index)
{
    assert(index < tls->server_count);
    return tls->servers[index];
}

struct tls_client *tls_client_of(const struct tls *tls, const struct conf *conf, const struct conf_upstream *upstream)
{
    size_t index = (size_t)(upstream - conf->upstreams);
    assert(index < tls->client_count);
    return tls->clients[index];
}

/* ---- one connection --------------------------------------------------------------------------- */

void tls_explain(const struct stream *stream, char *text, size_t size)
{
    long verdict = SSL_get_verify_result(stream->ssl);
    const char *why = ERR_reason_error_string(ERR_peek_error());
    if (verdict != X509_V_OK && SSL_get_verify_mode(stream->ssl) != SSL_VERIFY_NONE)
        snprintf(text, size, "TLS: certificate not accepted: %s", X509_verify_cert_error_string(verdict));
    else
        snprintf(text, size, "TLS handshake failed: %s", why ? why : "the connection was closed");
}

static struct tls_identity *identity_of(X509 *certificate)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned digest_len;
    char *subject;
    BIO *out = must_allocate(BIO_new(BIO_s_mem()));
    X509_NAME_print_ex(out, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253);
    size_t len = (size_t)BIO_get_mem_data(out, &subject);
    struct tls_identity *identity = must_allocate(calloc(1, sizeof *identity + len + 1));
    memcpy(identity->subject, subject, len);
    BIO_free(out);
    X509_digest(certificate, EVP_sha256(), digest, &digest_len);
    assert(digest_len * 2 + 1 == sizeof identity->fingerprint);
    ascii_hex_text(identity->fingerprint, digest, digest_len);
    return identity;
}

struct tls_identity *tls_identity_new(const struct stream *stream)
{
    X509 *certificate = SSL_get0_peer_certificate(stream->ssl);
    if (!certificate || SSL_get_verify_result(stream->ssl) != X509_V_OK)
        return NULL;
    return identity_of(certificate);
}

struct tls_identity *tls_identity_read(const char *file)
{
    FILE *in = fopen(file, "re");
    X509 *certificate = in ? PEM_read_X509(in, NULL, NULL, NULL) : NULL;
    struct tls_identity *identity = certificate ? identity_of(certificate) : NULL;
    X509_free(certificate);
    if (in)
        fclose(in);
    ERR_clear_error();
    return identity;
}

struct tls_identity *tls_identity_copy(const struct tls_identity *identity)
{
    if (!identity)
        return NULL;
    size_t size = sizeof *identity + strlen(identity->subject) + 1;
    return memcpy(must_allocate(malloc(size)), identity, size);
}
