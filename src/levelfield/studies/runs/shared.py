"""What runs of a process share, each made once: catalogs, folds, networks, and methods before training."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from levelfield import data
from levelfield.contexts import holding
from levelfield.data import Catalog, protocols
from levelfield.data.checks.readable import check_images, with_known_digests
from levelfield.errors import BadInput
from levelfield.progress import SILENT, Progress
from levelfield.studies.specification.choices import EMBEDDED, Data, ProtocolChoice
from levelfield.studies.specification.locations import within_root

if TYPE_CHECKING:
    from levelfield.methods import Method
    from levelfield.studies.runs.inputs import RunInputs


@dataclass
class SharedInputs:
    """Catalogs by data, folds by catalog and protocol, inputs, and methods that were built to check them."""

    catalogs: dict[str, Catalog] = field(default_factory=dict)
    folds: dict[tuple[str, str], list[protocols.Fold]] = field(default_factory=dict)
    inputs: dict[tuple[Any, ...], RunInputs] = field(default_factory=dict)
    methods: dict[str, Method] = field(default_factory=dict)  # by the identity of the run that will train them

    def open(self, choice: Data, progress: Progress) -> Catalog:
        key = choice.model_dump_json()
        if key not in self.catalogs:
            self.catalogs[key] = open_catalog(choice, progress=progress)
        return self.catalogs[key]

    def catalog(self, choice: Data, digest: str) -> Catalog:
        """The catalog of the plan; raises if its images have changed since."""
        key = choice.model_dump_json()
        catalog = self.catalogs.get(key)
        if catalog is None or digest not in ("", catalog.digest):
            catalog = open_catalog(choice, check="skip_unreadable" in choice.settings)
            if digest not in ("", catalog.digest):
                raise BadInput(
                    f"The images of '{choice.name}' are not those that the study began with: run the command "
                    "again, or give the right folder with --root."
                )
            self.catalogs[key] = catalog
        return catalog

    def divided(self, catalog: Catalog, protocol: ProtocolChoice) -> list[protocols.Fold]:
        key = (f"{catalog.name} {catalog.digest}", protocol.model_dump_json())
        if key not in self.folds:
            self.folds[key] = protocol.divide(catalog)
        return self.folds[key]

    def release(self) -> None:
        """Drop networks, features and methods; catalogs and folds are small."""
        self.inputs.clear()
        self.methods.clear()


_IN_USE: ContextVar[SharedInputs] = ContextVar("shared_inputs")
_OF_THE_PROCESS = SharedInputs()


def shared_inputs() -> SharedInputs:
    """Those of the study that this process carries out, or of the process itself."""
    return _IN_USE.get(_OF_THE_PROCESS)


def sharing(shared: SharedInputs) -> AbstractContextManager[None]:
    """Context in which `inputs_for` takes everything from `shared`."""
    return holding(_IN_USE, shared)


def open_catalog(choice: Data, *, check: bool = True, progress: Progress = SILENT) -> Catalog:
    """The catalog of a study. Unreadable images raise an error, or are skipped if the study says so."""
    settings = dict(choice.settings)
    skip = bool(settings.pop("skip_unreadable", False))
    catalog = data.create(choice.name, **settings)
    if outside := [path for path in catalog.paths if within_root(path) is not path]:
        raise BadInput(f"{outside[0]}, an image of '{choice.name}', is not in the folder of --root.")
    if choice.name == EMBEDDED:
        return catalog
    if not check:
        return with_known_digests(catalog)
    return check_images(catalog, skip_unreadable=skip, progress=progress)
