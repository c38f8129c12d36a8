import subprocess
import sys
import time


def test_python_m_headtune_is_the_same_and_answers_at_once() -> None:
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "headtune", "--help"], capture_output=True, text=True, check=True)
    assert "Usage: headtune" in done.stdout
    assert time.perf_counter() - began < 5, "under a second on an idle machine; torch alone takes several"
    assert (
        subprocess.run([sys.executable, "-m", "headtune", "nothing"], capture_output=True, check=False).returncode == 2
    )
