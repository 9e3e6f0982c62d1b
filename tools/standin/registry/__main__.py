"""Run the stand-in registry until SIGTERM or SIGINT."""

import argparse
import signal
import ssl
import sys
from collections.abc import Sequence
from functools import partial

from tools.standin.registry.control import ControlHandler
from tools.standin.registry.listener import Listener
from tools.standin.registry.manifests import HUGGING_FACE
from tools.standin.registry.server import Registry, Settings


def main(arguments: Sequence[str]) -> int:
    """Serve both hosts and the control API.

    Returns:
        0 when asked to stop.
    """
    options = _parser().parse_args(arguments)
    # Blocked before any thread exists, so that the signal waits for sigwait: as process 1 of a container nothing else
    # would end the program.
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    control = Listener(options.control_listen)
    with Registry(_settings(options)) as registry:
        control.serve(partial(ControlHandler, registry.site))
        print(f"serving {registry.base_url}, control on port {control.port}", flush=True)
        signal.sigwait(signals)
    control.stop()
    return 0


def _settings(options: argparse.Namespace) -> Settings:
    return Settings(
        listen=options.listen,
        weights_listen=options.weights_listen,
        base_url=options.base_url,
        weights_base_url=options.weights_base_url,
        tls=_tls(options),
    )


def _tls(options: argparse.Namespace) -> ssl.SSLContext | None:
    if options.tls_certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options.tls_certificate, options.tls_key)
    return context


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m tools.standin.registry", description=__doc__)
    parser.add_argument("--listen", type=_address, default="127.0.0.1:8080", help="manifests and derived files")
    parser.add_argument("--weights-listen", type=_address, default="127.0.0.1:8081", help="weights and tokenizers")
    parser.add_argument("--control-listen", type=_address, default="127.0.0.1:8082", help="the control API")
    parser.add_argument("--base-url", type=_base_url, help="address of --listen as clients see it")
    parser.add_argument(
        "--weights-base-url",
        type=_base_url,
        default=HUGGING_FACE,
        help="address of the weights in the manifests (%(default)s: clients set OLLAYA_HF_ENDPOINT)",
    )
    parser.add_argument("--tls-certificate", metavar="FILE", help="serve https with this chain")
    parser.add_argument("--tls-key", metavar="FILE")
    return parser


def _address(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host, int(port)


def _base_url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r} needs a scheme: http:// or https://")
    return text.rstrip("/")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
