"""The environment: Gymnasium's checker, exact resets, rewards of fixed and random policies."""

import random

import pytest

pytest.importorskip("gymnasium")
from gymnasium.utils.env_checker import check_env  # noqa: E402

import dumbwaiter as dw  # noqa: E402
from dumbwaiter.gym import SwitchEnv  # noqa: E402

SCHEDULERS = ["none", "mq-deadline", "kyber"]


def env(**settings):
    return SwitchEnv("scenarios/nvme-random.toml", SCHEDULERS, **{"period": 500, "periods": 10, "duration": "1s", **settings})


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("period", [200, "2ms"])
def test_gymnasium_s_checker_is_clean(period):
    check_env(env(period=period), skip_render_check=True)


@pytest.mark.parametrize("goal", ["throughput", "latency", "p99"])
def test_a_fixed_policy_gets_what_its_scheduler_gets(goal):
    subject = env(goal=goal)
    totals = []
    for action in range(len(SCHEDULERS)):
        _, info = subject.reset(seed=7)
        rewards = [subject.step(action)[1] for _ in range(10)]
        totals.append(sum(rewards))
        if SCHEDULERS[action] == info["best_fixed"]:
            assert rewards == [0.0] * 10
    assert max(totals) == 0.0


def test_wrappers_of_gymnasium_run_several():
    import gymnasium

    several = gymnasium.vector.SyncVectorEnv([env, env])
    several.reset(seed=3)
    observations, rewards, *_ = several.step([0, 0])
    alone = env()
    alone.reset(seed=3)
    assert observations[0].tolist() == alone.step(0)[0].tolist() and len(rewards) == 2


@pytest.mark.parametrize(
    "wrong, said",
    [
        (dict(goal="fame"), "goal"),
        (dict(period=0), "period"),
        (dict(period="soon"), "period"),
        (dict(periods=0), "periods"),
        (dict(device="ssd:frob"), "frob"),
    ],
)
def test_bad_input_is_named(wrong, said):
    with pytest.raises(dw.InputError, match=said):
        env(**wrong)


def test_an_action_that_is_none_of_the_schedulers_is_named():
    subject = env()
    subject.reset(seed=1)
    with pytest.raises(dw.InputError, match="action 3.*0 to 2"):
        subject.step(3)


def test_the_same_seed_and_actions_give_the_same_run():
    def play(seed):
        subject, choices = env(), random.Random(1)
        subject.reset(seed=seed)
        return [(o.tolist(), r) for o, r, *_ in (subject.step(choices.randrange(3)) for _ in range(10))]

    assert play(3) == play(3) != play(4)
