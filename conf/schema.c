/*
 * schema.c - every setting of contract §3 as a row. The order is the order of reading: a row may rely on those above.
 *
 * Settings of later versions are rows, too: they are refused by name where they stand, and misspelt ones found.
 */
#include "conf/own.h"
#include "conf/scalar.h"
#include "conf/statuses.h"
#include "proxy/http.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SECTION(name, settings)         \
    {                                   \
        name, settings, COUNT(settings) \
    }
#define IN_CONF(field)     offsetof(struct conf, field)
#define IN_UPSTREAM(field) offsetof(struct conf_upstream, field)
#define IN_ROUTE(field)    offsetof(struct conf_route, field)

#define SECOND             1000ull
#define HOUR               (3600 * SECOND)
#define DAY                (24 * HOUR)
#define YEAR               (366 * DAY)
#define KIB                1024ull
#define MIB                (1024 * KIB)
#define TIB                (1024 * 1024 * MIB)

#define LATER(name_, form_, text_)                                         \
    {                                                                      \
        .name = name_, .type = SETTING_LATER, .form = form_, .text = text_ \
    }
#define LATER_SECTION(name_, section_, text_)                                                       \
    {                                                                                               \
        .name = name_, .type = SETTING_LATER, .section = section_, .form = "mapping", .text = text_ \
    }
#define DURATION(name_, offset_, min_, max_, standard_, text_)                                                       \
    {                                                                                                                \
        .name = name_, .type = SETTING_DURATION, .offset = offset_, .min = min_, .max = max_, .standard = standard_, \
        .text = text_                                                                                                \
    }
#define GROUP(name_, section_, text_)                                                                \
    {                                                                                                \
        .name = name_, .type = SETTING_SECTION, .section = section_, .standard = "{}", .text = text_ \
    }

/* ---- listen ---- */

static const struct setting listen_tls_settings[] = {
    LATER("listen[].tls.certificate", "file", "certificate chain, PEM"),
    LATER("listen[].tls.key", "file", "private key, PEM"),
    LATER("listen[].tls.client_ca", "file", "require client certificates of this authority"),
};
static const struct section listen_tls_section = SECTION("listen[].tls", listen_tls_settings);

static const struct setting listen_settings[] = {
    {.name = "listen[].address",
     .type = SETTING_OWN,
     .flags = SETTING_REQUIRED,
     .read = read_listen_address,
     .form = "host:port, [IPv6]:port or unix:/path",
     .text = "where to accept connections"},
    {.name = "listen[].mode",
     .type = SETTING_OWN,
     .offset = offsetof(struct conf_listen, mode),
     .read = read_listen_mode,
     .standard = "0660",
     .form = "as for chmod",
     .text = "permissions of a unix socket"},
    LATER_SECTION("listen[].tls", &listen_tls_section, "serve HTTPS"),
};
const struct section listen_section = SECTION("listen[]", listen_settings);

/* ---- side listeners, of a later version ---- */

static const struct setting health_settings[] = {
    LATER("health.address", "address", "listener for /healthz, /readyz and /metrics only"),
};
static const struct section health_section = SECTION("health", health_settings);

static const struct setting admin_settings[] = {
    LATER("admin.address", "address", "listener of the admin interface"),
    LATER("admin.token_file", "file", "bearer token for it"),
};
static const struct section admin_section = SECTION("admin", admin_settings);

/* ---- log, store ---- */

static const struct choice log_levels[] = {
    {"error", LOG_LEVEL_ERROR, false},
    {"warning", LOG_LEVEL_WARNING, false},
    {"info", LOG_LEVEL_INFO, false},
    {"debug", LOG_LEVEL_DEBUG, false},
    {NULL, 0, false},
};
static const struct choice log_formats[] = {{"json", true, false}, {"text", false, false}, {NULL, 0, false}};

static const struct setting log_settings[] = {
    {.name = "log.level",
     .type = SETTING_CHOICE,
     .offset = IN_CONF(log.level),
     .choices = log_levels,
     .standard = "info",
     .text = "what goes to stderr: this and all that is graver"},
    {.name = "log.access",
     .type = SETTING_BOOL,
     .offset = IN_CONF(log.access),
     .standard = "true",
     .text = "one line per request to stdout"},
    {.name = "log.format",
     .type = SETTING_CHOICE_BOOL,
     .offset = IN_CONF(log.json),
     .choices = log_formats,
     .standard = "json",
     .text = "of both logs"},
};
static const struct section log_section = SECTION("log", log_settings);

static const struct choice durabilities[] = {{"strict", true, false}, {"process", false, false}, {NULL, 0, false}};

static const struct setting store_settings[] = {
    {.name = "store.path",
     .type = SETTING_OWN,
     .flags = SETTING_FIXED,
     .offset = IN_CONF(store.path),
     .read = read_store_path,
     .print = print_text,
     .same = same_store_path,
     .standard = "/var/lib/einmal",
     .form = "directory",
     .text = "where records live; created 0700"},
    {.name = "store.max_size",
     .type = SETTING_SIZE,
     .flags = SETTING_FIXED,
     .offset = IN_CONF(store.max_size),
     .min = MIB,
     .max = 64 * TIB,
     .standard = "8GiB",
     .text = "quota; the file grows only as used"},
    {.name = "store.create",
     .type = SETTING_BOOL,
     .flags = SETTING_FIXED,
     .offset = IN_CONF(store.create),
     .standard = "true",
     .text = "false: a missing store is an error; a new one is always announced by a warning"},
    {.name = "store.lock_wait",
     .type = SETTING_DURATION,
     .flags = SETTING_FIXED,
     .offset = IN_CONF(store.lock_wait),
     .min = 0,
     .max = HOUR,
     .standard = "0s",
     .text = "how long to wait for another instance to let go of the directory"},
    DURATION("store.timeout", IN_CONF(store.timeout), 1, HOUR, "5s",
             "until the store has decided (standing in line is not store time): else 503"),
    {.name = "store.durability",
     .type = SETTING_CHOICE_BOOL,
     .flags = SETTING_FIXED,
     .offset = IN_CONF(store.strict),
     .choices = durabilities,
     .standard = "strict",
     .text =
         "strict: each record survives power loss before it counts; process: the death of einmal, not of the machine"},
};
static const struct section store_section = SECTION("store", store_settings);

/* ---- limits, timeouts ---- */

static const struct setting limits_settings[] = {
    {.name = "limits.header_bytes",
     .type = SETTING_SIZE32,
     .offset = IN_CONF(limits.header_bytes),
     .min = KIB,
     .max = MIB,
     .standard = "32KiB",
     .text = "all header lines of a message together; of responses, too"},
    {.name = "limits.headers",
     .type = SETTING_NUMBER,
     .offset = IN_CONF(limits.headers),
     .min = 1,
     .max = HTTP_MAX_FIELDS,
     .standard = "100",
     .text = "header lines of a message; of responses, too"},
    {.name = "limits.request_target",
     .type = SETTING_SIZE32,
     .offset = IN_CONF(limits.request_target),
     .min = 64,
     .max = MIB,
     .standard = "8KiB",
     .text = "path and query of a request"},
    {.name = "limits.connections",
     .type = SETTING_NUMBER,
     .offset = IN_CONF(limits.connections),
     .min = 1,
     .max = 10000000,
     .standard = "10000",
     .text = "of clients; beyond: not accepted until one closes"},
    {.name = "limits.waiters_per_action",
     .type = SETTING_NUMBER,
     .flags = SETTING_FIXED,
     .offset = IN_CONF(limits.waiters_per_action),
     .min = 1,
     .max = 1000000,
     .standard = "128",
     .text = "attempts that wait for one action; beyond: 409 in-progress"},
    {.name = "limits.waiters",
     .type = SETTING_NUMBER,
     .flags = SETTING_FIXED,
     .offset = IN_CONF(limits.waiters),
     .min = 1,
     .max = 10000000,
     .standard = "10000",
     .text = "attempts that wait, in all"},
    {.name = "limits.buffer_memory",
     .type = SETTING_SIZE,
     .flags = SETTING_FIXED,
     .offset = IN_CONF(limits.buffer_memory),
     .min = MIB,
     .max = 16 * TIB,
     .standard = "256MiB",
     .text = "all keyed bodies and recordings together; beyond: 503 overloaded"},
};
static const struct section limits_section = SECTION("limits", limits_settings);

static const struct setting timeouts_settings[] = {
    DURATION("timeouts.header", IN_CONF(timeouts.header), 1, DAY, "10s", "first byte to end of headers"),
    DURATION("timeouts.body", IN_CONF(timeouts.body), 1, DAY, "60s",
             "keyed: cut when in a window of this length less than 1 KiB a second arrived; unkeyed: longest silence"),
    DURATION("timeouts.idle", IN_CONF(timeouts.idle), 1, DAY, "75s", "keep-alive"),
    DURATION("timeouts.send", IN_CONF(timeouts.send), 1, DAY, "60s", "no progress in writing to a client: cut"),
    {.name = "timeouts.drain_delay",
     .type = SETTING_OWN,
     .offset = IN_CONF(timeouts.drain_delay),
     .read = read_drain_delay,
     .standard = "0s",
     .form = "0s; more: later version",
     .text = "after SIGTERM: not ready, but still accepting"},
    DURATION("timeouts.drain", IN_CONF(timeouts.drain), 1, DAY, "25s",
             "after SIGTERM: at most this long until the end"),
};
static const struct section timeouts_section = SECTION("timeouts", timeouts_settings);

/* ---- upstreams ---- */

static const struct setting upstream_tls_settings[] = {
    LATER("upstreams.NAME.tls.ca", "file", "authorities that are trusted"),
    LATER("upstreams.NAME.tls.certificate", "file", "our own certificate"),
    LATER("upstreams.NAME.tls.key", "file", "its key"),
    LATER("upstreams.NAME.tls.server_name", "name", "that the upstream's certificate must have"),
    LATER("upstreams.NAME.tls.verify", "true or false", "whether certificates are verified"),
};
static const struct section upstream_tls_section = SECTION("upstreams.NAME.tls", upstream_tls_settings);

static const struct setting upstream_settings[] = {
    {.name = "upstreams.NAME.url",
     .type = SETTING_OWN,
     .flags = SETTING_REQUIRED,
     .read = read_upstream_url,
     .form = "http://host[:port] or http+unix:/path",
     .text = "where the API is; no path of its own. https: later version"},
    DURATION("upstreams.NAME.connect_timeout", IN_UPSTREAM(connect_timeout), 1, DAY, "2s",
             "resolving and all addresses together"),
    DURATION("upstreams.NAME.send_timeout", IN_UPSTREAM(send_timeout), 1, DAY, "60s",
             "no progress in writing the request: cut; keyed: unknown, 504"),
    {.name = "upstreams.NAME.host",
     .type = SETTING_OWN,
     .offset = IN_UPSTREAM(host_header),
     .read = read_upstream_host,
     .print = print_upstream_host,
     .standard = "pass",
     .form = "pass or a name",
     .text = "Host that is sent"},
    DURATION("upstreams.NAME.response_timeout", IN_UPSTREAM(response_timeout), 1, 30 * DAY, "60s",
             "from the last request byte sent: how long the client waits for the final head"),
    DURATION("upstreams.NAME.outcome_timeout", IN_UPSTREAM(outcome_timeout), 1, 30 * DAY, "10m",
             "from the 504, or from the client's leaving: how long einmal itself goes on listening to a keyed request"),
    DURATION("upstreams.NAME.stall_timeout", IN_UPSTREAM(stall_timeout), 1, 30 * DAY, "60s",
             "between two reads of a response body"),
    {.name = "upstreams.NAME.keepalive",
     .type = SETTING_NUMBER,
     .offset = IN_UPSTREAM(keepalive),
     .min = 0,
     .max = 65535,
     .standard = "256",
     .text = "idle connections kept per worker; 0: none"},
    DURATION("upstreams.NAME.keepalive_idle", IN_UPSTREAM(keepalive_idle), 1, DAY, "1s",
             "never reuse one idle for longer"),
    LATER_SECTION("upstreams.NAME.tls", &upstream_tls_section, "for https upstreams"),
};
const struct section upstream_section = SECTION("upstreams.NAME", upstream_settings);

/* ---- routes ---- */

static const struct setting match_settings[] = {
    {.name = "routes[].match.host",
     .type = SETTING_OWN,
     .offset = IN_ROUTE(match),
     .read = read_match_host,
     .print = print_match_host,
     .otherwise = "any",
     .form = "host or *.host",
     .text = "without a port: any port"},
    {.name = "routes[].match.methods",
     .type = SETTING_OWN,
     .offset = IN_ROUTE(match.methods),
     .read = read_match_methods,
     .print = print_match_methods,
     .standard = "[POST, PATCH]",
     .form = "list of methods",
     .text = "that the rule is for"},
    {.name = "routes[].match.path",
     .type = SETTING_OWN,
     .offset = IN_ROUTE(match),
     .read = read_match_path,
     .print = print_match_path,
     .otherwise = "any",
     .form = "pattern",
     .text = "exact segments; {name}: one segment; trailing /**: any rest, also none"},
};
static const struct section match_section = SECTION("routes[].match", match_settings);

static const struct setting key_settings[] = {
    {.name = "routes[].key[].header",
     .type = SETTING_OWN,
     .offset = offsetof(struct conf_key, header),
     .read = read_header_name,
     .form = "header name",
     .text = "the key is sent in this header"},
    {.name = "routes[].key[].derive",
     .type = SETTING_OWN,
     .read = read_derive,
     .form = "list of components",
     .text = "the key is made of these"},
};
const struct section key_section = SECTION("routes[].key[]", key_settings);

static const struct choice classes[] = {
    {"completed", STATUS_COMPLETED, false},
    {"release", STATUS_RELEASE, false},
    {"unknown", STATUS_UNKNOWN, false},
    {NULL, 0, false},
};

#define STATUS_LIST(name_, class_, standard_, text_)                                                           \
    {                                                                                                          \
        .name = name_, .type = SETTING_OWN, .offset = offsetof(struct status_lists, lists[class_]),            \
        .read = read_status_list, .standard = standard_, .form = "list of statuses and classes", .text = text_ \
    }

static const struct setting statuses_settings[] = {
    STATUS_LIST("routes[].statuses.completed", STATUS_COMPLETED, "[]", "the API has acted: recorded and replayed"),
    STATUS_LIST("routes[].statuses.release", STATUS_RELEASE,
                "[307, 308, 401, 403, 407, 421, 425, 429, 409+retry-after, 503+retry-after]",
                "the API has not acted: the next attempt executes"),
    STATUS_LIST("routes[].statuses.unknown", STATUS_UNKNOWN, "[408, 500, 502, 503, 504]",
                "nobody can tell: see on_unknown"),
    {.name = "routes[].statuses.other",
     .type = SETTING_CHOICE,
     .offset = offsetof(struct status_lists, other),
     .choices = classes,
     .standard = "completed",
     .text = "for the rest"},
};
const struct section statuses_section = SECTION("routes[].statuses", statuses_settings);

static const struct setting replay_headers_settings[] = {
    {.name = "routes[].replay_headers.drop",
     .type = SETTING_OWN,
     .offset = IN_ROUTE(replay_drop),
     .read = read_header_names,
     .print = print_header_names,
     .standard = "[Set-Cookie]",
     .form = "list of header names",
     .text = "dropped when recording: never on the disk, never replayed"},
};
static const struct section replay_headers_section = SECTION("routes[].replay_headers", replay_headers_settings);

static const struct setting probe_settings[] = {
    LATER("routes[].probe.method", "GET", "of the question"),
    LATER("routes[].probe.path", "template", "of the question"),
    LATER("routes[].probe.happened", "list of statuses", "the action has happened"),
    LATER("routes[].probe.not_happened", "list of statuses", "it has not"),
    LATER("routes[].probe.settle", "duration", "from when on not_happened is believed"),
};
static const struct section probe_section = SECTION("routes[].probe", probe_settings);

static const struct choice on_mismatch[] = {{"reject", false, false}, {"new", true, false}, {NULL, 0, false}};
static const struct choice on_concurrent[] = {{"wait", true, false}, {"reject", false, false}, {NULL, 0, false}};
static const struct choice on_store_error[] = {{"reject", false, false}, {"pass", true, false}, {NULL, 0, false}};
static const struct choice on_other_identity[] = {
    {"reject", true, false}, {"separate", false, false}, {NULL, 0, false}};
static const struct choice on_unknown[] = {
    {"report", ON_UNKNOWN_REPORT, false},
    {"retry", ON_UNKNOWN_RETRY, false},
    {"probe", ON_UNKNOWN_PROBE, true},
    {NULL, 0, false},
};

static const struct setting route_settings[] = {
    {.name = "routes[].name",
     .type = SETTING_OWN,
     .flags = SETTING_REQUIRED,
     .offset = IN_ROUTE(name),
     .read = read_name,
     .form = "name",
     .text = "unique; appears in logs and metrics"},
    {.name = "routes[].scope_name",
     .type = SETTING_OWN,
     .offset = IN_ROUTE(scope_name),
     .read = read_name,
     .print = print_text,
     .otherwise = "the name",
     .form = "name",
     .text = "part of every action's identity; survives renaming, may be shared"},
    GROUP("routes[].match", &match_section, "which requests the rule is for; the first route that matches applies"),
    {.name = "routes[].upstream",
     .type = SETTING_OWN,
     .offset = IN_ROUTE(upstream),
     .read = read_route_upstream,
     .print = print_route_upstream,
     .otherwise = "default_upstream",
     .form = "name of an upstream",
     .text = "where requests go"},
    {.name = "routes[].key",
     .type = SETTING_OWN,
     .read = read_keys,
     .print = print_keys,
     .section = &key_section,
     .standard = "[{header: Idempotency-Key}]",
     .form = "list",
     .text = "alternatives, tried in order"},
    {.name = "routes[].required",
     .type = SETTING_BOOL,
     .offset = IN_ROUTE(required),
     .standard = "false",
     .text = "no key can be had: true: 400, false: passed through unprotected"},
    {.name = "routes[].scope",
     .type = SETTING_OWN,
     .read = read_scope,
     .print = print_scope,
     .standard = "auto",
     .form = "auto or list of components",
     .text = "identity of the caller; auto: Authorization, else Cookie, else anonymous; []: none"},
    {.name = "routes[].on_other_identity",
     .type = SETTING_CHOICE_BOOL,
     .offset = IN_ROUTE(reject_other_identity),
     .choices = on_other_identity,
     .otherwise = "reject with scope: auto, else separate",
     .text = "same key and content from another identity: 409, or an action of its own"},
    {.name = "routes[].fingerprint",
     .type = SETTING_OWN,
     .read = read_fingerprint,
     .print = print_fingerprint,
     .otherwise = "body for keys that were sent, none for derived ones",
     .form = "body, json, none or list of components",
     .text = "what a key is bound to, besides method, host and path"},
    {.name = "routes[].ignore",
     .type = SETTING_OWN,
     .offset = IN_ROUTE(ignore),
     .read = read_ignore,
     .print = print_ignore,
     .otherwise = "nothing",
     .form = "list of json:/POINTER",
     .text = "with fingerprint: json: what may differ"},
    {.name = "routes[].on_mismatch",
     .type = SETTING_CHOICE_BOOL,
     .offset = IN_ROUTE(mismatch_is_new),
     .choices = on_mismatch,
     .standard = "reject",
     .text = "same key, other content: 422, or a new action of its own"},
    {.name = "routes[].on_concurrent",
     .type = SETTING_CHOICE_BOOL,
     .offset = IN_ROUTE(concurrent_waits),
     .choices = on_concurrent,
     .standard = "wait",
     .text = "while the first attempt runs: wait for its answer, or 409"},
    DURATION("routes[].wait_timeout", IN_ROUTE(wait_timeout), 1, DAY, "30s", "how long to wait; then 409"),
    {.name = "routes[].on_unknown",
     .type = SETTING_CHOICE,
     .offset = IN_ROUTE(on_unknown),
     .choices = on_unknown,
     .standard = "report",
     .text = "later attempts: report what is known, or retry; probe: later version"},
    LATER_SECTION("routes[].probe", &probe_section, "ask the API itself whether it happened"),
    {.name = "routes[].statuses",
     .type = SETTING_OWN,
     .offset = IN_ROUTE(statuses),
     .read = read_statuses,
     .print = print_statuses,
     .section = &statuses_section,
     .standard = "{}",
     .form = "mapping",
     .text = "what a complete response means; a status counts before its class"},
    DURATION("routes[].retention", IN_ROUTE(retention), 1, 100 * YEAR, "24h",
             "from the moment the outcome is recorded"),
    {.name = "routes[].unknown_retention",
     .type = SETTING_DURATION_NEVER,
     .offset = IN_ROUTE(unknown_retention),
     .min = 1,
     .max = 100 * YEAR,
     .standard = "30d",
     .text = "of actions whose ending is not known"},
    {.name = "routes[].max_request_body",
     .type = SETTING_SIZE,
     .offset = IN_ROUTE(max_request_body),
     .min = 0,
     .max = TIB,
     .standard = "16MiB",
     .text = "keyed requests are read whole before they count; beyond: 413"},
    {.name = "routes[].max_response_body",
     .type = SETTING_SIZE,
     .offset = IN_ROUTE(max_response_body),
     .min = 0,
     .max = TIB,
     .standard = "16MiB",
     .text = "beyond: streamed to the first client, recorded without body"},
    GROUP("routes[].replay_headers", &replay_headers_section, "header policy of recordings"),
    LATER("routes[].cors", "list of origins", "browsers of these origins may send the key header"),
    {.name = "routes[].replayed_header",
     .type = SETTING_OWN,
     .offset = IN_ROUTE(replayed_header),
     .read = read_header_name,
     .print = print_text,
     .standard = "Idempotent-Replayed",
     .form = "header name",
     .text = "name of the marker of replays"},
    {.name = "routes[].on_store_error",
     .type = SETTING_CHOICE_BOOL,
     .offset = IN_ROUTE(pass_on_store_error),
     .choices = on_store_error,
     .standard = "reject",
     .text = "503, or forwarded unprotected and marked Idempotency-Degraded"},
    {.name = "routes[].task",
     .type = SETTING_OWN,
     .offset = IN_ROUTE(task),
     .read = read_task,
     .print = print_task,
     .otherwise = "none",
     .form = "component",
     .text = "names the task that an action belongs to"},
    LATER("routes[].preset", "name", "named rule for a known sender"),
};
const struct section route_section = SECTION("routes[]", route_settings);

/* ---- the root ---- */

static const struct choice forwarded[] = {
    {"append", FORWARDED_APPEND, false},
    {"replace", FORWARDED_REPLACE, false},
    {"pass", FORWARDED_PASS, false},
    {NULL, 0, false},
};

static const struct setting root_settings[] = {
    {.name = "listen",
     .type = SETTING_OWN,
     .flags = SETTING_FIXED,
     .read = read_listen,
     .print = print_listen,
     .same = same_listen,
     .section = &listen_section,
     .standard = "[{address: 0.0.0.0:8080}]",
     .form = "list",
     .text = "one address or more"},
    LATER_SECTION("health", &health_section, "listener for probes and metrics"),
    LATER_SECTION("admin", &admin_section, "listener of the admin interface"),
    {.name = "workers",
     .type = SETTING_OWN,
     .flags = SETTING_FIXED,
     .offset = IN_CONF(workers),
     .read = read_workers,
     .print = print_workers,
     .same = same_workers,
     .standard = "auto",
     .form = "auto or 1 to 1024",
     .text = "threads; auto: CPUs usable (cgroup quota respected)"},
    {.name = "watch_config",
     .type = SETTING_OWN,
     .read = read_watch_config,
     .standard = "false",
     .form = "false; true: later version",
     .text = "reload when the file changes"},
    {.name = "forwarded",
     .type = SETTING_CHOICE,
     .offset = IN_CONF(forwarded),
     .choices = forwarded,
     .standard = "append",
     .text = "X-Forwarded-*: append the peer and set what is absent, set all anew, or pass untouched"},
    {.name = "via",
     .type = SETTING_BOOL,
     .offset = IN_CONF(via),
     .standard = "false",
     .text = "add Via to forwarded requests"},
    GROUP("log", &log_section, "access log to stdout, all else to stderr; never a key, credential or body"),
    GROUP("store", &store_section, "what einmal remembers by"),
    GROUP("limits", &limits_section, "what a peer can take"),
    GROUP("timeouts", &timeouts_section, "of clients, and of the end"),
    {.name = "upstreams",
     .type = SETTING_OWN,
     .flags = SETTING_REQUIRED,
     .read = read_upstreams,
     .section = &upstream_section,
     .form = "mapping of names",
     .text = "the APIs behind"},
    {.name = "default_upstream",
     .type = SETTING_OWN,
     .offset = IN_CONF(default_upstream),
     .read = read_default_upstream,
     .print = print_default_upstream,
     .otherwise = "the only upstream",
     .form = "name of an upstream",
     .text = "for requests that match no route"},
    {.name = "routes",
     .type = SETTING_OWN,
     .read = read_routes,
     .section = &route_section,
     .standard = "[]",
     .form = "list",
     .text = "rules; the first that matches host, path and method applies"},
};
const struct section root_section = SECTION("", root_settings);

/* ---- words ---- */

const char *setting_key(const struct setting *setting)
{
    const char *dot = strrchr(setting->name, '.');
    return dot ? dot + 1 : setting->name;
}
