/*
 * control.h - asks a running einmal (contract §8): one request, one answer, blocking, with deadlines. Private to the
 * command line.
 *
 * Where: --admin, else EINMAL_ADMIN, else the file's admin.address (of `health` and `wait` first its health.address),
 * else 127.0.0.1:9180. The token comes from --token-file, else EINMAL_ADMIN_TOKEN_FILE, else the file's
 * admin.token_file. Literal addresses, localhost and unix sockets need no resolver, so images without one work.
 */
#pragma once

#include "proxy/buffer.h"
#include "proxy/command.h"

#define CONTROL_DEFAULT_ADDRESS "127.0.0.1:9180"

struct control {
    struct conf *memory;   /* that the following belong to */
    const char *unix_path; /* or host and port */
    const char *host;
    uint16_t port;
    char address[300]; /* for messages */
    char origin[300];  /* where it comes from: "--admin", "the default" … */
    char *token;       /* NULL: none */
    bool quiet;        /* says nothing of a connection that fails: who asks tries again */
};

/* False: what is wrong was printed, and *code is the exit code. */
bool control_find(const struct arguments *arguments, bool health_first, struct control *out, int *code);
void control_free(struct control *control);

struct control_request {
    const char *method, *target;
    struct span body;   /* JSON; len 0: none */
    int64_t timeout_ms; /* of silence; 0: CONTROL_TIMEOUT_MS */
    const int *fd;      /* not NULL: the body of a 200 is written there instead */
    const char *has;    /* control_ask_fine() only: JSON pointer to what a 200 of einmal's has; NULL: it is not JSON */
};
#define CONTROL_TIMEOUT_MS 30000
#define CONTROL_ANSWER_MAX (256u * 1024 * 1024)

struct control_answer {
    uint16_t status;
    struct buffer body;
    uint64_t written; /* to fd */
};
void control_answer_free(struct control_answer *answer);

/* True: there is an answer, whatever its status. False: none, and why was printed (unless quiet). */
bool control_ask(const struct control *control, const struct control_request *request, struct control_answer *answer);
/* The same, and what is no 200, or a 200 without what the request says it has, is printed as an error, too: whoever
 * listens there by mistake has done nothing of what was asked. */
bool control_ask_fine(const struct control *control, const struct control_request *request,
                      struct control_answer *answer);

/* Appends it with everything but unreserved characters percent-encoded. */
void control_encode(struct buffer *target, const char *text);
