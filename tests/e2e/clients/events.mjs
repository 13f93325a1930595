// events.mjs URL - the eventsource library through einmal: prints each event with the milliseconds since it was sent, ends after three.
import { createRequire } from "node:module";
const { EventSource } = createRequire(process.env.EINMAL_CLIENTS + "/")("eventsource");
const source = new EventSource(process.argv[2] + "/events"), got = [];
source.onmessage = event => {
  got.push(event.data);
  if (got.length === 3) {
    console.log(JSON.stringify({ got }));
    process.exit(0);
  }
};
