"""What `import shoal` costs above `import torch`, and the time to the first step of a small engine.

JSON keys: `own_ms` (import shoal after torch), `torch_ms` (import torch), `deepspeed_ms` (import
deepspeed after torch; null if `make peers` was not run), `ratio_deepspeed`, `first_step_ms`
(building an engine of one rank around a small model and stepping once), `rounds`. Every round is a
new process.
"""

import json
import subprocess
import sys
from typing import Any

from _common import (
    PEERS_PYTHON,
    Sample,
    environment,
    finish,
    parser,
    ratio,
    shown,
    table,
)

IMPORT = """
import json, time
t0 = time.perf_counter()
import torch
t1 = time.perf_counter()
import {module}
t2 = time.perf_counter()
print(json.dumps({{"torch": 1e3 * (t1 - t0), "own": 1e3 * (t2 - t1)}}))
"""

FIRST_STEP = """
import json, time
import torch, shoal
torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(8)))
config = {"train_micro_batch_size_per_gpu": 1, "shoal": {"compute_dtype": "float32"},
          "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}}
began = time.perf_counter()
with shoal.Engine(model, config=config, mesh=shoal.Mesh(dp=1)) as engine:
    engine.backward(engine(torch.ones(4, 256)).square().mean())
    engine.step()
print(json.dumps({"first": 1e3 * (time.perf_counter() - began)}))
"""


def run(python: str, code: str) -> dict[str, Any]:
    """The JSON that a fresh process writes."""
    done = subprocess.run(
        [python, "-c", code], env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"the measured process failed:\n{done.stderr[-4000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.rstrip().splitlines()[-1])
    return answer


def has_deepspeed() -> bool:
    """Whether the peers' environment is there and holds DeepSpeed."""
    if not PEERS_PYTHON.exists():
        return False
    probe = "import importlib.util as u, json; print(json.dumps(bool(u.find_spec('deepspeed'))))"
    return bool(run(str(PEERS_PYTHON), probe))


def main() -> None:
    """Measures and reports."""
    arguments = parser(__doc__ or "").parse_args()
    peer = has_deepspeed()
    values: dict[str, list[float]] = {"shoal": [], "torch": [], "deepspeed": [], "first step": []}
    run(sys.executable, IMPORT.format(module="shoal"))  # fills the page cache and __pycache__
    for _ in range(arguments.rounds):
        found = run(sys.executable, IMPORT.format(module="shoal"))
        values["shoal"].append(found["own"])
        values["torch"].append(found["torch"])
        values["first step"].append(run(sys.executable, FIRST_STEP)["first"])
        if peer:
            found = run(str(PEERS_PYTHON), IMPORT.format(module="deepspeed"))
            values["deepspeed"].append(found["own"])
    samples = {name: Sample.of(times) if times else None for name, times in values.items()}
    rows = [
        (
            name,
            shown(None if sample is None else sample.median),
            shown(None if sample is None else sample.spread),
        )
        for name, sample in samples.items()
    ]
    table(("milliseconds", "median", "spread"), rows)
    medians = {
        name: None if sample is None else round(sample.median, 2)
        for name, sample in samples.items()
    }
    result = {
        "own_ms": medians["shoal"],
        "torch_ms": medians["torch"],
        "deepspeed_ms": medians["deepspeed"],
        "ratio_deepspeed": ratio(medians["deepspeed"], medians["shoal"] or float("nan")),
        "first_step_ms": medians["first step"],
        "rounds": arguments.rounds,
    }
    finish(result, as_json=arguments.json)


if __name__ == "__main__":
    main()
