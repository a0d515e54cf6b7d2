"""AdamW on the CPU: Shoal's flat update against torch's fused and foreach and DeepSpeed's CPUAdam.

Two jobs. `plain`: float32 masters and gradients. `mixed`: bfloat16 gradients, the global norm,
clipping, float32 masters, the bfloat16 copy (Shoal: one pass for the norm, one for the rest; torch:
cast, clip_grad_norm_, step, copy; CPUAdam: not measured). Each on `large` (4 tensors) and `many`
(1,024 tensors of 1 k to 7 k elements): 16 M and 4 M elements. The limit is the STREAM triad of this
process (torch.add with alpha and out), in the bytes that the algorithm names: 24 per element.

JSON keys: `threads`, `rounds`, `triad_gb_s`; for each job and shape `<job>_<shape>_shoal_ms`,
`_torch_fused_ms`, `_torch_foreach_ms`, `_deepspeed_ms` (plain only; null if absent) and
`ratio_<peer>_<job>_<shape>` = peer time / Shoal time; `shoal_pct_triad_<job>_large` = Shoal's bytes
per second (28 per element in both jobs, plus 2 for the norm in mixed) in percent of the triad's.
"""

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from _common import Sample, finish, measured_by_peer, parser, ratio, say, shown, table

LR, WEIGHT_DECAY = 1e-3, 0.1
TRIAD_ELEMENTS = 1 << 24
SHAPES = {
    "large": [1 << 22] * 4,
    "many": [1024 + 2048 * (i % 4) for i in range(1024)],
}
BYTES = {"plain": 28, "mixed": 30}  # per element
BLOCKS = 3
PEERS = ("torch_fused", "torch_foreach", "deepspeed")
Run = Callable[[], object]
Times = dict[str, list[float]]


def tensors(sizes: list[int], dtype: torch.dtype) -> list[torch.Tensor]:
    """One small random tensor per size."""
    return [torch.randn(size).mul_(1e-3).to(dtype) for size in sizes]


def shoal_run(job: str, sizes: list[int]) -> Run:
    """Shoal's update of flat buffers."""
    from shoal import _core

    low = torch.float32 if job == "plain" else torch.bfloat16
    name = str(low).removeprefix("torch.")
    masters, grads = tensors(sizes, torch.float32), tensors(sizes, low)
    states = [[torch.zeros_like(master) for master in masters] for _ in range(2)]
    copies = None if job == "plain" else tensors(sizes, low)
    hyper = _core.OptimizerHyper("AdamW")
    hyper.lr, hyper.weight_decay = LR, WEIGHT_DECAY
    executor = _core.Executor(torch.get_num_threads())
    ranges = [
        _core.OptimizerRange(
            size,
            grad=grads[i].data_ptr(),
            grad_dtype=name,
            master=masters[i].data_ptr(),
            master_dtype="float32",
            state0=states[0][i].data_ptr(),
            state1=states[1][i].data_ptr(),
            compute=0 if copies is None else copies[i].data_ptr(),
        )
        for i, size in enumerate(sizes)
    ]
    kept = (masters, grads, states, copies)

    def run() -> object:
        scale = 1.0
        if job == "mixed":
            squares = sum(
                _core.sum_of_squares(
                    grad.data_ptr(), dtype=name, numel=grad.numel(), executor=executor
                )
                for grad in grads
            )
            scale = min(1.0, 1.0 / (squares**0.5 + 1e-6))
        _core.optimizer_step(hyper, step=10, grad_scale=scale, ranges=ranges, executor=executor)
        return kept

    return run


def torch_run(job: str, sizes: list[int], **which: bool) -> Run:
    """torch.optim.AdamW over one parameter per tensor."""
    parameters = [torch.nn.Parameter(tensor) for tensor in tensors(sizes, torch.float32)]
    optimizer = torch.optim.AdamW(parameters, lr=LR, weight_decay=WEIGHT_DECAY, **which)
    if job == "plain":
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter).mul_(1e-3)
        return optimizer.step
    grads, copies = tensors(sizes, torch.bfloat16), tensors(sizes, torch.bfloat16)

    def run() -> None:
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter.grad = grad.float()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        torch._foreach_copy_(copies, [parameter.detach() for parameter in parameters])

    return run


def triad_run() -> Run:
    """a = b + 3 c in float64."""
    a, b, c = (torch.zeros(TRIAD_ELEMENTS, dtype=torch.float64) for _ in range(3))
    return lambda: torch.add(b, c, alpha=3.0, out=a)


def timed(run: Run) -> float:
    """Milliseconds of one call."""
    begin = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - begin)


def interleaved(runs: dict[str, Run], rounds: int) -> Times:
    """Milliseconds of each run, in turn, after one unmeasured round."""
    times: Times = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(timed(run))
    return times


def peer_main(rounds: int) -> None:
    """In the peers' environment: CPUAdam's times per shape, as JSON."""
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    times = {}
    for shape, sizes in SHAPES.items():
        parameters = [torch.nn.Parameter(tensor) for tensor in tensors(sizes, torch.float32)]
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter).mul_(1e-3)
        optimizer = DeepSpeedCPUAdam(parameters, lr=LR, weight_decay=WEIGHT_DECAY)
        times[shape] = interleaved({"deepspeed": optimizer.step}, rounds)["deepspeed"]
    say(json.dumps(times))


def measure(job: str, shape: str, rounds: int) -> Times:
    """All sides of this process on one job and shape, and the triad."""
    sizes = SHAPES[shape]
    runs = {
        "shoal": shoal_run(job, sizes),
        "torch_fused": torch_run(job, sizes, fused=True),
        "torch_foreach": torch_run(job, sizes, foreach=True),
        "triad": triad_run(),
    }
    return interleaved(runs, rounds)


def collect(rounds: int, threads: int) -> dict[tuple[str, str], Times]:
    """Times by job and shape; the peer's process takes turns with this one, BLOCKS times."""
    found: dict[tuple[str, str], Times] = {}
    each = max(1, rounds // BLOCKS)
    flags = ["--peer", "--rounds", str(each), "--threads", str(threads)]
    for _ in range(BLOCKS):
        deepspeed = measured_by_peer(__file__, *flags, threads=threads)
        for job in ("plain", "mixed"):
            for shape in SHAPES:
                times = measure(job, shape, each)
                if deepspeed is not None and job == "plain":
                    times["deepspeed"] = deepspeed[shape]
                known = found.setdefault((job, shape), {})
                for name, values in times.items():
                    known.setdefault(name, []).extend(values)
    return found


def main() -> None:
    """Measures and reports."""
    options = parser(__doc__ or "")
    options.add_argument("--threads", type=int, default=torch.get_num_threads())
    options.add_argument("--peer", action="store_true", help="in the peers' environment")
    arguments = options.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.peer:
        peer_main(arguments.rounds)
        return
    result: dict[str, Any] = {"threads": arguments.threads, "rounds": arguments.rounds}
    rows, triads = [], []
    for (job, shape), times in collect(arguments.rounds, arguments.threads).items():
        samples = {name: Sample.of(values) for name, values in times.items()}
        own, triad = samples["shoal"].median, samples["triad"].median
        triads.append(triad)
        result[f"{job}_{shape}_shoal_ms"] = round(own, 3)
        cells = [shown(own)]
        for peer in PEERS:
            value = samples[peer].median if peer in samples else None
            result[f"{job}_{shape}_{peer}_ms"] = None if value is None else round(value, 3)
            result[f"ratio_{peer}_{job}_{shape}"] = ratio(value, own)
            cells.append(shown(value))
        speed = BYTES[job] * sum(SHAPES[shape]) / own
        percent = 100 * speed / (24 * TRIAD_ELEMENTS / triad)
        if shape == "large":
            result[f"shoal_pct_triad_{job}_large"] = round(percent, 1)
        rows.append((f"{job}, {shape}", *cells, shown(samples["shoal"].spread), shown(percent, 0)))
    result["triad_gb_s"] = round(24 * TRIAD_ELEMENTS / statistics.median(triads) / 1e6, 2)
    heads = ("milliseconds", "shoal", "fused", "foreach", "deepspeed", "spread", "% of triad")
    table(heads, rows)
    say(f"triad: {result['triad_gb_s']} GB/s, {arguments.threads} threads")
    finish(result, as_json=arguments.json)


if __name__ == "__main__":
    main()
