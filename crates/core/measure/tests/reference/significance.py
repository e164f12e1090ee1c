#!/usr/bin/env python3
"""Reference values of tests/significance.rs: `python3 significance.py > significance.csv`.

Nothing but the standard library. Student's distribution is integrated numerically after t = sqrt(n) tan(x), by the
tanh-sinh rule; its quantile is found by bisection. Holm's correction is the closed test in which a hypothesis falls
when every set of hypotheses that contains it falls by Bonferroni (Marcus, Peritz and Gabriel 1976).
"""
import itertools, math, random


def beyond(t, n):
    """P(T > t) of Student's distribution with n degrees of freedom, for t >= 0."""
    low, high = math.atan(t / math.sqrt(n)), math.pi / 2
    centre, half = (low + high) / 2, (high - low) / 2
    step, total = 2.0 ** -7, 0.0
    for k in range(-800, 801):
        u = k * step
        s = math.pi / 2 * math.sinh(u)
        if abs(s) > 300:
            continue
        weight = math.pi / 2 * math.cosh(u) / math.cosh(s) ** 2
        # The distance to the upper end without cancellation: cos(x) near pi/2.
        to_high = 2 * half / (1 + math.exp(2 * s))
        x = centre + half * math.tanh(s)
        cosine = math.sin(to_high) if to_high < 0.5 else math.cos(x)
        total += weight * cosine ** (n - 1) if cosine > 0 else 0.0
    scale = math.exp(math.lgamma((n + 1) / 2) - math.lgamma(n / 2)) / math.sqrt(math.pi)
    return scale * half * step * total


def quantile(p, n):
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if beyond(middle, n) > 1 - p else (low, middle)
    return (low + high) / 2


def mean(v): return math.fsum(v) / len(v)
def variance(v): m = mean(v); return math.fsum((x - m) ** 2 for x in v) / (len(v) - 1)


def welch(a, b):
    va, vb = variance(a) / len(a), variance(b) / len(b)
    n = (va + vb) ** 2 / (va ** 2 / (len(a) - 1) + vb ** 2 / (len(b) - 1))
    return 2 * beyond(abs(mean(a) - mean(b)) / math.sqrt(va + vb), n)


def student(a, b):
    n = len(a) + len(b) - 2
    pooled = ((len(a) - 1) * variance(a) + (len(b) - 1) * variance(b)) / n
    return 2 * beyond(abs(mean(a) - mean(b)) / math.sqrt(pooled * (1 / len(a) + 1 / len(b))), n)


def paired(a, b):
    d = [x - y for x, y in zip(a, b)]
    return 2 * beyond(abs(mean(d)) / math.sqrt(variance(d) / len(d)), len(d) - 1)


def interval(v):
    """95 % of the mean on a logarithmic scale: the standard error of ln(mean) is that of the mean over the mean."""
    half = quantile(0.975, len(v) - 1) * math.sqrt(variance(v) / len(v)) / mean(v)
    return [mean(v) * math.exp(-half), mean(v) * math.exp(half)]


def holm(p):
    """The largest Bonferroni p value of the sets that contain the hypothesis."""
    sets = [s for k in range(1, len(p) + 1) for s in itertools.combinations(range(len(p)), k)]
    return [max(min(1.0, len(s) * min(p[j] for j in s)) for s in sets if i in s) for i in range(len(p))]


def row(kind, a, b, result):
    print(kind, *(" ".join("%.10g" % x for x in v) for v in (a, b, result)), sep=",")


def main():
    draw = random.Random(10)
    values = lambda n, centre, spread: [float("%.6g" % (centre * math.exp(spread * draw.uniform(-1, 1)))) for _ in range(n)]
    print("kind,a,b,result")
    for n, m, shift, spread in [(2, 2, 1.5, 0.2), (3, 3, 1.1, 0.3), (3, 5, 2.0, 1.0), (5, 4, 1.0, 0.1), (12, 9, 1.2, 0.4), (20, 20, 1.05, 0.1)]:
        a, b = values(n, 100.0, spread), values(m, 100.0 * shift, spread / 2)
        row("welch", a, b, [welch(a, b)])
        row("student", a, b, [student(a, b)])
        if n == m:
            row("paired", a, b, [paired(a, b)])
        row("interval", a, [], interval(a))
    wide = [0.4, 30.0, 900.0]
    row("interval", wide, [], interval(wide))
    for n in (1, 2, 3, 5, 6):
        p = [float("%.4g" % draw.random() ** 3) for _ in range(n)] if n > 1 else [0.03]
        row("holm", p, [], holm(p))
    row("holm", [0.01, 0.04, 0.03, 0.005], [], holm([0.01, 0.04, 0.03, 0.005]))


main()
