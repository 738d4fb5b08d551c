"""Certificates for tests of TLS, made by the program openssl."""

import shutil
import ssl
import subprocess

OPENSSL = shutil.which("openssl")


def openssl(*arguments):
    subprocess.run([OPENSSL, *map(str, arguments)], check=True, capture_output=True)


class Authority:
    """Signs certificates, in a directory."""

    def __init__(self, home):
        self.home, self.cert, self.key = home, home / "ca.crt", home / "ca.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 30, "-subj", "/CN=test-ca",
                "-keyout", self.key, "-out", self.cert)  # fmt: skip

    def issue(self, name, days=30, password=None):
        cert, key, request = (self.home / f"{name}.{kind}" for kind in ("crt", "key", "csr"))
        extensions = self.home / "extensions"
        extensions.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        encryption = ["-passout", f"pass:{password}"] if password else ["-nodes"]
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", *encryption, "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key, "-CAcreateserial", "-days", days, "-extfile", extensions, "-out", cert)
        return cert, key


def context_of(authority, client=None, **versions):
    context = ssl.create_default_context(cafile=str(authority.cert))
    if client is not None:
        context.load_cert_chain(*map(str, client))
    for name, value in versions.items():
        setattr(context, name, value)
    return context
