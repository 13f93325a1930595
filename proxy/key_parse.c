/*
 * key_parse.c - PURE. The value of a key header: a structured-field string (RFC 9651 §4.2.5) or a bare key.
 *
 * What begins with a quote is a structured field and nothing else: its parameters mean nothing to us, but must be well
 * formed (§4.2.3.2), or it would not be known where the value ends. A list, an inner list or a second value is refused.
 * Bare is whatever clients in the field send without quotes. Both spellings of one text are one key. Left out: the
 * other types of structured fields as keys; ":YWJj:" or "?1" without quotes are bare keys like any other.
 */
#include "proxy/ascii.h"
#include "proxy/http_text.h"
#include "proxy/json_text.h"
#include "proxy/key.h"

static bool next_is(const struct span *rest, char wanted)
{
    return rest->len && rest->data[0] == wanted;
}

static void skip(struct span *rest, size_t len)
{
    rest->data += len;
    rest->len -= len;
}

static bool take(struct span *rest, char wanted)
{
    bool there = next_is(rest, wanted);
    if (there)
        skip(rest, 1);
    return there;
}

static bool is_lower(char byte)
{
    return byte >= 'a' && byte <= 'z';
}

static bool is_upper(char byte)
{
    return byte >= 'A' && byte <= 'Z';
}

static bool is_alpha(char byte)
{
    return is_lower(byte) || is_upper(byte);
}

static bool is_printable(char byte)
{
    return byte >= 0x20 && byte <= 0x7E;
}

/* ---- bare items, as values of parameters ------------------------------------------------------ */

static size_t take_digits(struct span *rest)
{
    size_t len = 0;
    for (; rest->len && ascii_is_digit(rest->data[0]); len++)
        skip(rest, 1);
    return len;
}

/* Integer of at most 15 digits, or decimal of at most 12 and 3 (§4.2.4). */
static bool take_number(struct span *rest, bool integer_only)
{
    take(rest, '-');
    size_t digits = take_digits(rest);
    if (digits == 0 || digits > 15)
        return false;
    if (!take(rest, '.'))
        return true;
    size_t fraction = take_digits(rest);
    return !integer_only && digits <= 12 && fraction >= 1 && fraction <= 3;
}

/* At its opening quote. The unescaped text goes to `out` as far as it fits; *len counts all of it. */
static bool take_string(struct span *rest, char *out, size_t size, size_t *len)
{
    skip(rest, 1);
    for (*len = 0; rest->len; ++*len) {
        if (take(rest, '"'))
            return true;
        bool escaped = take(rest, '\\');
        if (escaped && !next_is(rest, '"') && !next_is(rest, '\\'))
            return false;
        if (!is_printable(rest->data[0]))
            return false;
        if (*len < size)
            out[*len] = rest->data[0];
        skip(rest, 1);
    }
    return false;
}

static bool take_token(struct span *rest) /* §4.2.6; its first character is known */
{
    while (rest->len && (http_is(rest->data[0], HTTP_CHAR_TOKEN) || rest->data[0] == ':' || rest->data[0] == '/'))
        skip(rest, 1);
    return true;
}

static bool take_byte_sequence(struct span *rest) /* §4.2.7; padding may be missing, but not misplaced */
{
    skip(rest, 1);
    size_t len = 0, padding = 0;
    for (; rest->len && !next_is(rest, ':'); len++, skip(rest, 1)) {
        char byte = rest->data[0];
        if (byte == '=')
            padding++;
        else if (padding || !(is_alpha(byte) || ascii_is_digit(byte) || byte == '+' || byte == '/'))
            return false;
    }
    return take(rest, ':') && padding <= 2 && (padding ? len % 4 == 0 : len % 4 != 1);
}

/* %"…" with %xx in lower case, UTF-8 when decoded (§4.2.10). A sequence is judged when its last byte is there. */
static bool take_display_string(struct span *rest)
{
    char sequence[4];
    size_t len = 0;
    skip(rest, 1);
    if (!take(rest, '"'))
        return false;
    while (rest->len && !next_is(rest, '"')) {
        if (!is_printable(rest->data[0]))
            return false;
        char byte = rest->data[0];
        skip(rest, 1);
        if (byte == '%') {
            int coded = ascii_percent_value(rest->data - 1, rest->len + 1);
            if (coded < 0 || is_upper(rest->data[0]) || is_upper(rest->data[1]))
                return false;
            byte = (char)coded;
            skip(rest, 2);
        }
        sequence[len++] = byte;
        if (utf8_length(sequence, sequence + len))
            len = 0;
        else if (len == sizeof sequence)
            return false;
    }
    return take(rest, '"') && len == 0;
}

static bool take_bare_item(struct span *rest)
{
    size_t len;
    char first = rest->len ? rest->data[0] : '\0';
    if (first == '"')
        return take_string(rest, NULL, 0, &len);
    if (first == '-' || ascii_is_digit(first))
        return take_number(rest, false);
    if (first == '*' || is_alpha(first))
        return take_token(rest);
    if (first == ':')
        return take_byte_sequence(rest);
    if (first == '%')
        return take_display_string(rest);
    if (first == '?')
        return take(rest, '?') && (take(rest, '0') || take(rest, '1'));
    return first == '@' && take(rest, '@') && take_number(rest, true);
}

static bool take_parameters(struct span *rest)
{
    while (take(rest, ';')) {
        while (take(rest, ' '))
            ;
        if (!rest->len || !(is_lower(rest->data[0]) || rest->data[0] == '*'))
            return false;
        while (rest->len && (is_lower(rest->data[0]) || ascii_is_digit(rest->data[0]) || next_is(rest, '_') ||
                             next_is(rest, '-') || next_is(rest, '.') || next_is(rest, '*')))
            skip(rest, 1);
        if (take(rest, '=') && !take_bare_item(rest))
            return false;
    }
    return true;
}

/* ---- the key ---------------------------------------------------------------------------------- */

static const char *parse_quoted(struct span value, char out[KEY_MAX_LEN], size_t *len)
{
    if (!take_string(&value, out, KEY_MAX_LEN, len))
        return "The quoted key is not closed, or holds what a structured-field string may not hold (RFC 9651, 3.3.3).";
    if (!take_parameters(&value) || value.len)
        return "Something other than parameters follows the quoted key; exactly one key may be sent.";
    return NULL;
}

static const char *parse_bare(struct span value, char out[KEY_MAX_LEN], size_t *len)
{
    for (size_t i = 0; i < value.len; i++) {
        char byte = value.data[i];
        if (byte <= 0x20 || byte > 0x7E || byte == '"' || byte == ',' || byte == ';' || byte == '\\')
            return "A key without quotes may hold visible ASCII but no quote, comma, semicolon or backslash; send it "
                   "in "
                   "quotes.";
        if (i < KEY_MAX_LEN)
            out[i] = byte;
    }
    *len = value.len;
    return NULL;
}

static const char *check_text(const char *text, size_t len)
{
    if (len == 0)
        return "The key is empty; send 1 to 255 characters.";
    if (len > KEY_MAX_LEN)
        return "The key is longer than 255 characters.";
    for (size_t i = 0; i < len; i++)
        if (text[i] != ' ')
            return NULL;
    return "The key is nothing but spaces.";
}

enum key_parse key_parse(struct span value, char out[KEY_MAX_LEN], size_t *len, const char **why)
{
    value = span_trim(value);
    const char *wrong = next_is(&value, '"') ? parse_quoted(value, out, len) : parse_bare(value, out, len);
    if (!wrong)
        wrong = check_text(out, *len);
    if (!wrong)
        return KEY_OK;
    *why = wrong;
    *len = 0;
    return KEY_BAD;
}
