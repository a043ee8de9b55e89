# Paho for Python, every version and QoS over every way in (test/t/301_client_matrix.pl).
#
# Input: JSON {"rows": [{"name", "transport", "host", "port", "version", "qos", "user", "password", "ca", "cert", "key", "topic"}], "count": n}.
# All rows run at once: each subscribes, publishes n messages, waits for all of them, and says "ok NAME" or "not ok NAME: why".
import json
import ssl
import sys
import threading

import paho.mqtt.client as mqtt

WAIT = 150
work = json.load(sys.stdin)
versions = {3: mqtt.MQTTv31, 4: mqtt.MQTTv311, 5: mqtt.MQTTv5}


class Row:
    def __init__(self, row, count):
        self.row, self.count, self.got, self.sent, self.why = row, count, [], 0, None
        self.done = threading.Event()
        args = dict(client_id=row["name"], protocol=versions[row["version"]], transport=row["transport"])
        if hasattr(mqtt, "CallbackAPIVersion"):
            args["callback_api_version"] = mqtt.CallbackAPIVersion.VERSION1
        c = self.client = mqtt.Client(**args)
        if row.get("user"):
            c.username_pw_set(row["user"], row["password"])
        if row["transport"] == "websockets":
            c.ws_set_options(path="/mqtt")
        if row.get("ca"):
            c.tls_set(ca_certs=row["ca"], certfile=row.get("cert"), keyfile=row.get("key"))
        c.on_connect, c.on_subscribe, c.on_publish, c.on_message = self.on_connect, self.on_subscribe, self.on_publish, self.on_message
        c.on_disconnect = lambda *a: self.end("disconnected: %s" % (a[2:],))
        c.connect(row["host"], row["port"], keepalive=300)
        c.loop_start()

    def end(self, why):
        if not self.done.is_set():
            self.why = why
            self.done.set()

    def on_connect(self, c, userdata, flags, code, *rest):
        if int(getattr(code, "value", code)) != 0:
            return self.end("refused: %s" % code)
        c.subscribe(self.row["topic"], self.row["qos"])

    def on_subscribe(self, c, userdata, mid, granted, *rest):
        if [int(getattr(g, "value", g)) for g in granted] != [self.row["qos"]]:
            return self.end("granted %s" % granted)
        for i in range(1, self.count + 1):
            c.publish(self.row["topic"], "m%d" % i, self.row["qos"])

    def on_publish(self, c, userdata, mid, *rest):
        self.sent += 1
        self.check()

    def on_message(self, c, userdata, message):
        self.got.append((message.payload.decode(), message.qos))
        self.check()

    def check(self):
        if len(self.got) >= self.count and self.sent >= self.count:
            right = [("m%d" % i, self.row["qos"]) for i in range(1, self.count + 1)]
            self.end(None if self.got == right else "received %s" % self.got)


rows = [Row(row, work["count"]) for row in work["rows"]]
for r in rows:
    if not r.done.wait(WAIT):
        r.end("received %s, acknowledged %d" % (r.got, r.sent))
    print("ok " + r.row["name"] if r.why is None else "not ok %s: %s" % (r.row["name"], r.why))
    r.client.disconnect()
