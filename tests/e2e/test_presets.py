"""Presets (contract §6): each sender's deliveries and redeliveries, as its documentation describes them.

A delivery is made from the number of its event and the number of the attempt: what belongs to the event is the same in
every attempt, while times, signatures, counters and transmission ids are new each time.
"""
import hashlib
import json
import subprocess
import threading

from lib.case import Raw, Reply, test


def sign(*parts):
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def at(event, attempt):
    """Seconds since 1970, another one for every attempt."""
    return 1700000000 + 1000 * event + 61 * attempt


class Delivery:
    def __init__(self, headers, body, method="POST", kind="application/json"):
        self.headers, self.method, self.kind = headers, method, kind
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()


def stripe(event, attempt, missing=False):
    body = {"object": "event", "type": "invoice.paid", "created": 1700000000 + event, "livemode": True,
            "data": {"object": {"id": "in_%d" % event, "object": "invoice", "amount_paid": 1999}}}
    if not missing:
        body["id"] = "evt_1NG8Du2eZvKYlo2C%08d" % event
    return Delivery([("User-Agent", "Stripe/1.0 (+https://stripe.com/docs/webhooks)"),
                     ("Stripe-Signature", "t=%d,v1=%s" % (at(event, attempt), sign(event, attempt)))], body)


def github(event, attempt, missing=False, hook="430871"):
    headers = [("User-Agent", "GitHub-Hookshot/044aadd"), ("X-GitHub-Event", "push"), ("X-GitHub-Hook-ID", hook),
               ("X-GitHub-Hook-Installation-Target-ID", "79929171"), ("X-Hub-Signature-256", "sha256=" + sign(event))]
    if not missing:
        headers.append(("X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367%06d" % event))
    return Delivery(headers, {"ref": "refs/heads/main", "after": "%040x" % event, "repository": {"id": 7}})


def shopify(event, attempt, missing=False, topic="orders/create"):
    headers = [("X-Shopify-Topic", topic), ("X-Shopify-Shop-Domain", "shop.example"), ("X-Shopify-Event-Id", "98880550-7158"),
               ("X-Shopify-Hmac-Sha256", sign(event)), ("X-Shopify-Triggered-At", "2026-03-29T18:00:%02dZ" % attempt)]
    if not missing:
        headers.append(("X-Shopify-Webhook-Id", "b54557e4-bdd9-4b37-8a5f-bf7d70bc%04d" % event))
    return Delivery(headers, {"id": 820982911946154508 + event, "total_price": "199.00"})


def shopify_events(event, attempt, missing=False):
    headers = [("shopify-topic", "orders/create"), ("shopify-triggered-at", "2026-03-29T18:00:%02dZ" % attempt)]
    if not missing:
        headers.append(("shopify-webhook-id", "c54557e4-bdd9-4b37-8a5f-bf7d70bc%04d" % event))
    return Delivery(headers, {"id": 820982911946154508 + event})


def slack(event, attempt, missing=False, team="T123ABC456"):
    headers = [("X-Slack-Request-Timestamp", str(at(event, attempt))), ("X-Slack-Signature", "v0=" + sign(event, attempt))]
    if attempt > 1:
        headers += [("X-Slack-Retry-Num", str(attempt - 1)), ("X-Slack-Retry-Reason", "http_timeout")]
    if missing:
        return Delivery(headers, {"type": "url_verification", "token": "x", "challenge": "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmd"})
    return Delivery(headers, {"team_id": team, "api_app_id": "A123", "type": "event_callback", "event_id": "Ev%08d" % event,
                              "event_time": 1700000000 + event, "event": {"type": "app_mention", "text": "hello"}})


def slack_without_team(event, attempt, missing=False):
    return slack(event, attempt, missing, team=None)


def twilio(event, attempt, missing=False):
    headers = [("User-Agent", "TwilioProxy/1.1"), ("X-Twilio-Signature", sign(event, attempt))]
    if not missing:
        headers.append(("I-Twilio-Idempotency-Token", "f4f3a1c2-0000-4f5e-9c1b-%012d" % event))
    return Delivery(headers, b"MessageSid=SM1&MessageStatus=%s&To=%%2B15550001" % (b"sent" if event % 2 else b"delivered"),
                    kind="application/x-www-form-urlencoded")


def standard_webhooks(event, attempt, missing=False, prefix="webhook"):
    headers = [(prefix + "-timestamp", str(at(event, attempt))), (prefix + "-signature", "v1," + sign(event, attempt))]
    if not missing:
        headers.append((prefix + "-id", "msg_p5jXN8AQM9LWM0D4loK%08d" % event))
    return Delivery(headers, {"type": "contact.created", "timestamp": at(event, attempt), "data": {"id": event}})


def svix(event, attempt, missing=False):
    return standard_webhooks(event, attempt, missing, "svix")


def cloudevents(event, attempt, missing=False, source="/mycontext/4"):
    headers = [("ce-specversion", "1.0"), ("ce-type", "com.example.order"), ("ce-source", source),
               ("ce-time", "2026-04-05T17:31:%02dZ" % attempt)]
    if not missing:
        headers.append(("ce-id", "A234-1234-%04d" % event))
    return Delivery(headers, {"order": event})


def cloudevents_structured(event, attempt, missing=False, source="/mycontext/4"):
    body = {"specversion": "1.0", "type": "com.example.order", "source": source, "data": {"order": event},
            "time": "2026-04-05T17:31:%02dZ" % attempt}
    if not missing:
        body["id"] = "A234-1234-%04d" % event
    return Delivery([], [body] if missing == "batch" else body, kind="application/cloudevents+json")


def paypal(event, attempt, missing=False):
    body = {"event_version": "1.0", "create_time": "2026-04-05T17:31:00Z", "event_type": "PAYMENT.CAPTURE.COMPLETED",
            "resource": {"id": "27M47624FP291604U", "amount": {"value": "7.00"}}}
    if not missing:
        body["id"] = "WH-58D329510W468432D-8HN650336L%06d" % event
    return Delivery([("PAYPAL-TRANSMISSION-ID", "69cd13f0-d67a-11e5-baa3-77884%07d" % at(event, attempt)),
                     ("PAYPAL-TRANSMISSION-TIME", "2026-04-05T17:31:%02dZ" % attempt),
                     ("PAYPAL-TRANSMISSION-SIG", sign(event, attempt))], body)


def square(event, attempt, missing=False):
    body = {"merchant_id": "6SSW7HV8K2ST5", "type": "payment.updated", "data": {"type": "payment", "id": "KkAkhdMsgzn59SM8A89"}}
    if not missing:
        body["event_id"] = "6a8f5f28-54a1-4eb0-a98a-3111513f%04d" % event
    headers = [("x-square-hmacsha256-signature", sign(event))]
    if attempt > 1:
        headers += [("square-retry-number", str(attempt - 1)), ("square-retry-reason", "http_timeout"),
                    ("square-initial-delivery-timestamp", "2026-04-05T17:31:00Z")]
    return Delivery(headers, body)


def mailgun(event, attempt, missing=False):
    data = {"event": "delivered", "timestamp": 1521472262.908181 + event, "recipient": "alice@example.com"}
    if not missing:
        data["id"] = "CPgfbmQMTCKtHW6uIWtu%04d" % event
    return Delivery([], {"signature": {"timestamp": str(at(event, attempt)), "token": sign(event, attempt),
                                       "signature": sign(event, attempt, "signed")}, "event-data": data})


def zendesk(event, attempt, missing=False, method="POST"):
    headers = [("x-zendesk-account-id", "123456"), ("x-zendesk-webhook-id", "01F1KRFQ6BG29CNWFR60NK5FNY"),
               ("x-zendesk-webhook-signature-timestamp", "2026-04-05T17:31:%02dZ" % attempt),
               ("x-zendesk-webhook-signature", sign(event, attempt))]
    if not missing:
        headers.append(("x-zendesk-webhook-invocation-id", "8350205582%04d" % event))
    return Delivery(headers, {"ticket": {"id": event}}, method)


def zendesk_put(event, attempt, missing=False):
    return zendesk(event, attempt, missing, "PUT")


def adyen(event, attempt, missing=False, success="true"):
    item = {"eventCode": "AUTHORISATION", "merchantAccountCode": "TestMerchant", "success": success,
            "amount": {"currency": "EUR", "value": 1130}, "eventDate": "2026-01-01T01:0%d:00+02:00" % attempt}
    if not missing:
        item["pspReference"] = "7914073381%06d" % event
    return Delivery([("Authorization", "Basic d2ViaG9vazpub3RlZA==")],
                    {"live": "false", "notificationItems": [{"NotificationRequestItem": item}]})


SENDERS = [
    ("stripe", stripe), ("github", github), ("shopify", shopify), ("shopify", shopify_events), ("slack", slack),
    ("slack", slack_without_team), ("twilio", twilio), ("standard-webhooks", standard_webhooks), ("svix", svix),
    ("svix", standard_webhooks), ("cloudevents", cloudevents), ("cloudevents", cloudevents_structured), ("paypal", paypal),
    ("square", square), ("mailgun", mailgun), ("zendesk", zendesk), ("zendesk", zendesk_put), ("adyen", adyen),
]


def start(t):
    """A route for each row of SENDERS, in one einmal."""
    t.api.reply(Reply(200))
    routes = [{"name": make.__name__ + "-" + preset, "match": {"path": "/%s/%s/**" % (preset, make.__name__)}, "preset": preset}
              for preset, make in SENDERS]
    t.einmal(routes=routes)


class Sender:
    """Delivers on one connection and counts what reaches the API at its path."""

    def __init__(self, t, preset, make, folder="hook"):
        self.t, self.make, self.name = t, make, "%s by %s" % (make.__name__, preset)
        self.path = "/%s/%s/%s" % (preset, make.__name__, folder)
        self.client = t.client()
        self.executed = 0

    def deliver(self, event, attempt, **what):
        delivery = self.make(event, attempt, **what)
        return self.client.ask(delivery.method, target=self.path, headers=delivery.headers, body=delivery.body,
                               kind=delivery.kind, auth=None)

    def executes(self, text, *delivery, status=200, **what):
        answer = self.deliver(*delivery, **what)
        self.executed += 1
        self.t.fresh(answer, status, "%s: %s" % (self.name, text))
        self.t.effects(self.executed, "%s: %s: effects" % (self.name, text), path=self.path)
        return answer

    def repeats(self, text, first, *delivery, **what):
        self.t.replay(self.deliver(*delivery, **what), first, "%s: %s" % (self.name, text))
        self.t.effects(self.executed, "%s: %s: effects" % (self.name, text), path=self.path)


@test("each sender: a redelivery is answered and not executed, another event is executed", "asan", seconds=60)
def redeliveries(t):
    start(t)
    for preset, make in SENDERS:
        sender = Sender(t, preset, make)
        first = sender.executes("first delivery", 1, 1)
        sender.repeats("second delivery", first, 1, 2)
        sender.executes("another event", 2, 1)
        sender.repeats("third delivery", first, 1, 3)
        key = t.api.last(path=sender.path).key
        t.check(key and len(key) == 64, "%s: the API is told the derived key" % sender.name, key)


@test("each sender: what the API does not accept is released, so that the sender's redelivery executes", "asan", seconds=60)
def refused_deliveries(t):
    start(t)
    for preset, make in SENDERS:
        sender = Sender(t, preset, make)
        for attempt, status in enumerate((500, 401, 503, 404, 302), 1):
            t.api.on(Reply(status), path=sender.path, times=1)
            sender.executes("refused with %d" % status, 1, attempt, status=status)
        accepted = sender.executes("accepted at last", 1, 6)
        sender.repeats("one more", accepted, 1, 7)


@test("each sender: without an event id a request passes, each time", "asan", seconds=60)
def without_id(t):
    start(t)
    for preset, make in SENDERS:
        sender = Sender(t, preset, make)
        for attempt in (1, 2):
            sender.executes("no id", 1, attempt, missing=True)
            t.equal(t.api.last(path=sender.path).key, None, sender.name + ": no key is made up")
    sender = Sender(t, "cloudevents", cloudevents_structured)
    sender.executed = t.api.count(path=sender.path)
    for attempt in (1, 2):
        sender.executes("a batch names no single event", 1, attempt, missing="batch")


@test("what belongs to an event keeps it apart: hook, topic, team, source, result, path and host", "asan")
def kept_apart(t):
    start(t)
    rows = [("github", github, {"hook": "430872"}), ("shopify", shopify, {"topic": "orders/paid"}), ("slack", slack, {"team": "T9"}),
            ("cloudevents", cloudevents, {"source": "/other"}), ("cloudevents", cloudevents_structured, {"source": "/other"}),
            ("adyen", adyen, {"success": "false"})]
    for preset, make, other in rows:
        sender = Sender(t, preset, make)
        first = sender.executes("first", 1, 1)
        changed = sender.executes("the same id, but another %s" % list(other)[0], 1, 1, **other)
        sender.repeats("the first again", first, 1, 2)
        sender.repeats("the other again", changed, 1, 2, **other)
        elsewhere = Sender(t, preset, make, "another-endpoint")
        elsewhere.executes("the same event for another path", 1, 1)
    delivery = stripe(7, 1)
    for host in ("a.test", "b.test", "a.test"):
        answer = t.ask(target="/stripe/stripe/host", host=host, headers=delivery.headers, body=delivery.body, auth=None)
        t.status(answer, 200)
    t.effects(2, "one for each host", path="/stripe/stripe/host")


@test("a delivery whose answer was lost is not executed again; one that is still running is waited for", "asan")
def lost_and_running(t):
    start(t)
    lost = Sender(t, "stripe", stripe)
    t.api.on(Raw(end="reset"), path=lost.path, times=1)
    t.status(lost.deliver(1, 1), 502, "connection lost after the effect")
    answer = Sender(t, "stripe", stripe).deliver(1, 2)
    t.problem(answer, 409, "outcome-unknown", action=True)
    t.effects(1, path=lost.path)

    gate = threading.Event()
    running = Sender(t, "slack", slack)
    t.api.on(Reply(200, delay=gate), path=running.path)
    answers = []

    def deliver(attempt):
        answers.append(Sender(t, "slack", slack).deliver(1, attempt))
    threads = [t.thread(deliver, attempt) for attempt in (1, 2, 3)]
    t.check(t.api.wait_count(1, path=running.path), "the first reaches the API")
    gate.set()
    for thread in threads:
        thread.join(20)
    t.equal(sorted((answer.status, answer.replayed) for answer in answers), [(200, False), (200, True), (200, True)], "answers")
    t.effects(1, path=running.path)


@test("check prints what a preset stands for; a route overrides it; a misspelt one is told with the nearest", "asan")
def preset_settings(t):
    t.ordinary = False  # such a request has no event id
    t.einmal(route={"preset": "stripe", "required": True, "statuses": {"release": [503], "other": "completed"}})
    t.problem(t.ask(), 400, "key-missing")
    t.api.on(Reply(400), path="/orders/refused")
    for replayed in (False, True):
        answer = t.ask(target="/orders/refused", body=stripe(1, 1).body)
        t.equal((answer.status, answer.replayed), (400, replayed), "recorded here, for the route says so")
    t.effects(1, path="/orders/refused")

    def check(file):
        return subprocess.run([t.options.binary, "check", "-c", file], capture_output=True, text=True, timeout=20)
    done = check(t.proxy.file)
    t.equal(done.returncode, 0, "check: " + done.stderr)
    for words in ("preset                     stripe", "derived from [host, path, json:/id]", "retention                  7d"):
        t.check(words in done.stdout, "check prints %r" % words, done.stdout)
    bad = t.prepare("-bad", route={"preset": "shopfy"})
    done = check(bad.file)
    t.equal(done.returncode, 2, "a misspelt preset")
    t.check("did you mean 'shopify'?" in done.stderr and "einmal.yaml:" in done.stderr, "told", done.stderr)
