import subprocess
import sys
from types import SimpleNamespace

from eval.manifest import hardware

RACE = """
import sys, threading
from eval.manifest import hardware
loading = threading.Thread(target=__import__, args=("torch",))
loading.start()
while "torch" not in sys.modules:
    pass
print(hardware()["gpus"] == [] or "a card")
loading.join()
"""


def test_cards_are_named_once_torch_is_there(monkeypatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert hardware()["gpus"] == []
    cuda = SimpleNamespace(
        is_available=lambda: True, device_count=lambda: 2, get_device_name=lambda i: f"card {i}"
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert hardware()["gpus"] == ["card 0", "card 1"]


def test_a_torch_that_another_thread_is_loading_is_waited_for() -> None:
    done = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("True", "a card")
