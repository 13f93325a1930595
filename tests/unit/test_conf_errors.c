/*
 * What is wrong with a file is told with line and column, in words, and nothing wrong is let through (contract §3).
 * Each row is one kind of error: the whole output must be exactly what the row says.
 */
#include "tests/unit/conf_run.h"

#include <criterion/criterion.h>

struct row {
    const char *name, *text, *messages;
};

#define AT(place) "f.yaml:" place ": error: "

static void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct conf *conf;
        char *messages = conf_run(rows[i].text, strlen(rows[i].text), NULL, &conf);
        cr_expect_str_eq(messages, rows[i].messages, "%s: messages are\n%s\nnot\n%s", rows[i].name, messages,
                         rows[i].messages);
        cr_expect_null(conf, "%s: a file with an error yields no configuration", rows[i].name);
        free(messages);
        conf_unref(conf);
    }
}

#define CHECK(rows) check_rows(rows, sizeof(rows) / sizeof(*(rows)))

Test(conf_errors, yaml)
{
    static const struct row rows[] = {
        {"empty", "", AT("1:1") "the file is empty\n"},
        {"only a comment", "# nothing\n", AT("1:1") "the file is empty\n"},
        {"only a document mark", "---\n", AT("1:1") "the file is empty\n"},
        {"a list", "- a\n", AT("1:1") "expected a mapping of settings, not a list\n"},
        {"a word", "hello\n", AT("1:1") "expected a mapping of settings, not a single value\n"},
        {"two documents", CONF_UPSTREAMS "---\nvia: true\n",
         AT("3:1") "a second document begins here: a file holds one\n"},
        {"not UTF-8", "via: true # \xC3\xA9\xFF\n", AT("1:14") "not UTF-8: byte 0xFF\n"},
        {"overlong UTF-8", "a\n\xC0\xAF", AT("2:1") "not UTF-8: byte 0xC0\n"},
        {"surrogate", "\xED\xA0\x80", AT("1:1") "not UTF-8: byte 0xED\n"},
        {"cut UTF-8", "via: \xE2\x82", AT("1:6") "not UTF-8: byte 0xE2\n"},
        {"control character", "via: true\n\x01", AT("2:1") "control character U+0001\n"},
        {"tab", "log:\n\tlevel: info\n",
         AT("2:1") "syntax: found character that cannot start any token (while scanning for the next token that begins "
                   "on line 2)\n"},
        {"quote not closed", "via: \"x\n",
         AT("2:1") "syntax: found unexpected end of stream (while scanning a quoted scalar that begins on line 1)\n"},
        {"bad indent", "log:\n  level: info\n access: true\n",
         AT("3:2") "syntax: did not find expected key (while parsing a block mapping that begins on line 1)\n"},
        {"bracket not closed", "routes: [\n",
         AT("2:1") "syntax: did not find expected node content (while parsing a flow node that begins on line 2)\n"},
        {"no colon", "via true\nlog: {}\n", AT("2:4") "syntax: mapping values are not allowed in this context\n"},
        {"anchor", CONF_UPSTREAMS "via: &x true\n", AT("3:6") "anchors are not allowed (&x)\n"},
        {"aliases", "via: &x true\nworkers: *x\nforwarded: *x\n",
         AT("1:6") "anchors are not allowed (&x)\n" AT("2:10") "aliases are not allowed (*x)\n" AT(
             "3:12") "aliases are not allowed (*x)\n"},
        {"an alias to itself", "a: &a [*a]\n",
         AT("1:4") "anchors are not allowed (&a)\n" AT("1:8") "aliases are not allowed (*a)\n"},
        {"tag", CONF_UPSTREAMS "via: !!bool true\n", AT("3:6") "tags are not allowed (tag:yaml.org,2002:bool)\n"},
        {"tag of a mapping", CONF_UPSTREAMS "log: !x {}\n", AT("3:6") "tags are not allowed (!x)\n"},
        {"key that is no name", CONF_UPSTREAMS "[a]: b\n", AT("3:1") "expected a name before the colon\n"},
        {"duplicate key", CONF_UPSTREAMS "via: true\nvia: false\n",
         AT("4:1") "duplicate key 'via' (first on line 3)\n"},
        {"duplicate key inside", CONF_UPSTREAMS "log: {level: info, access: true, level: debug}\n",
         AT("3:34") "duplicate key 'level' (first on line 3)\n"},
        {"duplicate upstream", "upstreams:\n  a: {url: \"http://a\"}\n  a: {url: \"http://b\"}\ndefault_upstream: a\n",
         AT("3:3") "duplicate key 'a' (first on line 2)\n"},
    };
    CHECK(rows);
}

Test(conf_errors, nesting_and_size_are_bounded)
{
    char deep[200] = "via: ";
    memset(deep + strlen(deep), '[', 100);
    static const struct row rows[] = {{"", "", AT("1:37") "nested more than 32 deep\n"}};
    struct row row = {"deep", deep, rows[0].messages};
    check_rows(&row, 1);
    size_t size = 1024 * 1024 + 1;
    char *large = must_allocate(malloc(size));
    memset(large, '#', size);
    struct conf *conf;
    char *messages = conf_run(large, size, NULL, &conf);
    cr_expect_str_eq(messages, AT("1:1") "larger than 1048576 bytes\n");
    cr_expect_null(conf);
    free(messages);
    free(large);
}

Test(conf_errors, names)
{
    static const struct row rows[] = {
        {"misspelt at the root", "upstreem: {}\n" CONF_UPSTREAMS,
         AT("1:1") "unknown key 'upstreem' (did you mean 'upstreams'?)\n"},
        {"misspelt inside", CONF_UPSTREAMS "log: {lvel: info}\n",
         AT("3:7") "unknown key 'lvel' in log (did you mean 'level'?)\n"},
        {"misspelt in a route", CONF_ROUTE "    wait-timeout: 1s\n",
         AT("5:5") "unknown key 'wait-timeout' in routes[0] (did you mean 'wait_timeout'?)\n"},
        {"upper case", CONF_UPSTREAMS "VIA: true\n", AT("3:1") "unknown key 'VIA' (did you mean 'via'?)\n"},
        {"nothing near", CONF_UPSTREAMS "colour: red\n", AT("3:1") "unknown key 'colour'\n"},
        {"merge key", CONF_UPSTREAMS "<<: {}\n", AT("3:1") "unknown key '<<'\n"},
        {"no upstreams", "via: true\n", AT("1:1") "upstreams: missing\n"},
        {"empty upstreams", "upstreams: {}\n", AT("1:12") "upstreams: at least one upstream is needed\n"},
        {"no url", "upstreams:\n  api: {keepalive: 1}\n", AT("2:8") "upstreams.api.url: missing\n"},
        {"name of an upstream", "upstreams:\n  -x: {url: \"http://a\"}\n",
         AT("2:3") "upstreams.-x: a name has 1 to 64 letters, digits, '.', '_' and '-', and begins with no '.' or "
                   "'-'\n"},
        {"route without name", CONF_UPSTREAMS "routes:\n  - required: true\n", AT("4:5") "routes[0].name: missing\n"},
        {"bad name", CONF_UPSTREAMS "routes:\n  - name: a b\n",
         AT("4:11") "routes[0].name: 'a b': a name has 1 to 64 letters, digits, '.', '_' and '-', and begins with no "
                    "'.' "
                    "or '-'\n"},
        {"a route after one that is none", CONF_UPSTREAMS "routes:\n  - 7\n  - name: r\n    upstream: x\n",
         AT("4:5") "routes[0]: expected a mapping, not a single value\n" AT(
             "6:15") "routes[1].upstream: no upstream is named 'x'\n"},
        {"name twice", CONF_ROUTE "    match: {path: /a}\n  - name: r\n",
         AT("6:11") "routes[1]: name: 'r' is taken (first on line 4)\n"},
        {"unknown upstream", CONF_ROUTE "    upstream: apj\n",
         AT("5:15") "routes[0].upstream: no upstream is named 'apj' (did you mean 'api'?)\n"},
        {"unknown default_upstream", CONF_UPSTREAMS "default_upstream: web\n",
         AT("3:19") "default_upstream: no upstream is named 'web'\n"},
        {"which upstream", "upstreams:\n  a: {url: \"http://a\"}\n  b: {url: \"http://b\"}\nroutes:\n  - name: r\n",
         AT("5:5") "routes[0]: upstream: missing, and there is no default_upstream\n"},
    };
    CHECK(rows);
}

Test(conf_errors, types)
{
    static const struct row rows[] = {
        {"no value", CONF_UPSTREAMS "via:\n", AT("3:5") "via: has no value: expected true or false\n"},
        {"null", CONF_UPSTREAMS "via: null\n", AT("3:6") "via: has no value: expected true or false\n"},
        {"section without value", CONF_UPSTREAMS "limits:\n", AT("3:8") "limits: has no value: expected a mapping\n"},
        {"list for a mapping", CONF_UPSTREAMS "log: [a]\n", AT("3:6") "log: expected a mapping, not a list\n"},
        {"mapping for a value", CONF_UPSTREAMS "via: {a: b}\n",
         AT("3:6") "via: expected true or false, not a mapping\n"},
        {"value for a list", CONF_ROUTE "    ignore: a\n",
         AT("5:13") "routes[0].ignore: expected a list of json:/POINTER, not a single value\n"},
        {"yes", CONF_UPSTREAMS "via: yes\n", AT("3:6") "via: expected true or false, not 'yes'\n"},
        {"True", CONF_UPSTREAMS "via: True\n", AT("3:6") "via: expected true or false, not 'True'\n"},
        {"quoted boolean", CONF_UPSTREAMS "via: \"true\"\n",
         AT("3:6") "via: expected true or false, not the string \"true\"\n"},
        {"octal", CONF_UPSTREAMS "limits: {headers: 010}\n",
         AT("3:19") "limits.headers: expected a number from 1 to 256, not '010'\n"},
        {"number with a tail", CONF_UPSTREAMS "limits: {headers: 80x}\n",
         AT("3:19") "limits.headers: expected a number from 1 to 256, not '80x'\n"},
        {"sign", CONF_UPSTREAMS "limits: {headers: +8}\n",
         AT("3:19") "limits.headers: expected a number from 1 to 256, not '+8'\n"},
        {"hexadecimal", CONF_UPSTREAMS "limits: {headers: 0x10}\n",
         AT("3:19") "limits.headers: expected a number from 1 to 256, not '0x10'\n"},
        {"quoted number", CONF_UPSTREAMS "limits: {headers: '8'}\n",
         AT("3:19") "limits.headers: expected a number from 1 to 256, not the string \"8\"\n"},
        {"number too large", CONF_UPSTREAMS "limits: {headers: 257}\n",
         AT("3:19") "limits.headers: expected a number from 1 to 256, not '257'\n"},
        {"number too small", CONF_UPSTREAMS "limits: {headers: 0}\n",
         AT("3:19") "limits.headers: expected a number from 1 to 256, not '0'\n"},
        {"size", CONF_UPSTREAMS "store: {max_size: 8G}\n",
         AT("3:19") "store.max_size: expected a size such as 65536, 64KiB or 10MB, not '8G'\n"},
        {"size too small", CONF_UPSTREAMS "store: {max_size: 1023KiB}\n",
         AT("3:19") "store.max_size: expected a size from 1MiB to 64TiB, not '1023KiB'\n"},
        {"size beyond 64 bits", CONF_UPSTREAMS "store: {max_size: 99999999TiB}\n",
         AT("3:19") "store.max_size: expected a size such as 65536, 64KiB or 10MB, not '99999999TiB'\n"},
        {"duration without unit", CONF_UPSTREAMS "timeouts: {idle: 75}\n",
         AT("3:18") "timeouts.idle: expected a duration such as 250ms, 2s, 5m, 24h or 7d, not '75'\n"},
        {"duration of nothing", CONF_UPSTREAMS "timeouts: {drain: 0s}\n",
         AT("3:19") "timeouts.drain: expected a duration from 1ms to 1d, not '0s'\n"},
        {"never where it cannot be", CONF_ROUTE "    retention: never\n",
         AT("5:16") "routes[0].retention: expected a duration such as 250ms, 2s, 5m, 24h or 7d, not 'never'\n"},
        {"choice", CONF_UPSTREAMS "log: {level: warn}\n",
         AT("3:14") "log.level: expected error, warning, info or debug, not 'warn'\n"},
        {"choice misspelt", CONF_UPSTREAMS "log: {level: debgu}\n",
         AT("3:14") "log.level: expected error, warning, info or debug, not 'debgu' (did you mean 'debug'?)\n"},
        {"workers", CONF_UPSTREAMS "workers: 0\n",
         AT("3:10") "workers: expected auto or a number from 1 to 1024, not '0'\n"},
    };
    CHECK(rows);
}

Test(conf_errors, environment)
{
    static const struct row rows[] = {
        {"unset", CONF_UPSTREAMS "via: ${NOTHING}\n", AT("3:6") "via: environment variable NOTHING is not set\n"},
        {"empty name", CONF_UPSTREAMS "via: ${}\n", AT("3:6") "via: expected ${NAME} or ${NAME:-default} at '${}'\n"},
        {"not closed", CONF_UPSTREAMS "via: ${PORT\n",
         AT("3:6") "via: expected ${NAME} or ${NAME:-default} at '${PORT'\n"},
        {"another operator", CONF_UPSTREAMS "via: ${PORT:=x}\n",
         AT("3:6") "via: expected ${NAME} or ${NAME:-default} at '${PORT:=x}'\n"},
        {"bare dollar", CONF_UPSTREAMS "log: {level: $LEVEL}\n",
         AT("3:14") "log.level: a dollar must be written $$ (or ${NAME} for an environment variable)\n"},
        {"the value is checked", CONF_UPSTREAMS "via: ${PORT}\n",
         AT("3:6") "via: expected true or false, not '3000'\n"},
        {"the value is no YAML", CONF_UPSTREAMS "via: ${YAML}\n",
         AT("3:6") "via: expected true or false, not 'a: [b'\n"},
        {"names are not replaced", CONF_UPSTREAMS "${LEVEL}: x\n", AT("3:1") "unknown key '${LEVEL}'\n"},
    };
    CHECK(rows);
}

Test(conf_errors, addresses)
{
    static const struct row rows[] = {
        {"no port", CONF_UPSTREAMS "listen:\n  - address: 127.0.0.1\n",
         AT("4:14") "listen[0].address: '127.0.0.1': expected host:port or [IPv6]:port\n"},
        {"no host", CONF_UPSTREAMS "listen:\n  - address: :8080\n",
         AT("4:14") "listen[0].address: ':8080': the host is missing; for all addresses write 0.0.0.0 or [::]\n"},
        {"port 0", CONF_UPSTREAMS "listen:\n  - address: a:0\n",
         AT("4:14") "listen[0].address: 'a:0': the port must be 1 to 65535\n"},
        {"no list", CONF_UPSTREAMS "listen: 0.0.0.0:80\n",
         AT("3:9") "listen: expected a list of addresses, not a single value\n"},
        {"empty list", CONF_UPSTREAMS "listen: []\n", AT("3:9") "listen: at least one address is needed\n"},
        {"item without address", CONF_UPSTREAMS "listen: [{}]\n", AT("3:10") "listen[0].address: missing\n"},
        {"twice", CONF_UPSTREAMS "listen:\n  - address: a:80\n  - address: a:80\n",
         AT("5:14") "listen[1]: address: 'a:80' is listed twice (first on line 4)\n"},
        {"mode of a port", CONF_UPSTREAMS "listen:\n  - address: a:80\n    mode: 0600\n",
         AT("5:11") "listen[0]: mode: only a unix socket has permissions\n"},
        {"mode", CONF_UPSTREAMS "listen:\n  - address: unix:/a\n    mode: 0980\n",
         AT("5:11") "listen[0].mode: expected permissions as for chmod, such as 0660, not '0980'\n"},
        {"relative socket", CONF_UPSTREAMS "listen:\n  - address: unix:a\n",
         AT("4:14") "listen[0].address: 'unix:a': the path of a unix socket must begin with /\n"},
        {"scheme", "upstreams:\n  a: {url: \"ftp://a\"}\n",
         AT("2:12") "upstreams.a.url: 'ftp://a': expected http://host[:port], https://host[:port] or "
                    "http+unix:/path\n"},
        {"path of its own", "upstreams:\n  a: {url: \"http://a/b\"}\n",
         AT("2:12") "upstreams.a.url: 'http://a/b': an upstream has no path, query or fragment of its own: requests go "
                    "on "
                    "with theirs\n"},
        {"user name", "upstreams:\n  a: {url: \"http://u:p@a\"}\n",
         AT("2:12") "upstreams.a.url: user names in a URL are not allowed\n"},
        {"Host to send", "upstreams:\n  a: {url: \"http://a\", host: \"a b\"}\n",
         AT("2:30") "upstreams.a.host: expected pass or the name to send as Host, not 'a b'\n"},
        {"empty store path", CONF_UPSTREAMS "store: {path: \"\"}\n",
         AT("3:15") "store.path: expected a directory, not an empty text\n"},
    };
    CHECK(rows);
}

Test(conf_errors, routes)
{
    static const struct row rows[] = {
        {"method", CONF_ROUTE "    match: {methods: [POST, post, CONNECT, BREW]}\n",
         AT("5:29") "routes[0].match.methods[1]: 'post' is no method that is supported (did you mean 'POST'?)\n" AT(
             "5:35") "routes[0].match.methods[2]: 'CONNECT' is no method that is supported\n" AT("5:44") "routes[0]."
                                                                                                         "match."
                                                                                                         "methods[3]: "
                                                                                                         "'BREW' is no "
                                                                                                         "method that "
                                                                                                         "is "
                                                                                                         "supported\n"},
        {"no methods", CONF_ROUTE "    match: {methods: []}\n",
         AT("5:22") "routes[0].match.methods: expected at least one method\n"},
        {"path", CONF_ROUTE "    match: {path: a}\n", AT("5:19") "routes[0].match.path: 'a': a path begins with /\n"},
        {"name twice in a path", CONF_ROUTE "    match: {path: \"/{a}/{a}\"}\n",
         AT("5:19") "routes[0].match.path: '/{a}/{a}': {a} occurs twice\n"},
        {"host", CONF_ROUTE "    match: {host: \"a.*.b\"}\n",
         AT("5:19") "routes[0].match.host: 'a.*.b': expected a host such as shop.example, *.example or [::1]:8080\n"},
        {"key of nothing", CONF_ROUTE "    key: []\n", AT("5:10") "routes[0].key: expected at least one alternative\n"},
        {"key of both", CONF_ROUTE "    key: [{header: A, derive: [host]}]\n",
         AT("5:11") "routes[0].key[0]: either 'header' or 'derive', not both: alternatives are items of their own\n"},
        {"key of neither", CONF_ROUTE "    key: [{}]\n",
         AT("5:11") "routes[0].key[0]: expected a mapping with 'header' or 'derive'\n"},
        {"key without mapping", CONF_ROUTE "    key: [Idempotency-Key]\n",
         AT("5:11") "routes[0].key[0]: expected a mapping with 'header' or 'derive', not a single value\n"},
        {"derived from nothing", CONF_ROUTE "    key: [{derive: []}]\n",
         AT("5:20") "routes[0].key[0].derive: expected at least one component\n"},
        {"header name", CONF_ROUTE "    key: [{header: \"a b\"}]\n",
         AT("5:20") "routes[0].key[0].header: 'a b' is no name of a header\n"},
        {"header of the connection", CONF_ROUTE "    key: [{header: host}]\n",
         AT("5:20") "routes[0].key[0].header: 'host' belongs to the connection and cannot be used here\n"},
        {"dropped header", CONF_ROUTE "    replay_headers: {drop: [a, \"b:\"]}\n",
         AT("5:32") "routes[0].replay_headers.drop[1]: 'b:' is no name of a header\n"},
        {"marker", CONF_ROUTE "    replayed_header: \"\"\n",
         AT("5:22") "routes[0].replayed_header: '' is no name of a header\n"},
        {"component misspelt", CONF_ROUTE "    scope: [haeder:X]\n",
         AT("5:13") "routes[0].scope[0]: unknown component 'haeder:X' (did you mean 'header:NAME'?)\n"},
        {"component unknown", CONF_ROUTE "    scope: [colour]\n",
         AT("5:13") "routes[0].scope[0]: unknown component 'colour'\n"},
        {"component without name", CONF_ROUTE "    scope: [\"query:\"]\n",
         AT("5:13") "routes[0].scope[0]: expected query:NAME\n"},
        {"component with a bad name", CONF_ROUTE "    scope: [\"cookie:a b\"]\n",
         AT("5:13") "routes[0].scope[0]: 'a b' is no name of a cookie\n"},
        {"pointer", CONF_ROUTE "    scope: [\"json:a\", \"json:/a~2\"]\n",
         AT("5:13") "routes[0].scope[0]: 'a' is no JSON pointer: it begins with /, and ~ stands only in ~0 and ~1\n" AT(
             "5:23") "routes[0].scope[1]: '/a~2' is no JSON pointer: it begins with /, and ~ stands only in ~0 and "
                     "~1\n"},
        {"name that the path lacks", CONF_ROUTE "    match: {path: \"/{order}\"}\n    scope: [path:item]\n",
         AT("6:13") "routes[0].scope[0]: match.path has no {item}\n"},
        {"nothing follows from a bad path", CONF_ROUTE "    match: {path: \"{order}\"}\n    scope: [path:order]\n",
         AT("5:19") "routes[0].match.path: '{order}': a path begins with /\n"},
        {"scope", CONF_ROUTE "    scope: atuo\n",
         AT("5:12") "routes[0].scope: expected auto or a list of components, not 'atuo' (did you mean 'auto'?)\n"},
        {"fingerprint", CONF_ROUTE "    fingerprint: hash\n",
         AT("5:18") "routes[0].fingerprint: expected body, json, none or a list of components, not 'hash'\n"},
        {"fingerprint of nothing", CONF_ROUTE "    fingerprint: []\n",
         AT("5:18") "routes[0].fingerprint: expected at least one component; to add nothing, write none\n"},
        {"new without fingerprint", CONF_ROUTE "    on_mismatch: new\n    fingerprint: none\n",
         AT("5:18") "routes[0]: on_mismatch: 'new' needs a fingerprint, but fingerprint is none\n"},
        {"new with derived keys", CONF_ROUTE "    key: [{derive: [header:X]}]\n    on_mismatch: new\n",
         AT("6:18") "routes[0]: on_mismatch: 'new' needs a fingerprint, but fingerprint is none (the default for "
                    "derived "
                    "keys)\n"},
        {"ignore without json", CONF_ROUTE "    ignore: [\"json:/a\"]\n",
         AT("5:13") "routes[0]: ignore: only with fingerprint: json\n"},
        {"ignore of something else", CONF_ROUTE "    fingerprint: json\n    ignore: [host]\n",
         AT("6:13") "routes[0].ignore: only json:/POINTER can be ignored\n"},
    };
    CHECK(rows);
}

Test(conf_errors, statuses)
{
    static const struct row rows[] = {
        {"no status", CONF_ROUTE "    statuses: {release: [99, 1xx, 40, 4xy, \"409+retry\", [5]]}\n",
         AT("5:26") "routes[0].statuses.release[0]: expected a status such as 409, \"409+retry-after\" or a class such "
                    "as "
                    "5xx, not '99'\n" AT(
                        "5:30") "routes[0].statuses.release[1]: expected a status such as 409, "
                                "\"409+retry-after\" or a class such as 5xx, not '1xx'\n" AT(
                                    "5:35") "routes[0].statuses.release[2]: expected a status such as 409, "
                                            "\"409+retry-after\" or a class such "
                                            "as 5xx, not '40'\n" AT(
                                                "5:39") "routes[0].statuses.release[3]: expected a status such as 409, "
                                                        "\"409+retry-after\" or a class such as 5xx, not '4xy'\n" AT(
                                                            "5:44") "routes[0].statuses.release[4]: expected a status "
                                                                    "such as 409, \"409+retry-after\" or a class "
                                                                    "such as 5xx, not '409+retry'\n" AT(
                                                                        "5:57") "routes[0].statuses.release[5]: "
                                                                                "expected a status such as 409, "
                                                                                "\"409+retry-after\" or a class such "
                                                                                "as 5xx, not a list\n"},
        {"in two lists", CONF_ROUTE "    statuses:\n      unknown: [418]\n      completed: [418]\n",
         AT("7:19") "routes[0].statuses: 418 is in 'unknown' as well: it may be in one list only\n"},
        {"in a list that is left at its default", CONF_ROUTE "    statuses: {completed: [401]}\n",
         AT("5:28") "routes[0].statuses: 401 is in 'release' as well (which is left at its default): it may be in one "
                    "list only\n"},
        {"class in two lists", CONF_ROUTE "    statuses: {release: [5xx], completed: [5xx]}\n",
         AT("5:44") "routes[0].statuses: 5xx is in 'release' as well: it may be in one list only\n"},
        {"twice in one list", CONF_ROUTE "    statuses: {release: [\"503+retry-after\", 418, \"503+retry-after\"]}\n",
         AT("5:50") "routes[0].statuses.release: 503+retry-after is listed twice\n"},
        {"other", CONF_ROUTE "    statuses: {other: replay}\n",
         AT("5:23") "routes[0].statuses.other: expected completed, release or unknown, not 'replay'\n"},
    };
    CHECK(rows);
}

#define LISTEN   CONF_UPSTREAMS "listen:\n  - address: a:1\n    "
#define UPSTREAM "upstreams:\n  a: {url: \"https://a\", "

Test(conf_errors, tls)
{
    static const struct row rows[] = {
        {"listener without key", LISTEN "tls: {certificate: x}\n", AT("5:10") "listen[0].tls.key: missing\n"},
        {"listener without both", LISTEN "tls: {}\n",
         AT("5:10") "listen[0].tls.certificate: missing\n" AT("5:10") "listen[0].tls.key: missing\n"},
        {"listener, misspelt", LISTEN "tls: {certifcate: x, key: y}\n",
         AT("5:10") "listen[0].tls.certificate: missing\n" AT(
             "5:11") "unknown key 'certifcate' in listen[0].tls (did you mean 'certificate'?)\n"},
        {"listener, no mapping", LISTEN "tls: true\n",
         AT("5:10") "listen[0].tls: expected a mapping with 'certificate' and 'key', not a single value\n"},
        {"listener, empty name", LISTEN "tls: {certificate: \"\", key: y}\n",
         AT("5:24") "listen[0].tls.certificate: expected the name of a file, not an empty text\n"},
        {"upstream without key", UPSTREAM "tls: {certificate: x}}\n",
         AT("2:30") "upstreams.a: tls: certificate and key belong together\n"},
        {"upstream without certificate", UPSTREAM "tls: {key: x}}\n",
         AT("2:30") "upstreams.a: tls: certificate and key belong together\n"},
        {"upstream, name with a port", UPSTREAM "tls: {server_name: \"b:443\"}}\n",
         AT("2:44") "upstreams.a.tls.server_name: expected a host name without a port, not 'b:443'\n"},
        {"upstream, verify", UPSTREAM "tls: {verify: maybe}}\n",
         AT("2:39") "upstreams.a.tls.verify: expected true or false, not 'maybe'\n"},
        {"upstream without https", "upstreams:\n  a: {url: \"http://a\", tls: {verify: false}}\n",
         AT("2:24") "upstreams.a: tls: only for an url that begins with https://\n"},
        {"https with a path", "upstreams:\n  a: {url: \"https://a/b\"}\n",
         AT("2:12") "upstreams.a.url: 'https://a/b': an upstream has no path, query or fragment of its own: requests "
                    "go "
                    "on with theirs\n"},
    };
    CHECK(rows);
}

Test(conf_errors, origins)
{
#define ORIGIN(text) CONF_ROUTE "    cors: [\"https://fine.example\", \"" text "\"]\n"
#define WRONG(text)  AT("5:36") "routes[0].cors[1]: '" text "': "
    static const struct row rows[] = {
        {"any", ORIGIN("*"), WRONG("*") "every origin cannot be listed: name those that are trusted\n"},
        {"null", ORIGIN("null"), WRONG("null") "an origin is scheme://host or scheme://host:port\n"},
        {"no scheme", ORIGIN("a.example"), WRONG("a.example") "an origin is scheme://host or scheme://host:port\n"},
        {"no host", ORIGIN("https://"), WRONG("https://") "an origin is scheme://host or scheme://host:port\n"},
        {"slash", ORIGIN("https://a/"), WRONG("https://a/") "an origin has no path, not even '/'\n"},
        {"user", ORIGIN("https://u@a"), WRONG("https://u@a") "an origin has no path, not even '/'\n"},
        {"case", ORIGIN("https://A"), WRONG("https://A") "browsers write origins in lower case\n"},
        {"port 443", ORIGIN("https://a:443"), WRONG("https://a:443") "browsers leave the scheme's own port away\n"},
        {"port 80", ORIGIN("http://a:80"), WRONG("http://a:80") "browsers leave the scheme's own port away\n"},
        {"no list", CONF_ROUTE "    cors: https://a\n",
         AT("5:11") "routes[0].cors: expected a list of origins, not a single value\n"},
    };
    CHECK(rows);
}

Test(conf_errors, probes)
{
#define ASKS        CONF_ROUTE "    match: {path: \"/a/{a}\"}\n    on_unknown: probe\n"
#define PROBE(text) ASKS "    probe: {" text "}\n"
#define PATH(text)  PROBE("path: \"" text "\"")
#define WRONG_PATH  AT("7:19") "routes[0].probe.path: "
    static const struct row rows[] = {
        {"none", ASKS, AT("6:17") "routes[0]: on_unknown: 'probe' needs a 'probe' that says how to ask\n"},
        {"for nothing", CONF_ROUTE "    probe: {path: \"/x/{key}\"}\n",
         AT("5:5") "routes[0]: probe: asks nobody without on_unknown: probe\n"},
        {"for nothing, said", CONF_ROUTE "    on_unknown: retry\n    probe: {path: \"/x/{key}\"}\n",
         AT("6:5") "routes[0]: probe: asks nobody without on_unknown: probe\n"},
        {"no path", PROBE("method: GET"), AT("7:12") "routes[0].probe.path: missing\n"},
        {"no mapping", ASKS "    probe: /x\n", AT("7:12") "routes[0].probe: expected a mapping, not a single value\n"},
        {"misspelt", PROBE("path: \"/x/{key}\", setle: 1s"),
         AT("7:31") "unknown key 'setle' in routes[0].probe (did you mean 'settle'?)\n"},
        {"a method with effects", PROBE("path: \"/x/{key}\", method: POST"),
         AT("7:39") "routes[0].probe.method: expected GET or HEAD, not 'POST'\n"},
        {"a relative path", PATH("x/{key}"), WRONG_PATH "'x/{key}': a path begins with /\n"},
        {"no value", PATH("/x"),
         WRONG_PATH "'/x': names no value of the attempt, so it cannot tell one action from another\n"},
        {"a space", PATH("/x y/{key}"),
         WRONG_PATH "'/x y/{key}': spaces, control characters and what is not ASCII must be written as %XX\n"},
        {"a fragment", PATH("/x/{key}#y"), WRONG_PATH "'/x/{key}#y': # cannot be sent\n"},
        {"half a %XX", PATH("/x%2/{key}"), WRONG_PATH "'/x%2/{key}': % must be followed by two hexadecimal digits\n"},
        {"open", PATH("/x/{key"), WRONG_PATH "'/x/{key': { without a } after it\n"},
        {"not opened", PATH("/x/key}"), WRONG_PATH "'/x/key}': } without a { before it\n"},
        {"dots", PATH("/x/../{key}"), WRONG_PATH "'/x/../{key}': no segment may be . or ..\n"},
        {"another component", PATH("/x/{query:a}"),
         WRONG_PATH "{query:a}: expected {key}, {path:NAME}, {json:/POINTER} or {header:NAME}\n"},
        {"no component", PATH("/x/{id}"),
         WRONG_PATH "{id}: expected {key}, {path:NAME}, {json:/POINTER} or {header:NAME}\n"},
        {"no pointer", PATH("/x/{json:a}"),
         WRONG_PATH "{json:a}: expected {key}, {path:NAME}, {json:/POINTER} or {header:NAME}\n"},
        {"a name that the route's path has not", PATH("/x/{path:b}"), WRONG_PATH "match.path has no {b}\n"},
        {"both", PROBE("path: \"/x/{key}\", happened: [200, 404], not_happened: [410, 404]"),
         AT("7:73") "routes[0].probe.not_happened: 404 is in the other list as well: it cannot mean both\n"},
        {"both, one by default", PROBE("path: \"/x/{key}\", happened: [404]"),
         AT("7:42") "routes[0].probe.happened: 404 is in the other list as well: it cannot mean both\n"},
        {"both, a class", PROBE("path: \"/x/{key}\", happened: [2xx], not_happened: [2xx]"),
         AT("7:63") "routes[0].probe.not_happened: 2xx is in the other list as well: it cannot mean both\n"},
        {"Retry-After", PROBE("path: \"/x/{key}\", not_happened: [\"404+retry-after\"]"),
         AT("7:46") "routes[0].probe.not_happened: a probe's status counts with or without Retry-After: write it "
                    "without\n"},
        {"no status", PROBE("path: \"/x/{key}\", happened: [ok]"),
         AT("7:42") "routes[0].probe.happened[0]: expected a status such as 409, \"409+retry-after\" or a class such "
                    "as 5xx, not 'ok'\n"},
        {"settle", PROBE("path: \"/x/{key}\", settle: never"),
         AT("7:39") "routes[0].probe.settle: expected a duration such as 250ms, 2s, 5m, 24h or 7d, not 'never'\n"},
    };
    CHECK(rows);
}

Test(conf_errors, side_listeners)
{
#define OPEN        " can be reached from other machines: set admin.token_file, or listen on 127.0.0.1 or a unix socket\n"
#define TAKEN(name) " is the address of " name " already: choose another port or path\n"
    static const struct row rows[] = {
        {"misspelt", CONF_ROUTE "admin: {adress: a:1}\n",
         AT("5:9") "unknown key 'adress' in admin (did you mean 'address'?)\n"},
        {"no port", CONF_ROUTE "health: {address: a}\n",
         AT("5:19") "health.address: 'a': expected host:port or [IPv6]:port\n"},
        {"health has no mode", CONF_ROUTE "health: {address: \"unix:/h\", mode: 0600}\n",
         AT("5:30") "unknown key 'mode' in health\n"},
        {"mode of no socket", CONF_ROUTE "admin: {address: \"127.0.0.1:1\", mode: 0600}\n",
         AT("5:39") "admin.mode: only a unix socket has permissions\n"},
        {"all addresses", CONF_ROUTE "admin: {address: \"0.0.0.0:1\"}\n", AT("5:18") "admin.address: '0.0.0.0:1'" OPEN},
        {"all IPv6 addresses", CONF_ROUTE "admin: {address: \"[::]:1\"}\n", AT("5:18") "admin.address: '[::]:1'" OPEN},
        {"another address", CONF_ROUTE "admin: {address: \"128.0.0.1:1\"}\n",
         AT("5:18") "admin.address: '128.0.0.1:1'" OPEN},
        {"a name", CONF_ROUTE "admin: {address: \"localhost.example:1\"}\n",
         AT("5:18") "admin.address: 'localhost.example:1'" OPEN},
        {"the empty file name", CONF_ROUTE "admin: {address: \"0.0.0.0:1\", token_file: \"\"}\n",
         AT("5:43") "admin.token_file: expected the name of a file, not an empty text\n"},
        {"token without address", CONF_ROUTE "admin: {token_file: /t}\n",
         AT("5:21") "admin.token_file: there is no admin.address to ask it at\n"},
        {"admin where clients come",
         CONF_ROUTE "listen: [{address: \"127.0.0.1:1\"}]\nadmin: {address: \"127.0.0.1:1\"}\n",
         AT("6:18") "admin.address: '127.0.0.1:1'" TAKEN("listen[0].address")},
        {"health where clients come",
         CONF_ROUTE "listen: [{address: \"a:1\"}, {address: \"unix:/x\"}]\nhealth: {address: \"unix:/x\"}\n",
         AT("6:19") "health.address: 'unix:/x'" TAKEN("listen[1].address")},
        {"both", CONF_ROUTE "health: {address: \"localhost:1\"}\nadmin: {address: \"LOCALHOST:1\"}\n",
         AT("6:18") "admin.address: 'LOCALHOST:1'" TAKEN("health.address")},
    };
    CHECK(rows);
}

Test(conf_errors, all_errors_of_a_file_in_one_run_in_its_order)
{
    char *text = conf_read_whole(TEST_SOURCE_DIR "/unit/conf/broken.yaml");
    char *expected = conf_read_whole(TEST_SOURCE_DIR "/unit/conf/broken.expected");
    cr_assert(text && expected, "the data files are there");
    struct row row = {"broken.yaml", text, expected};
    check_rows(&row, 1);
    free(text);
    free(expected);
}
