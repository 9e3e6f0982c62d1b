"""Building the container images without an account, a registry or a running container engine.

Images are built by buildah from the Containerfiles in `images/`, over a Debian root file system, into one OCI layout
in the user's cache, and leave as archives in `.local/images`. An archive holds only what its parent's lacks, so that
a change of the product's code is built and shipped in about a second: see `Archive`.
"""

from tools.images.archives import Archive
from tools.images.builds import build_reconciler_image, build_registry_image, build_runtime_image
from tools.images.errors import ImageBuildError

__all__ = ["Archive", "ImageBuildError", "build_reconciler_image", "build_registry_image", "build_runtime_image"]
