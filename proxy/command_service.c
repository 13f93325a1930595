/*
 * command_service.c - health, wait, drain, backup: the running process as a whole, for images without a shell.
 */
#include "proxy/clock.h"
#include "proxy/command_record.h"
#include "proxy/control.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STORE_MARK_AT 16 /* in the first page of an LMDB file, in the order of bytes of the machine */
#define STORE_MARK    0xBEEFC0DEu

enum { HEALTH_MS = 5000, WAIT_MS = 10000, PAUSE_MS = 100, DRAIN_MS = 25000, DRAIN_MAX_MS = 3600 * 1000 };

/* ---- health and wait -------------------------------------------------------------------------- */

/* "draining, store-full" of the list there. To be freed. */
static char *joined(struct span json, const char *pointer)
{
    char *list = record_text(json, pointer), *text = NULL;
    struct span rest = span_of(list), element;
    size_t size, count = 0;
    FILE *out = must_allocate(open_memstream(&text, &size));
    while (list && json_next_element(&rest, &element)) {
        char *word = record_text(element, "");
        fputs(count++ ? ", " : "", out);
        clean_text(span_of(word), 0, out);
        free(word);
    }
    fclose(out);
    free(list);
    return text;
}

static void print_ready(const struct control_answer *answer, FILE *out)
{
    bool ready = answer->status == 200;
    char *why = joined(buffer_span(&answer->body), ready ? "/degraded" : "/reasons");
    fprintf(out, "%s%s%s%s\n", ready ? "ready" : "einmal: not ready", *why ? ready ? " (degraded: " : ": " : "", why,
            *why && ready ? ")" : "");
    free(why);
}

static void print_health(const struct arguments *arguments, const struct control_answer *answer)
{
    bool fine = answer->status == 200;
    if (arguments->json)
        record_print(answer, NULL);
    else if (arguments->ready)
        print_ready(answer, fine ? stdout : stderr);
    else if (fine)
        puts("healthy");
    else
        fprintf(stderr, "einmal: not healthy: status %u\n", answer->status);
}

int command_health(const struct arguments *arguments)
{
    struct control control;
    struct control_answer answer;
    int code;
    if (!control_find(arguments, true, &control, &code))
        return code;
    const char *target = arguments->ready ? "/readyz" : "/healthz";
    code = EXIT_FAILED;
    if (control_ask(&control, &(struct control_request){.method = "GET", .target = target, .timeout_ms = HEALTH_MS},
                    &answer)) {
        print_health(arguments, &answer);
        code = answer.status == 200 ? EXIT_FINE : EXIT_FAILED;
        control_answer_free(&answer);
    }
    control_free(&control);
    return code;
}

static void pause_ms(int64_t ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

/* Until it is ready or the time is over; the last try says aloud what is wrong. */
static int wait_until_ready(struct control *control, const struct arguments *arguments, int64_t until_ms)
{
    static const struct control_request request = {.method = "GET", .target = "/readyz", .timeout_ms = HEALTH_MS};
    for (;;) {
        struct control_answer answer;
        bool last = clock_ms(CLOCK_MONOTONIC) + PAUSE_MS > until_ms;
        control->quiet = !last;
        bool asked = control_ask(control, &request, &answer);
        bool ready = asked && answer.status == 200;
        if (asked && arguments->json && (ready || last))
            record_print(&answer, NULL);
        else if (asked && !ready && last)
            print_ready(&answer, stderr);
        if (asked)
            control_answer_free(&answer);
        if (ready || last)
            return ready ? EXIT_FINE : EXIT_FAILED;
        pause_ms(PAUSE_MS);
    }
}

int command_wait(const struct arguments *arguments)
{
    struct control control;
    int code;
    if (!control_find(arguments, true, &control, &code))
        return code;
    code = wait_until_ready(&control, arguments,
                            clock_ms(CLOCK_MONOTONIC) + (arguments->max_ms ? arguments->max_ms : WAIT_MS));
    control_free(&control);
    return code;
}

/* ---- drain ------------------------------------------------------------------------------------ */

int command_drain(const struct arguments *arguments)
{
    struct control control;
    struct control_answer answer;
    char target[64];
    int code;
    int64_t max_ms = arguments->max_ms ? arguments->max_ms : DRAIN_MS;
    if (max_ms > DRAIN_MAX_MS)
        return usage_error("drain", "--max is at most 1h");
    if (!control_find(arguments, false, &control, &code))
        return code;
    snprintf(target, sizeof target, "/v1/drain?wait=%lld", (long long)(max_ms + 999) / 1000);
    code = EXIT_FAILED;
    if (control_ask_fine(
            &control,
            &(struct control_request){
                .method = "POST", .target = target, .timeout_ms = max_ms + CONTROL_TIMEOUT_MS, .has = "/idle"},
            &answer)) {
        char *idle = record_text(buffer_span(&answer.body), "/idle");
        bool is_idle = idle && strcmp(idle, "true") == 0;
        if (arguments->json)
            record_print(&answer, NULL);
        else if (is_idle)
            puts("drained: nothing runs any more");
        else
            fprintf(stderr, "einmal: still draining: something runs\n");
        code = is_idle ? EXIT_FINE : EXIT_FAILED;
        free(idle);
        control_answer_free(&answer);
    }
    control_free(&control);
    return code;
}

/* ---- backup ----------------------------------------------------------------------------------- */

static int complain(const char *doing, const char *file)
{
    fprintf(stderr, "einmal: cannot %s %s: %s\n", doing, file, strerror(errno));
    return EXIT_FAILED;
}

/* The name itself is durable when its directory is. */
static void sync_directory(const char *file)
{
    const char *slash = strrchr(file, '/');
    char *directory = slash == file ? copy_string("/")
                      : slash       ? must_allocate(strndup(file, (size_t)(slash - file)))
                                    : copy_string(".");
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(directory);
}

/* Does it begin as a store does? Whoever listens there by mistake may send anything. */
static bool is_store(int fd)
{
    uint32_t mark = 0;
    return pread(fd, &mark, sizeof mark, STORE_MARK_AT) == (ssize_t)sizeof mark && mark == STORE_MARK;
}

/* From the part to its name. Without force nothing is replaced, not even what has appeared meanwhile. */
static int finish_backup(const char *part, const char *file, bool force)
{
    if (renameat2(AT_FDCWD, part, AT_FDCWD, file, force ? 0 : RENAME_NOREPLACE) == 0)
        return EXIT_FINE;
    if (errno == EINVAL && access(file, F_OK) != 0 && rename(part, file) == 0) /* a file system without NOREPLACE */
        return EXIT_FINE;
    return complain("write", file);
}

static int fetch_backup(const struct control *control, const char *part, const char *file, bool force)
{
    struct control_answer answer;
    char size[SIZE_TEXT];
    int code = EXIT_FAILED;
    unlink(part); /* of an attempt that was cut */
    int fd = open(part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return complain("create", part);
    if (control_ask_fine(control, &(struct control_request){.method = "GET", .target = "/v1/backup", .fd = &fd},
                         &answer)) {
        if (!is_store(fd))
            fprintf(stderr,
                    "einmal: %s (%s) answers something else than a store: is it the admin interface of einmal?\n",
                    control->address, control->origin);
        else
            code = fsync(fd) == 0 ? finish_backup(part, file, force) : complain("write", part);
        size_text(answer.written, size);
        if (code == EXIT_FINE)
            printf("%s: %s\n", file, size);
        control_answer_free(&answer);
    }
    close(fd);
    if (code == EXIT_FINE)
        sync_directory(file);
    else
        unlink(part);
    return code;
}

int command_backup(const struct arguments *arguments)
{
    const char *file = arguments->operands[0];
    struct control control;
    int code;
    if (!arguments->force && access(file, F_OK) == 0) {
        fprintf(stderr, "einmal: %s is there already: --force replaces it\n", file);
        return EXIT_FAILED;
    }
    if (!control_find(arguments, false, &control, &code))
        return code;
    struct buffer part = {0};
    buffer_printf(&part, "%s.part", file);
    buffer_append(&part, "", 1);
    code = fetch_backup(&control, buffer_data(&part), file, arguments->force);
    buffer_free(&part);
    control_free(&control);
    return code;
}
