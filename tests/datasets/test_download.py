"""The downloader against a loopback server with faults."""

from __future__ import annotations

import errno
import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from memsys.datasets import download as module
from memsys.datasets.download import NoNetwork, download
from memsys.datasets.manifest import FileSource
from memsys.errors import UserError

CONTENT = bytes(range(256)) * 4000


class Server(ThreadingHTTPServer):
    """Serves CONTENT; `fault` says how it misbehaves, `ranges` what was asked for."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.fault = ""
        self.body = CONTENT
        self.ranges: list[str | None] = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/data.json"


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        server = self.server
        wanted = self.headers.get("Range")
        server.ranges.append(wanted)
        start = 0
        if wanted and server.fault != "ignores ranges":
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(server.body):
                self.send_response(416)
                self.end_headers()
                return
        if server.fault == "missing":
            self.send_error(404)
            return
        self.send_response(206 if start else 200)
        kind = "text/html" if server.fault == "html" else "application/octet-stream"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(server.body) - start))
        self.end_headers()
        part = server.body[start:]
        if server.fault == "breaks" or (server.fault == "breaks once" and len(server.ranges) == 1):
            part = part[: len(part) // 3]
        if server.fault == "stalls":
            part = part[:0] if start else part[:1000]
        self.wfile.write(part)
        self.close_connection = True


@pytest.fixture
def server():
    running = Server()
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module.time, "sleep", lambda _: None)


@pytest.fixture
def target(tmp_path):
    return tmp_path / "set" / "data.json"


def card(server, content=CONTENT, **more):
    known = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()} | more
    return FileSource(key="f", path="data.json", url=server.url, **known)


def left(target: Path) -> list[str]:
    return sorted(p.name for p in target.parent.iterdir()) if target.parent.exists() else []


def test_a_file_arrives_with_progress(server, target):
    seen = []
    download(card(server), target, lambda done, total: seen.append((done, total)))
    assert target.read_bytes() == CONTENT
    assert left(target) == ["data.json"]
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [d for d, _ in seen] == sorted(d for d, _ in seen)


def test_a_broken_download_goes_on_where_it_stopped(server, target):
    server.fault = "breaks once"
    download(card(server), target)
    assert target.read_bytes() == CONTENT
    assert server.ranges == [None, f"bytes={len(CONTENT) // 3}-"]


def test_what_an_earlier_command_left_is_used(server, target):
    server.fault = "stalls"
    with pytest.raises(UserError, match="broke off after 1,000 of 1,024,000 bytes") as error:
        download(card(server), target)
    assert "run the same command to go on" in str(error.value)
    assert left(target) == ["data.json.part"]
    server.fault, server.ranges = "", []
    download(card(server), target)
    assert server.ranges == ["bytes=1000-"]
    assert target.read_bytes() == CONTENT
    assert left(target) == ["data.json"]


def test_a_server_that_ignores_ranges_starts_anew(server, target):
    target.parent.mkdir()
    target.with_name("data.json.part").write_bytes(b"old")
    server.fault = "ignores ranges"
    download(card(server), target)
    assert target.read_bytes() == CONTENT


def test_a_part_longer_than_the_file_is_dropped(server, target):
    target.parent.mkdir()
    target.with_name("data.json.part").write_bytes(CONTENT + b"more")
    download(card(server), target)
    assert target.read_bytes() == CONTENT


def test_a_whole_part_needs_no_call(server, target):
    target.parent.mkdir()
    target.with_name("data.json.part").write_bytes(CONTENT)
    download(card(server), target)
    assert server.ranges == []
    assert target.read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing(server, target):
    server.body = CONTENT[:-1] + b"!"
    with pytest.raises(UserError, match="nothing was kept"):
        download(card(server), target)
    assert left(target) == []


def test_a_wrong_checksum_never_replaces_a_good_file(server, target):
    target.parent.mkdir()
    target.write_bytes(b"good")
    server.body = CONTENT[:-1] + b"!"
    with pytest.raises(UserError):
        download(card(server), target)
    assert target.read_bytes() == b"good"


@pytest.mark.parametrize("declared", ["html", ""])
def test_a_web_page_is_refused(server, target, declared):
    server.fault = declared
    server.body = b"<!DOCTYPE html><title>Sign in</title>"
    with pytest.raises(UserError, match="web page"):
        download(card(server, size=None, sha256=None), target)
    assert left(target) == []


def test_a_file_of_unknown_size_and_checksum(server, target):
    download(card(server, size=None, sha256=None), target)
    assert target.read_bytes() == CONTENT


def test_an_error_status(server, target):
    server.fault = "missing"
    with pytest.raises(UserError, match="answered 404"):
        download(card(server), target)
    assert left(target) == []


def test_a_full_disk_keeps_what_can_be_resumed(server, target, monkeypatch):
    original = Path.open

    class Full:
        def __init__(self, stream):
            self.stream = stream

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.stream.close()

        def write(self, block):
            if self.stream.tell() + len(block) > 300_000:
                self.stream.write(block[: 300_000 - self.stream.tell()])
                self.stream.flush()
                raise OSError(errno.ENOSPC, "No space left on device")
            return self.stream.write(block)

        def __getattr__(self, name):
            return getattr(self.stream, name)

    def opened(self, mode="r", *args, **kwargs):
        stream = original(self, mode, *args, **kwargs)
        return Full(stream) if self.suffix == ".part" and mode in ("ab", "wb") else stream

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", opened)
        with pytest.raises(UserError, match="the disk is full") as error:
            download(card(server), target)
    assert "0.7 MB more" in str(error.value)
    assert left(target) == ["data.json.part"]
    download(card(server), target)
    assert target.read_bytes() == CONTENT


def test_no_network_leaves_no_folder(tmp_path):
    target = tmp_path / "set" / "data" / "data.json"
    nowhere = FileSource(key="f", path="data.json", url="http://127.0.0.1:9/x", size=1, sha256="0")
    with pytest.raises(NoNetwork, match="cannot be reached"):
        download(nowhere, target)
    assert not (tmp_path / "set").exists()


# ------------------------------------------------------------------ the hub


class Hub:
    """Stands in for huggingface_hub: the real client's two calls, against a folder."""

    def __init__(self, folder, names):
        self.folder, self.names, self.calls = folder, names, []

    def list_repo_files(self, repo, **known):
        self.calls.append(("list", repo, known))
        return self.names

    def hf_hub_download(self, repo, name, *, local_dir, **known):
        self.calls.append(("get", repo, name, known))
        path = Path(local_dir) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(CONTENT)
        return str(path)


@pytest.fixture
def hub(monkeypatch, tmp_path):
    import huggingface_hub

    fake = Hub(tmp_path, ["README.md", ".gitattributes", "data/test.json"])
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fake.hf_hub_download)
    monkeypatch.setattr(huggingface_hub, "list_repo_files", fake.list_repo_files)
    monkeypatch.setattr(module.httpx, "head", lambda *_, **__: None)
    return fake


def test_hub_files_are_verified_and_moved(hub, target):
    digest = hashlib.sha256(CONTENT).hexdigest()
    file = FileSource(
        key="s", path="data.json", hub="a/b", revision="abc", file="data.json", sha256=digest
    )
    download(file, target)
    assert hub.calls == [("get", "a/b", "data.json", {"repo_type": "dataset", "revision": "abc"})]
    assert target.read_bytes() == CONTENT
    assert left(target) == ["data.json"]
    with pytest.raises(UserError, match="nothing was kept"):
        download(file.model_copy(update={"sha256": "0" * 64}), target.with_name("other.json"))
    assert left(target) == ["data.json"]


def test_a_hub_file_of_unknown_name_is_the_only_data_file(hub, target):
    file = FileSource(key="s", path="data.json", hub="a/b")
    download(file, target)
    assert hub.calls[1][2] == "data/test.json"
    hub.names.append("data/more.json")
    with pytest.raises(UserError, match="expected one data file"):
        download(file, target)


def test_an_unreachable_hub(monkeypatch, target):
    def refuse(*_, **__):
        raise module.httpx.ConnectError("no route")

    monkeypatch.setattr(module.httpx, "head", refuse)
    with pytest.raises(NoNetwork, match="a/b"):
        download(FileSource(key="s", path="data.json", hub="a/b", file="x"), target)
    assert not target.parent.exists()


# ------------------------------------------------------------------ scripts/fetch.py


@pytest.fixture
def fetch(fetch_script, monkeypatch, tmp_path):
    monkeypatch.delenv("MEMSYS_DATA", raising=False)
    monkeypatch.setattr(fetch_script, "search_folders", lambda _: [])
    return lambda *names: fetch_script.main([*names, "--to", str(tmp_path / "to")])


def test_fetch_says_what_to_do_by_hand(fetch, fetch_script, monkeypatch, capsys, tmp_path):
    def refuse(file, target, progress):
        raise NoNetwork(f"{file.origin} cannot be reached.")

    monkeypatch.setattr(fetch_script, "download", refuse)
    assert fetch("locomo", "longmemeval-s") == 2
    out, err = capsys.readouterr()
    assert "data/locomo10.json\n" in out
    assert (
        f"-> {tmp_path / 'to' / 'locomo' / 'locomo10.json'} (2,805,274 bytes, sha256 79fa87e9"
        in out
    )
    assert "xiaowu0162/longmemeval, file longmemeval_s" in out
    assert "CC BY-NC 4.0" in err


def test_fetch_downloads_into_the_benchmarks_folder(fetch, fetch_script, monkeypatch, tmp_path):
    got = []
    monkeypatch.setattr(fetch_script, "download", lambda file, target, progress: got.append(target))
    assert fetch("gvd", "longmemeval-m", "locomo-audit", "--release", "cleaned") == 0
    names = [str(path.relative_to(tmp_path / "to")) for path in got]
    assert names == [
        "gvd/en/memory_bank_en.json",
        "gvd/en/probing_questions_en.jsonl",
        "gvd/cn/memory_bank_cn.json",
        "gvd/cn/probing_questions_cn.jsonl",
        "longmemeval/longmemeval_m_cleaned.json",
        "locomo/label_audit/errors.json",
    ]


def test_fetch_refuses_unknown_names(fetch):
    with pytest.raises(UserError, match="Did you mean 'locomo'"):
        fetch("locmo")
    with pytest.raises(UserError, match="no release 'clean'. Did you mean 'cleaned'"):
        fetch("longmemeval-s", "--release", "clean")


def test_fetch_uses_what_is_here_and_refuses_what_is_wrong(fetch_script, monkeypatch, tmp_path):
    monkeypatch.setenv("MEMSYS_DATA", str(tmp_path))
    (tmp_path / "locomo").mkdir()
    (tmp_path / "locomo" / "locomo10.json").write_text("[]")
    with pytest.raises(UserError, match="broke off"):
        fetch_script.main(["locomo"])


@pytest.mark.data
def test_fetch_reports_files_that_are_here(fetch_script, real, capsys):
    path = real("locomo/locomo10.json")
    assert fetch_script.main(["locomo"]) == 0
    assert f"already at {path} (verified), used in place" in capsys.readouterr().err
