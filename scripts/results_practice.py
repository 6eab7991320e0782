"""What the results on Transformers say on the page of results: paragraphs and tables."""

from pathlib import Path

from results_table import interval, markdown, number, spread
from run_directory import read_json


def dataset(folder: Path) -> list[str]:
    import pandas as pd

    splits = read_json(folder / "manifest.json")["splits"]
    rows = {
        name: {
            "sentences": split["rows"],
            "different ones": split["distinct"],
            "share of [UNK]": f"{split['unknown_share']:.2f}",
            "what it isolates": split["isolates"],
        }
        for name, split in splits.items()
    }
    return [markdown(pd.DataFrame(rows).T.rename_axis("split"))]


def models(folder: Path) -> list[str]:
    import pandas as pd

    paths = sorted(folder.glob("tiny-[0-9]*/metrics.parquet"))
    table = pd.concat([pd.read_parquet(path) for path in paths])
    groups = table.groupby("split", sort=False)
    shown = pd.DataFrame(
        {
            "accuracy": groups["accuracy"].agg(spread),
            "attention on the informative word": groups["attention_mass"].agg(spread),
        }
    )
    return [
        "One layer, one head, 32 dimensions, trained from scratch on the training split: "
        f"mean (range) over {len(paths)} training seeds. Where the adjectives are new they are all "
        "[UNK] to it, and 0.50 is what can be had.",
        markdown(shown),
    ]


def figure1(folder: Path) -> list[str]:
    import pandas as pd

    from probing.figures import SERIES, SPLIT_NAMES

    bars = pd.read_parquet(folder / "bars.parquet")
    texts = [interval(*row) for row in bars[["accuracy", "low", "high"]].to_numpy()]
    wide = bars.assign(text=texts).pivot_table(
        index="series", columns="split", values="text", aggfunc="first", sort=False
    )
    wide = wide[list(SPLIT_NAMES)].rename(columns=SPLIT_NAMES)
    wide.index = pd.Index([SERIES[name][0] for name in wide.index], name="accuracy")
    sparsity = pd.read_parquet(folder / "sparsity.parquet")
    test = sparsity[sparsity["split"] == "test"].set_index("model")
    shown = test[["mass", "top1", "effective_tokens"]].map("{:.2f}".format)
    shown.columns = ["attention on the informative word", "ranks first", "effective tokens"]
    return [
        markdown(wide),
        "Token-wise sparsity on the test split (training seed 0; `uniform` is equal attention):",
        markdown(shown),
    ]


def probes(folder: Path) -> list[str]:
    import pandas as pd

    from probing.figures import SPLIT_NAMES
    from probing.probes.by_layer import chosen_layers, layer_means

    table = pd.read_parquet(folder / "probes.parquet")
    names = {
        ("trained", "none"): "MiniLM",
        ("untrained", "none"): "untrained",
        ("trained", "shuffled labels"): "MiniLM, shuffled labels",
    }
    parts = [
        layer_means(table[(table["model"] == model) & (table["control"] == control)]).assign(
            model=name
        )
        for (model, control), name in names.items()
    ]
    main = table[(table["model"] == "trained") & (table["control"] == "none")]
    recipe = chosen_layers(main[main["probe"] == "reader"])
    parts.append(recipe.assign(model=f"MiniLM, layer {recipe['layer'].iloc[0]}: the recipe"))
    rows = pd.concat(parts)
    rows["text"] = [interval(*row) for row in rows[["accuracy", "low", "high"]].to_numpy()]
    wide = rows.pivot_table(
        index=["model", "probe"], columns="split", values="text", aggfunc="first", sort=False
    )
    return [
        "Accuracy, mean over layers 1 to 6 with the mean ends of its intervals (of `location`: "
        "share of sentences whose informative token ranks first). The recipe is `reader` at the "
        "layer that cross-validation over training words chose.",
        markdown(wide[list(SPLIT_NAMES)].rename(columns=SPLIT_NAMES)),
    ]


def directions(folder: Path) -> list[str]:
    import pandas as pd

    from probing.bridge import QUANTITIES

    table = pd.read_parquet(folder / "directions.parquet")
    heads = table.sort_values("attention_mass").groupby(["model", "trained", "seed"]).last()
    groups = heads.abs().groupby(["model", "trained"])
    names = {"kappa": "cos(key, k_hat)", "nu": "cos(value, v_hat)", "rho": "cos(key, value)"}
    shown = pd.DataFrame({label: groups[name].agg(spread) for name, label in names.items()})
    shown["random, 95%"] = groups[["kappa_null_95", "nu_null_95"]].mean().max(axis=1).round(2)
    causal = pd.read_parquet(folder / "causal.parquet")
    causal = causal[
        (causal["model"] == "tiny") & (causal["split"] == "test") & (causal["layer"] == 0)
    ]
    causal = causal[causal["dose"].isna() | (causal["dose"] == 1.0)]
    tests = causal.groupby(["test", "edit", "site"], sort=False)
    effects = pd.DataFrame(
        {
            "accuracy": tests["accuracy"].agg(spread),
            "changed predictions": tests["flips"].agg(spread),
            "attention on the informative word": tests["attention_mass"].agg(spread),
        }
    )
    ideal = pd.read_parquet(folder / "idealised.parquet")
    ideal = ideal[ideal["split"] == "test"].groupby(["gate", "source"])
    predictor = ideal[["accuracy", "attention_mass"]].mean().map(lambda x: f"{x:.3f}")
    predictor.columns = ["accuracy", "attention on the informative word"]
    both = pd.read_parquet(folder / "theory_practice.parquet")
    both["text"] = [interval(*row) for row in both[["median", "low", "high"]].to_numpy()]
    both["quantity"] = both["quantity"].map(QUANTITIES)
    beside = both.pivot_table(
        index="quantity", columns=["model", "when"], values="text", aggfunc="first", sort=False
    )
    beside.columns = [f"{model}, {when}" for model, when in beside.columns]
    return [
        "Absolute cosines between directions in the weights (of the head with most attention on "
        "the informative word) and those of linear probes on the states it reads: mean (range) "
        "over training seeds.",
        markdown(shown),
        "Edits of the embeddings' output in the 1-layer model, test split (steering by one "
        "distance between the labels): mean (range) over training seeds.",
        markdown(effects),
        "The paper's predictor on the states that the 1-layer model reads, with other gates, and k "
        "and v fitted to labels or taken from the probes: mean over training seeds, test split.",
        markdown(predictor),
        "Theory beside practice, at the start and at the end of training: median and the range "
        "that holds 95% of the runs (of five seeds: nearly all).",
        markdown(beside),
    ]


def controls(folder: Path) -> list[str]:
    import pandas as pd

    table = pd.read_parquet(folder / "controls.parquet")
    wide = table.pivot_table(
        index=["model", "probe", "layer"], columns="task", values="accuracy", sort=False
    )
    labels = table[table["task"] == "label"].set_index(["model", "probe", "layer"])
    shown = wide.map(number)
    shown["selectivity"] = labels["selectivity"].map(number)
    shown["compression of labels"] = labels["compression"].map("{:.1f}".format)
    return [
        "Probes of the 1-layer Transformer (training seed 0): accuracy on held-out training "
        "sentences, beside the same probe's on control tasks, shuffled labels and along random "
        "directions. Selectivity is the first less the second; compression that of an online code.",
        markdown(shown),
    ]
