// websocket_server.mjs HOST - the ws library as the API: sends back what comes. Prints its port.
import { createRequire } from "node:module";
const { WebSocketServer } = createRequire(process.env.EINMAL_CLIENTS + "/")("ws");
const server = new WebSocketServer({ host: process.argv[2], port: 0 }, () => console.log(server.address().port));
server.on("connection", socket => socket.on("message", (data, binary) => socket.send(data, { binary })));
