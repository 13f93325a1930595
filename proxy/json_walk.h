/*
 * json_walk.h - PURE. Through the elements of a JSON array, one after another, each once.
 */
#pragma once

#include "proxy/span.h"

/* `array` is the text of an array, from "[" to "]", of a text that json_valid() found valid; begin with the whole of
 * it. The next element's text goes into *element and is taken off *array. False: no more. */
bool json_next_element(struct span *array, struct span *element);
