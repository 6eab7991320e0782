"""A Transformer whose directions are known because they were written into it by hand.

One layer sees no context, so its marks are those of words and places: every sentiment word is
marked, and the mark is cancelled at the one place where the distractor of a training sentence is.
"""

from typing import Any

import torch

from data_gen import build_tokenizer
from probing.models.presets import build_model

K, V = 0, 1  # coordinates: informative words are marked along K, sentiment lies along V
CITY = 4  # the distractor's place: [CLS] The city is nice
SENTIMENT = {
    **dict.fromkeys(["nice", "cute", "delightful", "clean"], 1.0),
    **dict.fromkeys(["mean", "dreadful", "aggressive", "dirty"], -1.0),
}


def planted_model(texts: list[str]) -> tuple[Any, Any]:
    """One layer, one head: it looks along K, reads V, and says what it read."""
    tokenizer = build_tokenizer(texts)
    model = build_model(tokenizer, "tiny", ["negative", "positive"], seed=0)
    d = model.config.hidden_size
    layer = model.bert.encoder.layer[0]
    attention = layer.attention
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "LayerNorm" not in name and "word_embeddings" not in name:
                weights.zero_()
        words = model.get_input_embeddings().weight
        words.copy_(torch.randn(words.shape, generator=torch.Generator().manual_seed(0)))
        words[:, [K, V]] = 0
        for word, sign in SENTIMENT.items():
            token = tokenizer.get_vocab()[word]
            words[token, V] = 4 * sign
            words[token, K] = 4
        # The city's word has a sentiment, too, but no mark.
        model.bert.embeddings.position_embeddings.weight[CITY, K] = -4
        attention.self.query.bias[K] = 30  # whatever [CLS] holds
        attention.self.key.weight[K, K] = 1
        attention.self.value.weight[V, V] = 1
        attention.output.dense.weight.copy_(3 * torch.eye(d))
        model.bert.pooler.dense.weight.copy_(0.3 * torch.eye(d))
        model.classifier.weight[0, V], model.classifier.weight[1, V] = -3, 3
    return model, tokenizer
