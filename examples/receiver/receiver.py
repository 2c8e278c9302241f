"""A service that duly pushes jobs to.

It verifies the signature of each request as Standard Webhooks specifies, and
answers 204. It needs only the standard library, which has no ed25519, so it
checks only v1 signatures.

    WEBHOOK_SECRET=whsec_… python3 receiver.py 8080
"""

import base64
import hashlib
import hmac
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_BODY = 1 << 20
TOLERANCE = 5 * 60  # seconds


def key_of(secret):
    """Return the key of whsec_…. An empty key would let anybody sign."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    if not secret.startswith("whsec_") or not key:
        raise ValueError("WEBHOOK_SECRET is not whsec_…")
    return key


def verify(headers, body, key):
    """Report whether a request was signed with the secret, a moment ago."""
    msg_id = headers.get("webhook-id", "")
    timestamp = headers.get("webhook-timestamp", "")
    # An older request may be a copy that somebody sends again.
    if not (timestamp.isascii() and timestamp.isdigit()):
        return False
    if abs(time.time() - int(timestamp)) > TOLERANCE:
        return False

    text = f"{msg_id}.{timestamp}.".encode() + body
    expected = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest())
    # While the secret rotates there are several signatures. One right one is enough.
    for one in headers.get("webhook-signature", "").split(" "):
        version, _, signature = one.partition(",")
        if version == "v1" and hmac.compare_digest(signature.encode(), expected):
            return True
    return False


def handle(msg_id, body):
    """Do your work here. One ID may come twice, so do nothing the second time."""
    print(f"{msg_id}: {len(body)} bytes", flush=True)


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_POST(self):
        length = self.headers.get("content-length", "")
        if not length.isdigit() or int(length) > MAX_BODY:
            self.close_connection = True
            return self.answer(413, "body too large\n")
        # The signature covers the bytes as they came, so read them unparsed.
        body = self.rfile.read(int(length))
        if not verify(self.headers, body, self.server.key):
            return self.answer(401, "no signature is right, or the timestamp is old\n")
        try:
            handle(self.headers["webhook-id"], body)
        except Exception as error:
            print(error, file=sys.stderr)
            return self.answer(500, "try again\n")
        self.answer(204, "")

    def answer(self, status, text):
        self.send_response(status)
        if status != 204:
            self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8080
    server = ThreadingHTTPServer(("127.0.0.1", port), Receiver)
    server.key = key_of(os.environ.get("WEBHOOK_SECRET", ""))
    print(f"listening on http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
