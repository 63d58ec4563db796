"""Machines of their own on this one: each has its own network, and sees no folder of the others.

They are namespaces of the kernel, made by `unshare` as root or as anybody who may make user namespaces, and
joined by cables (veth) to the first of them. They are gone with the process that made them.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

START_S = 20.0
LOOK_S = 0.01
NET = "10.77"
ADDRESS = f"{NET}.0.1"
"""That of the first machine, wherever one asks from."""


class MachineError(Exception):
    """A machine cannot be made here."""


class Machine:
    """A process that sleeps, and with it a network, a view of the disk and, if need be, rights of its own."""

    def __init__(self, folder: Path, base: "Machine | None" = None) -> None:
        self.folder = folder
        folder.mkdir()
        for program in ("unshare", "nsenter", "ip"):
            if shutil.which(program) is None:
                raise MachineError(
                    f"there is no {program}: get it with 'apt-get install util-linux iproute2'"
                )
        self._is_guest = os.geteuid() != 0
        own = ["--user", "--map-root-user"] if self._is_guest and base is None else []
        enter = base._enter("--user") if self._is_guest and base is not None else []
        sleep = ["setpriv", "--pdeathsig=KILL", "unshare", "--net", "--mount", *own, "sleep", "infinity"]
        self._holder = subprocess.Popen([*enter, *sleep])
        self._wait()
        self.run("ip", "link", "set", "lo", "up")

    def _wait(self) -> None:
        """The holder sleeps once it has left our network."""
        end = time.monotonic() + START_S
        place = Path(f"/proc/{self._holder.pid}")
        while time.monotonic() < end:
            if self._holder.poll() is not None:
                raise MachineError("no namespace can be made here: as root it can, or with user namespaces")
            if (place / "comm").read_text().strip() == "sleep":
                return
            time.sleep(LOOK_S)
        raise MachineError("the machine did not start")

    def _enter(self, *spaces: str) -> list[str]:
        user = ["--preserve-credentials"] if self._is_guest else []
        return ["nsenter", "--target", str(self._holder.pid), *spaces, *user, "--"]

    @property
    def prefix(self) -> list[str]:
        """What comes before a command that is to run there, in the machine's folder."""
        spaces = ["--net", "--mount", *(["--user"] if self._is_guest else [])]
        return [*self._enter(*spaces), "env", "-C", str(self.folder)]

    def run(self, *command: str) -> None:
        ran = subprocess.run([*self.prefix, *command], capture_output=True, text=True, check=False)
        if ran.returncode:
            raise MachineError(f"{' '.join(command)}: {ran.stderr.strip()}")

    def hide(self, folders: Sequence[Path]) -> None:
        """Nothing that is in these can be seen from here."""
        for folder in folders:
            self.run("mount", "-t", "tmpfs", "none", str(folder))

    def join(self, other: "Machine", number: int) -> None:
        """Lay a cable to another machine, over which that one reaches ours."""
        ours, theirs = f"{NET}.{number}.1", f"{NET}.{number}.2"
        name = f"cable{number}"
        self.run("ip", "link", "add", name, "type", "veth", "peer", "name", "out", "netns", str(other.pid))
        self.run("ip", "address", "add", f"{ours}/24", "dev", name)
        self.run("ip", "link", "set", "dev", name, "up")
        other.run("ip", "address", "add", f"{theirs}/24", "dev", "out")
        other.run("ip", "link", "set", "dev", "out", "up")
        other.run("ip", "route", "add", ADDRESS, "via", ours)

    @property
    def pid(self) -> int:
        return self._holder.pid

    def close(self) -> None:
        """Whoever still runs there was started by others, and is theirs to end."""
        self._holder.kill()
        self._holder.wait()


class Machines:
    """A first machine and some that reach it, and only it."""

    def __init__(self, folder: Path, names: Sequence[str], hidden: Sequence[Path] = ()) -> None:
        """Of the folders in `hidden` only the first machine sees what is in them."""
        self.all: list[Machine] = []
        try:
            for name in names:
                self.all.append(Machine(folder / name, self.all[0] if self.all else None))
            first, *others = self.all
            first.run("ip", "address", "add", f"{ADDRESS}/32", "dev", "lo")
            for number, other in enumerate(others, 1):
                first.join(other, number)
            for one in others:
                one.hide([*(other.folder for other in self.all if other is not one), *hidden])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for machine in reversed(self.all):
            machine.close()
