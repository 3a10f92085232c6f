"""New, replaced and removed models, noticed while the service runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from reticent.errors import NotDeployableError, ReticentError
from reticent.home import (
    ModelSettings,
    ServedModel,
    Settings,
    open_accounts,
    registry_of,
)
from reticent.service.service import Service
from reticent.storage import MANIFEST

log = logging.getLogger("reticent.service")

Mark: TypeAlias = tuple[ModelSettings, tuple[int, ...] | None]


class Reloading:
    """Keeps the served models those of the settings.

    Parameters
    ----------
    service : Service
        Whose models are kept up to date.
    read : callable
        Reads the settings again.
    served : mapping of str to tuple
        The marks of models as they were before they were loaded, see `marks_of`.

    Guarantee
    ---------
    A model is served only after every check that it would pass at a start: signature,
    hashes, certificate, budget, paid release. One that fails is refused with a line in
    the log, and what was served under its name stays in service. A request is answered
    and charged by the model that it found when it came.
    """

    def __init__(
        self, service: Service, read: Callable[[], Settings], served: Mapping[str, Mark]
    ) -> None:
        self._service = service
        self._read = read
        self._served = dict(served)
        # What was refused already, so that the log names it once.
        self._refused: dict[str, tuple[Any, ...]] = {}

    async def watch(self, seconds: float) -> None:
        """Look again and again, until the task is cancelled."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await asyncio.to_thread(self.look)
            except Exception as error:  # noqa: BLE001 - the next look may succeed
                fields = {"error": type(error).__name__}
                log.warning("models could not be checked", extra={"fields": fields})

    def look(self) -> list[str]:
        """Look once; return the names of models that changed."""
        try:
            settings = self._read()
        except (ReticentError, OSError):
            return []  # a file that is being written; the next look finds it whole
        found = marks_of(settings)
        gone = [name for name in self._served if name not in found]
        changed = [name for name, mark in found.items() if self._is_new(name, mark)]
        taken = [name for name in changed if self._take(name, settings)]
        self._drop(gone)
        self._served = {
            name: found[name] if name in taken else self._served[name]
            for name in found
            if name in taken or name in self._served
        }
        return [*taken, *gone]

    def _is_new(self, name: str, mark: Mark) -> bool:
        # Without a manifest the model is being replaced at this moment.
        return mark[1] is not None and mark != self._served.get(name)

    def _take(self, name: str, settings: Settings) -> bool:
        """Load a model and serve it from now on; say whether it was taken."""
        service = self._service
        tried = (marks_of(settings).get(name), settings.datasets)
        if tried == self._refused.get(name):
            return False
        try:
            fresh = registry_of({name: settings.load_model(name)}, settings)
            model = fresh.models[name]
            # A model that is free has no charge, and so no relation of its own.
            charged = model.charge is not None or model.lasting is not None
            if charged and fresh.relation != service.registry.relation:
                raise NotDeployableError(
                    f"model {name!r} is charged under the relation "
                    f"{fresh.relation!r}, the others under "
                    f"{service.registry.relation!r}. Serve it separately."
                )
            fresh.relation = service.registry.relation
            open_accounts(service.ledger, fresh, settings)
        except ReticentError as error:
            self._refused[name] = tried
            fields = {"model": name, "reason": str(error)}
            log.warning("model not reloaded", extra={"fields": fields})
            return False
        self._refused.pop(name, None)
        self._put(name, model)
        return True

    def _put(self, name: str, model: ServedModel) -> None:
        registry = self._service.registry
        # A new table, so that whoever goes through the old one is not disturbed.
        registry.models = {**registry.models, name: model}
        fields = {"model": name, "version": model.stored.id}
        log.info("model loaded", extra={"fields": fields})

    def _drop(self, names: list[str]) -> None:
        if not names:
            return
        registry = self._service.registry
        registry.models = {
            name: model for name, model in registry.models.items() if name not in names
        }
        log.info("models removed", extra={"fields": {"models": names}})


@contextlib.asynccontextmanager
async def reloaded(
    service: Service, read: Callable[[], Settings], served: Mapping[str, Mark]
) -> AsyncIterator[Reloading | None]:
    """Keep models up to date while a service runs, if its settings say so."""
    seconds = service.settings.reload_seconds
    if not seconds:
        yield None
        return
    reloading = Reloading(service, read, served)
    task = asyncio.create_task(reloading.watch(seconds))
    try:
        yield reloading
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def marks_of(settings: Settings) -> dict[str, Mark]:
    """Return what changes when a model is replaced or set up in another way."""
    return {
        name: (model, _file_mark(model.path / MANIFEST))
        for name, model in settings.models.items()
    }


def _file_mark(path: Path) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
