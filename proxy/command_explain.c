/*
 * command_explain.c - explain: one request from arguments, as it would arrive, and what the proxy would make of it.
 *
 * The request is written as bytes and read by the proxy's own parser, so whatever is wrong with it is told in the
 * proxy's words. Sends nothing, opens no store.
 */
#include "proxy/command.h"
#include "proxy/explain_write.h"
#include "proxy/tls.h"

#include <errno.h>

#define BODY_MAX \
    (1024u * 1024 * 1024 + 1) /* one more than the largest max_request_body: so it is seen to be too large */

/* ---- the head --------------------------------------------------------------------------------- */

static bool has_header(const struct argument_texts *headers, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < headers->count; i++)
        if (strncasecmp(headers->items[i], name, len) == 0 && headers->items[i][len] == ':')
            return true;
    return false;
}

static bool check_headers(const struct argument_texts *headers)
{
    for (size_t i = 0; i < headers->count; i++) {
        if (strchr(headers->items[i], ':') && !strpbrk(headers->items[i], "\r\n"))
            continue;
        usage_error("explain", "-H '%s': expected 'Name: value' on one line", headers->items[i]);
        return false;
    }
    return true;
}

/* False: usage error, printed. */
static bool write_head(const struct arguments *arguments, size_t body_len, struct buffer *out)
{
    const char *method = arguments->method ? arguments->method : "POST", *target = arguments->operands[0];
    bool framed =
        has_header(&arguments->headers, "Content-Length") || has_header(&arguments->headers, "Transfer-Encoding");
    bool wants_body =
        arguments->body || strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 || strcmp(method, "PATCH") == 0;
    if (strpbrk(target, " \t\r\n") || strpbrk(method, " \t\r\n")) {
        usage_error("explain", "'%s': a request line holds no space; write %%20",
                    strpbrk(target, " \t\r\n") ? target : method);
        return false;
    }
    if (!check_headers(&arguments->headers))
        return false;
    buffer_printf(out, "%s %s HTTP/1.1\r\n", method, target);
    if (!has_header(&arguments->headers, "Host"))
        buffer_append_span(out, SPAN("Host: localhost\r\n"));
    for (size_t i = 0; i < arguments->headers.count; i++)
        buffer_printf(out, "%s\r\n", arguments->headers.items[i]);
    if (!framed && wants_body)
        buffer_printf(out, "Content-Length: %zu\r\n", body_len);
    buffer_append_span(out, SPAN("\r\n"));
    return true;
}

/* ---- the command ------------------------------------------------------------------------------ */

static void show(const struct arguments *arguments, const struct conf *conf, const struct explain_request *request)
{
    struct explanation explanation;
    struct buffer json = {0};
    explain(&explanation, conf, request);
    if (arguments->json) {
        explain_write_json(&explanation, &json);
        fwrite(buffer_data(&json), 1, buffer_len(&json), stdout);
    } else {
        explain_write_text(&explanation, stdout);
    }
    buffer_free(&json);
    explain_free(&explanation);
}

int command_explain(const struct arguments *arguments)
{
    struct arguments completed;
    struct buffer head = {0}, body = {0};
    struct tls_identity *identity = NULL;
    struct conf *conf = NULL;
    int code = EXIT_USAGE;
    if (!arguments_complete(arguments, &completed))
        return EXIT_USAGE;
    bool fine = read_data(arguments->body, BODY_MAX, &body) && write_head(arguments, buffer_len(&body), &head);
    if (fine && arguments->certificate && !(identity = tls_identity_read(arguments->certificate))) {
        fprintf(stderr, "einmal: --cert %s: no certificate in PEM can be read from it\n", arguments->certificate);
        fine = false;
    }
    if (fine && (conf = arguments_load_quietly(&completed))) {
        show(arguments, conf,
             &(struct explain_request){
                 .head = buffer_span(&head),
                 .body = buffer_span(&body),
                 .tls_subject = span_of(identity ? identity->subject : NULL),
                 .tls_fingerprint = span_of(identity ? identity->fingerprint : NULL),
             });
        code = EXIT_FINE;
    }
    conf_unref(conf);
    free(identity);
    buffer_free(&head);
    buffer_free(&body);
    return code;
}
