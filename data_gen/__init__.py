"""Templated sentences with the ground truth: which word decides the label.

>>> from data_gen import build_dataset
>>> dataset = build_dataset("sentiment")
"""

from data_gen.alignment import Alignment, AlignmentError, align_spans
from data_gen.dataset import DatasetError, build_dataset, stream_dataset
from data_gen.patterns import ROLES, Sentence
from data_gen.reader.shapes import SpecError
from data_gen.sources.data import read_data
from data_gen.sources.own_sentences import own_dataset, read_texts
from data_gen.spec import Spec, builtin_specs, parse_spec, read_spec
from data_gen.tokenizer import build_tokenizer, split_words, unknown_shares

__all__ = [
    "ROLES",
    "Alignment",
    "AlignmentError",
    "DatasetError",
    "Sentence",
    "Spec",
    "SpecError",
    "align_spans",
    "build_dataset",
    "build_tokenizer",
    "builtin_specs",
    "own_dataset",
    "parse_spec",
    "read_data",
    "read_spec",
    "read_texts",
    "split_words",
    "stream_dataset",
    "unknown_shares",
]
