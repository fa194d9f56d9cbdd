"""The examples of the guide for models run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "MODELS.md"


def test_the_examples_of_the_guide_for_models_run(tmp_path: Path) -> None:
    text = GUIDE.read_text(encoding="utf-8")
    shown = []
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL)):
        example = tmp_path / f"example_{number}.py"
        example.write_text(code.replace("sk-…", "sk-1234").replace("AIza…", "AIza1234"), encoding="utf-8")
        done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=250, check=False)
        assert done.returncode == 0, done.stderr
        shown.append(done.stdout.strip())
    assert shown == ["", "completed You said: Hello!", ""]
