/*
 * http_field.h - one header field. A file of its own, so that the file that talks to llhttp needs no http.h: both name
 * their methods HTTP_GET and so on.
 */
#pragma once

#include "proxy/span.h"

struct http_field {
    struct span name, value; /* as they came; value without surrounding white space */
};
