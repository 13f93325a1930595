/*
 * http_reason.c - PURE. The reason phrases of the IANA registry of HTTP status codes, for answers that einmal makes
 * itself. What an API sends goes on with its own phrase, or none.
 */
#include "proxy/http.h"

#define REASON(status, text) [(status)-100] = {text, sizeof(text) - 1}

static const struct span reasons[] = {
    REASON(100, "Continue"),
    REASON(101, "Switching Protocols"),
    REASON(102, "Processing"),
    REASON(103, "Early Hints"),
    REASON(200, "OK"),
    REASON(201, "Created"),
    REASON(202, "Accepted"),
    REASON(203, "Non-Authoritative Information"),
    REASON(204, "No Content"),
    REASON(205, "Reset Content"),
    REASON(206, "Partial Content"),
    REASON(207, "Multi-Status"),
    REASON(208, "Already Reported"),
    REASON(226, "IM Used"),
    REASON(300, "Multiple Choices"),
    REASON(301, "Moved Permanently"),
    REASON(302, "Found"),
    REASON(303, "See Other"),
    REASON(304, "Not Modified"),
    REASON(305, "Use Proxy"),
    REASON(307, "Temporary Redirect"),
    REASON(308, "Permanent Redirect"),
    REASON(400, "Bad Request"),
    REASON(401, "Unauthorized"),
    REASON(402, "Payment Required"),
    REASON(403, "Forbidden"),
    REASON(404, "Not Found"),
    REASON(405, "Method Not Allowed"),
    REASON(406, "Not Acceptable"),
    REASON(407, "Proxy Authentication Required"),
    REASON(408, "Request Timeout"),
    REASON(409, "Conflict"),
    REASON(410, "Gone"),
    REASON(411, "Length Required"),
    REASON(412, "Precondition Failed"),
    REASON(413, "Content Too Large"),
    REASON(414, "URI Too Long"),
    REASON(415, "Unsupported Media Type"),
    REASON(416, "Range Not Satisfiable"),
    REASON(417, "Expectation Failed"),
    REASON(421, "Misdirected Request"),
    REASON(422, "Unprocessable Content"),
    REASON(423, "Locked"),
    REASON(424, "Failed Dependency"),
    REASON(425, "Too Early"),
    REASON(426, "Upgrade Required"),
    REASON(428, "Precondition Required"),
    REASON(429, "Too Many Requests"),
    REASON(431, "Request Header Fields Too Large"),
    REASON(451, "Unavailable For Legal Reasons"),
    REASON(500, "Internal Server Error"),
    REASON(501, "Not Implemented"),
    REASON(502, "Bad Gateway"),
    REASON(503, "Service Unavailable"),
    REASON(504, "Gateway Timeout"),
    REASON(505, "HTTP Version Not Supported"),
    REASON(506, "Variant Also Negotiates"),
    REASON(507, "Insufficient Storage"),
    REASON(508, "Loop Detected"),
    REASON(511, "Network Authentication Required"),
};

struct span http_reason(uint16_t status)
{
    size_t row = status < 100 ? sizeof(reasons) : status - 100u;

    return row < sizeof(reasons) / sizeof(reasons[0]) ? reasons[row] : (struct span){NULL, 0};
}
