/*
 * handle_status.c - how the process is: for probes, scrapers, people. Nothing here waits for anything.
 *
 * Ready means: keyed requests can be served. A store at its quota still replays, so it is ready, but degraded: taking
 * the instance out of service would take its answers away, too.
 */
#include "proxy/admin/internal.h"
#include "proxy/admin/status_page.h"
#include "proxy/metrics.h"

#include <stdio.h>

#define FAILING_MS    5000 /* that commits must have failed for */
#define DRAIN_LOOK_MS 20   /* how often a waiting drain looks */

/* ---- probes ----------------------------------------------------------------------------------- */

static void answer_probe(struct admin_request *request, uint16_t status, struct buffer *body)
{
    buffer_append(body, "\n", 1);
    admin_answer(request,
                 &(struct answer){.status = status, .type = SPAN("application/json"), .body = buffer_span(body)});
    buffer_free(body);
}

void handle_healthz(struct admin_request *request)
{
    struct buffer body = {0};
    buffer_append_span(&body, SPAN("{\"healthy\":true}"));
    answer_probe(request, 200, &body);
}

enum { NOT_READY_MAX = 3 };

static size_t collect_reasons(struct admin *admin, const struct store_status *store, const char *reasons[NOT_READY_MAX])
{
    size_t count = 0;
    if (!admin->store || admin->hooks.draining(admin->hooks.arg))
        reasons[count++] = "draining";
    if (!admin->store)
        return count;
    if (store->look_ups_fail)
        reasons[count++] = "store-look-ups-fail";
    if (store->failing && store_now_ms(admin->handle) - store->failing_since_ms >= FAILING_MS)
        reasons[count++] = "store-commits-fail";
    return count;
}

void handle_readyz(struct admin_request *request)
{
    struct admin *admin = request->admin;
    const char *reasons[NOT_READY_MAX];
    struct store_status store = {0};
    struct buffer body = {0};
    if (admin->store)
        store_status(admin->store, &store);
    size_t count = collect_reasons(admin, &store, reasons);
    buffer_printf(&body, "{\"ready\":%s", count ? "false" : "true");
    for (size_t i = 0; i < count; i++)
        buffer_printf(&body, "%s\"%s\"", i ? "," : ",\"reasons\":[", reasons[i]);
    if (count)
        buffer_append(&body, "]", 1);
    if (store.full)
        buffer_append_span(&body, SPAN(",\"degraded\":[\"store-full\"]"));
    buffer_append(&body, "}", 1);
    answer_probe(request, count ? 503 : 200, &body);
}

/* ---- metrics, status -------------------------------------------------------------------------- */

void handle_metrics(struct admin_request *request)
{
    struct admin *admin = request->admin;
    struct buffer body = {0};
    if (!admin->store) {
        admin_refuse(request, REFUSAL_DRAINING, NULL);
        return;
    }
    admin->hooks.metrics(admin->hooks.arg, &body);
    admin_answer(request, &(struct answer){.type = SPAN(METRICS_CONTENT_TYPE), .body = buffer_span(&body)});
    buffer_free(&body);
}

void handle_status(struct admin_request *request)
{
    struct admin *admin = request->admin;
    struct admin_connection_counts connections = {0};
    struct store_status store;
    struct buffer body = {0};
    if (!admin->store) {
        admin_refuse(request, REFUSAL_DRAINING, NULL);
        return;
    }
    store_status(admin->store, &store);
    admin->hooks.connections(admin->hooks.arg, &connections);
    buffer_printf(&body, "{\"version\":\"%s\",\"draining\":%s,\"uptime_seconds\":%lld", EINMAL_VERSION,
                  admin->hooks.draining(admin->hooks.arg) ? "true" : "false",
                  (long long)(monotonic_ms() - admin->started_ms) / 1000);
    buffer_printf(&body, ",\"store\":{\"used_bytes\":%llu,\"max_bytes\":%llu,\"durability\":\"%s\"}",
                  (unsigned long long)store.used_bytes, (unsigned long long)store.max_bytes,
                  admin->started_with->store.strict ? "strict" : "process");
    buffer_printf(&body, ",\"actions\":{\"in_progress\":%llu,\"completed\":%llu,\"unknown\":%llu}",
                  (unsigned long long)store.in_progress, (unsigned long long)store.completed,
                  (unsigned long long)store.unknown);
    buffer_printf(&body, ",\"waiters\":%llu,\"connections\":{\"client\":%llu,\"upstream\":%llu}}",
                  (unsigned long long)store.waiters, (unsigned long long)connections.clients,
                  (unsigned long long)connections.upstreams);
    admin_answer_json(request, &body);
}

/* Everything is in the page; it talks to this listener only, and nobody may put it into a frame to have its buttons
 * clicked. */
void handle_page(struct admin_request *request)
{
    admin_answer(request,
                 &(struct answer){
                     .type = SPAN("text/html; charset=utf-8"),
                     .body = {(const char *)status_page, status_page_len},
                     .extra = {{SPAN("Content-Security-Policy"),
                                SPAN("default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
                                     "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
                                     "frame-ancestors 'none'")},
                               {SPAN("X-Frame-Options"), SPAN("DENY")},
                               {SPAN("Referrer-Policy"), SPAN("no-referrer")}},
                 });
}

/* ---- drain ------------------------------------------------------------------------------------ */

static void answer_drain(struct admin_request *request)
{
    struct admin *admin = request->admin;
    struct buffer body = {0};
    buffer_printf(&body, "{\"draining\":true,\"idle\":%s}", admin->hooks.idle(admin->hooks.arg) ? "true" : "false");
    admin_answer_json(request, &body);
}

static void look_at_drain(struct admin_request *request)
{
    struct admin *admin = request->admin;
    int64_t now = monotonic_ms();
    if (admin->hooks.idle(admin->hooks.arg) || now >= request->wait_until_ms)
        answer_drain(request);
    else
        deadline_set(&request->deadline, now + DRAIN_LOOK_MS);
}

void handle_drain(struct admin_request *request)
{
    struct admin *admin = request->admin;
    char who[ADMIN_WHO_MAX];
    if (admin->detaching) {
        admin_refuse(request, REFUSAL_DRAINING, NULL);
        return;
    }
    admin_who(request, who);
    log_line(admin->log, LOG_LEVEL_WARNING, "admin: drain asked for by %s", who);
    admin->hooks.drain(admin->hooks.arg);
    request->on_deadline = look_at_drain;
    request->wait_until_ms = monotonic_ms() + request->query.wait * 1000;
    look_at_drain(request);
}

static void end_waits(struct side_listener *listener)
{
    struct connection *next;
    for (struct connection *connection = listener->first; connection; connection = next) {
        next = connection->next;
        if (connection->request && connection->request->on_deadline == look_at_drain)
            answer_drain(connection->request);
    }
}

void admin_end_drain_waits(struct admin *admin)
{
    end_waits(&admin->everything);
}
