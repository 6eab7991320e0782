"""The bridge: k* and v* inside the Transformer, next to the idealised model, with causal tests.

Directions in the weights of every head beside those of linear probes; the paper's predictor on real
states; theory beside practice at the start and end of training and in between; and what happens
when directions are erased, reflected or steered. Makes the models that are not there yet.
"""

import functools
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import train_transformer
from code_version import code_sha256
from command_line import run
from run_directory import check_output, ensure_all, run_directory
from side_by_side import side_by_side

if TYPE_CHECKING:
    import pandas as pd

SPLITS = ("test", "ood_structure")  # new adjectives are unknown to models from scratch


@dataclass(frozen=True)
class Config:
    output: Path = Path("results/bridge")
    """Folder for tables and figures."""
    models: Path = Path("results/models")
    """Folder for the trained Transformers."""
    seeds: int = 5
    """Training seeds of the 1-layer model, 0, 1, ...; the 2-layer model has two at most."""
    sentences: int = 480
    """How many of the training split the directions come from, and of the others at most."""
    minilm: bool = True
    """Leave out MiniLM."""
    overwrite: bool = False
    """Replace an earlier result."""


def settings_of(config: Config) -> dict[str, Any]:
    return {
        "code_sha256": code_sha256(__file__),
        "models": [train_transformer.settings_of(one) for one in transformers(config).values()],
        "sentences": config.sentences,
        "minilm": config.minilm,
    }


def transformers(config: Config) -> dict[str, train_transformer.Config]:
    """By folder: the models looked into."""
    small = {
        f"small-{seed}": train_transformer.Config(
            preset="small", seed=seed, output=config.models / f"small-{seed}"
        )
        for seed in range(min(2, config.seeds))
    }
    return train_transformer.tiny_models(config.models, config.seeds) | small


def main(config: Config) -> None:
    check_output(config.output, overwrite=config.overwrite)
    if config.seeds < 1 or config.sentences < 48:
        raise ValueError("--seeds must be at least 1 and --sentences at least 48")
    ensure_all(train_transformer, list(transformers(config).values()))

    import pandas as pd

    from probing.bridge import order_of_learning, start_and_end, theory_curves
    from probing.bridge_figures import plot_causal, plot_learning

    tables = practice(config)
    theory = theory_curves()
    both = {"Transformer": (tables["learning"], "seed"), "theory (PGD)": (theory, "run")}
    comparison = pd.concat(
        [start_and_end(table, by).assign(model=name) for name, (table, by) in both.items()]
    )
    order = pd.concat(
        [order_of_learning(table, by).assign(model=name) for name, (table, by) in both.items()]
    )
    tables |= {"theory": theory, "theory_practice": comparison, "order": order}
    figures = {
        "learning": plot_learning(tables["learning"], theory),
        "causal": plot_causal(tables["causal"]),
    }
    with run_directory(config.output, settings_of(config), overwrite=config.overwrite) as folder:
        for name, table in tables.items():
            table.to_parquet(folder / f"{name}.parquet", index=False)
        for name, figure in figures.items():
            figure.savefig(folder / f"{name}.png")
            figure.savefig(folder / f"{name}.pdf")
    report(tables)
    print(f"written to {config.output}")


def practice(config: Config) -> "dict[str, pd.DataFrame]":
    """Everything measured on Transformers: directions, idealised, learning and causal."""
    import pandas as pd

    # Small ones side by side, each on one core; then MiniLM, whose matrices keep all of them busy.
    look = functools.partial(look_into, config)
    found = side_by_side(look, list(transformers(config)), "looking into models")
    found += [look("minilm")] if config.minilm else []
    tables = {key for tables in found for key in tables}
    return {
        key: pd.concat([tables[key] for tables in found if key in tables], ignore_index=True)
        for key in sorted(tables)
    }


def look_into(config: Config, name: str) -> "dict[str, pd.DataFrame]":
    """One model: a pretrained one, or one from its folder."""
    from probing.models.pretrained import load_model
    from probing.models.training import one_torch_thread

    kind, _, seed = name.partition("-")
    folder = config.models / name if seed else None
    with one_torch_thread() if folder else nullcontext():
        model, tokenizer = load_model(str(folder or name), classifier=folder is not None)
        found = tables_of(model, tokenizer, config, kind, int(seed or 0))
    return {key: table.assign(model=kind, seed=int(seed or 0)) for key, table in found.items()}


def tables_of(
    model: Any, tokenizer: Any, config: Config, kind: str, seed: int
) -> "dict[str, pd.DataFrame]":
    import pandas as pd

    from data_gen import build_dataset
    from probing.circuits.causal import Trial, causal_table
    from probing.circuits.directions import directions_table, mean_readout
    from probing.circuits.idealised import idealised_table
    from probing.circuits.learning import learning_curve
    from probing.models.pretrained import untrained_like
    from probing.sentences import draw_by_word
    from probing.states.extraction import read
    from probing.states.tokens import tokenise

    # MiniLM has a thousand times the weights: a quarter of the sentences, some of its layers, and
    # the test split, which is enough to see where an edit comes too late.
    few = kind == "minilm"
    dataset = build_dataset()
    n = config.sentences // 4 if few else config.sentences
    batches = {
        name: tokenise(tokenizer, dataset[name].select(draw_by_word(dataset[name], n)))
        for name in ("train", *SPLITS)
    }
    train, untrained = batches["train"], untrained_like(model, seed)
    readout = mean_readout(model, train) if few else None
    control = mean_readout(untrained, train) if few else None
    found = {
        "directions": pd.concat(
            [
                directions_table(model, train, readout=readout).assign(trained=True),
                directions_table(untrained, train, readout=control).assign(trained=False),
            ]
        )
    }
    less: dict[str, Any] = {}
    if few:
        less = {"layers": [0, 2, 4, 6], "heads": False, "n_random": 2, "doses": [1.0]}
    found["causal"] = pd.concat(
        causal_table(Trial(model, train, batches[split], readout), **less).assign(split=split)
        for split in (SPLITS[:1] if few else SPLITS)
    )
    if kind == "tiny":
        runs = {name: read(model, batch) for name, batch in batches.items()}
        tests = {name: runs[name] for name in SPLITS}
        found["idealised"] = idealised_table(runs["train"], tests)
        snapshots = config.models / f"tiny-{seed}" / "snapshots"
        curve = learning_curve(model, snapshots, train, batches["test"])
        curve["relative_error"] = curve["error"] / 0.5  # of guessing
        found["learning"] = curve
    return found


def report(tables: "dict[str, pd.DataFrame]") -> None:
    directions = tables["directions"].copy()
    directions[["kappa", "nu"]] = directions[["kappa", "nu"]].abs()  # a direction has no sign
    strongest = (
        directions.sort_values("attention_mass").groupby(["model", "trained", "seed"]).last()
    )
    columns = ["kappa", "nu", "kappa_null_95", "nu_null_95", "attention_mass"]
    print("|cosines| of weights and probes, of the head with most attention (mean over seeds)")
    print(strongest.groupby(["model", "trained"])[columns].mean().round(3).to_string())
    print("the paper's predictor on the embeddings of the 1-layer model, test split")
    ideal = tables["idealised"].query("split == 'test'")
    keys = ["gate", "source"]
    print(ideal.groupby(keys)[["accuracy", "attention_mass"]].mean().round(3).to_string())
    print("theory beside practice: median [95% range]")
    table = tables["theory_practice"]
    texts = [
        f"{middle:.2f} [{low:.2f}, {high:.2f}]"
        for middle, low, high in table[["median", "low", "high"]].to_numpy()
    ]
    table = table.assign(text=texts)
    wide = table.pivot_table(
        index="quantity", columns=["model", "when"], values="text", aggfunc="first", sort=False
    )
    print(wide.to_string())
    print("share of the training after which v and k stay aligned (median)")
    print(tables["order"].groupby("model")[["v", "k"]].median().round(3).to_string())
    print("causal tests on the 1-layer model, test split, embeddings (mean over seeds)")
    causal = tables["causal"].query("model == 'tiny' and split == 'test' and layer == 0")
    causal = causal[(causal["test"] != "steer") | causal["dose"].isin([1.0])]
    shown = causal.groupby(["test", "edit", "site"], sort=False)
    print(shown[["accuracy", "flips", "attention_mass"]].mean().round(3).to_string())


if __name__ == "__main__":
    run(main, Config, __doc__)
