"""The policy: its tokenizer and template, saving and loading, and what cannot be loaded."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from helpers import number_policy, text_policy, weights_equal

from mrtpo.config import Model
from mrtpo.loading import END, START, load_policy, new_policy, new_tokenizer
from mrtpo.logprobs import plain_logps
from mrtpo.policy import Policy
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
