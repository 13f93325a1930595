/*
 * test_http_verdicts.c - 194 inputs at which parsers part ways, and what they are here.
 *
 * The verdicts are the contract's (§5, §7), not those of llhttp, which differ between its versions. A refusal that
 * depends on how the bytes were cut would let a sender choose the verdict by timing: so each row is also run cut in two
 * at every offset, and byte by byte.
 */
#include <criterion/criterion.h>

#include "http_run.h"

#define G "GET / HTTP/1.1\r\nHost: a\r\n"
#define P "POST / HTTP/1.1\r\nHost: a\r\n"

struct row {
    const char *name;
    const char *verdict; /* as in http_run.h */
    const char *bytes;
    size_t len;
    bool no_body; /* answers HEAD */
};

#define BYTES(text)       text, sizeof(text) - 1, false
#define HEAD_ANSWER(text) text, sizeof(text) - 1, true

/* clang-format off */
static const struct row requests[] = {
    {"plain GET", "ok", BYTES(G "\r\n")},
    {"bare LF after request line", "400", BYTES("GET / HTTP/1.1\nHost: a\r\n\r\n")},
    {"bare LF after header value", "400", BYTES("GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n")},
    {"bare LF ends header block", "400", BYTES(G "\n")},
    {"bare CR in header value", "400", BYTES("GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n")},
    {"CR + X instead of LF at end of headers", "400", BYTES(G "\rXGET /smug HTTP/1.1\r\nHost: b\r\n\r\n")},
    {"empty value, CR only then header (CVE-2023-30589)", "400", BYTES(G "Dummy: x\r\nContent-Length:\r1\r\n\r\n")},
    {"empty value, CR only then Transfer-Encoding", "400", BYTES(P "X:\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")},
    {"CR only before TE", "400", BYTES(P "Connection: keep-alive\r\nX-Abc:\rxTransfer-Encoding: chunked\r\n\r\n1\r\nA\r\n0\r\n\r\n")},
    {"leading CRLFs", "400", BYTES("\r\n\r\n" G "\r\n")},
    {"leading bare CR/LF mix", "400", BYTES("\r\r\n\n" G "\r\n")},
    {"leading space", "400", BYTES(" " G "\r\n")},
    {"double spaces in request line", "400", BYTES("GET  /  HTTP/1.1\r\nHost: a\r\n\r\n")},
    {"tab in request line", "400", BYTES("GET\011/ HTTP/1.1\r\nHost: a\r\n\r\n")},
    {"tab before HTTP", "400", BYTES("GET /\011HTTP/1.1\r\nHost: a\r\n\r\n")},
    {"trailing space after version", "400", BYTES("GET / HTTP/1.1 \r\nHost: a\r\n\r\n")},
    {"space after start line", "400", BYTES("GET / HTTP/1.1\r\n Host: a\r\n\r\n")},
    {"tab after start line", "400", BYTES("GET / HTTP/1.1\r\n\011Host: a\r\n\r\n")},
    {"HTTP/0.9 simple request", "400", BYTES("GET /\r\n\r\n")},
    {"HTTP/0.9 with explicit", "505", BYTES("GET / HTTP/0.9\r\n\r\n")},
    {"HTTP/1.2", "505", BYTES("GET / HTTP/1.2\r\nHost: a\r\n\r\n")},
    {"HTTP/2.0 on H1", "505", BYTES("GET / HTTP/2.0\r\nHost: a\r\n\r\n")},
    {"HTTP/3.0", "505", BYTES("GET / HTTP/3.0\r\nHost: a\r\n\r\n")},
    {"http/1.1 lowercase", "400", BYTES("GET / http/1.1\r\nHost: a\r\n\r\n")},
    {"HTTP/01.1", "400", BYTES("GET / HTTP/01.1\r\nHost: a\r\n\r\n")},
    {"PRI preface", "501", BYTES("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")},
    {"RTSP", "400", BYTES("OPTIONS / RTSP/1.0\r\n\r\n")},
    {"ICE", "501", BYTES("SOURCE / ICE/1.0\r\n\r\n")},
    {"RTSP/1.1 POST with body", "400", BYTES("POST / RTSP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")},
    {"unknown method FOO", "501", BYTES("FOO / HTTP/1.1\r\nHost: a\r\n\r\n")},
    {"method QUERY", "501", BYTES("QUERY / HTTP/1.1\r\nHost: a\r\n\r\n")},
    {"lowercase method", "501", BYTES("get / HTTP/1.1\r\nHost: a\r\n\r\n")},
    {"method prefix GETX", "501", BYTES("GETX / HTTP/1.1\r\nHost: a\r\n\r\n")},
    {"absolute-form", "ok", BYTES("GET http://h/x?y HTTP/1.1\r\nHost: a\r\n\r\n")},
    {"authority w/ userinfo", "400", BYTES("GET http://u@h/ HTTP/1.1\r\nHost: a\r\n\r\n")},
    {"asterisk with GET", "400", BYTES("GET * HTTP/1.1\r\nHost: a\r\n\r\n")},
    {"fragment in url", "400", BYTES("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n")},
    {"utf8 in url", "400", BYTES("GET /\303\251 HTTP/1.1\r\nHost: a\r\n\r\n")},
    {"DEL in url", "400", BYTES("GET /\177 HTTP/1.1\r\nHost: a\r\n\r\n")},
    {"NUL in url", "400", BYTES("GET /\000a HTTP/1.1\r\nHost: a\r\n\r\n")},
    {"quotes and braces in url", "ok", BYTES("GET /\"<>{}|\\^` HTTP/1.1\r\nHost: a\r\n\r\n")},
    {"no leading slash", "400", BYTES("GET foo HTTP/1.1\r\nHost: a\r\n\r\n")},
    {"two '?' ok", "ok", BYTES("GET /?a?b HTTP/1.1\r\nHost: a\r\n\r\n")},
    {"no Host", "400", BYTES("GET / HTTP/1.1\r\n\r\n")},
    {"two Hosts", "400", BYTES(G "Host: b\r\n\r\n")},
    {"empty Host", "400", BYTES("GET / HTTP/1.1\r\nHost:\r\n\r\n")},
    {"space before colon (general)", "400", BYTES(G "X : y\r\n\r\n")},
    {"tab before colon (general)", "400", BYTES(G "X\011: y\r\n\r\n")},
    {"space inside name", "400", BYTES(G "X Y: z\r\n\r\n")},
    {"space before colon (Content-Length)", "400", BYTES(P "Content-Length : 3\r\n\r\nabc")},
    {"space before colon (Transfer-Encoding)", "400", BYTES(P "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n")},
    {"tab before colon (Content-Length)", "400", BYTES(P "Content-Length\011: 3\r\n\r\nabc")},
    {"leading space in name 2nd header = obs-fold", "400", BYTES(G " Content-Length: 3\r\n\r\nabc")},
    {"empty header name", "400", BYTES(G ": x\r\n\r\n")},
    {"header without colon", "400", BYTES(G "Foo\r\n\r\n")},
    {"NUL in header value", "400", BYTES(G "X: a\000b\r\n\r\n")},
    {"ctl 0x01 in value", "400", BYTES(G "X: a\001b\r\n\r\n")},
    {"DEL in value", "400", BYTES(G "X: a\177b\r\n\r\n")},
    {"obs-text in value", "ok", BYTES(G "X: a\377b\r\n\r\n")},
    {"obs-text in name", "400", BYTES(G "X\377: b\r\n\r\n")},
    {"ctl in name", "400", BYTES(G "X\001: b\r\n\r\n")},
    {"quote in name", "400", BYTES(G "X\"Y: b\r\n\r\n")},
    {"paren/brace/slash/at in name", "400", BYTES(G "X(Y: b\r\n\r\n")},
    {"underscore", "ok", BYTES(G "X_Y: b\r\n\r\n")},
    {"trailing OWS in value", "ok", BYTES(G "X: b  \011 \r\n\r\n")},
    {"obs-fold SP", "400", BYTES(G "X: a\r\n b\r\n\r\n")},
    {"obs-fold TAB", "400", BYTES(G "X: a\r\n\011b\r\n\r\n")},
    {"obs-fold on empty value", "400", BYTES(G "X:\r\n b\r\n\r\n")},
    {"obs-fold TE: CRLF SP chunked", "400", BYTES(P "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n")},
    {"obs-fold CL: CRLF SP 3", "400", BYTES(P "Content-Length:\r\n 3\r\n\r\nabc")},
    {"obs-fold CL 1 CRLF SP 2", "400", BYTES(P "Content-Length: 1\r\n 2\r\n\r\nabcdefghijkl")},
    {"obs-fold after chunked", "400", BYTES(P "Transfer-Encoding: chunked\r\n x\r\n\r\n0\r\n\r\n")},
    {"obs-fold after chunked (empty)", "400", BYTES(P "Transfer-Encoding: chunked\r\n \r\n\r\n0\r\n\r\n")},
    {"CL+TE", "400", BYTES(P "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")},
    {"TE+CL", "400", BYTES(P "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n")},
    {"dup CL same", "400", BYTES(P "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc")},
    {"dup CL differing", "400", BYTES(P "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd")},
    {"CL list 3, 3", "400", BYTES(P "Content-Length: 3, 3\r\n\r\nabc")},
    {"CL +3", "400", BYTES(P "Content-Length: +3\r\n\r\nabc")},
    {"CL -1", "400", BYTES(P "Content-Length: -1\r\n\r\nabc")},
    {"CL 0x3", "400", BYTES(P "Content-Length: 0x3\r\n\r\nabc")},
    {"CL 003", "ok3", BYTES(P "Content-Length: 003\r\n\r\nabc")},
    {"CL '3 '", "ok3", BYTES(P "Content-Length: 3 \r\n\r\nabc")},
    {"CL '3<tab>'", "400", BYTES(P "Content-Length: 3\011\r\n\r\nabc")},
    {"CL '3 4'", "400", BYTES(P "Content-Length: 3 4\r\n\r\nabc")},
    {"CL empty", "400", BYTES(P "Content-Length:\r\n\r\nabc")},
    {"CL SP only", "400", BYTES(P "Content-Length:  \r\n\r\nabc")},
    {"CL 2^64-1", "400", BYTES(P "Content-Length: 18446744073709551615\r\n\r\nabc")},
    {"CL 2^64", "400", BYTES(P "Content-Length: 18446744073709551616\r\n\r\nabc")},
    {"CL ;", "400", BYTES(P "Content-Length: 3;\r\n\r\nabc")},
    {"empty TE + CL", "400", BYTES(P "Transfer-Encoding:\r\nContent-Length: 3\r\n\r\nabc")},
    {"CL + empty TE", "400", BYTES(P "Content-Length: 3\r\nTransfer-Encoding: \r\n\r\nabc")},
    {"TE identity", "501", BYTES(P "Transfer-Encoding: identity\r\n\r\n")},
    {"TE gzip, chunked", "400", BYTES(P "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n")},
    {"TE chunked, gzip", "400", BYTES(P "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n")},
    {"TE chunked, chunked", "400", BYTES(P "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n")},
    {"TE chunked twice", "400", BYTES(P "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")},
    {"TE gzip + TE chunked", "400", BYTES(P "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")},
    {"TE chunked + TE identity", "400", BYTES(P "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n")},
    {"TE xchunked", "501", BYTES(P "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n")},
    {"TE chunkedx", "501", BYTES(P "Transfer-Encoding: chunkedx\r\n\r\n0\r\n\r\n")},
    {"TE \"chunked\"", "400", BYTES(P "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n")},
    {"TE chunked;q=1", "400", BYTES(P "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n")},
    {"TE chunked<tab>", "400", BYTES(P "Transfer-Encoding: chunked\011\r\n\r\n0\r\n\r\n")},
    {"TE <tab>chunked", "400", BYTES(P "Transfer-Encoding:\011chunked\r\n\r\n0\r\n\r\n")},
    {"TE chunked,", "400", BYTES(P "Transfer-Encoding: chunked,\r\n\r\n0\r\n\r\n")},
    {"TE ,chunked", "400", BYTES(P "Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n")},
    {"TE CHUNKED (upper)", "ok", BYTES(P "Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n")},
    {"TE \\x0bchunked", "400", BYTES(P "Transfer-Encoding: \013chunked\r\n\r\n0\r\n\r\n")},
    {"TE chunked in capitals, byte by byte", "ok", BYTES(P "Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n")},
    {"TE '\\x03hunked' (unsafe lower)", "400", BYTES(P "Transfer-Encoding: \003hunked\r\n\r\n0\r\n\r\n")},
    {"HTTP/1.0 + TE chunked", "400", BYTES("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")},
    {"HTTP/1.0 + keep-alive", "ok ok close", BYTES("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /2 HTTP/1.0\r\n\r\n")},
    {"HTTP/1.0 no keepalive + 2nd request", "ok close", BYTES("GET / HTTP/1.0\r\n\r\nGET /2 HTTP/1.0\r\n\r\n")},
    {"Connection: close + 2nd request", "ok close", BYTES(G "Connection: close\r\n\r\n" G "\r\n")},
    {"Connection: keep-alive, close", "ok close", BYTES(G "Connection: keep-alive, close\r\n\r\n" G "\r\n")},
    {"Proxy-Connection: close", "ok ok", BYTES(G "Proxy-Connection: close\r\n\r\n" G "\r\n")},
    {"Connection: closeX", "ok", BYTES(G "Connection: closeX\r\n\r\n")},
    {"Connection: close<tab>", "ok close", BYTES(G "Connection: close\011\r\n\r\n")},
    {"GET with no CL then bytes (pipelined)", "ok ok", BYTES(G "\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n")},
    {"GET with body CL", "ok3 ok", BYTES(G "Content-Length: 3\r\n\r\nabc" G "\r\n")},
    {"POST no CL no TE", "ok more", BYTES(P "\r\nabc")},
    {"chunk ext name", "ok1", BYTES(P "Transfer-Encoding: chunked\r\n\r\n1;a\r\nA\r\n0\r\n\r\n")},
    {"chunk ext name=val", "ok1", BYTES(P "Transfer-Encoding: chunked\r\n\r\n1;a=b\r\nA\r\n0\r\n\r\n")},
    {"chunk ext 2 ext with values", "ok1", BYTES(P "Transfer-Encoding: chunked\r\n\r\n1;a=b;c=d\r\nA\r\n0\r\n\r\n")},
    {"chunk ext quoted", "ok1", BYTES(P "Transfer-Encoding: chunked\r\n\r\n1;a=\"b c\"\r\nA\r\n0\r\n\r\n")},
    {"chunk ext quoted with CRLF", "400", BYTES(P "Transfer-Encoding: chunked\r\n\r\n1;a=\"b\r\nc\"\r\nA\r\n0\r\n\r\n")},
    {"chunk ext quoted-pair", "ok1", BYTES(P "Transfer-Encoding: chunked\r\n\r\n1;a=\"b\\\"c\"\r\nA\r\n0\r\n\r\n")},
    {"chunk ext with LF (bare)", "400", BYTES(P "Transfer-Encoding: chunked\r\n\r\n1;a\nb\r\nA\r\n0\r\n\r\n")},
    {"chunk size SP", "400", BYTES(P "Transfer-Encoding: chunked\r\n\r\n1 \r\nA\r\n0\r\n\r\n")},
    {"chunk size SP before ;", "400", BYTES(P "Transfer-Encoding: chunked\r\n\r\n1 ;a\r\nA\r\n0\r\n\r\n")},
    {"chunk size leading SP", "400", BYTES(P "Transfer-Encoding: chunked\r\n\r\n 1\r\nA\r\n0\r\n\r\n")},
    {"chunk size 0x1", "400", BYTES(P "Transfer-Encoding: chunked\r\n\r\n0x1\r\nA\r\n0\r\n\r\n")},
    {"chunk size +1", "400", BYTES(P "Transfer-Encoding: chunked\r\n\r\n+1\r\nA\r\n0\r\n\r\n")},
    {"chunk size -1", "400", BYTES(P "Transfer-Encoding: chunked\r\n\r\n-1\r\nA\r\n0\r\n\r\n")},
    {"chunk size 0001", "ok1", BYTES(P "Transfer-Encoding: chunked\r\n\r\n0001\r\nA\r\n0\r\n\r\n")},
    {"chunk size empty", "400", BYTES(P "Transfer-Encoding: chunked\r\n\r\n\r\nA\r\n0\r\n\r\n")},
    {"chunk size overflow 17 hex", "400", BYTES(P "Transfer-Encoding: chunked\r\n\r\n10000000000000001\r\nA\r\n0\r\n\r\n")},
    {"chunk size bare LF", "400", BYTES(P "Transfer-Encoding: chunked\r\n\r\n1\nA\r\n0\r\n\r\n")},
    {"chunk size CR + X (no LF)", "400", BYTES(P "Transfer-Encoding: chunked\r\n\r\n1\rXA\r\n0\r\n\r\n")},
    {"chunk data terminated by XY instead of CRLF", "400", BYTES(P "Transfer-Encoding: chunked\r\n\r\n1\r\nAXY0\r\n\r\n")},
    {"chunk data terminated by LF only", "400", BYTES(P "Transfer-Encoding: chunked\r\n\r\n1\r\nA\n0\r\n\r\n")},
    {"chunk data terminated by LF X", "400", BYTES(P "Transfer-Encoding: chunked\r\n\r\n1\r\nA\nX0\r\n\r\n")},
    {"last chunk CR + X", "400", BYTES(P "Transfer-Encoding: chunked\r\n\r\n0\rX\r\n")},
    {"last chunk: 0 CRLF LF", "400", BYTES(P "Transfer-Encoding: chunked\r\n\r\n0\r\n\nGET /smug HTTP/1.1\r\n\r\n")},
    {"last chunk: 0 CRLF CR X", "400", BYTES(P "Transfer-Encoding: chunked\r\n\r\n0\r\n\rXGET /smug HTTP/1.1\r\n\r\n")},
    {"last chunk 00000", "ok", BYTES(P "Transfer-Encoding: chunked\r\n\r\n00000\r\n\r\n")},
    {"trailers", "ok", BYTES(P "Transfer-Encoding: chunked\r\n\r\n0\r\nX-T: v\r\n\r\n")},
    {"trailer Content-Length", "ok 400", BYTES(P "Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 9\r\n\r\nGET /2 HTTP/1.1\r\n\r\n")},
    {"trailer Transfer-Encoding", "ok", BYTES(P "Transfer-Encoding: chunked\r\n\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n")},
    {"trailer Connection: close", "ok", BYTES(P "Transfer-Encoding: chunked\r\n\r\n0\r\nConnection: close\r\n\r\n")},
    {"trailer Idempotency-Key", "ok", BYTES(P "Transfer-Encoding: chunked\r\n\r\n0\r\nIdempotency-Key: k\r\n\r\n")},
    {"upgrade websocket", "ok more", BYTES(G "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\nRAW")},
    {"upgrade h2c with body", "ok3 ok", BYTES(P "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\nabcGET /2 HTTP/1.1\r\nHost: a\r\n\r\n")},
    {"Upgrade w/o Connection", "ok", BYTES(G "Upgrade: websocket\r\n\r\n")},
    {"CONNECT", "501", BYTES("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\nRAW")},
    {"CONNECT with CL", "501", BYTES("CONNECT a:443 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")},
    {"Expect 100", "ok3", BYTES(P "Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc")},
    {"GET CL:0 + 2nd", "ok ok", BYTES(G "Content-Length: 0\r\n\r\n" G "\r\n")},
};

static const struct row responses[] = {
    {"200 CL", "ok3", BYTES("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc")},
    {"200 no CL (EOF body)", "ok3 close", BYTES("HTTP/1.1 200 OK\r\n\r\nabc")},
    {"200 chunked", "ok3", BYTES("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")},
    {"200 TE gzip (no chunked)", "refused", BYTES("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc")},
    {"200 CL+TE", "refused", BYTES("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")},
    {"200 TE chunked, chunked", "refused", BYTES("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n")},
    {"HTTP/1.0 200 TE chunked", "refused", BYTES("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")},
    {"204 with CL 3", "ok", BYTES("HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n")},
    {"304 with CL 3", "ok ok", BYTES("HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")},
    {"304 TE chunked", "ok", BYTES("HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n")},
    {"304 no CL", "ok ok", BYTES("HTTP/1.1 304 Not Modified\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")},
    {"HEAD resp CL 3 to GET", "more", BYTES("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n")},
    {"HEAD resp CL 3", "ok ok", HEAD_ANSWER("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")},
    {"HEAD resp chunked", "ok ok", HEAD_ANSWER("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")},
    {"HEAD resp no CL", "ok ok", HEAD_ANSWER("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")},
    {"100 then 200", "ok ok", BYTES("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")},
    {"100 with CL 3 then 200", "ok ok", BYTES("HTTP/1.1 100 Continue\r\nContent-Length: 3\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")},
    {"100 Connection: close then 200", "ok ok", BYTES("HTTP/1.1 100 Continue\r\nConnection: close\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")},
    {"HTTP/1.0 100 then 200", "ok ok", BYTES("HTTP/1.0 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")},
    {"103 then 200", "ok ok", BYTES("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")},
    {"101 upgrade", "ok close", BYTES("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nRAW")},
    {"101 without Upgrade", "ok close", BYTES("HTTP/1.1 101 Switching Protocols\r\n\r\nRAW")},
    {"200 with Upgrade hdr", "ok", BYTES("HTTP/1.1 200 OK\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n")},
    {"200 then extra bytes", "ok refused", BYTES("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nJUNK")},
    {"200 close then extra", "ok close", BYTES("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\nJUNK")},
    {"status no reason no SP", "ok", BYTES("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n")},
    {"status bare LF", "refused", BYTES("HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n")},
    {"status CR+X", "refused", BYTES("HTTP/1.1 200 OK\rXContent-Length: 0\r\n\r\n")},
    {"status 2 digits", "refused", BYTES("HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n")},
    {"status 4 digits", "refused", BYTES("HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n")},
    {"status 000", "refused", BYTES("HTTP/1.1 000 OK\r\nContent-Length: 0\r\n\r\n")},
    {"status 999", "ok", BYTES("HTTP/1.1 999 OK\r\nContent-Length: 0\r\n\r\n")},
    {"HTTP/2.0 response", "refused", BYTES("HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n")},
    {"NUL in reason", "refused", BYTES("HTTP/1.1 200 O\000K\r\nContent-Length: 0\r\n\r\n")},
    {"resp header space before colon", "refused", BYTES("HTTP/1.1 200 OK\r\nX : y\r\nContent-Length: 0\r\n\r\n")},
};
/* clang-format on */

static const struct http_limits limits = {.header_bytes = 32768, .headers = 100, .request_target = 8192};

static void check(enum http_kind kind, const struct row *row, const size_t *cuts, size_t cut_count, const char *how)
{
    struct http_run run;

    http_run(&run, kind, &limits, row->bytes, row->len, cuts, cut_count, row->no_body);
    cr_expect_null(run.why_wrong, "%s (%s, first cut %zu): %s", row->name, how, cut_count ? cuts[0] : 0, run.why_wrong);
    cr_expect_str_eq(run.verdict, row->verdict, "%s (%s, first cut %zu): %s instead of %s, because: %s", row->name, how,
                     cut_count ? cuts[0] : 0, run.verdict, row->verdict, run.refusal);
}

static void check_all(enum http_kind kind, const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t *every = NEW_ARRAY(size_t, rows[i].len);

        check(kind, &rows[i], NULL, 0, "whole");
        for (size_t cut = 0; cut < rows[i].len; cut++) {
            check(kind, &rows[i], &cut, 1, "cut in two");
            every[cut] = cut;
        }
        check(kind, &rows[i], every, rows[i].len, "byte by byte");
        free(every);
    }
}

Test(http_verdicts, requests)
{
    check_all(HTTP_REQUESTS, requests, sizeof(requests) / sizeof(requests[0]));
}

Test(http_verdicts, responses)
{
    check_all(HTTP_RESPONSES, responses, sizeof(responses) / sizeof(responses[0]));
}

/* The table is only worth something if it is the whole one. */
Test(http_verdicts, all_rows_are_here)
{
    size_t count = sizeof(requests) / sizeof(requests[0]) + sizeof(responses) / sizeof(responses[0]);

    cr_expect_eq(count, 194, "%zu rows", count);
}
