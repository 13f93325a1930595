/*
 * status_page.h - status.html, as bytes in the binary (made by CMakeLists.txt).
 */
#pragma once

#include <stddef.h>

extern const unsigned char status_page[];
extern const size_t status_page_len;
