"""Downloading one file: resumed where it broke off, verified, and put in place in one step.

Bytes go to `<file>.part` beside the target. Only a whole file of the right checksum is renamed; a
`.part` stays behind where, and only where, the same command can go on from it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from memsys.datasets.files import hash_file
from memsys.datasets.manifest import FileSource
from memsys.errors import UserError

Progress = Callable[[int, int | None], None]
"""Called with the bytes on disk and the bytes expected, if known."""

TRIES = 4
TIMEOUT = httpx.Timeout(30.0)


class NoNetwork(UserError):
    """The source cannot be reached at all."""


def silent(done: int, total: int | None) -> None:
    """Report no progress."""


def download(file: FileSource, target: Path, progress: Progress = silent) -> None:
    """Bring `file` to `target`, or raise a `UserError` (`NoNetwork` if the source is unreachable).

    A file of unknown checksum is only checked not to be a web page.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    try:
        if file.url is None:
            _from_hub(file, part)
        else:
            _from_url(file.url, file, part, progress)
        _verify(file, part)
        part.replace(target)
    except NoNetwork:
        with contextlib.suppress(OSError):
            target.parent.rmdir()  # only if nothing is in it
            target.parent.parent.rmdir()
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(
                f"the disk is full: {target} needs {_missing(file, part)} more; make room and run "
                "the same command to go on."
            ) from None
        raise UserError(f"{target} cannot be written ({error.strerror or error}).") from None


def _from_url(url: str, file: FileSource, part: Path, progress: Progress) -> None:
    """Fetch by HTTP, going on from what is there after every break."""
    cause: Exception | None = None
    for attempt in range(TRIES):
        before = _size(part)
        if file.size is not None and before == file.size:
            return
        try:
            if _stream(url, file, part, progress):
                return
            cause = None
        except httpx.HTTPStatusError as error:
            raise UserError(f"{url} answered {error.response.status_code}.") from None
        except httpx.TransportError as error:
            cause = error
        if _size(part) == before:
            time.sleep(0.2 * 2**attempt)
    if isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout) and not _size(part):
        raise NoNetwork(f"{url} cannot be reached ({cause or type(cause).__name__}).")
    raise UserError(
        f"{url} broke off after {_size(part):,} of {file.size or 0:,} bytes; run the same command "
        "to go on from there."
    )


def _stream(url: str, file: FileSource, part: Path, progress: Progress) -> bool:
    """Append to `part` what the server sends, and tell whether the file is whole."""
    start = _size(part)
    headers = {"Range": f"bytes={start}-"} if start else {}
    # the checksum is of the plain bytes: no transfer compression, so that ranges fit too
    headers["Accept-Encoding"] = "identity"
    with httpx.stream("GET", url, headers=headers, timeout=TIMEOUT, follow_redirects=True) as reply:
        if reply.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink()  # longer than the file: it is none of it
            return False
        reply.raise_for_status()
        if "html" in reply.headers.get("content-type", ""):
            raise UserError(f"{url} answered with a web page instead of the file.")
        resumed = reply.status_code == httpx.codes.PARTIAL_CONTENT
        with part.open("ab" if resumed else "wb") as stream:
            # in the pieces that arrive: a larger one would be lost when the connection breaks
            for block in reply.iter_bytes():
                stream.write(block)
                progress(stream.tell(), file.size)
            stream.flush()
            os.fsync(stream.fileno())
    return file.size is None or _size(part) >= file.size


def _verify(file: FileSource, part: Path) -> None:
    """Refuse, and remove, what is not the published file."""
    with part.open("rb") as stream:
        is_page = stream.read(64).lstrip()[:1] == b"<"
    size, digest = _size(part), hash_file(part)
    wrong = (file.size is not None and size != file.size) or (
        file.sha256 is not None and digest != file.sha256
    )
    if is_page:
        part.unlink()
        raise UserError(f"{file.origin} sent a web page instead of {file.path}.")
    if wrong:
        part.unlink()
        raise UserError(
            f"{file.origin} sent {size:,} bytes with sha256 {digest[:16]}…, not {file.path} as "
            f"published ({file.size or 0:,} bytes, {(file.sha256 or '')[:16]}…); nothing was kept."
        )


def _from_hub(file: FileSource, part: Path) -> None:
    """Fetch from the Hugging Face hub, whose client resumes and shows progress by itself."""
    import huggingface_hub as hub
    from huggingface_hub import constants, errors

    folder = part.with_suffix(".hub")
    repository = file.hub or ""
    known: dict[str, Any] = {"repo_type": "dataset", "revision": file.revision}
    try:
        # the hub's client would retry for half a minute before it says that there is no network
        httpx.head(constants.ENDPOINT, timeout=TIMEOUT)
        name = file.file or _only_data_file(hub.list_repo_files(repository, **known), file)
        got = hub.hf_hub_download(repository, name, local_dir=folder, **known)
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled, httpx.TransportError) as e:
        raise NoNetwork(f"{file.origin} cannot be reached ({type(e).__name__}).") from None
    except errors.HfHubHTTPError as error:
        raise UserError(f"{file.origin} answered: {error}.".replace("\n", " ")) from None
    Path(got).replace(part)
    shutil.rmtree(folder, ignore_errors=True)


def _only_data_file(names: list[str], file: FileSource) -> str:
    """Return the one data file of a hub repository whose file name we do not know."""
    suffixes = {Path(name).suffix for name in (file.path, *file.also)}
    data = [name for name in names if Path(name).suffix in suffixes]
    if len(data) != 1:
        raise UserError(
            f"{file.origin}: expected one data file, found {', '.join(data) or 'none'}; download "
            f"the right one by hand as {file.path}."
        )
    return data[0]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _missing(file: FileSource, part: Path) -> str:
    if file.size is None:
        return "space"
    return f"{max(file.size - _size(part), 0) / 1e6:,.1f} MB"
