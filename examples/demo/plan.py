"""What a run of the demo will do: sizes and schedule, written by the driver, read by every rank."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run. Token counts are per micro-batch and rank; a step has `accumulation` of them."""

    stage: int
    world_size: int
    steps: int
    micro_batch: int = 8
    accumulation: int = 2
    learning_rate: float
    warmup_steps: int
    evaluation_windows: int
    sample_bytes: int
    context: int = 128
    width: int = 192
    heads: int = 6
    layers: int = 4
    seed: int = 0

    @classmethod
    def make(cls, *, stage: int, world_size: int, short: bool) -> Self:
        """The plan for this many ranks: about three minutes on two CPU cores, or half a minute."""
        batch = 8 * world_size  # evaluation gives every rank the same number of full micro-batches
        return cls(
            stage=stage,
            world_size=world_size,
            steps=40 if short else 320,
            learning_rate=1e-3 if short else 2e-3,
            warmup_steps=5 if short else 30,
            evaluation_windows=-(-(64 if short else 512) // batch) * batch,
            sample_bytes=120 if short else 400,
        )

    @classmethod
    def read(cls, path: Path) -> Self:
        """The plan that `write` left."""
        return cls(**json.loads(path.read_text()))

    def write(self, path: Path) -> None:
        """Keeps the plan as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @property
    def tokens_per_step(self) -> int:
        """Bytes of text that all ranks together see in one step."""
        return self.world_size * self.accumulation * self.micro_batch * self.context

    def engine_config(self) -> dict[str, Any]:
        """Shoal's configuration: bf16 compute with float32 masters are its defaults."""
        return {
            "train_micro_batch_size_per_gpu": self.micro_batch,
            "gradient_accumulation_steps": self.accumulation,
            "gradient_clipping": 1.0,
            "optimizer": {
                "type": "AdamW",
                "params": {"lr": self.learning_rate, "betas": [0.9, 0.95], "weight_decay": 0.1},
            },
            "scheduler": {
                "type": "WarmupCosineLR",
                "params": {
                    "total_num_steps": self.steps,
                    "warmup_num_steps": self.warmup_steps,
                    "warmup_type": "linear",
                    "cos_min_ratio": 0.1,
                },
            },
            "zero_optimization": {"stage": self.stage},
            "shoal": {"compute_dtype": "bfloat16", "timeout_s": 120},
        }
