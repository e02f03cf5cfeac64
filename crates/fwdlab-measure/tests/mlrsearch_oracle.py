"""Runs the reference, PyPI's MLRsearch, on random devices and prints its trials and results: one JSON document per line.

Usage: mlrsearch_oracle.py SEED SEARCHES. Needs MLRsearch 1.2.1. Read by tests/mlrsearch.rs.
"""

import json
import math
import random
import sys

from MLRsearch import (
    AbstractMeasurer,
    Config,
    MeasurementResult,
    MultipleLossRatioSearch,
    SearchGoal,
)


class Device(AbstractMeasurer):
    """Loses frames above its capacity, and sometimes a few below it."""

    def __init__(self, rng):
        self.rng = rng
        self.capacity = 10 ** rng.uniform(3.5, 7.5)
        self.slope = rng.choice([0.0, 0.0, 0.2, 0.5])
        self.noise = rng.choice([0.0, 0.0, 0.01, 0.1])
        self.stray = rng.choice([0.0, 0.02, 0.2])
        self.trials = []

    def measure(self, intended_duration, intended_load):
        capacity = self.capacity * math.exp(self.rng.gauss(0, self.noise))
        if intended_load > capacity:
            # livelock: the forwarding rate may fall as the load rises
            capacity *= (capacity / intended_load) ** self.slope
        loss = max(0.0, 1.0 - capacity / intended_load)
        if self.rng.random() < self.stray:
            loss = max(loss, 10 ** self.rng.uniform(-7, -2))
        sent = 1e12
        result = MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=sent,
            loss_count=round(sent * loss),
            intended_count=sent,
        )
        self.trials.append([intended_duration, intended_load, result.loss_ratio])
        return result


def goal(rng):
    initial = rng.choice([0.5, 1.0, 1.0, 2.0])
    final = rng.choice([initial, 1.0 * initial, 10.0, 60.0])
    final = max(final, initial)
    preceding = rng.choice([0, 1, 2, 2, 3])
    duration_sum = final * rng.choice([1.0, 2.0, 21.0, 5.5])
    if preceding == 0:
        # the package requires it
        final = duration_sum = initial
    return {
        "loss_ratio": rng.choice([0.0, 0.0, 0.005, 0.001, 0.1]),
        "exceed_ratio": rng.choice([0.0, 0.5, 0.5, 0.2, 0.005]),
        "relative_width": rng.choice([0.005, 0.005, 0.01, 0.05, 0.002]),
        "initial_trial_duration": initial,
        "final_trial_duration": final,
        "duration_sum": duration_sum,
        "preceding_targets": preceding,
        "expansion_coefficient": rng.choice([2, 2, 3, 4]),
        "fail_fast": rng.random() < 0.7,
    }


def number(value):
    return None if value is None else float(value)


def bounds(result):
    if result is None:
        return [None, None, None]
    lower = number(result.relevant_lower_bound)
    try:
        rate = None if lower is None else number(result.conditional_throughput)
    except RuntimeError:  # a rest of 1e-15 s of missing trials makes it say 0, which it then refuses
        rate = "raised"
    return [lower, number(result.relevant_upper_bound), rate]


def main():
    seed, searches = int(sys.argv[1]), int(sys.argv[2])
    for number in range(searches):
        rng = random.Random(seed * 1_000_003 + number)
        goals = [goal(rng) for _ in range(rng.randint(1, 3))]
        # the package refuses a goal given twice
        unique = [g for i, g in enumerate(goals) if g not in goals[:i]]
        config = Config()
        low = 10 ** rng.uniform(2, 4)
        config.min_load = low
        config.max_load = low * 10 ** rng.uniform(0.5, 4)
        config.search_duration_max = 1e9
        config.warmup_duration = rng.choice([0.0, 1.0])
        config.goals = [SearchGoal(**g) for g in unique]
        device = Device(rng)
        answer = {
            "goals": unique,
            "min": config.min_load,
            "max": config.max_load,
            "warm_up": config.warmup_duration,
        }
        try:
            outcome = MultipleLossRatioSearch(config).search(device)
        except Exception as error:  # the package's own verdicts are exceptions, and so are its slips
            answer["error"] = f"{type(error).__name__}: {error}"
        else:
            answer["outcome"] = [bounds(result) for result in outcome.values()]
        answer["trials"] = device.trials
        print(json.dumps(answer))


main()
