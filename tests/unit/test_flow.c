/*
 * test_flow.c - the table of a request's life keeps its laws (architecture §4, contract §4).
 *
 * A double execution begins with a way into FORWARDING that nobody granted, a lost outcome with a way out of it that
 * records nothing. So every pair of the table is walked here, and a new row that breaks a law fails.
 */
#include "proxy/flow.h"

#include <criterion/criterion.h>
#include <string.h>

#define EACH_STEP(state, event, step)                                                                            \
    for (int state = 0; state < FLOW_STATE_COUNT; state++)                                                       \
        for (int event = 0; event < FLOW_EVENT_COUNT; event++)                                                   \
            for (const struct flow_step *step = flow_find((enum flow_state)state, (enum flow_event)event); step; \
                 step = NULL)

Test(flow, nothing_enters_forwarding_without_a_grant)
{
    int ways = 0;
    EACH_STEP(state, event, step)
    {
        if (step->next != FLOW_FORWARDING || state == FLOW_FORWARDING)
            continue;
        ways++;
        bool granted = state == FLOW_RESERVING && (event == FLOW_GRANTED || event == FLOW_GRANTED_UNKNOWN);
        bool settled = state == FLOW_PROBING && event == FLOW_NOT_HAPPENED;
        cr_assert(granted || settled, "%s enters FORWARDING by %s", flow_state_name((enum flow_state)state),
                  flow_event_name((enum flow_event)event));
        cr_assert_eq(step->action, FLOW_DO_FORWARD);
    }
    cr_assert_gt(ways, 0, "there must be a way in at all");
}

Test(flow, only_forwarding_forwards)
{
    EACH_STEP(state, event, step)
    cr_assert(step->action != FLOW_DO_FORWARD ||
                  ((state == FLOW_RESERVING || state == FLOW_PROBING) && step->next == FLOW_FORWARDING),
              "%s sends the request by %s", flow_state_name((enum flow_state)state),
              flow_event_name((enum flow_event)event));
}

Test(flow, what_was_forwarded_is_settled)
{
    EACH_STEP(state, event, step)
    {
        const char *name = flow_event_name((enum flow_event)event);
        if (state == FLOW_FORWARDING)
            cr_assert(step->next == FLOW_FORWARDING || step->next == FLOW_STREAMING || step->next == FLOW_SETTLING,
                      "%s leads out of FORWARDING to %s", name, flow_state_name(step->next));
        if (state == FLOW_STREAMING)
            cr_assert(step->next == FLOW_STREAMING || step->next == FLOW_SETTLING, "%s leads out of STREAMING to %s",
                      name, flow_state_name(step->next));
        if ((state == FLOW_FORWARDING || state == FLOW_STREAMING) && step->next == FLOW_SETTLING)
            cr_assert_eq(step->action, FLOW_DO_SETTLE, "%s ends the action without recording how", name);
    }
}

Test(flow, a_leaving_client_never_ends_an_action)
{
    static const enum flow_state begun[] = {FLOW_PROBING, FLOW_FORWARDING, FLOW_STREAMING, FLOW_SETTLING};
    for (size_t i = 0; i < sizeof(begun) / sizeof(begun[0]); i++) {
        const struct flow_step *step = flow_find(begun[i], FLOW_CLIENT_GONE);
        cr_assert_not_null(step, "%s must bear a leaving client", flow_state_name(begun[i]));
        cr_assert_eq(step->next, begun[i], "%s", flow_state_name(begun[i]));
    }
    const struct flow_step *late = flow_find(FLOW_FORWARDING, FLOW_RESPONSE_TIMEOUT);
    cr_assert(late && late->next == FLOW_FORWARDING, "a 504 changes no state");
}

Test(flow, a_grant_is_never_dropped)
{
    static const enum flow_event grants[] = {FLOW_GRANTED, FLOW_GRANTED_UNKNOWN, FLOW_GRANTED_TO_ASK,
                                             FLOW_GRANTED_TOO_LATE};
    for (size_t i = 0; i < sizeof(grants) / sizeof(grants[0]); i++)
        for (int state = 0; state < FLOW_STATE_COUNT; state++) {
            const struct flow_step *step = flow_find((enum flow_state)state, grants[i]);
            if (step)
                cr_assert(step->action == FLOW_DO_FORWARD || step->action == FLOW_DO_WITHDRAW ||
                              step->action == FLOW_DO_ADOPT || step->action == FLOW_DO_SETTLE ||
                              step->action == FLOW_DO_PROBE,
                          "%s in %s loses the token", flow_event_name(grants[i]),
                          flow_state_name((enum flow_state)state));
        }
}

Test(flow, only_an_unknown_action_is_asked_about)
{
    int ways = 0;
    EACH_STEP(state, event, step)
    {
        if (step->next != FLOW_PROBING || state == FLOW_PROBING)
            continue;
        ways++;
        cr_assert(state == FLOW_RESERVING && event == FLOW_GRANTED_TO_ASK, "%s enters PROBING by %s",
                  flow_state_name((enum flow_state)state), flow_event_name((enum flow_event)event));
        cr_assert_eq(step->action, FLOW_DO_PROBE);
    }
    cr_assert_eq(ways, 1);
}

/* Whatever the API says or fails to say, the token goes on, or its record is settled or put back. */
Test(flow, what_was_asked_is_recorded_forwarded_or_put_back)
{
    EACH_STEP(state, event, step)
    {
        const char *name = flow_event_name((enum flow_event)event);
        if (state != FLOW_PROBING) {
            cr_assert(step->action != FLOW_DO_RECORD_PROBE && step->action != FLOW_DO_PUT_BACK, "%s", name);
            continue;
        }
        cr_assert(step->next == FLOW_PROBING || step->next == FLOW_FORWARDING || step->next == FLOW_SETTLING,
                  "%s leads out of PROBING to %s", name, flow_state_name(step->next));
        if (step->next == FLOW_SETTLING)
            cr_assert(step->action == FLOW_DO_RECORD_PROBE || step->action == FLOW_DO_PUT_BACK, "%s loses the token",
                      name);
        cr_assert((step->action == FLOW_DO_RECORD_PROBE) == (event == FLOW_HAPPENED), "%s", name);
    }
}

Test(flow, passing_never_becomes_protected)
{
    EACH_STEP(state, event, step)
    if (state == FLOW_PASSING)
        cr_assert(step->next == FLOW_PASSING || step->next == FLOW_SETTLING, "%s",
                  flow_event_name((enum flow_event)event));
}

Test(flow, every_state_but_over_ends_and_bears_the_drain)
{
    for (int state = 0; state < FLOW_OVER; state++) {
        bool leaves = false;
        for (int event = 0; event < FLOW_EVENT_COUNT; event++) {
            const struct flow_step *step = flow_find((enum flow_state)state, (enum flow_event)event);
            leaves |= step && step->next != (enum flow_state)state;
        }
        cr_assert(leaves, "%s has no way out", flow_state_name((enum flow_state)state));
        cr_assert_not_null(flow_find((enum flow_state)state, FLOW_DRAIN_LIMIT), "%s",
                           flow_state_name((enum flow_state)state));
        cr_assert_not_null(flow_find((enum flow_state)state, FLOW_CLIENT_GONE), "%s",
                           flow_state_name((enum flow_state)state));
    }
}

Test(flow, over_is_over)
{
    for (int event = 0; event < FLOW_EVENT_COUNT; event++)
        cr_assert_null(flow_find(FLOW_OVER, (enum flow_event)event), "%s", flow_event_name((enum flow_event)event));
}

Test(flow, only_a_closing_action_leads_to_over)
{
    EACH_STEP(state, event, step)
    cr_assert((step->next == FLOW_OVER) == (step->action == FLOW_DO_CLOSE), "%s × %s",
              flow_state_name((enum flow_state)state), flow_event_name((enum flow_event)event));
}

Test(flow, everything_has_a_name)
{
    for (int state = 0; state < FLOW_STATE_COUNT; state++)
        cr_assert(flow_state_name((enum flow_state)state) && *flow_state_name((enum flow_state)state));
    for (int event = 0; event < FLOW_EVENT_COUNT; event++)
        cr_assert(flow_event_name((enum flow_event)event) && *flow_event_name((enum flow_event)event));
}
