"""Lets TensorFlow's own gs:// reader, whose addresses are fixed, reach a server on this machine.

TensorFlow asks https://storage.googleapis.com and https://www.googleapis.com and knows no other
endpoint; but its libcurl honours ``https_proxy`` and ``CURL_CA_BUNDLE``. So this is a CONNECT
proxy that ends TLS itself, with a certificate made for the run, and passes the plain bytes on.
"""

from __future__ import annotations

import contextlib
import datetime
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOSTS = ("www.googleapis.com", "storage.googleapis.com")


@contextlib.contextmanager
def google_over_tls(upstream: tuple[str, int], folder: Path) -> Iterator[dict[str, str]]:
    """Environment of a process whose TensorFlow takes the server at ``upstream`` for Google's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_certificates(folder))

    class Tunnel(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            head = b""
            while b"\r\n\r\n" not in head:
                head += self.request.recv(4096)
            self.request.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            with (
                contextlib.suppress(OSError),
                context.wrap_socket(self.request, server_side=True) as client,
                socket.create_connection(upstream) as server,
            ):
                answers = threading.Thread(target=_pump, args=(server, client), daemon=True)
                answers.start()
                _pump(client, server)
                answers.join()

    class Proxy(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 128

    with Proxy(("127.0.0.1", 0), Tunnel) as proxy:
        threading.Thread(target=proxy.serve_forever, args=(0.01,), daemon=True).start()
        yield {
            "https_proxy": f"http://127.0.0.1:{proxy.server_address[1]}",
            "CURL_CA_BUNDLE": str(folder / "ca.pem"),
            "GOOGLE_AUTH_TOKEN_FOR_TESTING": "anybody",
            "NO_GCE_CHECK": "true",
            "no_proxy": "",
        }
        proxy.shutdown()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _certificates(folder: Path) -> Path:
    """Writes ``ca.pem``; gives a file with the server's key and certificate."""
    now = datetime.datetime.now(datetime.timezone.utc)
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])

    def certificate(name: x509.Name, public: ec.EllipticCurvePublicKey, *, is_authority: bool) -> x509.Certificate:
        hosts = x509.SubjectAlternativeName([x509.DNSName(host) for host in HOSTS])
        return (
            x509.CertificateBuilder(authority, name, public, x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(hosts, critical=False)
            .sign(authority_key, hashes.SHA256())
        )

    pem = serialization.Encoding.PEM
    own = certificate(authority, authority_key.public_key(), is_authority=True)
    (folder / "ca.pem").write_bytes(own.public_bytes(pem))
    server = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOSTS[0])])
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = folder / "server.pem"
    path.write_bytes(private + certificate(server, key.public_key(), is_authority=False).public_bytes(pem))
    return path
