"""The cluster's certificates and keys: one authority, one certificate per component, one service-account key.

Created once and kept, so that a kubeconfig stays valid over restarts.
"""

import datetime as dt
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tools.cluster.layout import API_SERVICE_ADDRESS, CLUSTER_DOMAIN, NODE_ADDRESS

_LIFETIME = dt.timedelta(days=3650)
_CLOCK_SKEW = dt.timedelta(hours=1)


@dataclass(frozen=True)
class Identity:
    """One certificate to issue.

    Attributes:
        file: stem of the files ``<file>.crt`` and ``<file>.key``.
        user: common name, which Kubernetes reads as the user.
        groups: organizations, which Kubernetes reads as the groups.
        hosts: names and addresses that a server answers to; none for a mere client.
    """

    file: str
    user: str
    groups: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


def identities(node: str) -> tuple[Identity, ...]:
    """Everybody in the cluster who needs a certificate."""
    api_names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
    return (
        Identity(
            "apiserver",
            "kube-apiserver",
            hosts=(
                *api_names,
                f"kubernetes.default.svc.{CLUSTER_DOMAIN}",
                "localhost",
                "127.0.0.1",
                NODE_ADDRESS,
                API_SERVICE_ADDRESS,
            ),
        ),
        Identity("kubelet-server", node, hosts=(node, NODE_ADDRESS)),
        Identity("apiserver-kubelet-client", "kube-apiserver-kubelet-client"),
        Identity("admin", "admin", groups=("system:masters",)),
        Identity("kube-controller-manager", "system:kube-controller-manager"),
        Identity("kube-scheduler", "system:kube-scheduler"),
        Identity("kube-proxy", "system:kube-proxy"),
        Identity("kubelet", f"system:node:{node}", groups=("system:nodes",)),
        Identity("coredns", "system:coredns"),
        Identity("provisioner", "local-provisioner"),
    )


def ensure_pki(directory: Path, wanted: Sequence[Identity], now: dt.datetime) -> None:
    """Create the authority, the certificates and the service-account key, unless they exist.

    Args:
        directory: where the files go; readable by its owner only.
        wanted: who gets a certificate.
        now: start of the certificates' ten years.
    """
    done = directory / "complete"
    if done.exists():
        return
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _authority_certificate(authority_key, now)
    _write_certificate(directory / "ca.crt", authority)
    _write_key(directory / "ca.key", authority_key)
    for identity in wanted:
        key = ec.generate_private_key(ec.SECP256R1())
        _write_certificate(directory / f"{identity.file}.crt", _issue(identity, key, authority, authority_key, now))
        _write_key(directory / f"{identity.file}.key", key)
    service_accounts = ec.generate_private_key(ec.SECP256R1())
    _write_key(directory / "service-accounts.key", service_accounts)
    (directory / "service-accounts.pub").write_bytes(
        service_accounts.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    done.touch()


def _authority_certificate(key: ec.EllipticCurvePrivateKey, now: dt.datetime) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "local cluster")])
    return (
        _builder(name, name, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def _issue(
    identity: Identity,
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    now: dt.datetime,
) -> x509.Certificate:
    subject = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in identity.groups]
        + [x509.NameAttribute(NameOID.COMMON_NAME, identity.user)]
    )
    usage = ExtendedKeyUsageOID.SERVER_AUTH if identity.hosts else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = (
        _builder(subject, authority.subject, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        # Strict verification (Python from 3.13 on) asks for the pair of key identifiers: RFC 5280, section 4.2.1.1.
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
    )
    if identity.hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName(map(_general_name, identity.hosts)), critical=False)
    return builder.sign(authority_key, hashes.SHA256())


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, now: dt.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_certificate(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
