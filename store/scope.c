/*
 * scope.c - until when the records of a scope name live.
 *
 * Kept so that a changed rule can say until when records of the old form are still about. It needs no precision: the
 * stored time is rounded up by a minute and more, so it is written about once a minute and not with each ending.
 */
#include "store/allocate.h"
#include "store/writer.h"

#include <string.h>

#define MINUTE_MS 60000

struct scope *scope_intern(struct writer *writer, const char *name)
{
    char cut[RECORD_STRING_MAX + 1];
    size_t len = name ? strnlen(name, RECORD_STRING_MAX) : 0;
    memcpy(cut, name ? name : "", len);
    cut[len] = '\0';
    for (struct scope *scope = writer->scopes; scope; scope = scope->next)
        if (strcmp(scope->name, cut) == 0)
            return scope;
    struct scope *scope = STORE_NEW(struct scope);
    scope->name = store_must_allocate(strdup(cut));
    scope->next = writer->scopes;
    writer->scopes = scope;
    return scope;
}

enum engine_error scope_load(struct store *store, struct scope *scope)
{
    bool found;
    if (scope->known)
        return ENGINE_OK;
    struct record_scope value = {0};
    enum engine_error error = store->engine->operations->get_scope(store->engine, scope->name, &value, &found);
    if (error != ENGINE_OK)
        return error;
    if (found)
        scope->value = value;
    scope->known = true;
    return ENGINE_OK;
}

enum engine_error scope_expects(struct store *store, struct scope *scope, int64_t expires_ms)
{
    enum engine_error error = scope_load(store, scope);
    if (error != ENGINE_OK || expires_ms <= scope->value.expires_ms || expires_ms <= scope->pending_ms)
        return error;
    struct record_scope value = scope->value;
    value.expires_ms = ledger_later(expires_ms - expires_ms % MINUTE_MS, 2 * MINUTE_MS);
    if (expires_ms == STORE_FOREVER)
        value.expires_ms = STORE_FOREVER;
    error = store->engine->operations->put_scope(store->engine, scope->name, &value);
    if (error == ENGINE_OK)
        scope->pending_ms = value.expires_ms;
    return error;
}

void scopes_transaction_over(struct writer *writer, bool counts)
{
    for (struct scope *scope = writer->scopes; scope; scope = scope->next) {
        if (counts && scope->pending_ms > scope->value.expires_ms)
            scope->value.expires_ms = scope->pending_ms;
        scope->pending_ms = 0;
    }
}

void scopes_close(struct writer *writer)
{
    for (struct scope *scope = writer->scopes, *next; scope; scope = next) {
        next = scope->next;
        free(scope->name);
        free(scope);
    }
    writer->scopes = NULL;
}
