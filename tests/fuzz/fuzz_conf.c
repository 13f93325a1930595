/*
 * fuzz_conf.c - whatever a configuration file holds, reading it ends, in a configuration that can be printed or in at
 * least one error that names a place in the file.
 */
#include "conf/load.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *environment(void *arg, const char *name)
{
    (void)arg;
    return strcmp(name, "PORT") == 0 ? "3000" : strcmp(name, "EMPTY") == 0 ? "" : NULL;
}

/* Each line of the messages begins with the name of the file and a place. */
static size_t count_errors(char *messages)
{
    size_t errors = 0;
    for (char *rest = NULL, *line = strtok_r(messages, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        unsigned row = 0, column = 0;
        int end = 0;
        int fields = sscanf(line, "f:%u:%u: %n", &row, &column, &end);
        assert(fields == 2 && end > 0 && row > 0 && column > 0);
        errors += strncmp(line + end, "error: ", 7) == 0;
    }
    return errors;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *messages = NULL, *printed = NULL;
    size_t messages_size, printed_size;
    FILE *out = open_memstream(&messages, &messages_size);
    struct conf *conf = conf_load_text("f", (const char *)data, size, NULL, environment, NULL, out);
    fclose(out);
    size_t errors = count_errors(messages);
    assert((conf == NULL) == (errors > 0));
    if (conf) {
        struct conf_difference differences[1];
        out = open_memstream(&printed, &printed_size);
        conf_print(conf, out);
        fclose(out);
        size_t differing = conf_fixed_differences(conf, conf, differences, 1);
        assert(differing == 0);
    }
    conf_unref(conf);
    free(messages);
    free(printed);
    return 0;
}
