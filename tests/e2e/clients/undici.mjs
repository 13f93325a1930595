// undici.mjs URL KEY… - undici's RetryAgent, told to repeat POST too.
import { createRequire } from "node:module";
const { Agent, RetryAgent, request } = createRequire(process.env.EINMAL_CLIENTS + "/")("undici");
const [url, ...keys] = process.argv.slice(2);
const dispatcher = new RetryAgent(new Agent({ headersTimeout: 1000 }), {
  methods: ["POST"], maxRetries: 4, minTimeout: 100, maxTimeout: 200, statusCodes: [409, 500, 502, 503, 504],
  errorCodes: ["ECONNRESET", "ECONNREFUSED", "UND_ERR_SOCKET", "UND_ERR_HEADERS_TIMEOUT"],
});
const result = {};
await Promise.all(keys.map(async key => {
  try {
    const { statusCode, body } = await request(`${url}/orders`, {
      dispatcher, method: "POST", body: JSON.stringify({ order: key }), headers: { "Idempotency-Key": key, "Content-Type": "application/json" },
    });
    await body.dump();
    result[key] = statusCode;
  } catch (error) {
    result[key] = error.statusCode || 0;
  }
}));
console.log(JSON.stringify(result));
process.exit(0);
