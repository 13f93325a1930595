/*
 * client_tunnel.c - a downstream connection whose answer was 101: bytes both ways until both sides have said FIN.
 *
 * To the rest of the client a tunnel is a request whose body ends with the peer's FIN, answered by a response whose end
 * is ours: reading, pausing and writing are the same code. Only the two ends differ, and they are here. Invariant: the
 * connection is never used for another request. Left out: how long a tunnel may be silent, which the exchange knows.
 */
#include "proxy/client_internal.h"

#include <assert.h>

void client_tunnel(struct client *client)
{
    assert(client->state == CLIENT_REQUEST && client->body_done && !client->tunnel);
    http_switch(client->parser);
    client->tunnel = client->closing = true;
    client->body_done = client->body_wanted = client->body_end_due = false;
    stream_watch_peer(&client->stream);
}

void client_tunnel_end(struct client *client)
{
    bool complete = http_read_end(client->parser);
    assert(complete && "a tunnel may end anywhere");
    client->body_done = client->body_end_due = true;
    client_look_again(client);
}

void client_fin_if_due(struct client *client)
{
    if (!client->fin_due || client->broken || buffer_len(&client->output))
        return;
    client->fin_due = stream_end(&client->stream) == STREAM_AGAIN;
    if (client->fin_due)
        client_wait_to_write(client); /* and then here again */
}

void client_end_writing(struct client *client)
{
    assert(client->tunnel);
    client->fin_due = true;
    client_write_out(client, NULL, 0);
    client_fin_if_due(client);
}
