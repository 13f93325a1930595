/*
 * http_response.c - what a complete response head means: whether a body follows, and whether the connection lives on.
 *
 * Invariant: 1xx, 204, 304 and the answer to HEAD have no body whatever their fields say (RFC 9112 §6.3), and yet their
 * fields must not contradict each other.
 */
#include "proxy/http_internal.h"

bool http_judge_response(struct http_parser *parser, const char *bytes, const struct http_facts *facts,
                         struct http_message *message, enum problem_code *problem)
{
    bool interim = parser->status < 200;

    message->status = parser->status;
    message->reason = (struct span){bytes + parser->text, parser->reason_end - parser->text};
    message->has_retry_after = facts->retry_after;
    if (!http_judge_framing(parser, facts, message, problem))
        return false;
    if (interim || parser->status == 204 || parser->status == 304 || parser->no_body_expected)
        message->framing = HTTP_NO_BODY;
    else if (message->framing == HTTP_NO_BODY)
        message->framing = HTTP_UNTIL_CLOSE;
    if (message->framing == HTTP_UNTIL_CLOSE || parser->status == 101)
        message->keep_alive = false;
    parser->interim = interim;
    return true;
}
