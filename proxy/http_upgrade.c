/*
 * http_upgrade.c - PURE. Which requests may become a tunnel, and which 101 makes one (RFC 9110 §7.8).
 *
 * A tunnel carries whatever its two ends agree upon, so it must never carry HTTP: requests in it would pass by the keys
 * unseen ("h2c smuggling"). Hence an offer that names HTTP or TLS is ignored as a whole, and a 101 must name what was
 * offered. Left out: Upgrade in final answers (426), which is dropped like every hop-by-hop field.
 */
#include "proxy/http.h"

#include "proxy/http_text.h"

static const struct span upgrade_name = {"Upgrade", 7};

/* "websocket", "name/version". */
static bool is_protocol(struct span member)
{
    const char *slash = memchr(member.data, '/', member.len);
    size_t name_len = slash ? (size_t)(slash - member.data) : member.len;

    return http_is_token((struct span){member.data, name_len}) &&
           (!slash || http_is_token((struct span){slash + 1, member.len - name_len - 1}));
}

static bool carries_http(struct span member)
{
    static const struct span names[] = {{"http", 4}, {"h2c", 3}, {"h2", 2}, {"tls", 3}};
    const char *slash = memchr(member.data, '/', member.len);
    struct span name = {member.data, slash ? (size_t)(slash - member.data) : member.len};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (span_equal_nocase(name, names[i]))
            return true;
    return false;
}

bool http_upgrade_offered(const struct http_message *request)
{
    bool has_body = request->framing == HTTP_CHUNKED || (request->framing == HTTP_LENGTH && request->content_length);
    size_t protocols = 0;

    if (!request->upgrade || request->minor == 0 || has_body)
        return false;
    for (size_t i = 0; i < request->field_count; i++) {
        struct span list = request->fields[i].value, member;

        if (!span_equal_nocase(request->fields[i].name, upgrade_name))
            continue;
        while (http_next_member(&list, &member)) {
            if (!is_protocol(member) || carries_http(member))
                return false;
            protocols++;
        }
    }
    return protocols > 0;
}

static bool offers(const struct http_message *request, struct span protocol)
{
    for (size_t i = 0; i < request->field_count; i++) {
        struct span list = request->fields[i].value, member;

        if (!span_equal_nocase(request->fields[i].name, upgrade_name))
            continue;
        while (http_next_member(&list, &member))
            if (span_equal_nocase(member, protocol))
                return true;
    }
    return false;
}

bool http_upgrade_answers(const struct http_message *request, const struct http_message *response)
{
    const struct http_field *field = http_find(response, upgrade_name);
    struct span list, member;
    size_t protocols = 0;

    if (!response->upgrade || response->minor == 0 || http_count(response, upgrade_name) != 1)
        return false;
    for (list = field->value; http_next_member(&list, &member); protocols++)
        if (!offers(request, member))
            return false;
    return protocols > 0;
}
