"""The single-location head: one attention head with a fixed query, on frozen states.

notation: logit of sentence x = sum_l softmax_l(x_l . k) (x_l . v) + intercept
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from probing.arrays import BoolArray, FloatArray, IntArray, unit
from probing.probes.location import TokenProbe, check_tokens, labels_of
from probing.probes.logistic import check_two_labels, moments, one_blas_thread
from probing.probes.penalty import C_GRID, choose_penalty
from probing.states.tokens import Tokens


class Fitted(NamedTuple):
    k: FloatArray
    v: FloatArray
    intercept: float
    objective: float = np.nan
    n_iter: int = 0

    def read(self, states: FloatArray, offsets: IntArray) -> tuple[FloatArray, FloatArray]:
        """Logits (n,) and attention (n_tokens,)."""
        weights = ragged_softmax(states @ self.k, offsets)
        logit = np.add.reduceat(weights * (states @ self.v), offsets[:-1]) + self.intercept
        return np.asarray(logit), weights


class SingleLocationHead(TokenProbe):
    """The softmax cousin of the paper's predictor, trained to classify from frozen token states.

    States are standardised inside, where the penalty (|k|^2 + |v|^2) / (2 C) beside the sum of the
    losses means the same for all layers; k_ and v_ are for the states as given.

    Parameters
    ----------
    C
        Inverse strength of the penalty; None chooses it from C_GRID by cross-validation over
        ``tokens.words`` and ``tokens.patterns``, a tie going to the stronger penalty.
    max_sentences
        How many are used at most, drawn at random; templated ones repeat. None: all.
    n_starts
        The problem is not convex. The first start attends evenly and reads along the difference
        of the classes' means, the others attend at random; the best is kept.
    max_iter
        The most iterations of L-BFGS from a start.
    tol
        Tolerance of L-BFGS, absolute on the mean loss: at 1e-5 the fit stops far from its minimum,
        and that depends on where it started.
    random_state
        Seed of the drawn sentences and the random starts.

    Attributes
    ----------
    k_ : array of shape (d,)
        Direction that attends, in the space of the states as given.
    v_ : array of shape (d,)
        Direction that reads, in the space of the states as given.
    intercept_ : float
        Constant of the logit.
    k_hat_ : array of shape (d,)
        ``k_`` at unit length.
    v_hat_ : array of shape (d,)
        ``v_`` at unit length.
    classes_ : array of shape (2,)
        The two labels.
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
        max_sentences: int | None = 3000,
        n_starts: int = 1,
        max_iter: int = 500,
        tol: float = 1e-8,
        random_state: int = 0,
    ) -> None:
        self.C = C
        self.max_sentences = max_sentences
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @one_blas_thread
    def fit(self, X: Any, tokens: Tokens) -> Self:
        """Fit to states X (n_tokens, d) and tokens.labels; tokens.words are needed to choose C."""
        if self.n_starts < 1:
            raise ValueError(f"n_starts must be at least 1, not {self.n_starts}")
        if self.max_sentences is not None and self.max_sentences < 2:
            raise ValueError(f"max_sentences must be at least 2, not {self.max_sentences}")
        X = check_tokens(X, tokens)
        self.classes_, positive = check_two_labels(labels_of(tokens), len(tokens))
        rng = np.random.default_rng(self.random_state)
        if self.max_sentences is not None and len(tokens) > self.max_sentences:
            drawn = np.sort(rng.choice(np.arange(len(tokens)), self.max_sentences, replace=False))
            X, tokens, positive = X[tokens.rows(drawn)], tokens.take(drawn), positive[drawn]
            check_two_labels(positive, len(tokens))  # both are still there
        starts = rng.standard_normal((self.n_starts - 1, X.shape[1]))

        def path(part: IntArray, grid: Sequence[float] = C_GRID) -> Any:
            inner = tokens.take(part).offsets
            return self._path(X[tokens.rows(part)], inner, positive[part], starts, grid)

        def accuracy(fitted: Fitted, part: IntArray) -> Any:
            logit, _ = fitted.read(X[tokens.rows(part)], tokens.take(part).offsets)
            return np.mean((logit > 0) == positive[part])

        self.C_, self.cv_scores_ = choose_penalty(
            self.C, path, accuracy, positive, tokens.words, tokens.patterns
        )
        grid = [*(C for C in C_GRID if C < self.C_), self.C_]  # the way the cross-validation went
        *_, fitted = path(np.arange(len(tokens)), grid)
        self.k_, self.v_, self.intercept_, self.objective_, self.n_iter_ = fitted
        self.k_hat_, self.v_hat_ = unit(self.k_), unit(self.v_)
        return self

    def decision_function(self, X: Any, tokens: Tokens) -> FloatArray:
        """The logit of the second class, one per sentence."""
        return self._read(X, tokens)[0]

    def attention(self, X: Any, tokens: Tokens) -> FloatArray:
        """The weight of each token, shape (n_tokens,); the sum over a sentence is 1."""
        return self._read(X, tokens)[1]

    def predict(self, X: Any, tokens: Tokens) -> npt.NDArray[Any]:
        """The label of each sentence."""
        positive = self.decision_function(X, tokens) > 0
        return np.asarray(self.classes_[positive.astype(int)])

    def _read(self, X: Any, tokens: Tokens) -> tuple[FloatArray, FloatArray]:
        check_is_fitted(self, "k_")
        fitted = Fitted(self.k_, self.v_, self.intercept_)
        return fitted.read(check_tokens(X, tokens, len(self.k_)), tokens.offsets)

    def _path(
        self,
        states: FloatArray,
        offsets: IntArray,
        positive: BoolArray,
        random_ks: FloatArray,
        grid: Sequence[float],
    ) -> Iterator[Fitted]:
        """The best fit for each C of the grid, each from the last, strongest penalty first: there
        the problem is nearly convex, and its minimum is followed rather than searched for.
        """
        mean, scale = moments(states, np.ones(len(states)))
        Z = ((states - mean) / scale).astype(states.dtype)
        d, sign = Z.shape[1], np.where(positive, 1.0, -1.0)
        token_means = np.add.reduceat(Z, offsets[:-1]) / np.diff(offsets)[:, None]
        v = unit(token_means[positive].mean(0) - token_means[~positive].mean(0)).astype(float)
        starts = [np.concatenate([k, v, [0.0]]) for k in (np.zeros(d), *random_ks / np.sqrt(d))]
        options = {"maxiter": self.max_iter, "gtol": self.tol, "ftol": self.tol * 1e-2}
        descend = partial(minimize, loss_and_gradient, jac=True, method="L-BFGS-B", options=options)
        for C in grid:
            minima = [descend(start, args=(Z, offsets, sign, C)) for start in starts]
            starts = [minimum.x for minimum in minima]
            best = min(minima, key=lambda minimum: minimum.fun)
            k, v = best.x[:d] / scale, best.x[d : 2 * d] / scale
            # Weights sum to 1: centring moves the intercept, and attention not at all.
            intercept = float(best.x[-1] - v @ mean)
            yield Fitted(k, v, intercept, float(best.fun) * len(sign), int(best.nit))


def loss_and_gradient(
    parameters: FloatArray, Z: FloatArray, offsets: IntArray, sign: FloatArray, C: float
) -> tuple[float, FloatArray]:
    """The objective per sentence at parameters (k, v, intercept), and its gradient."""
    d, n, lengths = Z.shape[1], len(sign), np.diff(offsets)
    frame = parameters[: 2 * d].reshape(2, d)  # k, v
    scores, values = (Z @ frame.T.astype(Z.dtype)).astype(float).T
    weights = ragged_softmax(scores, offsets)
    read = np.add.reduceat(weights * values, offsets[:-1])
    margin = sign * (read + parameters[-1])
    slope = -sign * expit(-margin) / n  # of the loss in the logit
    along = np.repeat(slope, lengths) * weights
    # d read / d score_l = weight_l (value_l - read);  d read / d value_l = weight_l
    pulled = np.stack([along * (values - np.repeat(read, lengths)), along])
    gradient = (pulled.astype(Z.dtype) @ Z).astype(float) + frame / (C * n)
    loss = np.logaddexp(0, -margin).mean() + np.sum(frame**2) / (2 * C * n)
    return float(loss), np.append(gradient.ravel(), slope.sum())


def ragged_softmax(scores: FloatArray, offsets: IntArray) -> FloatArray:
    """Softmax over the tokens of each sentence, shape (n_tokens,)."""
    starts, lengths = offsets[:-1], np.diff(offsets)
    raised = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), lengths))
    return np.asarray(raised / np.repeat(np.add.reduceat(raised, starts), lengths))
