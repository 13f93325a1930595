// fetch.mjs URL KEY… - Node's own fetch, with the loop that everybody writes around it.
const [url, ...keys] = process.argv.slice(2);
const result = {};
await Promise.all(keys.map(async key => {
  result[key] = 0;
  for (let attempt = 0; attempt < 5; attempt++) {
    try {
      const response = await fetch(`${url}/orders`, {
        method: "POST", body: JSON.stringify({ order: key }), signal: AbortSignal.timeout(1000),
        headers: { "Idempotency-Key": key, "Content-Type": "application/json" },
      });
      await response.arrayBuffer();
      result[key] = response.status;
      if (response.ok) break;
    } catch { /* timeout or a cut answer: again */ }
    await new Promise(resolve => setTimeout(resolve, 100));
  }
}));
console.log(JSON.stringify(result));
