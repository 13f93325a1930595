/*
 * http_run.h - runs bytes through the parser as a connection would, in pieces, and writes down what came of them.
 *
 * The verdict is a line of words: "ok" for each message (with the length of its body if it had one), then how it ended:
 * a status (refused request), "refused" (response), "more" (a message is incomplete), "close" (the connection ends
 * after the last message, so what follows is never read). A response's connection ends with the bytes.
 *
 * Each piece is parsed from memory of its own of exactly the right size: whoever reads beyond the bytes, or keeps a
 * pointer into the last piece, is caught by ASan.
 */
#pragma once

#include <stdio.h>

#include "proxy/http.h"

struct http_run {
    char verdict[200];
    char body[4096]; /* of all messages, one after another */
    size_t body_len;
    char refusal[100];
    const char *why_wrong; /* not NULL: the parser broke its own contract */
};

struct http_run_state {
    struct http_run *run;
    struct http_parser *parser;
    enum http_kind kind;
    bool in_body, over, keep_alive;
    size_t message_body; /* bytes of this message's body */
};

static inline void http_run_word(struct http_run *run, const char *word)
{
    size_t len = strlen(run->verdict);

    snprintf(run->verdict + len, sizeof(run->verdict) - len, "%s%s", len ? " " : "", word);
}

static inline void http_run_body(void *arg, const char *data, size_t len)
{
    struct http_run_state *state = arg;

    if (len == 0)
        state->run->why_wrong = "empty piece of body";
    state->message_body += len;
    if (len > sizeof(state->run->body) - state->run->body_len)
        len = sizeof(state->run->body) - state->run->body_len;
    memcpy(state->run->body + state->run->body_len, data, len);
    state->run->body_len += len;
}

static inline void http_run_message_over(struct http_run_state *state)
{
    char word[40] = "ok";

    if (state->message_body)
        snprintf(word, sizeof(word), "ok%zu", state->message_body);
    http_run_word(state->run, word);
    if (!state->keep_alive) {
        http_run_word(state->run, "close");
        state->over = true;
        return;
    }
    http_next(state->parser);
    state->in_body = false;
    state->message_body = 0;
}

/* Every slice of the message must lie within the bytes (or be a literal of the parser's), whatever the message is. */
static inline bool http_run_spans_sane(const struct http_message *message, const char *bytes, size_t len)
{
    for (size_t i = 0; i < message->field_count; i++) {
        const struct http_field *field = &message->fields[i];

        if (field->name.len == 0 || field->name.data < bytes || field->value.data < field->name.data ||
            field->value.data + field->value.len > bytes + len)
            return false;
    }
    return true;
}

/* One step on the bytes at hand; returns how many were used, 0: needs more. */
static inline size_t http_run_step(struct http_run_state *state, const char *bytes, size_t len, bool no_body)
{
    enum problem_code problem = PROBLEM_NONE;
    struct http_message message;
    size_t used = 0;

    if (state->in_body) {
        enum http_body_verdict verdict = http_read_body(state->parser, bytes, len, &used, http_run_body, state);

        if (verdict == HTTP_BODY_REFUSED) {
            http_run_word(state->run, state->kind == HTTP_REQUESTS ? "400" : "refused");
            snprintf(state->run->refusal, sizeof(state->run->refusal), "%s", http_refusal(state->parser));
            state->over = true;
        } else if (verdict == HTTP_BODY_END) {
            http_run_message_over(state);
        } else if (used != len) {
            state->run->why_wrong = "MORE, but not all bytes of the body used";
        }
        return used;
    }
    if (no_body)
        http_expect_no_body(state->parser);
    switch (http_read_head(state->parser, bytes, len, &used, &message, &problem)) {
    case HTTP_HEAD_MORE:
        return 0;
    case HTTP_HEAD_REFUSED: {
        char word[20] = "refused";

        if (state->kind == HTTP_REQUESTS)
            snprintf(word, sizeof(word), "%u", (unsigned)problem_row(problem)->status);
        else if (problem != PROBLEM_UPSTREAM_INVALID)
            state->run->why_wrong = "a refused response is upstream-invalid";
        http_run_word(state->run, word);
        snprintf(state->run->refusal, sizeof(state->run->refusal), "%s", http_refusal(state->parser));
        state->over = true;
        return 0;
    }
    case HTTP_HEAD_READY:
        break;
    }
    if (used > len || !http_run_spans_sane(&message, bytes, used))
        state->run->why_wrong = "a slice outside of the head";
    state->keep_alive =
        message.keep_alive || (state->kind == HTTP_RESPONSES && message.status < 200 && message.status != 101);
    state->in_body = true;
    return used;
}

/* `cuts` are offsets in rising order: first the bytes up to cuts[0] are there, then up to cuts[1] …, at last all. */
static inline void http_run(struct http_run *run, enum http_kind kind, const struct http_limits *limits,
                            const char *bytes, size_t len, const size_t *cuts, size_t cut_count, bool no_body)
{
    struct http_run_state state = {.run = run, .kind = kind, .parser = http_parser_new(kind, limits)};
    size_t consumed = 0;

    *run = (struct http_run){.verdict = ""};
    for (size_t i = 0; i <= cut_count && !state.over; i++) {
        size_t there = (i < cut_count ? cuts[i] : len) - consumed, at = 0;
        char *piece = must_allocate(malloc(there ? there : 1));
        bool was_in_body;
        size_t used;

        memcpy(piece, bytes + consumed, there);
        do {
            was_in_body = state.in_body;
            used = http_run_step(&state, piece + at, there - at, no_body);
            at += used;
        } while (!state.over && (used || was_in_body != state.in_body));
        consumed += at;
        free(piece);
    }
    if (!state.over && state.in_body && kind == HTTP_RESPONSES && http_read_end(state.parser))
        http_run_message_over(&state);
    else if (!state.over && (state.in_body || consumed < len))
        http_run_word(run, "more");
    http_parser_free(state.parser);
}
