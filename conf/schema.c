/*
 * schema.c - every setting of contract §3 as a row; those of routes in schema_route.c. The order is the order of
 * reading: a row may rely on those above.
 *
 * Settings of later versions are rows, too: they are refused by name where they stand, and misspelt ones found.
 */
#include "conf/schema_rows.h"
#include "proxy/http.h"

/* ---- listen ----------------------------------------------------------------------------------- */

static const struct setting listen_tls_settings[] = {
    {.name = "listen[].tls.certificate",
     .type = SETTING_OWN,
     .flags = SETTING_REQUIRED | SETTING_RELOADED,
     .offset = offsetof(struct conf_listen, certificate),
     .read = read_file_name,
     .form = "file",
     .text = "certificate, then what its chain needs, PEM"},
    {.name = "listen[].tls.key",
     .type = SETTING_OWN,
     .flags = SETTING_REQUIRED | SETTING_RELOADED,
     .offset = offsetof(struct conf_listen, key),
     .read = read_file_name,
     .form = "file",
     .text = "private key of it, PEM, without a passphrase"},
    {.name = "listen[].tls.client_ca",
     .type = SETTING_OWN,
     .flags = SETTING_RELOADED,
     .offset = offsetof(struct conf_listen, client_ca),
     .read = read_file_name,
     .otherwise = "none asked for",
     .form = "file",
     .text = "require client certificates of these authorities, PEM"},
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
    {.name = "listen[].tls",
     .type = SETTING_OWN,
     .read = read_listen_tls,
     .section = &listen_tls_section,
     .otherwise = "plain HTTP",
     .form = "mapping",
     .text = "serve HTTPS: TLS 1.2 and 1.3"},
};
const struct section listen_section = SECTION("listen[]", listen_settings);

/* ---- side listeners, of a later version ------------------------------------------------------- */

static const struct setting health_settings[] = {
    LATER("health.address", "address", "listener for /healthz, /readyz and /metrics only"),
};
static const struct section health_section = SECTION("health", health_settings);

static const struct setting admin_settings[] = {
    LATER("admin.address", "address", "listener of the admin interface"),
    LATER("admin.token_file", "file", "bearer token for it"),
};
static const struct section admin_section = SECTION("admin", admin_settings);

/* ---- log, store ------------------------------------------------------------------------------- */

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

/* ---- limits, timeouts ------------------------------------------------------------------------- */

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
    DURATION("timeouts.drain_delay", IN_CONF(timeouts.drain_delay), 0, DAY, "0s",
             "after SIGTERM: not ready, but still accepting, and answers close their connections"),
    DURATION("timeouts.drain", IN_CONF(timeouts.drain), 1, DAY, "25s",
             "then: listeners closed, and at most this long until the end"),
};
static const struct section timeouts_section = SECTION("timeouts", timeouts_settings);

/* ---- upstreams -------------------------------------------------------------------------------- */

static const struct setting upstream_tls_settings[] = {
    {.name = "upstreams.NAME.tls.ca",
     .type = SETTING_OWN,
     .offset = IN_UPSTREAM(tls_settings.ca),
     .read = read_file_name,
     .otherwise = "those of the system",
     .form = "file",
     .text = "authorities that are trusted, PEM"},
    {.name = "upstreams.NAME.tls.certificate",
     .type = SETTING_OWN,
     .offset = IN_UPSTREAM(tls_settings.certificate),
     .read = read_file_name,
     .otherwise = "none",
     .form = "file",
     .text = "our own certificate, then what its chain needs, PEM"},
    {.name = "upstreams.NAME.tls.key",
     .type = SETTING_OWN,
     .offset = IN_UPSTREAM(tls_settings.key),
     .read = read_file_name,
     .otherwise = "none",
     .form = "file",
     .text = "private key of it, PEM, without a passphrase"},
    {.name = "upstreams.NAME.tls.server_name",
     .type = SETTING_OWN,
     .offset = IN_UPSTREAM(tls_settings.server_name),
     .read = read_server_name,
     .otherwise = "the host of the url",
     .form = "name",
     .text = "that the upstream's certificate must have, and that it is asked for (SNI)"},
    {.name = "upstreams.NAME.tls.verify",
     .type = SETTING_BOOL,
     .offset = IN_UPSTREAM(tls_settings.verify),
     .standard = "true",
     .text = "false: any certificate and any name will do, so anybody in between can read and change all"},
};
static const struct section upstream_tls_section = SECTION("upstreams.NAME.tls", upstream_tls_settings);

static const struct setting upstream_settings[] = {
    {.name = "upstreams.NAME.url",
     .type = SETTING_OWN,
     .flags = SETTING_REQUIRED,
     .read = read_upstream_url,
     .form = "http://host[:port], https://host[:port] or http+unix:/path",
     .text = "where the API is; no path of its own"},
    DURATION("upstreams.NAME.connect_timeout", IN_UPSTREAM(connect_timeout), 1, DAY, "2s",
             "resolving, all addresses and the TLS handshake together"),
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
    {.name = "upstreams.NAME.tls",
     .type = SETTING_OWN,
     .read = read_upstream_tls,
     .print = print_upstream_tls,
     .section = &upstream_tls_section,
     .standard = "{}",
     .form = "mapping",
     .text = "for https upstreams"},
};
const struct section upstream_section = SECTION("upstreams.NAME", upstream_settings);

/* ---- the root --------------------------------------------------------------------------------- */

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
     .type = SETTING_BOOL,
     .offset = IN_CONF(watch_config),
     .standard = "false",
     .text = "reload when this file changes, or a certificate, key or CA file that it names"},
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

/* ---- words ------------------------------------------------------------------------------------ */

const char *setting_key(const struct setting *setting)
{
    const char *dot = strrchr(setting->name, '.');
    return dot ? dot + 1 : setting->name;
}
