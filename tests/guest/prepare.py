#!/usr/bin/env python3
"""Makes what a guest boots: kernels of Debian, each with a first file system in memory.

    tests/guest/prepare.py FOLDER

FOLDER/stable has the kernel of the machine's own Debian, FOLDER/backports the one of its backports, where apt reaches
these. Each has `vmlinuz`, `initramfs` and `release`, a line that names the kernel. Packages are downloaded and
unpacked, not installed. What was downloaded before is kept: remove FOLDER for newer ones.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
KERNEL = "linux-image-cloud-amd64"
# Modules that the guest loads, after those that they depend on. A kernel has some of them built in.
MODULES = ["crc32c_generic", "libcrc32c", "libceph", "rbd", "virtio_pci", "virtio_net", "virtio_blk", "ext4", "dm_mod",
           "nvme", "nvme_tcp"]
# Programs of this machine, in `/programs` there: busybox has smaller ones of these names.
PROGRAMS = ["mke2fs"]
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class NotThere(Exception):
    """Something cannot be had on this machine."""


def said_by(*command, **more):
    """Output of a command. Raises NotThere with its last words if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise NotThere(f"{' '.join(map(str, command))}: {words[-1] if words else done.returncode}")
    return done.stdout


def debian_suite():
    """Address and code name of the Debian that this machine's packages come from."""
    form = "$(ORIGIN)|$(REPO_URI)|$(CODENAME)|$(COMPONENT)"
    for line in said_by("apt-get", "indextargets", "--format", form, "Created-By: Packages").splitlines():
        origin, address, name, component = line.split("|")
        if (origin, component) == ("Debian", "main") and re.fullmatch("[a-z]+", name):
            return address, name
    raise NotThere("apt has no list of a Debian's packages")


def options_for_backports(folder):
    """Options with which apt knows the backports and nothing else, in a folder of its own."""
    address, name = debian_suite()
    for part in ["lists/partial", "cache/archives/partial", "sources"]:
        (folder / part).mkdir(parents=True, exist_ok=True)
    signed = f"[signed-by={KEYRING}] " if KEYRING.exists() else ""
    (folder / "sources/backports.list").write_text(f"deb {signed}{address} {name}-backports main\n")
    places = {
        "Etc::sourcelist": "/dev/null",
        "Etc::sourceparts": folder / "sources",
        "State::lists": folder / "lists",
        "Cache": folder / "cache",
    }
    options = [word for place, path in places.items() for word in ("-o", f"Dir::{place}={path}")]
    said_by("apt-get", *options, "update", "--error-on=any")
    return options


def download(folder, options):
    """Downloads the kernel's package into a folder."""
    depends = said_by("apt-cache", *options, "depends", KERNEL)
    found = re.search(r"Depends: (linux-image-\S+)", depends)
    if found is None:
        raise NotThere(f"{KERNEL} names no kernel: {depends}")
    folder.mkdir(parents=True, exist_ok=True)
    said_by("apt-get", *options, "download", found[1], cwd=folder)


def modules_in_order(tree):
    """Paths of the modules that are wanted, each after those that it depends on."""
    names = {path.name.split(".ko")[0].replace("-", "_"): path for path in tree.rglob("*.ko*")}
    order = []

    def add(name):
        path = names.get(name)
        if path is None or path in order:
            return
        for other in depends_on(path):
            add(other)
        order.append(path)

    for name in MODULES:
        add(name)
    for name in ("libceph", "rbd"):
        if names.get(name) not in order:
            raise NotThere(f"the kernel has no module {name}")
    return order


def module_bytes(path):
    """A module as the kernel takes it."""
    if path.suffix == ".xz":
        return subprocess.run(["xz", "-dc", path], stdout=subprocess.PIPE, check=True).stdout
    return path.read_bytes()


def depends_on(path):
    """Names of the modules that a module says it depends on."""
    found = re.search(rb"\0depends=([^\0]*)\0", module_bytes(path))
    return [name.replace("-", "_") for name in found[1].decode().split(",") if name] if found else []


def with_libraries(program):
    """Path of a program, and those of its libraries and loader."""
    path = shutil.which(program)
    if path is None:
        raise NotThere(f"{program} is not installed")
    return [path, *re.findall(r"(/\S+) \(0x", said_by("ldd", path))]


def make_initramfs(tree, to):
    """Makes the first file system: busybox, programs, modules and our `init`."""
    with tempfile.TemporaryDirectory() as root:
        root = Path(root)
        for folder in ["bin", "modules", "programs"]:
            (root / folder).mkdir()
        shutil.copy(HERE / "init", root / "init")
        (root / "init").chmod(0o755)
        busybox = shutil.which("busybox")
        if busybox is None:
            raise NotThere("busybox is not installed")
        shutil.copy(busybox, root / "bin/busybox")
        for program in PROGRAMS:
            path, *libraries = with_libraries(program)
            shutil.copy(path, root / "programs")
            for library in libraries:
                place = root / library.lstrip("/")
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(library, place)
        order = modules_in_order(tree)
        for path in order:
            (root / "modules" / plain_name(path)).write_bytes(module_bytes(path))
        (root / "modules/order").write_text("".join(f"{plain_name(path)}\n" for path in order))
        names = "\n".join(sorted(str(path.relative_to(root)) for path in root.rglob("*")))
        with to.open("wb") as image:
            command = ["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"]
            subprocess.run(command, cwd=root, input=names.encode(), stdout=image, check=True)


def plain_name(path):
    return path.name.removesuffix(".xz")


def is_newer(file, than):
    return file.exists() and all(file.stat().st_mtime > other.stat().st_mtime for other in than)


def prepare(folder, options):
    """Makes kernel and first file system in a folder. `options`: gives apt's, if something has to be downloaded."""
    if not list(folder.glob("*.deb")):
        download(folder, options())
    [package] = folder.glob("*.deb")
    release = folder / "release"
    if is_newer(release, [package, HERE / "init", HERE / "prepare.py"]):
        return
    with tempfile.TemporaryDirectory() as tree:
        tree = Path(tree)
        said_by("dpkg-deb", "-x", package, tree)
        [kernel] = tree.glob("boot/vmlinuz-*")
        shutil.copy(kernel, folder / "vmlinuz")
        make_initramfs(tree, folder / "initramfs")
        # The last one to be written tells that all is there.
        release.write_text(kernel.name.removeprefix("vmlinuz-") + "\n")


def main(folder):
    folder = Path(folder).resolve()
    kernels = {"stable": lambda: [], "backports": lambda: options_for_backports(folder / "apt")}
    for name, options in kernels.items():
        try:
            prepare(folder / name, options)
            print(f"{name}: {(folder / name / 'release').read_text().strip()}")
        except NotThere as reason:
            # Tests that want it say that it is not there.
            print(f"{name}: no kernel: {reason}")


if __name__ == "__main__":
    main(*sys.argv[1:])
