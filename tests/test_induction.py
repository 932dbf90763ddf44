"""Heads that copy from the context: where they look, and what they repeat."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from mrtpo.induction import THETA, look_back, repeating

PROMPT, KNOWN = 24, 200


def decoder(**changes: int) -> LlamaForCausalLM:
    config = {
        "vocab_size": KNOWN, "hidden_size": 128, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 2, "tie_word_embeddings": True,
    }  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return LlamaForCausalLM(
            LlamaConfig(
                **{**config, **changes}, attn_implementation="eager",
                rope_parameters={"rope_type": "default", "rope_theta": THETA},
            )
        ).eval()  # fmt: skip


def attention(model: LlamaForCausalLM) -> tuple[torch.Tensor, ...]:
    """Of 24 distinct tokens said twice, by layer: [head, query, key]."""
    once = torch.randperm(KNOWN, generator=torch.Generator().manual_seed(1))[:PROMPT]
    with torch.no_grad():
        found = model(torch.cat([once, once])[None], output_attentions=True).attentions
    return tuple(layer[0] for layer in found)


def test_heads_of_the_first_layer_look_one_and_two_places_back() -> None:
    model = decoder()
    look_back(model, 0)
    first, _ = attention(model)
    for head, back in ((0, 1), (1, 2)):
        there = first[head, back:].argmax(-1) == torch.arange(2 * PROMPT - back)
        assert there.all()


def test_heads_of_the_second_layer_look_behind_the_same_tokens() -> None:
    model = decoder()
    _, before = attention(model)
    look_back(model, 0)
    _, after = attention(model)
    wanted = torch.arange(2, PROMPT - 1)  # the place behind, in the first saying
    asked = wanted + PROMPT - 1
    assert before[:, asked, wanted].mean() < 0.1
    for head in range(2):
        assert (after[head, asked].argmax(-1) == wanted).float().mean() > 0.9


def test_the_same_seed_gives_the_same_weights() -> None:
    models = [decoder(), decoder(), decoder()]
    for model, seed in zip(models, (3, 3, 4), strict=True):
        look_back(model, seed)
    one, same, other = (model.model.layers[1].self_attn.q_proj.weight for model in models)
    assert torch.equal(one, same) and not torch.equal(one, other)


@pytest.mark.parametrize(
    "changes", [{"num_hidden_layers": 1}, {"num_attention_heads": 1, "num_key_value_heads": 1},
                {"hidden_size": 16}],
)  # fmt: skip
def test_a_decoder_without_room_for_them_is_refused(changes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="needs two layers, two heads"):
        look_back(decoder(**changes), 0)


def test_a_sequence_ends_with_what_it_has_said() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        ids_BL, start = repeating(KNOWN, 4, generator)
        length = ids_BL.shape[1] - (start - 2)
        assert 6 <= length < 33
        tail_BL = ids_BL[:, start - 2 :]
        windows = [ids_BL[:, at : at + length] for at in range(start - 2 - length + 1)]
        assert sum(torch.equal(window, tail_BL) for window in windows) == 1
        assert int(ids_BL.min()) >= 0 and int(ids_BL.max()) < KNOWN
