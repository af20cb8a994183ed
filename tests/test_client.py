"""The client against a local server that answers, delays, fails, limits, refuses and babbles."""

import asyncio
import threading
import time
from email.utils import formatdate

import pytest

from llm_server import Answer, LlmServer, error, say
from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.pipeline.client import ask, estimate, retry_after
from retrieval_quality.pipeline.settings import Price, Settings, api_key, price_of, shown
from retrieval_quality.pipeline.store import Reply, Store

KEY = "sk-very-secret-0123456789"
UPPER = len("Question 0") + 16 + len('{"max_tokens":9,"seed":1,"temperature":0}')
CHEAP = {"m": {"input": 1.0, "output": 2.0}}


@pytest.fixture
def server():
    with LlmServer(lambda asked: say("Yes.")) as running:
        yield running


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def settings_for(server, **more):
    quick = {"back_off": 0.01, "attempts": 4, "concurrency": 4, "progress": False, **more}
    return Settings("m", server.base_url, **quick)


def questions(settings, n, **more):
    return [
        settings.request(
            [{"role": "user", "content": f"Question {i}"}], "p@1", **{"max_tokens": 9, **more}
        )
        for i in range(n)
    ]


def run(store, settings, n=8, **more):
    return ask(questions(settings, n), store, settings, stage="answer", **more)


def first_time(answer):
    """Let every body fail once, then succeed."""
    return lambda asked: answer if asked.earlier == 0 else say("Yes.")


# ------------------------------------------------------------------- asking once, keeping busy


def test_asks_each_distinct_request_once_and_keeps_what_came(server, store):
    settings = settings_for(server)
    requests = questions(settings, 5)
    tally = ask([*requests, *requests], store, settings, stage="answer")
    assert (tally.answered, tally.settled, server.count) == (5, 5, 5)
    reply = store.get(requests[3].key)
    assert (reply.text, reply.reason, reply.prompt_tokens) == ("Yes.", None, 10)
    assert reply.details["served_model"] == "fake-1"
    again = ask(requests, store, settings, stage="answer")
    assert (again.answered, again.settled, server.count) == (0, 5, 5)


def test_where_all_is_settled_neither_server_nor_key_is_needed(server, store, monkeypatch):
    run(store, settings_for(server))
    server.stop()
    monkeypatch.delenv("OPENAI_API_KEY")
    far = Settings("m", "https://llm.example/v1", progress=False)
    assert run(store, far).settled == 8
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        run(store, far, 9)


def test_any_parameter_prompt_or_repeat_asks_anew(server, store):
    settings = settings_for(server)
    hello = [{"role": "user", "content": "Hello"}]
    base = settings.request(hello, "p@1", max_tokens=9)
    others = [
        settings.request(hello, "p@2", max_tokens=9),
        settings.request(hello, "p@1", max_tokens=9, repeat=1),
        settings.request(hello, "p@1", max_tokens=9, extra_body={"top_k": 1}),
        settings_for(server, seed=2).request(hello, "p@1", max_tokens=9),
        settings_for(server, temperature=0.5).request(hello, "p@1", max_tokens=9),
        settings_for(server, revision="b").request(hello, "p@1", max_tokens=9),
    ]
    assert len({request.key for request in [base, *others]}) == 7
    ask([base, *others], store, settings, stage="answer")
    assert server.count == 7


def test_concurrency_is_bounded_and_used(server, store):
    server.behave = lambda asked: say("Yes.", delay=0.05)
    run(store, settings_for(server, concurrency=6), 30)
    assert server.most_in_flight == 6


def test_what_is_sent_has_the_defaults_and_never_null(server, store):
    run(store, settings_for(server), 1)
    body = server.asked[0].body
    assert (body["temperature"], body["seed"], body["max_tokens"]) == (0, 1, 9)
    assert None not in body.values()
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"


def test_runs_where_a_loop_is_running_already(server, store):
    async def notebook():
        return run(store, settings_for(server), 3)

    assert asyncio.run(notebook()).answered == 3


def test_another_executor_takes_the_same_requests(store):
    class Batch:
        async def execute(self, requests, deliver):
            for request in list(requests):
                deliver(request, Reply(request.messages[0]["content"].upper(), raw="x"))

    settings = Settings("m", progress=False)
    tally = run(store, settings, 3, executor=Batch())
    assert tally.answered == 3
    assert store.get(questions(settings, 1)[0].key).text == "QUESTION 0"


# ------------------------------------------------------------------------ waits the server asks


@pytest.mark.parametrize(
    ("headers", "least"),
    [({"retry_after_ms": "250"}, 0.25), ({"retry_after": "0.5"}, 0.5), ({"retry_after": "1"}, 1)],
)
def test_waits_at_least_what_the_server_asks(server, store, headers, least):
    server.behave = first_time(error(429, code="rate_limit_exceeded", **headers))
    tally = run(store, settings_for(server, concurrency=1), 1)
    first, second = server.asked
    assert tally.answered == 1
    assert least <= second.at - first.at < least + 1.5


def test_waits_until_a_date(server, store):
    server.behave = first_time(error(429, retry_after=formatdate(time.time() + 2, usegmt=True)))
    started = time.time()
    run(store, settings_for(server, concurrency=1), 1)
    assert 0.9 <= time.time() - started < 5  # the date has whole seconds


@pytest.mark.parametrize("headers", [{}, {"retry_after": "-1"}, {"retry_after": "soon"}])
def test_backs_off_by_itself_where_the_server_says_nothing_sensible(server, store, headers):
    server.behave = first_time(error(429, **headers))
    tally = run(store, settings_for(server))
    assert (tally.answered, server.count) == (8, 16)


def test_a_wait_beyond_the_cap_stops_and_says_when_to_come_back(server, store):
    server.behave = lambda asked: error(429, retry_after="90")
    with pytest.raises(
        DataError, match=r"90 s.*max_wait.*after \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
    ):
        run(store, settings_for(server, max_wait=60))
    assert server.count <= 4


def test_one_wait_holds_for_every_worker(server, store):
    def behave(asked):
        if asked.number == 1:
            return error(429, retry_after="0.6")
        return say("Yes.", delay=0.02)

    server.behave = behave
    run(store, settings_for(server, concurrency=4), 40)
    start = server.asked[0].at
    assert not [asked for asked in server.asked if 0.1 < asked.at - start < 0.6]
    assert server.count == 41


def test_retry_after_values():
    now = 1_000_000.0
    asked = {"retry-after-ms": "250", "retry-after": "7"}
    assert retry_after(asked, now) == 0.25
    assert retry_after({"retry-after-ms": "x", "retry-after": "7"}, now) == 7
    assert retry_after({"retry-after": "90"}, now) == 90
    assert retry_after({"retry-after": formatdate(now + 2, usegmt=True)}, now) == 2
    for bad in ("-1", "soon", "", "nan", "inf", formatdate(now - 5, usegmt=True)):
        assert retry_after({"retry-after": bad}, now) is None


def test_an_exhausted_quota_is_no_rate_limit(server, store):
    server.behave = lambda asked: error(429, "You exceeded", code="insufficient_quota")
    with pytest.raises(DataError, match="quota is exhausted"):
        run(store, settings_for(server))
    assert server.count <= 4


# ------------------------------------------------------------------------ failures of the server


def test_bursts_of_500_pass(server, store):
    server.behave = first_time(error(500))
    tally = run(store, settings_for(server), 20)
    assert (tally.answered, server.count) == (20, 40)


def test_requests_that_always_fail_are_recorded_and_asked_in_the_next_run(server, store):
    bad = ("Question 3", "Question 5", "Question 7")  # as many as stop a run, but not in a row

    def behave(asked):
        return error(500) if asked.text in bad else say("Yes.")

    server.behave = behave
    settings = settings_for(server, concurrency=1, attempts=2)
    for _ in range(4):  # more runs than a bad reply gets
        assert run(store, settings).failed == {"server error (HTTP 500)": 3}
    server.behave = lambda asked: say("Yes.")
    assert run(store, settings).answered == 3
    assert sorted(server.answered.values()) == [1] * 8


def test_down_at_the_start_stops_and_resumes(server, store):
    settings = settings_for(server)
    server.stop()
    with pytest.raises(DataError, match=r"does not answer.*run the same command"):
        run(store, settings)
    assert store.spent().calls == 0
    with LlmServer(lambda asked: say("Yes."), port=server.port) as back:
        assert run(store, settings).answered == 8
        assert back.count == 8


def test_down_in_the_middle_for_a_while(store):
    with LlmServer(lambda asked: say("Yes.", delay=0.02)) as server:
        settings = settings_for(server, attempts=12, back_off=0.05)
        down = []

        def behave(asked):
            if asked.number == 20 and not down:
                down.append(True)
                server.stop_soon()
            return say("Yes.", delay=0.02)

        server.behave = behave

        def revive():
            while not down:
                time.sleep(0.01)
            time.sleep(0.5)
            second.__enter__()

        second = LlmServer(lambda asked: say("Yes."), port=server.port)
        thread = threading.Thread(target=revive)
        thread.start()
        tally = run(store, settings, 60)
        thread.join()
        second.stop()
        assert tally.answered == 60
        answered = server.answered + second.answered
        assert len(answered) == 60
        assert sum(answered.values()) <= 60 + 4  # at most the calls in flight twice


def test_down_in_the_middle_for_good_keeps_all_and_resumes(store):
    with LlmServer() as server:
        settings = settings_for(server)

        def behave(asked):
            if asked.number == 20:
                server.stop_soon()
            return say("Yes.", delay=0.01)

        server.behave = behave
        with pytest.raises(DataError, match="does not answer"):
            run(store, settings, 60)
        kept = store.spent().calls
        assert 10 <= kept < 30
        with LlmServer(lambda asked: say("Yes."), port=server.port) as back:
            assert run(store, settings, 60).answered == 60 - kept
            assert back.count == 60 - kept


def test_a_server_that_fails_for_good_is_not_asked_to_the_end(server, store):
    server.behave = lambda asked: error(503)
    with pytest.raises(DataError, match="HTTP 503"):
        run(store, settings_for(server, concurrency=1), 50)
    assert server.count == 3 * 4  # three calls, four attempts each


def test_no_reply_in_time(server, store):
    server.behave = lambda asked: say("Yes.", delay=2 if asked.earlier == 0 else 0)
    tally = run(store, settings_for(server, timeout=0.3), 2)
    assert (tally.answered, server.count) == (2, 4)


def test_a_broken_connection_is_tried_again(server, store):
    server.behave = first_time(Answer(None, hang_up=True))
    assert run(store, settings_for(server), 4).answered == 4


def test_a_full_disk_stops_and_a_run_with_room_goes_on(server, store):
    settings = settings_for(server)
    run(store, settings, 1)
    pages = store._database.execute("PRAGMA page_count").fetchone()[0]
    store._database.execute(f"PRAGMA max_page_count = {pages}")
    server.behave = lambda asked: say("Yes. " * 3000)
    with pytest.raises(DataError, match=r"full.*kept"):
        run(store, settings, 30)
    assert server.count < 30
    store._database.execute("PRAGMA max_page_count = 100000")
    kept = store.spent().calls
    assert run(store, settings, 30).answered == 30 - kept


# ------------------------------------------------------------------------ refusals


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_stops_at_once_and_is_never_shown(server, store, tmp_path, status, capsys):
    server.behave = lambda asked: error(status, f"Incorrect API key provided: {KEY}")
    with pytest.raises(UsageError, match="OPENAI_API_KEY") as caught:
        run(store, settings_for(server), 50)
    assert server.count <= 4
    assert KEY not in str(caught.value)
    assert KEY not in "".join(capsys.readouterr())
    assert not [file for file in tmp_path.iterdir() if KEY.encode() in file.read_bytes()]


def test_a_key_that_comes_back_in_a_reply_is_blotted_out(server, store, tmp_path):
    server.behave = lambda asked: Answer({"error": {"message": f"bad {KEY}"}, "choices": []})
    tally = run(store, settings_for(server), 2)
    assert tally.failed == {"an error instead of a reply; it says: bad [key]": 2}
    store.close()
    assert not [file for file in tmp_path.iterdir() if KEY.encode() in file.read_bytes()]


def test_an_unknown_model_is_named(server, store):
    server.behave = lambda asked: error(404, "The model does not exist", code="model_not_found")
    with pytest.raises(UsageError, match=r"does not know 'm'"):
        run(store, settings_for(server))


def test_a_refused_parameter_is_named_with_the_setting_that_helps(server, store):
    def behave(asked):
        if asked.body.get("temperature") == 0:
            return error(400, "Unsupported value", code="unsupported_value", param="temperature")
        if "max_tokens" in asked.body:
            return error(400, "Use another", code="unsupported_parameter", param="max_tokens")
        return say("Yes.")

    server.behave = behave
    with pytest.raises(UsageError, match=r"'temperature'.*omit: \[temperature\]"):
        run(store, settings_for(server, concurrency=1))
    with pytest.raises(UsageError, match=r"'max_tokens'.*rename: {max_tokens: max_completion"):
        run(store, settings_for(server, concurrency=1, omit=("temperature",)))
    assert server.count == 2  # no retry on a 400
    helped = settings_for(
        server, omit=("temperature",), rename={"max_tokens": "max_completion_tokens"}
    )
    assert run(store, helped).answered == 8
    assert server.asked[-1].body["max_completion_tokens"] == 9
    assert not {"temperature", "max_tokens"} & set(server.asked[-1].body)
    assert questions(helped, 1)[0].parameters == {"max_completion_tokens": 9, "seed": 1}


def test_a_limit_that_is_too_large_is_named(server, store):
    server.behave = lambda asked: error(400, "max_tokens is too large: 9. At most 4.")
    with pytest.raises(UsageError, match=r"'max_tokens'.*smaller"):
        run(store, settings_for(server))


def test_too_long_for_the_model_is_recorded_and_the_others_go_on(server, store):
    def behave(asked):
        if "Question 2" in asked.text:
            return error(400, "maximum context length is 8", code="context_length_exceeded")
        return say("Yes.")

    server.behave = behave
    settings = settings_for(server)
    tally = run(store, settings)
    assert (tally.answered, tally.failed) == (7, {"context too long for the model": 1})
    assert run(store, settings).settled == 8
    assert server.count == 8


@pytest.mark.parametrize(
    "told",
    [
        error(400, "the request exceeds the context", kind="exceed_context_size_error"),
        error(400, "'max_tokens' is too large: this model's maximum context length is 8"),
        error(413, "payload too large"),
    ],
)
def test_too_long_is_told_in_many_ways(server, store, told):
    server.behave = lambda asked: told
    assert run(store, settings_for(server), 1).failed == {"context too long for the model": 1}


@pytest.mark.parametrize(
    ("name", "value"), [("omit", ("temprature",)), ("rename", {"maxtokens": "x"})]
)
def test_a_mistyped_parameter_is_refused(name, value):
    with pytest.raises(UsageError, match="max_tokens, temperature, seed, response_format"):
        Settings("m", **{name: value})


# ------------------------------------------------------------------------ replies that are none


@pytest.mark.parametrize(
    ("answer", "reason", "asked_again"),
    [
        (Answer({"choices": []}), "no choices", True),
        (Answer({"choices": [{"message": None, "finish_reason": "stop"}]}), "no message", True),
        (say(""), "empty", True),
        (say(None), "empty", True),
        (say("  \n"), "empty", True),
        (say(None, finish_reason="length"), "truncated at 9 tokens", False),
        (say("Grade: 1", finish_reason="length"), "truncated at 9 tokens", False),
        (say("Half an ans", finish_reason="content_filter"), "filtered", False),
        (say(None, refusal="I cannot help with that."), "refused", False),
    ],
)
def test_what_is_no_answer_is_kept_with_its_reason(server, store, answer, reason, asked_again):
    server.behave = lambda asked: answer if "Question 1" in asked.text else say("Yes.")
    settings = settings_for(server)
    tally = run(store, settings, 3)
    assert (tally.answered, tally.failed) == (2, {reason: 1})
    reply = store.get(questions(settings, 2)[1].key)
    assert reply.reason == reason
    assert reply.raw
    for _ in range(5):
        run(store, settings, 3)
    assert server.count == 3 + (2 if asked_again else 0)


def test_a_truncated_reply_is_asked_again_only_with_another_limit(server, store):
    def behave(asked):
        return say("Yes.", finish_reason="length" if asked.body["max_tokens"] < 20 else "stop")

    server.behave = behave
    assert run(store, settings_for(server)).failed == {"truncated at 9 tokens": 8}
    assert run(store, settings_for(server)).settled == 8
    assert run(store, settings_for(server, max_tokens=20)).answered == 8


def test_text_in_parts_is_joined(server, store):
    server.behave = lambda asked: say(
        [{"type": "text", "text": "Ye"}, {"type": "text", "text": "s"}]
    )
    settings = settings_for(server)
    run(store, settings, 1)
    assert store.get(questions(settings, 1)[0].key).text == "Yes"


def test_half_a_character_in_a_reply_is_no_fault(server, store):
    server.behave = lambda asked: say("a\ud800b\x00c")
    settings = settings_for(server)
    assert run(store, settings, 1).answered == 1
    assert store.get(questions(settings, 1)[0].key).text == "a?b\x00c"


# ------------------------------------------------------------------------ money


def test_a_limit_without_a_price_stops_before_the_first_call(server, store):
    with pytest.raises(UsageError, match=r"price of 'm' is not known.*prices: {m:"):
        run(store, settings_for(server, max_cost=0.01), 50)
    assert server.count == 0


@pytest.mark.parametrize("price", [{"input": 1, "output": 2}, {"input": 0, "output": 0}])
def test_a_limit_of_nothing_lets_nothing_through(server, store, price):
    with pytest.raises(DataError, match="cost limit"):
        run(store, settings_for(server, max_cost=0, prices={"m": price}))
    assert server.count == 0


def test_the_limit_is_never_exceeded_and_a_higher_one_goes_on(server, store):
    # a call costs 14 and may cost 67 + 18 = 85 millionths: the 17th goes out at 224, none at 238
    assert Price(1, 2).cost(10, 2) == pytest.approx(14e-6)
    assert Price(1, 2).cost(UPPER, 9) == pytest.approx(85e-6)
    settings = settings_for(server, prices=CHEAP, max_cost=322e-6, concurrency=8)
    with pytest.raises(DataError, match=r"cost limit.*raise `max_cost`"):
        run(store, settings, 50)
    spent = store.spent("answer")
    assert spent.cost <= settings.max_cost
    assert spent.calls == 17
    with pytest.raises(DataError, match="cost limit"):  # the limit is the folder's, not the run's
        run(store, settings, 50)
    assert server.count == spent.calls
    assert (
        run(store, settings_for(server, prices=CHEAP, max_cost=1), 50).answered == 50 - spent.calls
    )


@pytest.mark.parametrize(
    ("usage", "prompt", "completion"),
    [
        (None, UPPER, 9),
        ({"prompt_tokens": 10, "completion_tokens": None}, 10, 9),
        ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, UPPER, 9),
        ({"prompt_tokens": True, "completion_tokens": "3"}, UPPER, 9),
    ],
)
def test_a_reply_without_usage_is_kept_and_charged_at_the_most(
    server, store, usage, prompt, completion
):
    def behave(asked):
        answer = say("Yes.")
        answer.body["usage"] = usage
        return answer

    server.behave = behave
    settings = settings_for(server, prices=CHEAP, max_cost=1)
    assert run(store, settings, 1).answered == 1
    reply = store.get(questions(settings, 1)[0].key)
    assert (reply.prompt_tokens, reply.completion_tokens) == (prompt, completion)
    assert reply.estimated
    assert reply.cost == pytest.approx(Price(1, 2).cost(prompt, completion))


def test_a_dry_run_counts_and_asks_nothing(server, store):
    settings = settings_for(server, prices=CHEAP)
    run(store, settings, 2)
    told = estimate([*questions(settings, 5), *questions(settings, 5)], store, settings)
    # three left; "Question 2" has 10 characters, so 3 tokens
    assert (told.calls, told.settled, told.prompt_tokens, told.completion_tokens) == (3, 2, 9, 27)
    assert told.cost == pytest.approx((9 * 1 + 27 * 2) / 1e6)
    assert "3 calls to make" in str(told)
    assert server.count == 2


def test_prices_of_the_user_win(tmp_path):
    own = tmp_path / "prices.yml"
    own.write_text("gpt-4o: {input: 7, output: 8}\n", encoding="utf-8")
    assert price_of("gpt-4o", own) == (7, 8)
    assert price_of("gpt-4o-mini", own) == price_of("gpt-4o-mini")
    for broken in ("m: {input: 1}", "m: {input: x, output: 1}", "m: {input: -1, output: 1}", "- m"):
        own.write_text(broken, encoding="utf-8")
        with pytest.raises(UsageError, match="price"):
            price_of("m", own)


# ------------------------------------------------------------------------ settings


def test_the_key_comes_from_the_environment_alone(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", " sk-1\n")
    assert api_key("https://llm.example/v1") == "sk-1"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-gehe\nim")
    with pytest.raises(UsageError) as caught:
        api_key(None)
    assert "gehe" not in str(caught.value)
    monkeypatch.delenv("OPENAI_API_KEY")
    assert api_key("http://127.0.0.1:8081/v1") == "none"
    with pytest.raises(UsageError, match="OPENAI_API_KEY is not set"):
        api_key("https://llm.example/v1")


@pytest.mark.parametrize(
    "wrong",
    [
        {"concurrency": 0},
        {"concurrency": True},
        {"max_tokens": 0},
        {"max_cost": -1},
        {"max_cost": float("nan")},
        {"timeout": "long"},
        {"rename": ["max_tokens"]},
        {"extra_body": "top_k"},
        {"base_url": "127.0.0.1:8081/v1"},
    ],
)
def test_values_that_cannot_be_are_refused_by_name(wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Settings("m", **wrong)


def test_a_limit_needs_the_limit_of_tokens():
    with pytest.raises(UsageError, match="rename it"):
        Settings("m", prices=CHEAP, max_cost=1, omit=("max_tokens",)).price()


def test_an_address_is_recorded_without_what_is_secret_in_it():
    recorded = Settings("m", "http://me:word@host:1/v1?k=1").recorded()
    assert recorded["base_url"] == shown("http://me:word@host:1/v1?k=1") == "http://host:1/v1"
