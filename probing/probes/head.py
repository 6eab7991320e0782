"""The single-location head: attention heads with fixed queries, on frozen states.

notation: logit of sentence x = sum_l softmax_l(x_l . k) (x_l . v) + intercept, summed over heads;
each of more than two labels has a v of its own. With pooling "max" there is no k: the logit of
label c is max_l x_l . v_c + intercept_c, and two labels have a v each as well.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import expit, log_softmax
from sklearn.utils.validation import check_is_fitted

from probing.arrays import FloatArray, IntArray, unit
from probing.probes.location import TokenProbe, check_tokens, labels_of
from probing.probes.logistic import check_labels, label_of, moments, one_blas_thread
from probing.probes.penalty import C_GRID, choose_penalty
from probing.probes.pooling import Heads, Pooled, Pooling
from probing.states.tokens import Tokens


class Fitted(NamedTuple):
    heads: Heads
    directions: FloatArray  # (n_rows, d): k of every head, then v of every head and logit
    intercept: FloatArray  # (n_logits,)
    objective: float = np.nan
    n_iter: int = 0

    def read(self, states: FloatArray, offsets: IntArray) -> tuple[FloatArray, FloatArray]:
        """Logits, (n,) for two labels and (n, n_labels) for more, and attention (n_tokens,)."""
        products = np.ascontiguousarray((states @ self.directions.T).T)
        pooled = Pooled.of(products, self.heads, offsets)
        logits = pooled.logits + self.intercept[:, None]
        attention = pooled.attention(np.argmax(logits, axis=0))
        if len(logits) == 2:
            logits = logits[1:] - logits[0]
        return logits[0] if len(logits) == 1 else logits.T, attention


class SingleLocationHead(TokenProbe):
    """The softmax cousin of the paper's predictor, trained to classify from frozen token states.

    States are standardised inside, where the penalty (|k|^2 + |v|^2) / (2 C) beside the sum of the
    losses means the same for all layers; k_ and v_ are for the states as given.

    Parameters
    ----------
    C
        Inverse strength of the penalty; None chooses it from C_GRID by cross-validation over
        ``tokens.words`` and ``tokens.patterns``, a tie going to the stronger penalty.
    n_heads
        Number of heads, whose logits are added: several can look for several kinds of token.
    pooling
        "softmax": a head weighs tokens by a softmax along its k. "max": a head has no k and reads,
        for each label, the token that speaks most for it, so that one token decides in a text of
        any length.
    max_sentences
        How many are used at most, drawn at random; templated ones repeat. None: all.
    n_starts
        The problem is not convex. The first start of one head attends evenly and reads along the
        difference of the classes' means, all others are random; the best is kept.
    max_iter
        The most iterations of L-BFGS from a start.
    tol
        Tolerance of L-BFGS, absolute on the mean loss: at 1e-5 the fit stops far from its minimum,
        and that depends on where it started.
    random_state
        Seed of the drawn sentences and the random starts.

    Attributes
    ----------
    k_ : array of shape (d,), with several heads (n_heads, d), or None for pooling "max"
        Directions that attend, in the space of the states as given.
    v_ : array of shape (d,), with several heads (n_heads, d)
        Directions that read, in the space of the states as given. With more than two labels, or
        pooling "max", each label has its own: (n_labels, d) or (n_heads, n_labels, d).
    intercept_ : float, or array of shape (n_labels,) where each label has its own v
        Constants of the logits.
    k_hat_ : array of the shape of k_, or None
        ``k_`` (each row of it) at unit length.
    v_hat_ : array of the shape of v_
        ``v_`` (each row of it) at unit length.
    classes_ : array of shape (n_labels,)
        The labels, two or more, sorted.
    C_ : float
        As for LinearProbe.
    cv_scores_ : array or None
        As for LinearProbe.
    objective_ : float
        Penalised loss of the best start.
    n_iter_ : int
        Iterations of the best start.

    >>> states = extract(model, tokenizer, dataset["train"], positions=["tokens"]).words_only()
    >>> SingleLocationHead().fit(states.at(3), states.tokens).attention(states.at(3), states.tokens)
    """

    def __init__(
        self,
        *,
        C: float | None = None,
        n_heads: int = 1,
        pooling: Pooling = "softmax",
        max_sentences: int | None = 3000,
        n_starts: int = 1,
        max_iter: int = 500,
        tol: float = 1e-8,
        random_state: int = 0,
    ) -> None:
        self.C = C
        self.n_heads = n_heads
        self.pooling = pooling
        self.max_sentences = max_sentences
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @one_blas_thread
    def fit(self, X: Any, tokens: Tokens) -> Self:
        """Fit to states X (n_tokens, d) and tokens.labels; tokens.words are needed to choose C."""
        self.check_parameters()
        X = check_tokens(X, tokens)
        self.classes_, codes = check_labels(labels_of(tokens), len(tokens))
        rng = np.random.default_rng(self.random_state)
        if self.max_sentences is not None and len(tokens) > self.max_sentences:
            drawn = np.sort(rng.choice(np.arange(len(tokens)), self.max_sentences, replace=False))
            X, tokens, codes = X[tokens.rows(drawn)], tokens.take(drawn), codes[drawn]
            if len(np.unique(codes)) < len(self.classes_):
                raise ValueError("max_sentences is too small: a label is not among the sentences")
        # One head can begin without preferences, but equal heads would stay equal.
        n_even = 1 if self.n_heads == 1 else 0
        noise = rng.standard_normal((self.n_starts - n_even, self.n_heads, X.shape[1]))
        noise = np.concatenate([np.zeros((n_even, *noise.shape[1:])), noise])

        def path(part: IntArray, grid: Sequence[float] = C_GRID) -> Any:
            inner = tokens.take(part).offsets
            return self._path(X[tokens.rows(part)], inner, codes[part], noise, grid)

        def accuracy(fitted: Fitted, part: IntArray) -> Any:
            logit, _ = fitted.read(X[tokens.rows(part)], tokens.take(part).offsets)
            return np.mean(label_of(logit) == codes[part])

        self.C_, self.cv_scores_ = choose_penalty(
            self.C, path, accuracy, codes, tokens.words, tokens.patterns
        )
        grid = [*(C for C in C_GRID if C < self.C_), self.C_]  # the way the cross-validation went
        *_, fitted = path(np.arange(len(tokens)), grid)
        self._keep(fitted)
        return self

    def decision_function(self, X: Any, tokens: Tokens) -> FloatArray:
        """The logit of the second label, one per sentence: shape (n,).

        With more than two labels a logit for each of them: (n, n_labels).
        """
        return self._read(X, tokens)[0]

    def attention(self, X: Any, tokens: Tokens) -> FloatArray:
        """The weight of each token, shape (n_tokens,); the sum over a sentence is 1.

        Of several heads it is the mean; for pooling "max" the share of heads that read the token
        for the predicted label.
        """
        return self._read(X, tokens)[1]

    def predict(self, X: Any, tokens: Tokens) -> npt.NDArray[Any]:
        """The label of each sentence."""
        codes = label_of(self.decision_function(X, tokens))
        return np.asarray(self.classes_[codes])

    def check_parameters(self) -> None:
        """Refuse parameters that mean nothing."""
        for name in ("n_starts", "n_heads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.pooling not in ("softmax", "max"):
            raise ValueError(f"pooling must be 'softmax' or 'max', not {self.pooling!r}")
        if self.max_sentences is not None and self.max_sentences < 2:
            raise ValueError(f"max_sentences must be at least 2, not {self.max_sentences}")

    @property
    def _heads(self) -> Heads:
        n_labels = len(self.classes_)
        shared = n_labels == 2 and self.pooling == "softmax"  # a value and its opposite
        return Heads(self.n_heads, 1 if shared else n_labels, self.pooling)

    def _keep(self, fitted: Fitted) -> None:
        """Set the attributes of a fit, without axes of one head or one logit."""
        heads, d = fitted.heads, fitted.directions.shape[1]
        keys, values = np.split(fitted.directions, [heads.n_keys])
        several = [n for n in (heads.n_heads, heads.n_logits) if n > 1]
        self.k_ = None if heads.pooling == "max" else keys.reshape(*several[: heads.n_heads > 1], d)
        self.v_ = values.reshape(*several, d)
        self.k_hat_, self.v_hat_ = (
            None if each is None else np.apply_along_axis(unit, -1, each)
            for each in (self.k_, self.v_)
        )
        intercept = fitted.intercept
        self.intercept_ = float(intercept[0]) if heads.n_logits == 1 else intercept
        self.objective_, self.n_iter_ = fitted.objective, fitted.n_iter

    def _read(self, X: Any, tokens: Tokens) -> tuple[FloatArray, FloatArray]:
        check_is_fitted(self, "v_")
        d = self.v_.shape[-1]
        rows = [each.reshape(-1, d) for each in (self.k_, self.v_) if each is not None]
        fitted = Fitted(self._heads, np.concatenate(rows), np.atleast_1d(self.intercept_))
        return fitted.read(check_tokens(X, tokens, d), tokens.offsets)

    def _path(
        self,
        states: FloatArray,
        offsets: IntArray,
        codes: IntArray,
        noise: FloatArray,
        grid: Sequence[float],
    ) -> Iterator[Fitted]:
        """The best fit for each C of the grid, each from the last, strongest penalty first: there
        the problem is nearly convex, and its minimum is followed rather than searched for.

        Several heads are alike in that minimum and would stay alike: they also start afresh.
        """
        heads = self._heads
        mean, scale = moments(states, np.ones(len(states)))
        Z = ((states - mean) / scale).astype(states.dtype)
        shape = (heads.n_rows, Z.shape[1])
        starts = fresh = starting_points(Z, offsets, codes, noise, heads)
        options = {"maxiter": self.max_iter, "gtol": self.tol, "ftol": self.tol * 1e-2}
        descend = partial(minimize, loss_and_gradient, jac=True, method="L-BFGS-B", options=options)
        for C in grid:
            minima = [descend(start, args=(Z, offsets, codes, C, heads)) for start in starts]
            best = min(minima, key=lambda minimum: minimum.fun)
            starts = [minimum.x for minimum in minima]
            if heads.n_heads > 1:
                starts = [best.x, *fresh]
            directions = best.x[: -heads.n_logits].reshape(shape) / scale
            # Weights sum to 1: centring moves the intercept, and attention not at all.
            values = directions[heads.n_keys :].reshape(heads.n_heads, heads.n_logits, -1)
            intercept = best.x[-heads.n_logits :] - (values @ mean).sum(axis=0)
            objective = float(best.fun) * len(codes)
            yield Fitted(heads, directions, intercept, objective, int(best.nit))


def starting_points(
    Z: FloatArray, offsets: IntArray, codes: IntArray, noise: FloatArray, heads: Heads
) -> list[FloatArray]:
    """Parameters to start from, one vector per row of ``noise`` (n_starts, n_heads, d).

    Each head reads along the differences of the labels' means; noise moves k or, where there is
    no k, v.
    """
    token_means = np.add.reduceat(Z, offsets[:-1]) / np.diff(offsets)[:, None]
    means = [token_means[codes == code].mean(0) for code in np.unique(codes)]
    rest = [means[0]] if heads.n_logits == 1 else [np.mean(means, axis=0)] * len(means)
    v = [unit(own - other) for own, other in zip(means[-heads.n_logits :], rest, strict=True)]
    values = np.broadcast_to(np.array(v, dtype=float), (heads.n_heads, len(v), Z.shape[1]))
    starts = []
    for moved in noise / np.sqrt(Z.shape[1]):
        rows = [values + moved[:, None]] if heads.pooling == "max" else [moved, values]
        starts.append(np.concatenate([*map(np.ravel, rows), np.zeros(heads.n_logits)]))
    return starts


def loss_and_gradient(
    parameters: FloatArray,
    Z: FloatArray,
    offsets: IntArray,
    codes: IntArray,
    C: float,
    heads: Heads,
) -> tuple[float, FloatArray]:
    """The objective per sentence at parameters (directions, intercept), and its gradient."""
    n, n_logits = len(codes), heads.n_logits
    frame = parameters[:-n_logits].reshape(heads.n_rows, Z.shape[1])
    products = np.ascontiguousarray((Z @ frame.T.astype(Z.dtype)).T, dtype=float)
    pooled = Pooled.of(products, heads, offsets)
    loss, slope = label_loss(pooled.logits + parameters[-n_logits:, None], codes)
    pulled = pooled.pulled(slope, heads)
    gradient = (pulled.astype(Z.dtype) @ Z).astype(float) + frame / (C * n)
    loss += np.sum(frame**2) / (2 * C * n)
    return float(loss), np.append(gradient.ravel(), slope.sum(axis=1))


def label_loss(logits: FloatArray, codes: IntArray) -> tuple[float, FloatArray]:
    """The mean loss of logits (n_logits, n), and its slope in each of them."""
    n = len(codes)
    if len(logits) == 1:
        sign = np.where(codes == 1, 1.0, -1.0)
        margin = sign * logits
        return float(np.logaddexp(0, -margin).mean()), -sign * expit(-margin) / n
    shares, own = log_softmax(logits, axis=0), (codes, np.arange(n))
    slope = np.exp(shares)
    slope[own] -= 1
    return float(-shares[own].mean()), slope / n
