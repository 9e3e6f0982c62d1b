"""What the registry answers to a request, as a value: pure, from a path to a status, headers and content."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import quote

from tools.standin.registry.content import Content, Damaged, Held, sha256_hex
from tools.standin.registry.failures import Corrupt, Cut, Failure, IgnoreRange, Redirect, Shorten, Stall, Status
from tools.standin.registry.names import TagName
from tools.standin.registry.ranges import Span, UnsatisfiableRangeError, requested_span

_MANIFEST = re.compile(r"/v2/([^/]+)/([^/]+)/manifests/([^/]+)")
_BLOB = re.compile(r"/blobs/sha256-([0-9a-f]{64})|/v2/[^/]+/[^/]+/blobs/sha256:([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. `Content-Length` is the size of `content`, whatever becomes of the transfer."""

    status: int
    content: Content
    headers: Mapping[str, str] = field(default_factory=dict)
    disturbance: Cut | Stall | None = None
    """What happens while the body is sent."""


def registry_reply(path: str, manifests: Mapping[TagName, bytes], blobs: Mapping[str, Content]) -> Reply:
    """Answer for the registry's host: manifests by tag and blobs by digest (spec section 3.1).

    There is no way to a manifest by its digest and no list of tags, as there is none in the real registry.
    """
    if named := _MANIFEST.fullmatch(path):
        return _manifest_reply(path, TagName(*named.groups()), manifests)
    if blob := _BLOB.fullmatch(path):
        return _content_reply(blobs.get(blob[1] or blob[2]))
    return html_page(404)


def weights_reply(path: str, files: Mapping[str, Content]) -> Reply:
    """Answer for the host of the weights: files at a commit of a repository."""
    return _content_reply(files.get(path))


def disturbed(reply: Reply, failure: Failure | None) -> Reply:
    """The reply as a failure changes it. Ranges are cut out afterwards, so a part of corrupt content is corrupt."""
    match failure:
        case Status(status):
            return html_page(status)
        case Redirect(location, status):
            return replace(html_page(status), headers={"Location": location})
        case Cut() | Stall():
            return replace(reply, disturbance=failure)
        case Shorten(by_bytes):
            return replace(reply, content=Held(reply.content.read(0, max(reply.content.size - by_bytes, 0))))
        case Corrupt():
            return replace(reply, content=Damaged(reply.content))
        case IgnoreRange() | None:
            return reply


def ranged(reply: Reply, header: str | None) -> tuple[Reply, Span]:
    """Apply a Range header to a reply.

    Returns:
        The reply to send, and which part of its content.
    """
    size = reply.content.size
    whole = Span(0, size)
    if reply.status != 200:
        return reply, whole
    try:
        span = requested_span(header, size)
    except UnsatisfiableRangeError:
        refused = html_page(416)
        return replace(refused, headers={"Content-Range": f"bytes */{size}"}), Span(0, refused.content.size)
    if span is None:
        return reply, whole
    headers = {**reply.headers, "Content-Range": f"bytes {span.start}-{span.stop - 1}/{size}"}
    return replace(reply, status=206, headers=headers), span


def html_page(status: int) -> Reply:
    """An error as a static host reports it: a page for people, nothing for programs."""
    page = f"<!doctype html><title>{status}</title><h1>{status}</h1>\n"
    return Reply(status, Held(page.encode()), {"Content-Type": "text/html; charset=utf-8"})


def _manifest_reply(path: str, name: TagName, manifests: Mapping[TagName, bytes]) -> Reply:
    if ":" in name.tag:
        # The real host normalises the colon of a digest away and then finds nothing under the new path.
        return replace(html_page(307), headers={"Location": quote(path)})
    data = manifests.get(name)
    if data is None:
        return html_page(404)
    return _content_reply(Held(data))


def _content_reply(content: Content | None) -> Reply:
    if content is None:
        return html_page(404)
    headers = {
        "Content-Type": "application/octet-stream",
        # Too short to be taken for the digest, which the real registry does not send either.
        "ETag": f'"{sha256_hex(content)[:16]}"',
        "Accept-Ranges": "bytes",
    }
    return Reply(200, content, headers)
