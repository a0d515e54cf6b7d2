"""The schedules and the loss scaler give DeepSpeed's numbers.

The expected numbers were printed by deepspeed==0.19.8: the rate that the optimizer holds when it
makes the update after `completed` others, and `DynamicLossScaler.cur_scale` after each update.
"""

import math

import pytest
import torch

import shoal
from shoal import _core

Values = dict[str, float | int | bool | str]


def rate(schedule: Values, base_lr: float, completed: int) -> float:
    """The rate of the native schedule with these attributes ("kind" is required)."""
    values = dict(schedule)
    warmup_type = str(values.pop("warmup_type", "log"))
    made = _core.LearningRateSchedule(str(values.pop("kind")), warmup_type=warmup_type)
    for name, value in values.items():
        setattr(made, name, value)
    return made.learning_rate(base_lr, completed_steps=completed)


RATES: list[tuple[Values, float, dict[int, float]]] = [
    (
        dict(kind="WarmupLR", warmup_min_lr=1e-5, warmup_max_lr=3e-4, warmup_num_steps=50),
        1e-3,
        {
            0: 1e-05,
            1: 1e-05,
            2: 6.138330783931179e-05,
            3: 9.144061608832061e-05,
            7: 0.000154251182174293,
            25: 0.0002486166921606882,
            49: 0.00029850236434858605,
            50: 0.0003,
            51: 0.0003,
            300: 0.0003,
        },
    ),
    (
        dict(kind="WarmupLR", warmup_type="linear", warmup_num_steps=20),
        2e-3,
        {0: 0.0, 1: 0.0, 2: 0.0001, 11: 0.001, 19: 0.0018, 20: 0.0019, 21: 0.002, 100: 0.002},
    ),
    (
        dict(
            kind="WarmupDecayLR",
            total_num_steps=60,
            warmup_num_steps=10,
            warmup_max_lr=6e-4,
            warmup_min_lr=2e-5,
        ),
        1e-3,
        {
            0: 2e-05,
            1: 2e-05,
            2: 0.00019459739748510903,
            5: 0.00042540260251489075,
            10: 0.0006,
            11: 0.0006,
            12: 0.0005884,
            40: 0.0002636,
            59: 4.32e-05,
            60: 3.16e-05,
            61: 2e-05,
            90: 2e-05,
        },
    ),
    (
        dict(kind="WarmupDecayLR", warmup_type="linear", total_num_steps=30, warmup_num_steps=1),
        1e-3,
        {
            1: 0.0,
            2: 0.0005,
            3: 0.001,
            4: 0.0009642857142857143,
            16: 0.0005357142857142857,
            30: 3.571428571428571e-05,
            31: 0.0,
            32: 0.0,
        },
    ),
    (
        dict(kind="WarmupDecayLR", warmup_type="linear", total_num_steps=10, warmup_num_steps=20),
        1e-3,
        {1: 0.0, 5: 0.0002, 10: 0.00045, 11: 0.0005, 20: 0.00095, 21: 0.0, 22: 0.0},
    ),
    (
        dict(kind="WarmupCosineLR", total_num_steps=100, warmup_num_steps=10),
        2e-3,
        {
            0: 0.0,
            1: 0.0,
            2: 0.0006020599913279623,
            5: 0.0013979400086720373,
            10: 0.002,
            11: 0.001999390887936394,
            12: 0.0019975642938547984,
            55: 0.0010001,
            56: 0.0009652039932471696,
            99: 8.091120636061474e-07,
            100: 2e-07,
            150: 2e-07,
        },
    ),
    (
        dict(
            kind="WarmupCosineLR",
            warmup_type="linear",
            total_num_steps=40,
            warmup_num_steps=8,
            warmup_min_ratio=0.25,
            cos_min_ratio=0.1,
        ),
        0.1,
        {
            0: 0.0,
            1: 0.025,
            2: 0.034375,
            8: 0.090625,
            9: 0.09978331270024887,
            10: 0.09913533761814537,
            25: 0.050589228685169775,
            40: 0.01,
            99: 0.01,
        },
    ),
    (
        dict(kind="WarmupCosineLR", total_num_steps=5, warmup_num_steps=8),
        1.0,
        {0: 0.0, 1: 0.0, 4: 0.6666666666666667, 8: 1.0, 9: 0.0001, 10: 0.0001},
    ),
]


@pytest.mark.parametrize(("schedule", "base_lr", "expected"), RATES)
def test_rates_are_deepspeeds(schedule: Values, base_lr: float, expected: dict[int, float]) -> None:
    """Rise, top, fall and what follows the end; last digits may differ by round-off."""
    for completed, value in expected.items():
        found = rate(schedule, base_lr, completed)
        assert math.isclose(found, value, rel_tol=1e-13, abs_tol=1e-21), completed


def test_constant_schedule_is_the_groups_rate() -> None:
    """Without a scheduler section the rate never changes."""
    assert rate({"kind": "constant"}, 0.3, 12345) == 0.3


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (
            dict(kind="WarmupLR", warmup_num_steps=0),
            r"\[schedule\] warmup_num_steps is 0, must be >= 1",
        ),
        (dict(kind="WarmupDecayLR"), r"\[schedule\] total_num_steps is 0, must be >= 1"),
    ],
)
def test_broken_schedules_are_refused(schedule: Values, message: str) -> None:
    """The message names the key, its value and the rule."""
    with pytest.raises(shoal.InvalidArgumentError, match=message):
        rate(schedule, 1.0, 0)


def test_unknown_names_are_refused() -> None:
    """Kinds and warm-up types are checked when a schedule is made."""
    with pytest.raises(shoal.InvalidArgumentError, match='kind is "Cosine", must be constant, '):
        rate({"kind": "Cosine"}, 1.0, 0)
    with pytest.raises(shoal.InvalidArgumentError, match="must be log or linear"):
        rate({"kind": "WarmupLR", "warmup_type": "cubic"}, 1.0, 0)


def scaler(**values: float | int | bool) -> _core.LossScaler:
    """A native loss scaler with these options."""
    options = _core.LossScaleOptions()
    for name, value in values.items():
        setattr(options, name, value)
    return _core.LossScaler(options)


# Updates (o: overflow, g: good) and log2 of the scale after each.
SCALES: list[tuple[dict[str, float | int | bool], str, list[int]]] = [
    (
        {"initial_scale_power": 8, "loss_scale_window": 3, "hysteresis": 2},
        "ggggoggggogoogggggggooo",
        [8, 8, 8, 9, 9, 9, 9, 9, 10, 10, 10, 9, 8, 8, 8, 8, 9, 9, 9, 10, 10, 9, 8],
    ),
    (
        {
            "initial_scale_power": 8,
            "loss_scale_window": 3,
            "hysteresis": 2,
            "consecutive_hysteresis": True,
        },
        "ggggoggggogoogggggggooo",
        [8, 8, 8, 9, 9, 9, 9, 9, 10, 10, 10, 10, 9, 9, 9, 9, 10, 10, 10, 11, 11, 10, 9],
    ),
    (
        {
            "initial_scale_power": 4,
            "loss_scale_window": 2,
            "hysteresis": 1,
            "min_loss_scale": 4.0,
        },
        "oogggggogggo",
        [3, 2, 2, 2, 3, 3, 4, 3, 3, 3, 4, 3],
    ),
]


@pytest.mark.parametrize(("options", "updates", "powers"), SCALES)
def test_scales_are_deepspeeds(
    options: dict[str, float | int | bool], updates: str, powers: list[int]
) -> None:
    """Hysteresis, window, smallest scale, also when the state is moved to a new scaler half-way."""
    one = scaler(**options)
    found = []
    for index, update in enumerate(updates):
        if index == len(updates) // 2:
            state, one = one.state, scaler(**options)
            one.set_state(state)
        one.update(update == "o")
        found.append(one.scale)
    assert found == [2.0**power for power in powers]


def test_overflow_at_the_smallest_scale_raises() -> None:
    """DeepSpeed stops such a run, and so does Shoal."""
    one = scaler(initial_scale_power=0, hysteresis=1)
    with pytest.raises(shoal.ShoalError, match="min_loss_scale is 1"):
        one.update(True)


def test_broken_scaler_options_are_refused() -> None:
    """The message names the option, its value and the rule."""
    with pytest.raises(shoal.InvalidArgumentError, match="hysteresis is 0, must be >= 1"):
        scaler(hysteresis=0)


def test_scale_keeps_float16_gradients_finite() -> None:
    """The use of it all: a scaler that starts too high comes down until nothing overflows."""
    one = scaler(hysteresis=1)
    gradient = torch.tensor([3.0], dtype=torch.float64)
    while not torch.isfinite((gradient * one.scale).to(torch.float16)).all():
        one.update(True)
    assert one.scale == 16384.0
