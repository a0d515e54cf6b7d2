"""The user's face of Config; the rules themselves are tested in src/shoal/config/*_test.cc."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from shoal import _core
from shoal.config import Config, explain, load
from shoal.mesh import Mesh

ROOT = Path(__file__).resolve().parents[3]
FIELD = ROOT / "tests" / "data" / "configs"

FULL: dict[str, Any] = {
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 3,
    "gradient_clipping": 1.0,
    "steps_per_print": 10,
    "optimizer": {
        "type": "AdamW",
        "params": {"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1},
    },
    "scheduler": {
        "type": "WarmupCosineLR",
        "params": {
            "total_num_steps": 100,
            "warmup_num_steps": 10,
            "warmup_min_ratio": 0.0,
            "cos_min_ratio": 0.1,
            "warmup_type": "linear",
        },
    },
    "zero_optimization": {"stage": 3},
    "shoal": {
        "mesh": {"dp": [2, 3]},
        "compute_dtype": "float32",
        "reduce_dtype": "float64",
        "accumulate_dtype": "float64",
        "reduce_group": "shared",
        "accumulate": "unreduced",
        "deterministic": True,
        "non_finite": "raise",
        "timeout_s": 60,
        "debug": True,
    },
}


def test_every_value_of_a_dict_arrives() -> None:
    config = Config.from_dict(FULL)
    assert config.source == "dict"
    assert config.dialect == "shoal"
    assert config.zero_stage == 3
    assert config.compute_dtype is torch.float32
    assert config.master_dtype is torch.float32
    assert config.reduce_dtype is torch.float64
    assert config.accumulate_dtype is torch.float64
    assert config.reduce_group == "shared"
    assert config.accumulate == "unreduced"
    assert config.deterministic
    assert config.non_finite == "raise"
    assert config.timeout_s == 60.0
    assert config.debug
    assert config.gradient_clipping == 1.0
    assert config.steps_per_print == 10
    assert config.mesh == Mesh(dp=(2, 3))
    assert config.notes == ()
    optimizer = config.optimizer
    assert (optimizer.kind, optimizer.lr, optimizer.weight_decay) == ("AdamW", 1e-3, 0.1)
    assert (optimizer.beta1, optimizer.beta2, optimizer.eps) == (0.9, 0.95, 1e-8)
    assert optimizer.decoupled_weight_decay and optimizer.bias_correction
    scheduler = config.scheduler
    assert (scheduler.kind, scheduler.total_num_steps) == ("WarmupCosineLR", 100)
    assert (scheduler.warmup_num_steps, scheduler.cos_min_ratio) == (10, 0.1)
    assert not scheduler.warmup_log


def test_batch_completes_the_triple() -> None:
    sizes = Config.from_dict(FULL).batch(2)
    assert (sizes.train_batch, sizes.micro_batch, sizes.accumulation) == (24, 4, 3)


def test_batch_names_origin_and_nearest_triples() -> None:
    config = Config.from_dict({"train_batch_size": 400})
    with pytest.raises(_core.ConfigError, match=r"from torchrun.*399 = 133 x 1 x 3"):
        config.batch(3, origin="torchrun")


def test_defaults_of_both_dialects() -> None:
    shoal = Config.from_dict({"shoal": {}})
    assert (shoal.compute_dtype, shoal.gradient_clipping) == (torch.bfloat16, 0.0)
    assert shoal.mesh == Mesh()
    deepspeed = Config.from_dict({"train_batch_size": 8})
    assert deepspeed.dialect == "deepspeed"
    assert (deepspeed.compute_dtype, deepspeed.gradient_clipping) == (torch.float32, 1.0)
    assert any("DeepSpeed's default" in note for note in deepspeed.notes)


def test_dtypes_of_torch_are_values() -> None:
    config = Config.from_dict({"shoal": {"compute_dtype": torch.float64}})
    assert config.compute_dtype is torch.float64
    assert config.master_dtype is torch.float64


def test_faults_of_a_dict_come_in_one_report_without_places() -> None:
    with pytest.raises(_core.ConfigError) as caught:
        load({"zero_optimization": {"stagee": 1}, "gradient_clipping": "high", "bf16": None})
    assert isinstance(caught.value, ValueError)
    assert str(caught.value) == (
        "[config] dict: 2 faults\n"
        'dict: zero_optimization.stagee: unknown key; did you mean "stage"?\n'
        'dict: gradient_clipping: must be a number >= 0, found the text "high"'
    )


def test_faults_of_a_file_have_places(tmp_path: Path) -> None:
    path = tmp_path / "ds.json"
    path.write_text('{\n  // clip\n  "gradient_clipp1ng": 1,\n}\n')
    with pytest.raises(
        _core.ConfigError, match=r"^\[config\] ds.json: 1 fault\nds.json:3:3 gradient"
    ):
        Config.from_file(path)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(_core.ConfigError, match=r"no file .*absent\.json"):
        Config.from_file(tmp_path / "absent.json")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_must_be_finite(value: float) -> None:
    with pytest.raises(
        _core.ConfigError, match=r"dict: gradient_clipping: must be a finite number"
    ):
        Config.from_dict({"gradient_clipping": value})


def test_values_that_json_has_not_are_named() -> None:
    with pytest.raises(_core.ConfigError, match=r"dict: .*type object is no JSON value"):
        Config.from_dict({"gradient_clipping": object()})
    circular: dict[str, Any] = {}
    circular["bf16"] = circular
    with pytest.raises(_core.ConfigError, match="Circular"):
        Config.from_dict(circular)


def test_load_takes_a_path_a_dict_or_a_config() -> None:
    path = FIELD / "21_csc_cifar_fp32.json"
    config = load(str(path))
    assert load(config) is config
    assert load(path).source == path.name
    assert load(json.loads(path.read_text())).optimizer.beta1 == 0.8
    with pytest.raises(TypeError, match="found int"):
        load(3)  # type: ignore[arg-type]


def test_a_config_is_read_not_assembled() -> None:
    with pytest.raises(TypeError, match="from_file"):
        Config()
    with pytest.raises(AttributeError):
        Config.from_dict({"shoal": {}}).zero_stage = 3  # type: ignore[misc]


def test_axes_that_are_not_implemented_are_refused_by_the_mesh() -> None:
    config = Config.from_dict({"shoal": {"mesh": {"pp": 2}}})
    with pytest.raises(_core.UnsupportedError, match="pp"):
        _ = config.mesh


def test_describe_gives_values_origins_batch_and_notes() -> None:
    config = Config.from_file(FIELD / "29_ds_quickstart_bool_zero.json")
    text = re.sub(" +", " ", config.describe(data_parallel_size=2))
    assert "dialect deepspeed" in text
    assert "zero_optimization.stage = 1 (line 13)" in text
    assert "fp16.initial_scale_power = 16 (default)" in text
    assert "batch: 8 = micro batch 4 x accumulation 1 x data-parallel size 2" in text
    assert 'note: zero_optimization (line 13): true means stage 1; write {"stage": 1}' in text
    assert "not stated; accumulation 3" in Config.from_dict(
        {"shoal": {}, "gradient_accumulation_steps": 3}
    ).describe(data_parallel_size=2)


def test_repr_names_what_matters_most() -> None:
    assert repr(Config.from_dict({"shoal": {}})) == (
        "Config(source='dict', dialect='shoal', zero_stage=0, compute_dtype=torch.bfloat16)"
    )


def test_explain_knows_keys_and_their_neighbours() -> None:
    assert explain("gradient_clipping").startswith("gradient_clipping (number >= 0; default 1.0")
    with pytest.raises(_core.ConfigError, match='did you mean "gradient_clipping"'):
        explain("gradient_clippin")


def test_the_page_of_keys_is_fresh() -> None:
    tool = ROOT / "tools" / "config_docs.py"
    done = subprocess.run(
        [sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_reading_starts_no_thread_and_touches_no_device() -> None:
    code = (
        "import os, torch\n"
        "from shoal.config import Config\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "Config.from_dict({'shoal': {}}).describe()\n"
        "assert len(os.listdir('/proc/self/task')) == before\n"
        "assert not torch.cuda.is_initialized()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_example_of_the_page_is_accepted() -> None:
    page = (ROOT / "docs" / "config.md").read_text()
    blocks = page.split("```json\n")[1:]
    assert blocks
    for block in blocks:
        Config.from_dict(json.loads(block.split("```")[0]))
