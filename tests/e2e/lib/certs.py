"""Certificates for tests, made with the `openssl` command: an authority and what it signs. Elliptic keys: they are made
at once."""
import os
import ssl
import subprocess

KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


def openssl(*arguments):
    done = subprocess.run(["openssl"] + list(arguments), stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        raise RuntimeError("openssl %s: %s" % (" ".join(arguments), done.stderr.decode()))
    return done.stdout


class Authority:
    def __init__(self, directory, name="einmal test authority"):
        self.directory = os.path.join(directory, name.replace(" ", "-"))
        os.makedirs(self.directory, exist_ok=True)
        self.file, self.key = self.path("ca.crt"), self.path("ca.key")
        openssl("req", "-x509", *KEY, "-keyout", self.key, "-out", self.file, "-subj", "/CN=" + name, "-days", "30")

    def path(self, name):
        return os.path.join(self.directory, name)

    def issue(self, label, subject="/CN=x", names="", days=30):
        """(certificate file, key file). `names`: subjectAltName as openssl writes it; "": none at all."""
        certificate, key, request, extensions = (self.path(label + end) for end in (".crt", ".key", ".csr", ".ext"))
        openssl("req", "-new", *KEY, "-keyout", key, "-out", request, "-subj", subject)
        with open(extensions, "w", encoding="ascii") as out:
            out.write("subjectAltName=%s\n" % names if names else "basicConstraints=CA:FALSE\n")
        openssl("x509", "-req", "-in", request, "-CA", self.file, "-CAkey", self.key, "-CAcreateserial", "-days", str(days),
                "-extfile", extensions, "-out", certificate)
        return certificate, key

    def self_signed(self, label, names):
        certificate, key = self.path(label + ".crt"), self.path(label + ".key")
        openssl("req", "-x509", *KEY, "-keyout", key, "-out", certificate, "-subj", "/CN=x", "-days", "30", "-addext",
                "subjectAltName=" + names)
        return certificate, key


def server_context(pair, client_ca=None, version=None, protocols=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)
    if client_ca:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    if version:
        context.minimum_version = context.maximum_version = version
    if protocols:
        context.set_alpn_protocols(protocols)
    return context


def client_context(ca, pair=None, version=None, protocols=None):
    context = ssl.create_default_context(cafile=ca)
    if pair:
        context.load_cert_chain(*pair)
    if version:
        context.minimum_version = context.maximum_version = version
    if protocols:
        context.set_alpn_protocols(protocols)
    return context
