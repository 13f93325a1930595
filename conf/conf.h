/*
 * conf.h - the configuration, read, checked and complete (contract §3).
 *
 * A struct conf never changes after conf_load. Whoever uses it beyond a call holds a reference: requests keep the
 * configuration that they began with over a reload. All strings are owned by it. Durations are milliseconds, sizes
 * bytes.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CONF_FOREVER INT64_MAX

/* ---- components (contract §3, "Components") --------------------------------------------------- */

enum component_kind {
    COMPONENT_METHOD,
    COMPONENT_HOST,
    COMPONENT_PATH,
    COMPONENT_QUERY,
    COMPONENT_BODY,
    COMPONENT_PATH_NAME,  /* path:NAME */
    COMPONENT_QUERY_NAME, /* query:NAME */
    COMPONENT_HEADER,     /* header:NAME */
    COMPONENT_COOKIE,     /* cookie:NAME */
    COMPONENT_FORM,       /* form:NAME */
    COMPONENT_JSON,       /* json:/POINTER (RFC 6901) */
    COMPONENT_TLS_SUBJECT,
    COMPONENT_TLS_FINGERPRINT,
    COMPONENT_LITERAL, /* literal:TEXT */
};

struct component {
    enum component_kind kind;
    char *argument; /* NAME, POINTER or TEXT; "" where there is none */
};

struct component_list {
    struct component *items;
    size_t count;
};

/* True for those that need the body read: body, form:, json:. */
bool component_needs_body(const struct component *component);

/* ---- routes ----------------------------------------------------------------------------------- */

/* One segment of match.path: an exact text (already normalised) or {name}. */
struct conf_segment {
    char *text; /* the literal, or the name */
    bool is_name;
};

struct conf_match {
    char *host; /* NULL: any. Lower case, default port removed. "*.example": host_wildcard, and host is ".example" */
    bool host_wildcard;
    char **methods;  /* NULL-terminated */
    char *path_text; /* as written */
    struct conf_segment *segments;
    size_t segment_count;
    bool rest;           /* trailing slash-star-star: any rest, also none */
    bool trailing_slash; /* pattern ends in "/" (and is not just "/") */
};

/* One alternative of `key`. */
struct conf_key {
    bool derived;
    char *header;                 /* !derived: name of the header that carries the key */
    struct component_list derive; /* derived */
};

enum conf_scope_kind { SCOPE_AUTO, SCOPE_COMPONENTS };
enum conf_fingerprint_kind {
    FINGERPRINT_NONE,
    FINGERPRINT_BODY,
    FINGERPRINT_JSON,
    FINGERPRINT_COMPONENTS,
    FINGERPRINT_DEFAULT /* body for sent keys, none for derived ones */
};
enum conf_on_unknown { ON_UNKNOWN_REPORT, ON_UNKNOWN_RETRY, ON_UNKNOWN_PROBE };
enum status_class { STATUS_COMPLETED, STATUS_RELEASE, STATUS_UNKNOWN };

/* Effective meaning of each status 100…999, list, class and `other` already applied. */
struct conf_statuses {
    uint8_t meaning[1000];                  /* enum status_class */
    uint8_t meaning_with_retry_after[1000]; /* the same when the response has Retry-After ("409+retry-after") */
};

/* One piece of probe.path. */
enum conf_probe_kind {
    PROBE_LITERAL,
    PROBE_KEY,       /* {key}: as the API got it: the key that was sent, or the action's id for a derived one */
    PROBE_COMPONENT, /* {path:NAME}, {json:/POINTER}, {header:NAME} */
};

struct conf_probe_part {
    enum conf_probe_kind kind;
    char *text;                 /* PROBE_LITERAL: as it goes into the target */
    struct component component; /* PROBE_COMPONENT */
};

/* What the status of a probe's answer says. */
enum conf_probe_meaning { PROBE_SAYS_NOTHING, PROBE_HAPPENED, PROBE_NOT_HAPPENED };

/* How the API itself is asked whether an action happened. */
struct conf_probe {
    const char *method; /* GET or HEAD */
    char *path;         /* as written */
    struct conf_probe_part *parts;
    size_t part_count;
    uint8_t meaning[1000]; /* enum conf_probe_meaning, lists and classes already applied */
    int64_t settle;        /* not_happened is believed this long after the last forwarding ended */
};

struct conf_upstream;

struct conf_route {
    char *name, *scope_name;
    const char *preset; /* NULL: none. What it says has become the route's own; the name is for people */
    struct conf_match match;
    const struct conf_upstream *upstream;
    struct conf_key *keys;
    size_t key_count;
    bool key_needs_body; /* some alternative does */
    bool required;
    enum conf_scope_kind scope_kind;
    struct component_list scope;
    bool reject_other_identity;
    enum conf_fingerprint_kind fingerprint_kind;
    struct component_list fingerprint; /* FINGERPRINT_COMPONENTS */
    char **ignore;                     /* JSON pointers; NULL-terminated */
    bool mismatch_is_new;
    bool concurrent_waits;
    int64_t wait_timeout;
    enum conf_on_unknown on_unknown;
    struct conf_probe *probe; /* with ON_UNKNOWN_PROBE; else NULL */
    struct conf_statuses statuses;
    int64_t retention, unknown_retention;
    uint64_t max_request_body, max_response_body;
    char **replay_drop; /* header names; NULL-terminated */
    char **cors;        /* origins, as browsers write them; NULL-terminated */
    char *replayed_header;
    bool pass_on_store_error;
    struct component *task; /* NULL: none */
    uint8_t digest[32];     /* of what identifies its actions: scope, key, on_mismatch, fingerprint (+ ignore) */
    int line;               /* where it stands in the file */
    _Atomic unsigned char
        warned; /* the one thing that changes: which warnings a first request has already given (bits) */
};

/* ---- upstreams -------------------------------------------------------------------------------- */

/* A file that the configuration names, and where it does (line 0: nowhere), for whoever finds it wanting. */
struct conf_file {
    char *path; /* NULL: none */
    int line, column;
};

struct conf_upstream {
    char *name, *url;
    bool tls; /* https: */
    struct {
        struct conf_file ca, certificate, key; /* no ca: the system's; certificate and key: both or none */
        char *server_name;                     /* NULL: the host of the URL */
        bool verify;
    } tls_settings;
    char *unix_path; /* http+unix: */
    char *host;      /* name or IP literal, without brackets; NULL with unix_path */
    uint16_t port;
    char *authority;   /* what an HTTP/1.0 request without Host gets: host[:port], "localhost" for a unix socket */
    char *host_header; /* NULL: pass; else the Host sent upstream */
    int64_t connect_timeout, send_timeout, response_timeout, outcome_timeout, stall_timeout, keepalive_idle;
    uint32_t keepalive;
    int line;
};

/* ---- the rest --------------------------------------------------------------------------------- */

struct conf_listen {
    char *address; /* as written */
    char *unix_path;
    char *host;
    uint16_t port;
    unsigned mode; /* unix: permission bits */
    bool tls;
    struct conf_file certificate, key, client_ca; /* tls; no client_ca: clients are not asked for certificates */
    int line, column;                             /* line 0: nowhere in a file */
};

enum conf_forwarded { FORWARDED_APPEND, FORWARDED_REPLACE, FORWARDED_PASS };
enum conf_log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* A text that a secret variable of the environment went into, and how it is written in the file, "${NAME}". */
struct conf_hidden {
    const struct conf_hidden *next;
    const char *text, *written;
};

struct conf {
    atomic_uint refs;
    char *file;                       /* NULL without a file */
    const struct conf_hidden *hidden; /* what is never printed */
    struct conf_listen *listen;
    size_t listen_count;
    struct conf_listen health; /* probes and metrics; address NULL: off */
    struct {
        struct conf_listen listen;   /* address NULL: off */
        struct conf_file token_file; /* path NULL: no token, so only loopback and unix sockets can be listened on */
    } admin;
    uint32_t workers; /* 0: auto */
    bool watch_config;
    enum conf_forwarded forwarded;
    bool via;
    struct {
        enum conf_log_level level;
        bool access, json;
    } log;
    struct {
        char *path;
        uint64_t max_size;
        bool create;
        int64_t lock_wait, timeout;
        bool strict;
    } store;
    struct {
        uint32_t header_bytes, headers, request_target, connections, waiters_per_action, waiters;
        uint64_t buffer_memory;
    } limits;
    struct {
        int64_t header, body, idle, send, drain_delay, drain;
    } timeouts;
    struct conf_upstream *upstreams;
    size_t upstream_count;
    const struct conf_upstream *default_upstream; /* NULL: none */
    struct conf_route *routes;
    size_t route_count;
};

/* What flags and environment say; NULL where they are silent. Flags count over environment over file. `admin` may be
 * "off". */
struct conf_overrides {
    const char *upstream, *listen, *data, *admin;
};

/* Looks up an environment variable; injected so that tests need no environment. */
typedef const char *conf_environment(void *arg, const char *name);

/*
 * Reads `file` (NULL: no file; overrides->upstream must be set). All errors of the file are written to `messages`, one
 * line each as FILE:LINE:COLUMN: error: …, warnings likewise; NULL is returned if there was an error. The caller drops
 * the result with conf_unref. Resolves no host names, opens no store.
 */
struct conf *conf_load(const char *file, const struct conf_overrides *overrides, conf_environment *environment,
                       void *environment_arg, FILE *messages);
/* A configuration that is nothing but one listener, listen[0] without TLS, at that address ("host:port" or
 * "unix:/path"): for whoever connects to one. NULL: *wrong says why. */
struct conf *conf_of_address(const char *address, const char **wrong);
struct conf *conf_ref(struct conf *conf);
void conf_unref(struct conf *conf); /* NULL is fine */

/* `einmal check`: each route's effective rule with its full status table; limits and timeouts. */
void conf_print(const struct conf *conf, FILE *out);

/* `einmal check --print`: YAML that loads again to the same configuration, defaults filled in. Texts that a variable
 * went into whose name says that it is secret (…TOKEN…, …SECRET…, …PASS…, …KEY…, …CREDENTIAL…, …AUTH…) stand as
 * "${NAME}". */
void conf_write(const struct conf *conf, FILE *out);

/* A component as it would stand in the file; the text of a literal: from a secret variable as "${NAME}". */
void conf_print_component(const struct conf *conf, const struct component *component, FILE *out);

/* A setting that cannot change while running, and that differs; values as `check` prints them, cut where they are long.
 */
struct conf_difference {
    const char *name;
    char running[100], wanted[100];
};
/* Those settings (listen, workers, store.path …), at most `size`. For reload. */
size_t conf_fixed_differences(const struct conf *running, const struct conf *wanted,
                              struct conf_difference *differences, size_t size);

/* The files that a reload reads: the configuration's own, and all that it names by a path (certificates, keys,
 * authorities). *count of them; the array is the caller's to free, the texts are conf's. */
const char **conf_files(const struct conf *conf, size_t *count);

/* Does the listener serve this machine only: loopback or a unix socket? */
bool conf_is_local(const struct conf_listen *listen);

/* `einmal check` only (contract §2): what the configuration names exists on this machine, as far as it must before a
 * start. Writes a line "einmal: …" for each that does not; false then. Opens no store, changes nothing. */
bool conf_check_named(const struct conf *conf, FILE *messages);
