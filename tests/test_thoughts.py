"""A model's thinking: cut in any of the usual brackets, kept where the answer speaks of a tag."""

import pytest

from retrieval_quality.pipeline.answer import written
from retrieval_quality.pipeline.store import Reply
from retrieval_quality.pipeline.thoughts import without_thoughts

PAIRS = [
    ("<think>", "</think>"),
    ("<THINK>", "</THINK>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<reasoning effort='high'>", "</reasoning>"),
    ("<scratchpad>", "</scratchpad>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("[thinking]", "[/thinking]"),
    ("{think}", "{/think}"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|thinking|>", "<|/thinking|>"),
    ("<|think_start|>", "<|think_end|>"),
    ("<｜begin_of_reasoning｜>", "<｜end_of_reasoning｜>"),
    ("◁think▷", "◁/think▷"),
    ("＜think＞", "＜/think＞"),
    ("【think】", "【/think】"),
    ("«think»", "«/think»"),
]
THOUGHT = "The user asks of A. Rome?\nNo: the text says `Paris`, and ```x``` too."


@pytest.mark.parametrize(("opening", "closing"), PAIRS)
@pytest.mark.parametrize("between", ["", " ", "\n\n"])
def test_thinking_is_cut_with_and_without_its_opening_tag(opening, closing, between):
    for start in (opening, opening + "\n", "", "\n"):
        assert without_thoughts(f"{start}{THOUGHT}{closing}{between}Paris.") == "Paris."
    assert without_thoughts(f"{opening}{THOUGHT}") is None
    twice = f"{opening}a{closing}\n{opening}b{closing}{between}Paris."
    assert without_thoughts(twice) == "Paris."
    assert without_thoughts(f"{opening}{THOUGHT}\n{closing}") == ""


@pytest.mark.parametrize(
    "text",
    [
        "<think> is a tag that models print before they answer.",
        "<think> and </think> are tags that models use.",
        "Models close their thinking with </think> before they answer.",
        "The tag is </think>",
        "It closes with </think>.",
        "Use `</think>` to end.",
        'The word "<think>" stands at the start, "</think>" at the end.',
        "It is written '[THINK]', then '[/THINK]'.",
        "I first <think> hard, then answer.",
        "Yes. <think>is kept</think>",
        "Between <think> and </think> stands what was thought.",
        "Paris, see [reasoning] below.",
        "[Analysis] Paris is the capital.",
        "```\n<think>\nx\n</think>\n``` is what a model prints.",
        "The model (<think>) thinks.",
        "x < think > y",
        "Thinking is no tag: think, thinking, reasoning.",
    ],
)
def test_an_answer_that_speaks_of_a_tag_is_kept(text):
    assert without_thoughts(text) == text
    assert written(Reply(text)).text == text


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>a <think>b</think> c</think> Yes", "Yes"),
        ("Okay.\n<think>hm</think>\nParis.", "Okay.\n\nParis."),
        ("<think>is this of Rome? No.</think>Paris", "Paris"),
        ("<think> is this of Rome?\n</think>\nParis", "Paris"),
        ("</think> the capital is Paris", "the capital is Paris"),
        ("<think>x</think><answer>Paris</answer>", "Paris"),
        (
            (
                "<|begin_of_thought|>x<|end_of_thought|>\n"
                "<|begin_of_solution|>\nParis\n<|end_of_solution|>"
            ),
            "Paris",
        ),
        (
            (
                "<|channel|>analysis<|message|>Rome?<|end|><|start|>assistant"
                "<|channel|>final<|message|>Paris<|return|>"
            ),
            "Paris",
        ),
        ("<|channel|>analysis<|message|>Rome?", None),
        ("<think\n>x</think>Paris", "Paris"),
    ],
)
def test_other_shapes(text, answer):
    assert without_thoughts(text) == answer
