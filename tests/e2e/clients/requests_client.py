"""requests_client.py URL KEY… - Python's requests with urllib3's Retry, told to repeat POST too."""
import json
import sys

import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

url, keys = sys.argv[1], sys.argv[2:]
retry = Retry(total=4, allowed_methods=None, status_forcelist=[500, 502, 503, 504], backoff_factor=0.05, raise_on_status=False)
session = requests.Session()
session.mount("http://", HTTPAdapter(max_retries=retry))
result = {}
for key in keys:
    try:
        answer = session.post(url + "/orders", json={"order": key}, headers={"Idempotency-Key": key}, timeout=1)
        result[key] = answer.status_code
    except requests.RequestException:
        result[key] = 0
print(json.dumps(result))
