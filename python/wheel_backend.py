"""Builds the wheel of Axon (PEP 517): the Python module, libaxon, the program
`axon` and its manual page.

    pip wheel python/
    pip wheel python/ --config-settings build=DIR    # of a finished build

The first command builds libaxon and `axon` in a copy of the sources.  The wheel
then needs only libc and libm: it contains the GMP of libaxon, and the program
is linked statically with GMP.  With the second command, the program needs GMP.
CC and CFLAGS are used if they are set.
"""
import base64
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
NAME = "axon_tensor"
METADATA = """Metadata-Version: 2.1
Name: axon-tensor
Version: {version}
Summary: Axon, a functional tensor language with inferred symbolic shapes
License: MIT
Requires-Python: >=3.8
Provides-Extra: jupyter
Requires-Dist: ipykernel>=6; extra == "jupyter"
"""
WHEEL = """Wheel-Version: 1.0
Generator: axon
Root-Is-Purelib: {pure}
Tag: {tag}
"""
# Parts of the sources that the build of libaxon and `axon` does not read.
NOT_COPIED = (".git", "tests", "bench", "examples", "editors", "debian",
              "autom4te.cache", ".libs", ".deps", "__pycache__", "*.o", "*.lo",
              "*.la", "config.status", "config.log", "libtool", "Makefile")


def version():
    """configure.ac has the version."""
    with open(os.path.join(ROOT, "configure.ac")) as file:
        return re.search(r"AC_INIT\(\[Axon\], \[(.*?)\]", file.read()).group(1)


# ---- building the library ----


def build_in_copy(folder):
    def run(*command):
        subprocess.run(command, cwd=copy, check=True)

    def make(*arguments):
        run("make", "-s", "-j%d" % (os.cpu_count() or 1), *arguments)

    def ignore(path, names):
        program = {"axon"} if path == ROOT else set()
        return shutil.ignore_patterns(*NOT_COPIED)(path, names) | program

    copy = os.path.join(folder, "sources")
    shutil.copytree(ROOT, copy, symlinks=True, ignore=ignore)
    if not os.path.exists(os.path.join(copy, "configure")):
        run("./bootstrap")
    options = ["%s=%s" % (name, os.environ[name]) for name in ("CC",)
               if name in os.environ]
    run("./configure", "--quiet", "--enable-carried", *options,
        "CFLAGS=" + os.environ.get("CFLAGS", "-O2"))
    make("axon")
    # A shared library cannot contain the archive libgmp.a.
    for name in "libcore.la", "libfront.la":
        os.remove(os.path.join(copy, name))
    make("libaxon.la", "LIBS=-lgmp -lm")
    return copy


def gmp_of(library):
    """The path of the GMP that a library uses."""
    found = subprocess.run(["ldd", library], check=True, text=True,
                           stdout=subprocess.PIPE).stdout
    return re.search(r"libgmp\.so\.\d+ => (\S+)", found).group(1)


def stripped(path, folder):
    to = os.path.join(folder, os.path.basename(path))
    subprocess.run(["strip", "-o", to, path], check=True)
    return to


# ---- writing the wheel ----


class Archive:
    """A wheel, with RECORD as its last file."""

    def __init__(self, path):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.record = []

    def add(self, name, data, mode=0o644):
        if not isinstance(data, bytes):
            with open(data, "rb") as file:
                data = file.read()
        entry = zipfile.ZipInfo(name)  # of a fixed date
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
        self.record.append("%s,sha256=%s,%d" % (
            name, digest.decode().rstrip("="), len(data)))

    def close(self, info):
        self.record.append("%s/RECORD,," % info)
        self.zip.writestr("%s/RECORD" % info,
                          "\n".join(self.record) + "\n")
        self.zip.close()


def platform_tag():
    platform = re.sub("[-.]", "_", sysconfig.get_platform())
    return "py3-none-" + platform


def metadata_files(tag):
    pure = "true" if tag.endswith("-any") else "false"
    return {"METADATA": METADATA.format(version=version()),
            "WHEEL": WHEEL.format(tag=tag, pure=pure)}


def write_wheel(folder, tag, fill):
    base = "%s-%s" % (NAME, version())
    file = "%s-%s.whl" % (base, tag)
    archive = Archive(os.path.join(folder, file))
    fill(archive, base)
    info = base + ".dist-info"
    for name, text in metadata_files(tag).items():
        archive.add("%s/%s" % (info, name), text.encode())
    archive.add("%s/LICENSE" % info, os.path.join(ROOT, "LICENSE"))
    archive.close(info)
    return file


def fill_from(build, folder):
    def fill(archive, base):
        for path in sorted(glob.glob(os.path.join(HERE, "axon", "*.py"))):
            archive.add("axon/" + os.path.basename(path), path)
        library = os.path.realpath(
            os.path.join(build, ".libs", "libaxon.so.0"))
        archive.add("axon/libaxon.so.0", stripped(library, folder), 0o755)
        gmp = gmp_of(library)
        archive.add("axon/" + os.path.basename(gmp), gmp, 0o755)
        archive.add("%s.data/scripts/axon" % base,
                    stripped(os.path.join(build, "axon"), folder), 0o755)
        share = base + ".data/data/share/"
        for name, path in [
                ("man/man1/axon.1", "doc/axon.1"),
                ("bash-completion/completions/axon", "completions/axon"),
                ("zsh/site-functions/_axon", "completions/_axon")]:
            archive.add(share + name, os.path.join(ROOT, path))
    return fill


# ---- hooks of PEP 517 and PEP 660 ----


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = "%s-%s.dist-info" % (NAME, version())
    os.mkdir(os.path.join(metadata_directory, folder))
    for name, text in metadata_files(platform_tag()).items():
        with open(os.path.join(metadata_directory, folder, name), "w") as file:
            file.write(text)
    return folder


def build_wheel(wheel_directory, config_settings=None,
                metadata_directory=None):
    if not os.path.exists(os.path.join(ROOT, "configure.ac")):
        raise SystemExit("the folder above python/ must contain the sources of "
                         "Axon: use pip 21.3 or later, which builds in place")
    with tempfile.TemporaryDirectory() as folder:
        build = (config_settings or {}).get("build") or build_in_copy(folder)
        return write_wheel(wheel_directory, platform_tag(),
                           fill_from(build, folder))


def build_editable(wheel_directory, config_settings=None,
                   metadata_directory=None):
    """The module stays here, and finds the library in the build folder."""
    def fill(archive, base):
        archive.add("axon.pth", HERE.encode() + b"\n")
    return write_wheel(wheel_directory, "py3-none-any", fill)


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit("`make dist` makes the source archive of Axon")
