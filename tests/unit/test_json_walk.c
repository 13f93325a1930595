/* The elements of an array, each once and whole. */
#include "proxy/json.h"
#include "proxy/json_walk.h"

#include <criterion/criterion.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

Test(json_walk, elements)
{
    static const struct {
        const char *text, *elements[6];
    } rows[] = {
        {"[]", {NULL}},
        {" [ \n ] ", {NULL}},
        {"[1]", {"1"}},
        {"[1,2 , 3\t]", {"1", "2", "3"}},
        {"[ \"a,b]\" , \"\\\"]\", null , true]", {"\"a,b]\"", "\"\\\"]\"", "null", "true"}},
        {"[{\"a\":[1,{\"b\":\"}\"}]}, [[],[2]],{}]", {"{\"a\":[1,{\"b\":\"}\"}]}", "[[],[2]]", "{}"}},
        {"[{\"a\": 1 } ,-1.5e+3]", {"{\"a\": 1 }", "-1.5e+3"}},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct span rest = span_of(rows[i].text), element;
        cr_assert(json_valid(rest), "%s", rows[i].text);
        for (size_t j = 0; rows[i].elements[j]; j++) {
            cr_assert(json_next_element(&rest, &element), "element %zu of %s", j, rows[i].text);
            cr_expect(span_equal(element, span_of(rows[i].elements[j])), "element %zu of %s is '%.*s'", j, rows[i].text,
                      (int)element.len, element.data);
        }
        cr_expect_not(json_next_element(&rest, &element), "that was all of %s", rows[i].text);
        cr_expect_not(json_next_element(&rest, &element), "and stays so");
    }
}
