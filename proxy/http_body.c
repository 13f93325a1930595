/*
 * http_body.c - bodies: by length, by chunks, until close.
 *
 * All three are counted here and not by llhttp: a length is one subtraction, and of chunk framing llhttp 8.1 and 9.2
 * give different verdicts (facts §E), while the contract knows only one. The decoder takes the grammar of RFC 9112 §7.1
 * literally:
 *
 *     HEX…[;name[=token|"quoted"]]… CRLF data CRLF … 0… CRLF [name: value CRLF]… CRLF
 *
 * with no white space in a size line, no bare CR or LF, and bounds on everything that is not data. Data is handed on in
 * the largest pieces that are here, without a copy. Invariant: whatever the cuts, the same bytes give the same verdict.
 * Left out: trailers, which are read and dropped (case H10).
 */
#include "proxy/http_internal.h"

#include <assert.h>

#define EXTENSION_BYTES_MAX 4096        /* all chunk extensions of a message together; nobody uses them */
#define CHUNK_DIGITS_MAX    16          /* leading zeros included */
#define LAST_BYTES          (64 * 1024) /* of a body by length are always read: its end is found in one place */

static bool bad(struct http_parser *parser, const char *why)
{
    return http_refuse(parser, NULL, PROBLEM_BAD_REQUEST, why);
}

static unsigned hex_value(char digit)
{
    return digit <= '9' ? (unsigned)(digit - '0') : (unsigned)((digit | 0x20) - 'a' + 10);
}

static bool size_byte(struct http_parser *parser, char byte)
{
    if (http_is(byte, HTTP_CHAR_HEX)) {
        if (++parser->chunk_digits > CHUNK_DIGITS_MAX)
            return bad(parser, "chunk size of too many digits");
        parser->remaining = parser->remaining << 4 | hex_value(byte);
        return true;
    }
    if (parser->chunk_digits == 0)
        return bad(parser, "chunk without a size");
    if (parser->remaining > INT64_MAX)
        return bad(parser, "chunk size too large");
    if (byte == ';')
        parser->chunk = CHUNK_EXTENSION_BEGIN;
    else if (byte == '\r')
        parser->chunk = CHUNK_SIZE_LF;
    else
        return bad(parser, "invalid character in a chunk size");
    return true;
}

/* After a name or a value: the next extension or the end of the line. */
static bool extension_over(struct http_parser *parser, char byte)
{
    if (byte != ';' && byte != '\r')
        return bad(parser, "invalid chunk extension");
    parser->chunk = byte == ';' ? CHUNK_EXTENSION_BEGIN : CHUNK_SIZE_LF;
    return true;
}

static bool is_quotable(char byte)
{
    return byte == '\t' || ((unsigned char)byte >= 0x20 && byte != 0x7F);
}

static bool quoted_byte(struct http_parser *parser, char byte)
{
    if (!is_quotable(byte))
        return bad(parser, "control character in a chunk extension");
    if (parser->chunk == CHUNK_EXTENSION_ESCAPED)
        parser->chunk = CHUNK_EXTENSION_QUOTED;
    else if (byte == '"')
        parser->chunk = CHUNK_EXTENSION_QUOTED_END;
    else if (byte == '\\')
        parser->chunk = CHUNK_EXTENSION_ESCAPED;
    return true;
}

/* One byte of ";name=token" or ";name=\"quoted\"" after the semicolon. */
static bool extension_byte(struct http_parser *parser, char byte)
{
    enum http_chunk_stage stage = parser->chunk;
    bool token = http_is(byte, HTTP_CHAR_TOKEN);

    if (++parser->extension_bytes > EXTENSION_BYTES_MAX)
        return bad(parser, "too many chunk extensions");
    if (stage == CHUNK_EXTENSION_QUOTED || stage == CHUNK_EXTENSION_ESCAPED)
        return quoted_byte(parser, byte);
    if (stage == CHUNK_EXTENSION_BEGIN) {
        parser->chunk = CHUNK_EXTENSION_NAME;
        return token || bad(parser, "empty name of a chunk extension");
    }
    if (stage == CHUNK_EXTENSION_VALUE) {
        parser->chunk = byte == '"' ? CHUNK_EXTENSION_QUOTED : CHUNK_EXTENSION_TOKEN;
        return token || byte == '"' || bad(parser, "empty value of a chunk extension");
    }
    if (token && stage != CHUNK_EXTENSION_QUOTED_END)
        return true;
    if (byte == '=' && stage == CHUNK_EXTENSION_NAME) {
        parser->chunk = CHUNK_EXTENSION_VALUE;
        return true;
    }
    return extension_over(parser, byte);
}

/* Trailers have the syntax of fields and the limits of a head of their own. */
static bool trailer_byte(struct http_parser *parser, char byte)
{
    if (++parser->trailer_bytes > parser->limits.header_bytes)
        return bad(parser, "trailers beyond limits.header_bytes");
    if (parser->chunk == CHUNK_TRAILER_BEGIN) {
        if (byte == '\r') {
            parser->chunk = CHUNK_LAST_LF;
            return true;
        }
        if (++parser->trailer_lines > parser->limits.headers)
            return bad(parser, "more trailers than limits.headers");
        parser->chunk = CHUNK_TRAILER_NAME;
        return http_is(byte, HTTP_CHAR_TOKEN) || bad(parser, "invalid trailer name");
    }
    if (parser->chunk == CHUNK_TRAILER_NAME) {
        if (byte == ':')
            parser->chunk = CHUNK_TRAILER_VALUE;
        return byte == ':' || http_is(byte, HTTP_CHAR_TOKEN) || bad(parser, "invalid trailer name");
    }
    if (byte == '\r') {
        parser->chunk = CHUNK_TRAILER_LF;
        return true;
    }
    return is_quotable(byte) || bad(parser, "control character in a trailer");
}

/* The LF that must follow a CR, and what comes after it. */
static bool line_feed(struct http_parser *parser, char byte, enum http_chunk_stage next)
{
    if (byte != '\n')
        return bad(parser, "CR without LF in chunk framing");
    parser->chunk = next;
    if (next == CHUNK_SIZE) {
        parser->chunk_digits = 0;
        parser->remaining = 0;
    }
    return true;
}

/* One byte that is not data. */
static bool framing_byte(struct http_parser *parser, char byte)
{
    switch (parser->chunk) {
    case CHUNK_SIZE:
        return size_byte(parser, byte);
    case CHUNK_EXTENSION_BEGIN:
    case CHUNK_EXTENSION_NAME:
    case CHUNK_EXTENSION_VALUE:
    case CHUNK_EXTENSION_TOKEN:
    case CHUNK_EXTENSION_QUOTED:
    case CHUNK_EXTENSION_ESCAPED:
    case CHUNK_EXTENSION_QUOTED_END:
        return extension_byte(parser, byte);
    case CHUNK_SIZE_LF:
        return line_feed(parser, byte, parser->remaining ? CHUNK_DATA : CHUNK_TRAILER_BEGIN);
    case CHUNK_DATA_CR:
        parser->chunk = CHUNK_DATA_LF;
        return byte == '\r' || bad(parser, "chunk data not followed by CRLF");
    case CHUNK_DATA_LF:
        return line_feed(parser, byte, CHUNK_SIZE);
    case CHUNK_TRAILER_BEGIN:
    case CHUNK_TRAILER_NAME:
    case CHUNK_TRAILER_VALUE:
        return trailer_byte(parser, byte);
    case CHUNK_TRAILER_LF:
        return line_feed(parser, byte, CHUNK_TRAILER_BEGIN);
    case CHUNK_LAST_LF:
        if (byte != '\n')
            return bad(parser, "CR without LF in chunk framing");
        parser->stage = STAGE_OVER;
        return true;
    case CHUNK_DATA:
        break;
    }
    assert(!"chunk data is no framing");
    return false;
}

static enum http_body_verdict read_chunks(struct http_parser *parser, const char *bytes, size_t len, size_t *used,
                                          http_body_cb *body, void *arg)
{
    size_t at = 0;

    while (at < len && parser->stage == STAGE_BODY) {
        if (parser->chunk == CHUNK_DATA) {
            size_t piece = len - at < parser->remaining ? len - at : (size_t)parser->remaining;

            parser->remaining -= piece;
            if (parser->remaining == 0)
                parser->chunk = CHUNK_DATA_CR;
            body(arg, bytes + at, piece);
            at += piece;
        } else if (framing_byte(parser, bytes[at])) {
            at++;
        }
    }
    *used = at;
    if (parser->stage == STAGE_REFUSED)
        return HTTP_BODY_REFUSED;
    return parser->stage == STAGE_OVER ? HTTP_BODY_END : HTTP_BODY_MORE;
}

enum http_body_verdict http_read_body(struct http_parser *parser, const char *bytes, size_t len, size_t *used,
                                      http_body_cb *body, void *arg)
{
    size_t piece = 0;

    *used = 0;
    if (parser->stage == STAGE_REFUSED)
        return HTTP_BODY_REFUSED;
    if (parser->stage == STAGE_OVER)
        return HTTP_BODY_END;
    assert(parser->stage == STAGE_BODY);
    switch (parser->framing) {
    case HTTP_NO_BODY:
        break;
    case HTTP_LENGTH:
        piece = len < parser->remaining ? len : (size_t)parser->remaining;
        parser->remaining -= piece;
        break;
    case HTTP_CHUNKED:
        return read_chunks(parser, bytes, len, used, body, arg);
    case HTTP_UNTIL_CLOSE:
        piece = len;
        break;
    }
    *used = piece;
    if (parser->framing != HTTP_UNTIL_CLOSE && parser->remaining == 0)
        parser->stage = STAGE_OVER;
    if (piece)
        body(arg, bytes, piece);
    return parser->stage == STAGE_OVER ? HTTP_BODY_END : HTTP_BODY_MORE;
}

uint64_t http_plain_body(const struct http_parser *parser)
{
    if (parser->stage != STAGE_BODY)
        return 0;
    if (parser->framing == HTTP_UNTIL_CLOSE)
        return UINT64_MAX;
    return parser->framing == HTTP_LENGTH && parser->remaining > LAST_BYTES ? parser->remaining - LAST_BYTES : 0;
}

void http_skip_body(struct http_parser *parser, size_t len)
{
    assert(len <= http_plain_body(parser));
    if (parser->framing == HTTP_LENGTH)
        parser->remaining -= len;
}

bool http_read_end(struct http_parser *parser)
{
    bool nothing_missing = parser->framing != HTTP_CHUNKED && parser->remaining == 0; /* until close: never counted */

    if (parser->stage == STAGE_BODY && nothing_missing)
        parser->stage = STAGE_OVER;
    return parser->stage == STAGE_OVER;
}
