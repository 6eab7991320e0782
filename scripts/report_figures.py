"""The figures of the report: what each shows, and the command that makes it."""

from dataclasses import dataclass
from pathlib import Path

SLR = "python scripts/run_slr.py"


@dataclass(frozen=True)
class Figure:
    """A PNG of the results folder; ``alt`` says what is drawn, the caption what it shows."""

    path: str
    title: str
    alt: str
    caption: str
    command: str


FIGURE1 = Figure(
    "figure1/figure1.png",
    "Figure 1",
    "Four panels: sentences shaded by attention; attention mass on the informative word; accuracy "
    "by split for eight series; tokens in the plane of k_hat and v_hat.",
    "Token-wise sparsity and internal linear representations. (a) Attention of [CLS] in a trained "
    "one-layer Transformer. (b) Its mass on the informative word, beside the untrained model and "
    "uniform attention. (c) Accuracy by split: the published bars of BERT, probes of MiniLM, small "
    "Transformers; lines are 95% intervals. (d) MiniLM's tokens along the directions of a location "
    "and a value probe.",
    "python scripts/figure1.py",
)

BRIDGE = (
    Figure(
        "bridge/learning.png",
        "Learning, practice beside theory",
        "Four rows of curves by training step, a Transformer on the left and single-location PGD "
        "on the right.",
        "Alignment, attention on the informative token, relative error and distance to the "
        "invariant manifold during training: a one-layer Transformer (left) and projected "
        "gradient descent on single-location regression (right).",
        "python scripts/bridge.py",
    ),
    Figure(
        "bridge/causal.png",
        "Causal tests",
        "Four panels: accuracy after erasing the value; accuracy and attention after erasing the "
        "location; changed predictions by dose of steering; changed predictions by layer.",
        "Erase, steer or reflect, and see what the one-layer Transformer then says on the test "
        "split: (a) what tells the labels apart is erased, (b) what marks the informative token; "
        "(c) the informative token is steered or reflected, along v_hat and along random "
        "directions; (d) after which layer an edit is too late, also in deeper models.",
        "python scripts/bridge.py",
    ),
)


def _experiment(name: str, title: str, what: str) -> Figure:
    lines = "" if "line" in what else " Lines are medians over runs, bands hold 95% of them."
    return Figure(
        f"slr/{name}/{name}.png",
        f"{title} ({name})",
        f"{name}: excess risk, alignment, paths in the (kappa, nu) square and distance to the "
        "manifold, by step.",
        what + " Excess risk, alignment |kappa| and |nu|, two paths in the (kappa, nu) square, and "
        f"distance to the invariant manifold.{lines}",
        f"{SLR} {name}",
    )


def _study(name: str, title: str, alt: str, caption: str) -> Figure:
    return Figure(f"slr/{name}/{name}.png", f"{title} ({name})", alt, caption, f"{SLR} {name}")


STUDIES = (
    _experiment(
        "pgd-schedule",
        "PGD, lambda decreasing",
        "The paper's PGD from the sphere, lambda decreasing.",
    ),
    _experiment(
        "pgd-manifold",
        "PGD on the manifold",
        "The paper's PGD from the invariant manifold, lambda = 0.1.",
    ),
    _experiment(
        "sgd-schedule",
        "SGD, lambda decreasing",
        "The paper's SGD on fresh batches of 5, lambda decreasing.",
    ),
    _experiment(
        "pgd-large-lambda",
        "PGD, large lambda",
        "The paper's PGD from the sphere, lambda = 0.9 throughout.",
    ),
    _experiment(
        "pgd-small-lambda",
        "PGD, small lambda",
        "The paper's PGD from the sphere, lambda = 0.1 throughout: every run is a line.",
    ),
    _study(
        "portrait",
        "Phase portrait",
        "Streamlines of the flow in the (kappa, nu) square, PGD runs and five fixed points.",
        "The gradient flow on the invariant manifold, its fixed points, and runs of PGD on it.",
    ),
    _study(
        "yardsticks",
        "Yardsticks",
        "Excess risk of zero, best linear, oracle and Bayes predictors against d and against L.",
        "Yardsticks: the zero predictor, the best linear one, the erf oracle at its best lambda, "
        "and Bayes, against the dimension d and the length L.",
    ),
    _study(
        "scaling",
        "Scaling with the dimension",
        "Steps to align, share of aligned runs, and stability limit of the step size, against d.",
        "Training at any dimension: steps to align, the share of runs that do (95% intervals), and "
        "the largest stable step size, measured and predicted.",
    ),
    _study(
        "success",
        "Where training succeeds",
        "Heat map of the share of successful runs over lambda and its decay.",
        "The share of PGD runs that reach a global minimum, over lambda and its decay.",
    ),
    _study(
        "layer",
        "A whole attention layer",
        "Excess risk, attention mass and alignment by step of a softmax layer; final risk of its "
        "variants.",
        "A whole attention layer trained on the same data: excess risk, attention on the "
        "informative token, alignment, and what it does without its parts.",
    ),
    _study(
        "activations",
        "Kinds of attention",
        "Best excess risk of each attention, and Bayes, against d, L and gamma.",
        "The best risk that each attention can reach, against Bayes.",
    ),
    _study(
        "conditional-mean",
        "Attention as a conditional mean",
        "Error against length on log axes with fitted slopes, and error of learned attention.",
        "Attention as an estimate of E[value | key]: its error against the number of tokens.",
    ),
    _study(
        "locations",
        "Several informative tokens",
        "Relative excess risk and attention mass against the number of informative tokens.",
        "Several informative tokens in place of one.",
    ),
    _study(
        "noise-length",
        "Label noise and length",
        "Final excess risk and steps to align against label noise, for several L and gamma.",
        "Training over label noise, length and gamma.",
    ),
    _study(
        "sweep",
        "A sweep over lambda and step size",
        "Heat map of the share of aligned runs over lambda and step size.",
        "The share of PGD runs that align, over lambda and step size.",
    ),
)

FIGURES = (FIGURE1, *BRIDGE, *STUDIES)


def uncaptioned(results: Path) -> list[Figure]:
    """Figures of the results folder that are not described above: shown, never left out."""
    known = {figure.path for figure in FIGURES}
    paths = [path.relative_to(results) for path in results.glob("**/*.png")]
    found = []
    for path in sorted(paths):
        stage = path.parts[0]
        hidden = any(part.startswith(".") for part in path.parts)  # of a run that goes on
        if hidden or stage == "report" or path.as_posix() in known or len(path.parts) < 2:
            continue
        command = f"{SLR} {path.parts[1]}" if stage == "slr" else f"python scripts/{stage}.py"
        alt = f"{path.as_posix()}, a figure without a description"
        found.append(Figure(path.as_posix(), path.stem, alt, "", command))
    return found
