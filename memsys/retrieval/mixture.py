"""Two-component Gaussian mixtures of many short lists of numbers at once.

The accept set of MemGAS (§2.2) hangs on where expectation-maximisation starts, so every row is
fitted exactly as `sklearn.mixture.GaussianMixture(n_components=2, random_state=seed)` fits it:
k-means++ with the draws of `RandomState(seed)`, Lloyd's iterations with scikit-learn's stop, then
EM with its tolerance. Rows are independent: a row's fit is the same in any batch.

The arithmetic is written once for NumPy and PyTorch; `device` chooses (`"numpy"`, `"cpu"`,
`"cuda"`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Backend = Literal["batched", "torch", "sklearn"]
Array = Any  # a NumPy array or a PyTorch tensor

# scikit-learn's defaults, which the official code leaves alone
LLOYD_TOLERANCE = 1e-4
LLOYD_ITERATIONS = 300
EM_TOLERANCE = 1e-3
EM_ITERATIONS = 100
VARIANCE_FLOOR = 1e-6  # reg_covar
EPSILON = 10 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Mixtures:
    """Fits of B rows of m numbers.

    `labels` (B, m) are hard labels, `means` (B, 2) the components' means, `log_likelihood` (B,)
    the mean log-likelihood of a row under its fit.
    """

    labels: NDArray[np.int64]
    means: NDArray[np.float64]
    log_likelihood: NDArray[np.float64]

    @property
    def accepted(self) -> NDArray[np.bool_]:
        """Whether each number belongs to the component with the larger mean, shape (B, m)."""
        accepted: NDArray[np.bool_] = self.labels == self.means.argmax(axis=1)[:, None]
        return accepted


def accept_sets(
    scores: NDArray[Any], *, seed: int = 0, backend: Backend = "batched", device: str = "numpy"
) -> NDArray[np.bool_]:
    """Return which of each row's (B, m) scores form the accept set.

    `batched` fits on `device`, `torch` on CUDA where there is a device, `sklearn` row by row.
    A row of fewer than two scores cannot be split: all of it is accepted.
    """
    rows = np.atleast_2d(np.asarray(scores, np.float64))
    if rows.size == 0 or rows.shape[1] < 2:
        return np.ones(rows.shape, np.bool_)
    if backend == "sklearn":
        return fit_sklearn(rows, seed).accepted
    if backend == "torch":
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
    return fit(rows, seed=seed, device=device).accepted


def fit(scores: NDArray[np.float64], *, seed: int = 0, device: str = "numpy") -> Mixtures:
    """Fit every row of (B, m) finite scores, m ≥ 2."""
    rows = np.ascontiguousarray(scores, np.float64)
    if rows.ndim != 2 or rows.shape[1] < 2 or not np.isfinite(rows).all():
        raise ValueError("Mixtures need rows of at least two finite numbers.")
    xp, put, take = _namespace(device)
    x = put(rows)
    labels, odd = _two_means(x, _draws(seed), rows.shape[1], xp, put)
    labels, means, likelihood = _expectation_maximisation(x, labels, xp, put)
    fits = Mixtures(take(labels).astype(np.int64), take(means), take(likelihood))
    strays = np.flatnonzero(take(odd))
    if strays.size:  # nearly equal numbers, where Lloyd loses a cluster: as the reference does it
        reference = fit_sklearn(rows[strays], seed)
        fits.labels[strays] = reference.labels
        fits.means[strays] = reference.means
        fits.log_likelihood[strays] = reference.log_likelihood
    return fits


def fit_sklearn(scores: NDArray[np.float64], seed: int = 0) -> Mixtures:
    """Fit row by row with scikit-learn: the reference, slower by a factor of ten and more."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    rows = np.atleast_2d(np.asarray(scores, np.float64))
    labels = np.zeros(rows.shape, np.int64)
    means = np.zeros((len(rows), 2))
    likelihood = np.zeros(len(rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # equal numbers: one component
        for i, row in enumerate(rows):
            model = GaussianMixture(n_components=2, random_state=seed)
            labels[i] = model.fit_predict(row[:, None])
            means[i] = model.means_[:, 0]
            likelihood[i] = model.score(row[:, None])
    return Mixtures(labels, means, likelihood)


def _namespace(device: str) -> tuple[Any, Callable[[Any], Array], Callable[[Array], Any]]:
    """Return the array module, how to put an array onto the device, and how to take it back."""
    if device == "numpy":
        return np, np.asarray, np.asarray
    import torch

    return torch, lambda a: torch.as_tensor(a, device=device), lambda t: t.cpu().numpy()


def _draws(seed: int) -> tuple[float, list[float]]:
    """The random numbers of one k-means++ start: the first centre, two trials for the second."""
    random = np.random.RandomState(seed)
    return random.random_sample(), random.uniform(size=2).tolist()


def _two_means(
    x: Array, draws: tuple[float, list[float]], m: int, xp: Any, put: Any
) -> tuple[Array, Array]:
    """Return hard labels (B, m) of 2-means, and which rows lost a cluster on the way (B,)."""
    tolerance = ((x - x.mean(1)[:, None]) ** 2).mean(1) * LLOYD_TOLERANCE
    x = x - x.mean(1)[:, None]
    low, high = _plus_plus(x, draws, m, xp, put)
    final = x > x  # all false, of the right type and place
    odd = final.any(1)
    active = put(np.arange(len(x)))
    previous: Array | None = None
    for _ in range(LLOYD_ITERATIONS):
        labels = _nearer_second(x, low, high)
        second = labels.sum(1)
        first = m - second
        in_first, in_second = _running_sum(x * ~labels, xp), _running_sum(x * labels, xp)
        empty = (first == 0) | (second == 0)
        spread = xp.where(labels, (x - high[:, None]) ** 2, (x - low[:, None]) ** 2).sum(1) > 0
        odd[active] = odd[active] | (empty & spread)
        new_low = in_first * (1 / xp.where(first == 0, m, first))
        new_high = in_second * (1 / xp.where(second == 0, m, second))
        new_low = xp.where(first == 0, new_high, new_low)  # an empty one joins the other
        new_high = xp.where(second == 0, new_low, new_high)
        shift = (new_low - low) ** 2 + (new_high - high) ** 2
        same = first < 0 if previous is None else (labels == previous).all(1)
        small = (shift <= tolerance) & ~same
        done = same | small | (empty & spread)
        relabelled = _nearer_second(x, new_low, new_high)
        final[active] = xp.where(small[:, None], relabelled, labels)
        if done.all():
            break
        go = ~done
        active, x, tolerance = active[go], x[go], tolerance[go]
        low, high, previous = new_low[go], new_high[go], labels[go]
    return final, odd


def _plus_plus(
    x: Array, draws: tuple[float, list[float]], m: int, xp: Any, put: Any
) -> tuple[Array, Array]:
    """Return the two centres (B,) that k-means++ picks from centred rows."""
    start, trials = draws
    uniform = np.full(m, 1.0 / m).cumsum()
    centre = x[:, int(np.searchsorted(uniform / uniform[-1], start, side="right"))]
    nearest = _squared_distances(x, centre)
    potential = nearest.sum(1)
    reach = xp.cumsum(nearest, 1)
    rows = put(np.arange(len(x)))
    best: Array | None = None
    other = centre
    for trial in trials:
        pick = (reach < (trial * potential)[:, None]).sum(1).clip(0, m - 1)
        candidate = x[rows, pick]
        cost = xp.minimum(nearest, _squared_distances(x, candidate)).sum(1)
        if best is None:
            best, other = cost, candidate
        else:
            better = cost < best
            best, other = xp.where(better, cost, best), xp.where(better, candidate, other)
    return centre, other


def _squared_distances(x: Array, centre: Array) -> Array:
    """As scikit-learn expands them, so that rounding falls the same way."""
    c = centre[:, None]
    return (-2 * (c * x) + c * c + x * x).clip(0)


def _running_sum(x: Array, xp: Any) -> Array:
    """Row sums, added from left to right as scikit-learn's loop does: ties hang on rounding."""
    return xp.cumsum(x, 1)[:, -1]


def _nearer_second(x: Array, first: Array, second: Array) -> Array:
    a, b = first[:, None], second[:, None]
    return b * b - 2 * (x * b) < a * a - 2 * (x * a)


def _expectation_maximisation(
    x: Array, labels: Array, xp: Any, put: Any
) -> tuple[Array, Array, Array]:
    """Return hard labels (B, m), means (B, 2) and mean log-likelihoods (B,) of EM from `labels`."""
    one = xp.where(labels, 1.0, 0.0) + 0 * x
    parameters = _maximise(x, 1 - one, one, x.shape[1])
    final = [p + 0 for p in parameters]
    everything, active = x, put(np.arange(len(x)))
    bound = x[:, 0] * 0 - math.inf
    for _ in range(EM_ITERATIONS):
        norm, log_first, log_second = _expect(x, parameters, xp)
        first, second = xp.exp(log_first - norm), xp.exp(log_second - norm)
        parameters = _maximise(x, first, second)
        new_bound = norm.mean(1)
        for kept, value in zip(final, parameters, strict=True):
            kept[active] = value
        go = abs(new_bound - bound) >= EM_TOLERANCE
        if not go.any():
            break
        active, x, bound = active[go], x[go], new_bound[go]
        parameters = [p[go] for p in parameters]
    norm, log_first, log_second = _expect(everything, final, xp)
    return log_second > log_first, xp.stack([final[2], final[3]], 1), norm.mean(1)


def _maximise(x: Array, first: Array, second: Array, total: int | None = None) -> list[Array]:
    """M step: weights, means and inverse deviations of both components, each (B,).

    The very first weights are divided by m, later ones by their sum (which differs by an epsilon).
    """
    counts = first.sum(1) + EPSILON, second.sum(1) + EPSILON
    whole = counts[0] + counts[1] if total is None else total
    means, inverse = [], []
    for share, count in zip((first, second), counts, strict=True):
        mean = (share * x).sum(1) / count
        variance = (share * (x - mean[:, None]) ** 2).sum(1) / count + VARIANCE_FLOOR
        means.append(mean)
        inverse.append(1 / variance**0.5)
    return [counts[0] / whole, counts[1] / whole, *means, *inverse]


def _expect(x: Array, parameters: list[Array], xp: Any) -> tuple[Array, Array, Array]:
    """E step: log-densities (B, m) of the mixture and of each weighted component."""
    w0, w1, mean0, mean1, inverse0, inverse1 = parameters
    log_first = _log_density(x, w0, mean0, inverse0, xp)
    log_second = _log_density(x, w1, mean1, inverse1, xp)
    return xp.logaddexp(log_first, log_second), log_first, log_second


def _log_density(x: Array, weight: Array, mean: Array, inverse: Array, xp: Any) -> Array:
    z = (x - mean[:, None]) * inverse[:, None]
    constant = xp.log(inverse) + xp.log(weight) - 0.5 * math.log(2 * math.pi)
    return constant[:, None] - 0.5 * z * z
