/*
 * The token's file: what is a token, and how it is told that there is none.
 */
#include "proxy/admin/token.h"

#include <criterion/criterion.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char path[] = "/tmp/einmal-token-XXXXXX";
static char conf_name[] = "f.yaml";

static void write_file(const char *text, size_t len)
{
    FILE *out = fopen(path, "w");
    cr_assert_not_null(out);
    cr_assert_eq(fwrite(text, 1, len, out), len);
    fclose(out);
}

static bool load(const char *file, struct admin_token *token, char **messages)
{
    struct conf conf = {.file = conf_name, .admin.token_file = {(char *)file, 3, 7}};
    size_t size;
    FILE *out = open_memstream(messages, &size);
    bool loaded = admin_token_load(&conf, token, out);
    fclose(out);
    return loaded;
}

Test(admin_token, tokens)
{
    static const struct {
        const char *name, *text, *token; /* token NULL: refused, with `why` */
        const char *why;
    } rows[] = {
        {"as it is", "secret", "secret", NULL},
        {"a line", "secret\n", "secret", NULL},
        {"a line of another system", "secret\r\n", "secret", NULL},
        {"all that can be sent", "aZ09!~:=+/", "aZ09!~:=+/", NULL},
        {"empty", "", NULL, "is empty: it must hold the token, one line of visible ASCII characters"},
        {"an empty line", "\r\n", NULL, "is empty: it must hold the token, one line of visible ASCII characters"},
        {"two lines", "a\nb\n", NULL, "must hold the token and nothing else: one line of visible ASCII characters"},
        {"two line ends", "a\n\n", NULL, "must hold the token and nothing else: one line of visible ASCII characters"},
        {"a space", "a b", NULL, "must hold the token and nothing else: one line of visible ASCII characters"},
        {"no ASCII", "\xc3\xa4", NULL, "must hold the token and nothing else: one line of visible ASCII characters"},
    };
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct admin_token token;
        char *messages, expected[300] = "";
        write_file(rows[i].text, strlen(rows[i].text));
        bool loaded = load(path, &token, &messages);
        cr_expect_eq(loaded, rows[i].token != NULL, "%s", rows[i].name);
        if (loaded && rows[i].token)
            cr_expect_str_eq(token.text, rows[i].token, "%s", rows[i].name);
        if (rows[i].why)
            snprintf(expected, sizeof expected, "f.yaml:3:7: error: admin.token_file: %s: %s\n", path, rows[i].why);
        cr_expect_str_eq(messages, expected, "%s", rows[i].name);
        admin_token_free(&token);
        free(messages);
    }
    unlink(path);
}

Test(admin_token, the_longest)
{
    char text[ADMIN_TOKEN_MAX + 3], *messages;
    struct admin_token token;
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
    memset(text, 'x', sizeof text);
    text[ADMIN_TOKEN_MAX] = '\r', text[ADMIN_TOKEN_MAX + 1] = '\n';
    write_file(text, ADMIN_TOKEN_MAX + 2);
    cr_expect(load(path, &token, &messages), "%s", messages);
    cr_expect_eq(strlen(token.text), ADMIN_TOKEN_MAX);
    admin_token_free(&token);
    free(messages);
    write_file(text, ADMIN_TOKEN_MAX + 3);
    cr_expect_not(load(path, &token, &messages), "a cut token would be another one");
    free(messages);
    unlink(path);
}

Test(admin_token, none_and_unreadable)
{
    struct conf conf = {.file = conf_name};
    struct admin_token token;
    char *messages;
    cr_expect(admin_token_load(&conf, &token, stderr), "none is asked for");
    cr_expect_null(token.text);
    cr_expect_not(load("/nowhere/token", &token, &messages));
    cr_expect_str_eq(
        messages, "f.yaml:3:7: error: admin.token_file: /nowhere/token: cannot be read: No such file or directory\n");
    free(messages);
    cr_expect_not(load("/tmp", &token, &messages), "a directory");
    cr_expect_not_null(strstr(messages, "cannot be read: Is a directory"), "%s", messages);
    free(messages);
}
