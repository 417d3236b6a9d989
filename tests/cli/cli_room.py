"""Shared by the tests of commands: generated photos, and the result of a command."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import drawn_photos

make_photos = partial(drawn_photos.make_photos, classes=8, each=4, side=32, name="class {:02d}")


@dataclass(frozen=True)
class Ended:
    """How a command ended: its code, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one message of a command that was refused."""
        assert self.code == 1, (self.code, self.out, self.err)
        assert "Traceback" not in self.err
        [text] = re.findall(r"^Error: .*", self.err, re.MULTILINE | re.DOTALL)
        return str(text).strip()

    @property
    def printed(self) -> str:
        """What a command printed that ended well."""
        assert self.code == 0, (self.code, self.out, self.err)
        return self.out


Levelfield = Callable[..., Ended]

PICTURE = "photos/class 00/0.png"
# commands that read the folder of a study or of a run
COMMANDS = {
    "report": ["report", "STUDY"],
    "leaks": ["report", "STUDY", "--leaks"],
    "figure": ["report", "STUDY", "--figure", "distributions"],
    "evaluate": ["evaluate", "RUN"],
    "refine": ["evaluate", "RUN", "--refine", "kmeans:clusters=2"],
    "corrupt": ["corrupt", "RUN", "--only", "jpeg"],
    "threshold": ["threshold", "RUN", "--choose-on", "training"],
    "embed": ["embed", "RUN", "photos/class 00", "--out", "e.npy", "--force"],
    "search": ["search", "RUN", "--gallery", "photos/class 00", PICTURE],
    "export": ["export", "RUN", "--to", "safetensors", "--out", "exported"],
    "maps": ["maps", "RUN", "--image", PICTURE, "--out", "m.png"],
    "ensemble": ["ensemble", "RUN", "OTHER", "--out", "both"],
    "ranks": ["ranks", "STUDY"],
    "train": ["train", "STUDY/study.yaml", "--method", "contrastive"],
    "tune": ["tune", "STUDY/study.yaml", "--trials", "1"],
    "compare --trials": ["compare", "STUDY/study.yaml", "--trials", "1"],
    "compare": ["compare", "STUDY/study.yaml", "name=again"],
    "list": ["list", "methods"],
}


def placed(words: Sequence[str], places: Mapping[str, str]) -> list[str]:
    """The words of a command with the places of STUDY, RUN and OTHER."""
    parts = [word.partition("/") for word in words]
    return [places.get(first, first) + slash + rest for first, slash, rest in parts]
