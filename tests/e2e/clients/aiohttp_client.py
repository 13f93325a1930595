"""aiohttp_client.py URL KEY… - aiohttp, all keys at once, with the loop that everybody writes around it."""
import asyncio
import json
import sys

import aiohttp


async def order(session, url, key):
    status = 0
    for _ in range(5):
        try:
            async with session.post(url + "/orders", json={"order": key}, headers={"Idempotency-Key": key}) as answer:
                await answer.read()
                status = answer.status
                if answer.status < 400:
                    break
        except (aiohttp.ClientError, asyncio.TimeoutError):
            pass
        await asyncio.sleep(0.1)
    return status


async def main(url, keys):
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=1)) as session:
        statuses = await asyncio.gather(*[order(session, url, key) for key in keys])
    print(json.dumps(dict(zip(keys, statuses))))


asyncio.run(main(sys.argv[1], sys.argv[2:]))
