# dtbench for Spack: put it into a repository of your own (spack repo create), as
# packages/dtbench/package.py, and the release's checksum beside its version. For Spack 1.0 and
# newer, whose builtin repository has the build systems. Not tried with Spack itself.
from spack_repo.builtin.build_systems.meson import MesonPackage

from spack.package import *


class Dtbench(MesonPackage):
    """Measures data-parallel training paradigms of decoders and convolutional networks, and predicts them on a described cluster."""

    url = "file:///var/tmp/dtbench-1.0.0.tar.xz"  # where your copy of the release is

    license("MIT")

    version("1.0.0", sha256="0000000000000000000000000000000000000000000000000000000000000000")

    variant("cpu", default=True, description="Train on processors, with oneDNN")
    variant("mpi", default=True, when="+cpu", description="Ranks on processors")
    variant("cuda", default=False, description="Train on GPUs")
    variant("chakra", default=False, description="Chakra traces")

    depends_on("c", type="build")
    depends_on("meson@1.0:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.9:", type=("build", "run"))
    depends_on("cjson")
    depends_on("zlib-api")
    depends_on("onednn@2:", when="+cpu")
    depends_on("openmpi@4:", when="+mpi")
    depends_on("cuda@12:", when="+cuda")
    depends_on("nccl", when="+cuda")
    depends_on("protobuf-c", when="+chakra")

    def meson_args(self):
        def feature(name):
            return f"-D{name}={'enabled' if self.spec.satisfies('+' + name) else 'disabled'}"

        return [feature("cpu"), feature("mpi"), feature("cuda"), "-Demulated_kernels=false", "-Dwerror=false"]
