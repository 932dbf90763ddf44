"""The policy: its tokenizer and template, saving and loading, and what cannot be loaded."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import number_policy, text_policy, weights_equal
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast
from transformers.modeling_layers import GradientCheckpointingLayer

from mrtpo.config import Model
from mrtpo.loading import END, START, load_policy, new_policy, new_tokenizer
from mrtpo.logprobs import plain_logps, response_logps
from mrtpo.policy import Policy, recomputing
from mrtpo.records import Message

MESSAGES = (Message("system", "Be brief."), Message("user", "Zoë asks: net_worth?\n\n1 < 2"))


def test_a_prompt_is_its_turns_and_an_open_assistant_turn() -> None:
    policy = text_policy()
    ids = policy.prompt_ids(MESSAGES)
    text = policy.tokenizer.decode(list(ids), skip_special_tokens=False)
    turns = "".join(f"{START}{m.role}\n{m.content}{END}\n" for m in MESSAGES)
    assert text == f"{turns}{START}assistant\n"
    start, end = policy.tokenizer.convert_tokens_to_ids([START, END])
    assert ids.count(start) == 3 and ids.count(end) == 2
    assert policy.end_ids == {end}
    assert policy.pad_id not in (start, end)


def test_any_text_survives_the_small_tokenizer() -> None:
    tokenizer = text_policy().tokenizer
    for text in ("", " a  b\t\n\n", "Zoë ≥ 3", "日本 🙂", 'SELECT "x y" FROM `t`;', "<b>&amp;"):
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.decode(ids, skip_special_tokens=False) == text
        assert all(0 <= i < len(tokenizer) for i in ids)


def test_words_stay_whole_and_the_vocabulary_keeps_its_size() -> None:
    words = ("<sql>", "</sql>")
    tokenizer = new_tokenizer(["select a from b"] * 9, 310, words)
    assert len(tokenizer) <= 310
    for word in words:
        assert len(tokenizer.encode(word)) == 1
    ids = tokenizer.encode("a<sql>b</sql>c")
    assert tokenizer.decode(ids) == "a<sql>b</sql>c"


def test_the_text_of_a_response_is_without_its_end() -> None:
    policy = text_policy()
    ids = policy.tokenizer.encode("Plain.")
    (end,) = policy.end_ids
    assert policy.text([*ids, end]) == "Plain."
    assert policy.text(ids) == "Plain."
    assert policy.text([end]) == ""


def test_the_pieces_of_a_response_are_its_text_token_by_token() -> None:
    policy = text_policy()
    text = "Be letters: é🙂!"
    ids = policy.tokenizer.encode(text)
    pieces = policy.pieces(ids)
    assert len(pieces) == len(ids)
    assert "".join(pieces) == text
    assert "" in pieces  # the first bytes of a character that is not yet complete
    half = ids[:-2]
    assert "".join(policy.pieces(half)) == policy.tokenizer.decode(half)
    assert policy.pieces([]) == []


def decoded(policy: Policy, ids: Sequence[int]) -> str:
    return str(policy.tokenizer.decode(list(ids), skip_special_tokens=False))


def slow_pieces(policy: Policy, ids: Sequence[int]) -> list[str]:
    """What each token adds to the text of all before it, once its last character is complete."""
    pieces, given = [], ""
    for n in range(1, len(ids) + 1):
        text = decoded(policy, ids[:n])
        if text.endswith("\ufffd") and n < len(ids):
            text = given
        pieces.append(text[len(given) :])
        given = text
    return pieces


CHARACTERS = [
    "a",
    " the",
    "é",
    "≥",
    "日",
    "🙂",
    "\n",
    " ",
    "letters",
    "<|im_start|>",
    "👩‍💻",
    "\ufffd",
]


@pytest.mark.parametrize("end", [0, 1, 2, 3])
def test_pieces_are_what_each_token_adds(end: int) -> None:
    policy = text_policy()
    splits = 0
    for seed in range(30):
        text = "".join(random.Random(seed).choices(CHARACTERS, k=25))
        ids = policy.tokenizer.encode(text + "🙂")
        ids = ids[: len(ids) - end]  # whole, or within the last character
        pieces = policy.pieces(ids)
        assert "".join(pieces) == decoded(policy, ids)
        if "\ufffd" not in text:
            assert pieces == slow_pieces(policy, ids)
        splits += pieces.count("")
    assert splits > 100


def test_pieces_of_random_ids_are_the_text_and_those_of_a_slow_reference() -> None:
    policy = text_policy()
    special = {0, 1, 2}
    equal = 0
    for seed in range(200):
        rng = random.Random(seed)
        ids = [rng.randrange(policy.vocab_size) for _ in range(rng.randrange(40))]
        pieces = policy.pieces(ids)
        assert len(pieces) == len(ids)
        assert "".join(pieces) == decoded(policy, ids)
        equal += pieces == slow_pieces(policy, ids)
        for token, piece in zip(ids, pieces, strict=True):
            if token in special:
                assert piece.endswith(decoded(policy, [token]))
    assert equal > 150  # others have bytes that are no character for long


@pytest.mark.parametrize("text", ["plain words ", "日本🙂", "\x80"])
def test_pieces_decode_a_few_tokens_for_each(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = text_policy()
    ids = policy.tokenizer.encode(text * 400)
    if text == "\x80":  # its second byte alone: never a character
        ids = ids[1::2]
    counts = {}
    inner = policy.tokenizer.decode
    for length in (100, 200, 400):
        lengths: list[int] = []

        def counted(some: Any, lengths: list[int] = lengths, **kwargs: Any) -> Any:
            lengths.append(len(some))
            return inner(some, **kwargs)

        monkeypatch.setattr(policy.tokenizer, "decode", counted)
        assert "".join(policy.pieces(ids[:length])) == inner(ids[:length])
        counts[length] = sum(lengths)
    assert counts[400] - counts[200] < 2.2 * (counts[200] - counts[100])
    assert counts[400] < 30 * 400


def byte_fallback_policy() -> Policy:
    """A tokenizer whose rare characters are bytes, which a decoder takes by the run."""
    vocab = {"a": 0, "b": 1, "</s>": 2, **{f"<0x{n:02X}>": 3 + n for n in range(256)}}
    inner = Tokenizer(models.BPE(vocab, [], byte_fallback=True))
    inner.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    policy = number_policy(vocab=len(vocab))
    policy.tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</s>")
    return policy


def test_pieces_are_the_text_also_where_a_later_byte_undoes_earlier_ones() -> None:
    policy = byte_fallback_policy()
    smile = [3 + byte for byte in "🙂".encode()]
    assert policy.pieces([0, *smile, 1]) == ["a", "", "", "", "🙂", "b"]
    assert policy.pieces([*smile, *smile]) == ["", "", "", "🙂", "", "", "", "🙂"]
    # A run that ends within a character is no text at all to this decoder.
    assert decoded(policy, smile + smile[:1]) == "\ufffd" * 5
    assert "".join(policy.pieces(smile + smile[:1])) == "\ufffd" * 5
    for seed in range(100):
        rng = random.Random(seed)
        ids = [i for _ in range(6) for i in rng.choice([smile, smile[:2], [0], [3 + 0x80], [1]])]
        pieces = policy.pieces(ids)
        assert len(pieces) == len(ids)
        assert "".join(pieces) == decoded(policy, ids)


def test_a_saved_policy_is_the_same_when_loaded(tmp_path: Path) -> None:
    policy = text_policy()
    folder = tmp_path / "models" / "policy"
    policy.save(folder)
    settings = Model(hidden_size=16, layers=1, heads=2, device="cpu")
    loaded = load_policy(folder, settings, tmp_path)
    assert weights_equal(loaded, policy)
    assert loaded.prompt_ids(MESSAGES) == policy.prompt_ids(MESSAGES)
    assert (loaded.end_ids, loaded.pad_id, loaded.max_positions) == (
        policy.end_ids, policy.pad_id, policy.max_positions,
    )  # fmt: skip
    with torch.no_grad():
        one, other = (plain_logps(p, [1, 2, 3], [40, 41], 1.0) for p in (policy, loaded))
    assert torch.equal(one, other)
    assert not loaded.model.training
    assert [p.name for p in folder.parent.iterdir()] == ["policy"]


def test_saving_again_replaces_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "policy"
    text_policy(0).save(folder)
    (folder / "stale").write_text("")
    text_policy(1).save(folder)
    assert not (folder / "stale").exists()
    settings = Model(hidden_size=16, layers=1, heads=2, device="cpu")
    assert weights_equal(load_policy(folder, settings, tmp_path), text_policy(1))


def test_a_new_policy_follows_from_its_seed_and_leaves_the_global_one_alone() -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    one, same, other = (text_policy(seed, std=None) for seed in (0, 0, 1))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert weights_equal(one, same) and not weights_equal(one, other)
    assert not one.model.training


def test_the_small_policy_has_the_shape_asked_for() -> None:
    tokenizer = new_tokenizer(["a b"], 300, ())
    policy = new_policy(tokenizer, Model(hidden_size=24, layers=3, heads=3), 77, 0)
    config = policy.model.config
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (24, 3, 3)
    assert policy.max_positions == 77
    assert config.vocab_size == len(tokenizer)


@pytest.mark.parametrize("path", ["./nowhere", "/no/such/folder", "a/b/c", "~/none"])
def test_a_folder_that_is_not_there_is_named(tmp_path: Path, path: str) -> None:
    with pytest.raises(ValueError, match=f"model.path: {path} is not a folder"):
        load_policy(path, Model(), tmp_path)


def test_a_gguf_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none.gguf is not a file"):
        load_policy(tmp_path / "none.gguf", Model(), tmp_path)


def test_a_folder_without_a_model_says_what_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"model.path: cannot load .*empty.*\.gguf file"):
        load_policy(tmp_path / "empty", Model(), tmp_path)


def test_a_model_without_a_chat_template_is_refused(tmp_path: Path) -> None:
    policy = text_policy()
    policy.tokenizer.chat_template = None
    policy.save(tmp_path / "base")
    with pytest.raises(ValueError, match="no chat template; choose an instruction-tuned model"):
        load_policy(tmp_path / "base", Model(device="cpu"), tmp_path)


def test_all_ends_of_a_model_end_a_response(tmp_path: Path) -> None:
    policy: Policy = text_policy()
    policy.model.generation_config.eos_token_id = [7, 9]
    policy.save(tmp_path / "two")
    loaded = load_policy(tmp_path / "two", Model(device="cpu"), tmp_path)
    assert loaded.end_ids == {7, 9, policy.tokenizer.eos_token_id}
    assert number_policy(ends=(3, 4)).end_ids == {3, 4}


RECOMPUTED = ("llama", "qwen3", "gpt2", "opt", "falcon", "gemma3")
ROWS: Any = ([(3, 1, 4), (5, 9, 2, 6, 5, 3)], [[1, 2, 3, 4], [12, 11], [7, 7, 7]], [1, 0, 1])


def loss_and_gradients(policy: Policy) -> tuple[float, list[torch.Tensor]]:
    loss = response_logps(policy, *ROWS, 0.8)[0].square().sum()
    parameters = [p for p in policy.model.parameters() if p.requires_grad]
    return float(loss.detach()), list(torch.autograd.grad(loss, parameters))


def flags(model: Any) -> list[Any]:
    return [
        (m.training, getattr(m, "gradient_checkpointing", None), "forward" in vars(m))
        for m in model.modules()
    ]


def dropping(kind: str) -> Policy:
    """A policy whose configuration asks for much dropout in training."""
    own = {
        "gpt2": ("attn_pdrop", "embd_pdrop", "resid_pdrop"),
        "opt": ("dropout", "attention_dropout"),
        "falcon": ("hidden_dropout", "attention_dropout"),
    }
    names = own.get(kind, ("attention_dropout",))
    policy = number_policy(kind, **dict.fromkeys(names, 0.5))
    policy.shares = False
    return policy


@pytest.mark.parametrize("kind", RECOMPUTED)
def test_recomputed_layers_give_the_same_numbers_and_no_dropout_wakes_up(kind: str) -> None:
    policy = dropping(kind)
    expected, plain = loss_and_gradients(policy)
    before = flags(policy.model)
    layers = [m for m in policy.model.modules() if isinstance(m, GradientCheckpointingLayer)]
    runs: list[Any] = []
    inner = layers[0].forward

    def counted(*args: Any, **kwargs: Any) -> Any:
        runs.append(1)
        return inner(*args, **kwargs)

    layers[0].forward = counted
    for _ in range(2):
        runs.clear()
        with recomputing(policy.model, True):
            assert not any(m.training for m in policy.model.modules())
            loss, made = loss_and_gradients(policy)
        assert len(runs) == 2  # once more in the backward pass
        assert layers[0].forward is counted
        assert loss == expected
        for one, other in zip(made, plain, strict=True):
            torch.testing.assert_close(
                one, other, rtol=0, atol=1e-6 * max(1, float(other.abs().max()))
            )
    del layers[0].forward
    assert flags(policy.model) == before
    # In training mode the numbers would be others: there is dropout to wake.
    policy.model.train()
    assert loss_and_gradients(policy)[0] != expected


@pytest.mark.parametrize("kind", ["llama", "opt"])
def test_layers_are_as_before_whatever_happens(kind: str) -> None:
    policy = dropping(kind)
    before = flags(policy.model)
    with pytest.raises(RuntimeError, match="mine"), recomputing(policy.model, True):
        assert flags(policy.model) != before
        raise RuntimeError("mine")
    assert flags(policy.model) == before
    with recomputing(policy.model, False):
        assert flags(policy.model) == before
    copy.deepcopy(policy.model)


def test_recomputing_needs_whole_rows_and_says_so() -> None:
    policy = number_policy()
    with recomputing(policy.model, True):
        with pytest.raises(ValueError, match="whole rows"):
            response_logps(policy, *ROWS, 0.8)
        with torch.no_grad():  # nothing is recomputed, and rows may share
            shared_BT, _ = response_logps(policy, *ROWS, 0.8)
    plain_BT, _ = response_logps(policy, *ROWS, 0.8)
    assert torch.equal(shared_BT, plain_BT)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_layers_are_recomputed_in_half_precision(dtype: torch.dtype) -> None:
    policy = number_policy(std=0.3)
    policy.shares, policy.compute = False, dtype
    expected, plain = loss_and_gradients(policy)
    with recomputing(policy.model, True):
        loss, made = loss_and_gradients(policy)
    assert loss == expected
    for one, other in zip(made, plain, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_what_is_trained_has_float32_weights_and_computes_as_asked(
    dtype: Any, tmp_path: Path
) -> None:
    text_policy().save(tmp_path / "policy")
    settings = Model(hidden_size=16, layers=1, heads=2, device="cpu", dtype=dtype)
    asked = getattr(torch, dtype)
    trained = load_policy(tmp_path / "policy", settings, tmp_path, trained=True)
    assert {p.dtype for p in trained.model.parameters()} == {torch.float32}
    assert trained.compute == (None if dtype == "float32" else asked)
    only = load_policy(tmp_path / "policy", settings, tmp_path)
    assert {p.dtype for p in only.model.parameters()} == {asked}
    assert only.compute is None
    assert trained.shares and only.shares
    with torch.no_grad():
        for policy in (trained, only):
            logps_BT, _ = response_logps(policy, [(5, 6, 7)], [[40, 41]], [0], 1.0)
            assert logps_BT.dtype == torch.float32
