// stripe.mjs URL KEY… - the Stripe SDK with its own keys and retries; our KEY is the order's description, so that effects can be told apart.
import { createRequire } from "node:module";
const Stripe = createRequire(process.env.EINMAL_CLIENTS + "/")("stripe");
const url = new URL(process.argv[2]);
const stripe = new Stripe("sk_test_einmal", {
  host: url.hostname, port: url.port, protocol: "http", maxNetworkRetries: 3, timeout: 1000, telemetry: false,
});
// An answer that is cut inside its body never settles in this SDK: whoever calls it has a limit of their own.
const limit = () => new Promise((_, reject) => setTimeout(() => reject(new Error("no end within 8 s")), 8000).unref());
const alive = setInterval(() => {}, 1000);
const result = {};
await Promise.all(process.argv.slice(3).map(async key => {
  try {
    const charge = await Promise.race([stripe.charges.create({ amount: 100, currency: "eur", description: key }), limit()]);
    result[key] = charge.lastResponse.statusCode;
  } catch (error) {
    result[key] = error.statusCode || 0;
  }
}));
clearInterval(alive);
console.log(JSON.stringify(result));
process.exit(0);
