// websocket.mjs URL - the ws library through einmal: says "one" to "five", wants each back, closes in order. Prints what came.
import { createRequire } from "node:module";
const { WebSocket } = createRequire(process.env.EINMAL_CLIENTS + "/")("ws");
const words = ["one", "two", "three", "four", "five"], got = [];
const socket = new WebSocket(process.argv[2].replace("http", "ws") + "/socket");
socket.on("open", () => socket.send(words[0]));
socket.on("message", data => {
  got.push(String(data));
  if (got.length < words.length) socket.send(words[got.length]);
  else socket.close(1000, "done");
});
socket.on("close", code => console.log(JSON.stringify({ got, code })));
socket.on("error", error => console.log(JSON.stringify({ error: String(error) })));
