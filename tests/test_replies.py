"""What a server sends, in every shape: its faults are told, never taken for replies."""

import json
import time

import pytest

from llm_server import Answer, LlmServer, error, say
from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.pipeline.client import ask, http_client, proxy_of
from retrieval_quality.pipeline.replies import WHOLE, read, read_body
from retrieval_quality.pipeline.settings import Settings
from retrieval_quality.pipeline.store import Reply, Store

KEY = "sk-a/very+secret=0123456789"


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
    quick = {"back_off": 0.01, "attempts": 2, "concurrency": 1, "progress": False, **more}
    return Settings("m", server.base_url, **quick)


def questions(settings, n):
    return [
        settings.request([{"role": "user", "content": f"Question {i}"}], "p@1", max_tokens=9)
        for i in range(n)
    ]


def run(store, settings, n=12, **more):
    return ask(questions(settings, n), store, settings, stage="answer", **more)


# ------------------------------------------------------------------------ how a reply ended


def ended(how, text="Rome was founded in"):
    return {"choices": [{"message": {"content": text}, "finish_reason": how}]}


@pytest.mark.parametrize("how", [*WHOLE, "STOP", "Eos_Token"])
def test_endings_known_to_be_whole_make_an_answer(how):
    assert read_body(ended(how), 9) == Reply("Rome was founded in")


@pytest.mark.parametrize(
    ("how", "reason", "final"),
    [
        ("length", "truncated at 9 tokens", True),
        ("max_tokens", "truncated at 9 tokens", True),
        ("model_length", "truncated at 9 tokens", True),
        ("MAX_TOKENS", "truncated at 9 tokens", True),
        ("content_filter", "filtered", True),
        ("safety", "filtered", True),
        ("RECITATION", "filtered", True),
        ("refusal", "refused", True),
        ("tool_calls", "called a tool instead of answering", False),
        ("function_call", "called a tool instead of answering", False),
        ("error", "ended by error", False),
        ("abort", "ended by abort", False),
        ("cancelled", "ended by cancelled", False),
        ("insufficient_system_resource", "ended by insufficient_system_resource", False),
        ("unknown", "ended by unknown", False),
        ("stopped?", "ended by stopped?", False),
        (None, "no word on how it ended", False),
        ("", "no word on how it ended", False),
        (1, "no word on how it ended", False),
        (["stop"], "no word on how it ended", False),
    ],
)
def test_any_other_ending_makes_none(how, reason, final):
    reply = read_body(ended(how), 9)
    assert (reply.reason, reply.final) == (reason, final)


def test_parts_that_are_thinking_are_no_part_of_the_text():
    parts = [{"type": "thinking", "text": "Rome?"}, {"type": "text", "text": "Paris."}]
    assert read_body(ended("stop", parts), 9).text == "Paris."


# ------------------------------------------------------------------------ faults with HTTP 200

PAGE = (
    b"<!DOCTYPE html><html><head><title>Welcome</title></head><body>to <b>my</b> UI</body></html>"
)
STREAM = b'data: {"choices": [{"delta": {"content": "4"}}]}\n\ndata: [DONE]\n\n'
FAULTS = [
    (PAGE, r"/chat/completions answers with a web page.*Welcome to my UI.*base_url.*/v1"),
    (b"<html>busy", "a web page instead of a reply.*busy"),
    (b"\n <?xml version='1.0'?><error>no bucket</error>", "a web page.*no bucket"),
    (STREAM, "a stream of pieces instead of a reply"),
    (b": keep-alive\n\n" + STREAM, "a stream of pieces"),
    (b"", "an empty body"),
    (b" \n \n", "an empty body"),
    (b'{"choices": [{"message": {"content": "Y', "broken JSON"),
    (b"OK", r"text instead of a reply.*says: OK"),
    (b'"a string"', "JSON that is no reply"),
    (b"[1, 2]", "JSON that is no reply"),
    (b"null", "JSON that is no reply"),
    (b"{}", "JSON that is no reply"),
    (b'{"status": "ok"}', "JSON that is no reply"),
    (b'{"error": "model is on fire"}', "model is on fire"),
    (b'{"error": {"message": "Provider is overloaded", "code": 502}}', "Provider is overloaded"),
    (b'{"error": {"message": "upstream", "code": "502"}, "choices": []}', "upstream"),
    (b'{"detail": "not here"}', "not here"),
    (b'{"message": "no route"}', "no route"),
    (b'{"object": "error", "message": "bad state", "type": "Internal"}', "bad state"),
    (b'{"errors": [{"message": "first"}, {"message": "second"}]}', "first; second"),
    (b'{"error": {"message": "no", "code": 401}}', "refuses the key"),
    (b'{"error": {"message": "pay", "code": "insufficient_quota"}}', "quota is exhausted"),
    (b"[" * 100_000, "broken JSON"),
    (b"\xff\xfe\x00", "text instead of a reply"),
]


@pytest.mark.parametrize(("body", "told"), FAULTS)
def test_a_fault_with_http_200_stops_with_the_servers_words_and_settles_nothing(
    server, store, body, told
):
    server.behave = lambda asked: Answer(body)
    settings = settings_for(server)
    with pytest.raises((DataError, UsageError), match=told):
        run(store, settings)
    assert server.count <= 6
    assert store.spent().tries == 0
    assert store.spent().cost == 0
    assert not any(store.is_settled(one) for one in questions(settings, 12))
    server.behave = lambda asked: say("Yes.")
    assert run(store, settings).answered == 12


@pytest.mark.parametrize("body", [PAGE, STREAM, b"", b'{"error": "busy"}', b'{"choices": [{"m'])
def test_one_fault_among_answers_is_asked_again_in_every_run_and_never_counts(server, store, body):
    server.behave = lambda asked: Answer(body) if asked.text == "Question 3" else say("Yes.")
    settings = settings_for(server)
    for answered in (11, 0, 0, 0, 0):
        tally = run(store, settings)
        assert (tally.answered, tally.failed.total()) == (answered, 1)
    server.behave = lambda asked: say("Yes.")
    assert run(store, settings).answered == 1


def test_numbers_that_are_no_numbers_are_no_fault(server, store):
    whole = b'"choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}]'
    odd = [
        b'"model": NaN',
        b'"model": 7, "created": Infinity',
        b'"usage": {"prompt_tokens": NaN, "completion_tokens": -Infinity}',
        b'"usage": {"prompt_tokens": 1e999, "completion_tokens": 3}',
        b'"usage": {"prompt_tokens": 99999999999999999999999999, "completion_tokens": 1.5}',
        b'"usage": {"prompt_tokens": "10", "completion_tokens": [1]}',
        b'"usage": [10, 3]',
        b'"usage": "10"',
        b'"usage": {"prompt_tokens": -5, "completion_tokens": true}',
        b'"usage": {"prompt_tokens": 10.0, "completion_tokens": 3.0}',
    ]
    server.behave = lambda asked: Answer(b"{" + odd[asked.number - 1] + b", " + whole + b"}")
    settings = settings_for(server, prices={"m": {"input": 1, "output": 1}}, max_cost=1)
    assert run(store, settings, len(odd)).answered == len(odd)
    assert store.get(questions(settings, len(odd))[-1].key).completion_tokens == 3


def test_an_answer_without_usage_is_charged_at_the_most_a_body_without_one_not_at_all(
    server, store
):
    def behave(asked):
        reply = say("Yes.")
        del reply.body["usage"]
        return reply if asked.text == "Question 0" else Answer({"choices": []})

    server.behave = behave
    settings = settings_for(server, prices={"m": {"input": 1, "output": 1}})
    assert run(store, settings, 2).failed == {"no choices": 1}
    first, second = (store.get(one.key) for one in questions(settings, 2))
    assert first.estimated
    assert first.cost > 0
    assert (second.cost, second.prompt_tokens) == (None, 0)


# ------------------------------------------------------------------------ errors by status


def body_of(status, body, **headers):
    return Answer(body, status, {k.replace("_", "-"): v for k, v in headers.items()})


DETAIL = {"detail": [{"loc": ["body", "seed"], "msg": "extra fields not permitted"}]}
ERRORS = [
    (error(401, "bad key"), UsageError, "refuses the key.*bad key"),
    (body_of(403, PAGE), UsageError, "HTTP 403.*Welcome to my UI"),
    (body_of(401, b""), UsageError, "HTTP 401"),
    (body_of(402, {"error": "no money"}), DataError, "quota is exhausted.*no money"),
    (error(429, "You exceeded", code="insufficient_quota"), DataError, "quota is exhausted"),
    (error(404, "model 'm' not found"), UsageError, "does not know 'm'"),
    (body_of(404, {"detail": "Not Found"}), UsageError, "There is no .*/chat/comp.*Not Found.*/v1"),
    (body_of(404, b"404 page not found"), UsageError, "There is no .*page not found"),
    (body_of(404, PAGE), UsageError, "There is no .*Welcome to my UI"),
    (body_of(405, {"detail": "Method Not Allowed"}), UsageError, "There is no .*Method Not"),
    (body_of(301, b"", location="http://other.example/v1"), UsageError, "on to http://other.exam"),
    (body_of(307, b"", location="/login"), UsageError, "sends its callers on to .*login"),
    (body_of(302, b""), UsageError, "sends its callers on"),
    (body_of(422, DETAIL), UsageError, r"'seed'.*not permitted.*omit: \[seed\]"),
    (body_of(400, {"error": "'max_tokens' must be 4"}), UsageError, "'max_tokens'.*must be 4"),
    (body_of(400, {"message": "temperature is fixed"}), UsageError, "omit: .temperature."),
    (body_of(400, {"error": "what is this"}), DataError, "refused by the server.*what is this"),
    (body_of(422, {"detail": [{"loc": ["body", "messages", 0], "msg": "no"}]}), DataError, "ges.0"),
    (body_of(400, b"plain words"), DataError, "HTTP 400.*plain words"),
    (body_of(400, b""), DataError, r"refused by the server \(HTTP 400\)"),
    (body_of(418, {"error": {"message": {"deep": "x"}}}), DataError, "HTTP 418"),
    (body_of(500, PAGE), DataError, "HTTP 500.*Welcome to my UI"),
    (body_of(502, b"<html><h1>Bad gateway</h1></html>"), DataError, "HTTP 502.*Bad gateway"),
    (body_of(503, {"error": {"message": "Loading model"}}), DataError, "HTTP 503.*Loading model"),
    (body_of(529, {"type": "error", "error": {"message": "Overloaded"}}), DataError, "Overloaded"),
    (body_of(501, {"error": "no such thing"}), DataError, "refused.*501.*no such thing"),
    (body_of(503, b"busy", x_should_retry="false"), DataError, "503.*busy"),
    (error(429, "slow down"), DataError, "rate limited.*slow down"),
]


@pytest.mark.parametrize(("answer", "kind", "told"), ERRORS)
def test_errors_of_all_shapes_stop_with_the_servers_words_and_settle_nothing(
    server, store, answer, kind, told
):
    server.behave = lambda asked: answer
    settings = settings_for(server)
    with pytest.raises(kind, match=told):
        run(store, settings)
    assert server.count <= 6
    assert not any(store.is_settled(one) for one in questions(settings, 12))
    server.behave = lambda asked: say("Yes.")
    assert run(store, settings).answered == 12


def test_a_server_may_ask_for_another_try_of_any_status(server, store):
    again = body_of(400, b"once more", x_should_retry="true")
    server.behave = lambda asked: again if asked.earlier == 0 else say("Yes.")
    assert run(store, settings_for(server), 3).answered == 3


@pytest.mark.parametrize("code", ["content_filter", "content_policy_violation"])
def test_what_a_filter_refuses_is_filtered(server, store, code):
    server.behave = lambda asked: error(400, "no", code=code)
    assert run(store, settings_for(server), 1).failed == {"filtered": 1}


# ------------------------------------------------------------------------ time, keys, addresses


def test_one_limit_of_time_for_all_of_a_call(store):
    import socket
    import threading

    listening = socket.create_server(("127.0.0.1", 0))

    def drip(connection):
        connection.recv(65536)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n"
        try:
            connection.sendall(head)
            for _ in range(40):
                time.sleep(0.1)
                connection.sendall(b"\n")
        except OSError:
            pass

    def serve():
        while True:
            try:
                connection = listening.accept()[0]
            except OSError:
                return
            threading.Thread(target=drip, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    settings = Settings(
        "m", f"http://127.0.0.1:{listening.getsockname()[1]}/v1", timeout=0.4, attempts=1,
        progress=False,
    )  # fmt: skip
    started = time.monotonic()
    assert run(store, settings, 1).failed == {"no reply within 0.4 s": 1}
    assert time.monotonic() - started < 2
    listening.close()


@pytest.mark.parametrize(
    "written",
    [
        KEY,
        KEY.replace("/", "\\/"),
        json.dumps(KEY)[1:-1],
        "".join(f"\\u{ord(one):04x}" for one in KEY),
        KEY.replace("+", "\\u002B").replace("=", "\\u003d"),
        KEY.replace("/", "%2F").replace("+", "%2b").replace("=", "%3D"),
        KEY.replace("/", "&#47;").replace("=", "&#x3D;"),
        KEY.replace("/", "\\\\/"),
        f"Bearer {KEY}",
        KEY.replace("/", "\\u002f"),
    ],
)
def test_a_key_that_is_echoed_in_any_writing_is_struck_out(server, store, tmp_path, written):
    def behave(asked):
        if asked.text == "Question 0":
            reply = json.dumps(say("KEY").body).replace("KEY", written)
            return Answer(reply.encode())
        return Answer(b'{"error": "bad ' + written.encode() + b'"}', 400)

    server.behave = behave
    settings = settings_for(server)
    with pytest.raises(DataError, match=r"bad (Bearer )?\[key\]"):
        run(store, settings)
    assert "[key]" in store.get(questions(settings, 1)[0].key).text
    assert "secret" not in store.get(questions(settings, 1)[0].key).raw


@pytest.mark.parametrize(
    "address",
    [
        "http://host:99999/v1",
        "http://host:port/v1",
        "http://ho st/v1",
        "http://[::1/v1",
        "http://:80/v1",
        "ftp://host/v1",
        "host/v1",
        "http://",
        "http:///v1",
        "http://host/v1/chat/completions",
        "http://host/v1/completions/",
        "http://me:secret@host:x/v1",
    ],
)
def test_an_address_that_cannot_be_is_refused(address):
    with pytest.raises(UsageError, match="base_url") as caught:
        Settings("m", address)
    assert "secret" not in str(caught.value)


SOCKS = "socks5h://127.0.0.1:9"


@pytest.mark.parametrize(
    ("address", "proxies", "found"),
    [
        ("https://llm.example/v1", {}, None),
        ("https://llm.example/v1", {"https": "http://p:1"}, "http://p:1"),
        ("https://llm.example/v1", {"http": "http://p:1"}, None),
        ("https://llm.example/v1", {"all": "p:1"}, "http://p:1"),
        ("https://llm.example/v1", {"https": "http://p:1", "all": SOCKS}, "http://p:1"),
        ("https://llm.example/v1", {"all": SOCKS, "no": "llm.example"}, None),
        ("https://llm.example/v1", {"all": SOCKS, "no": ".example"}, None),
        ("https://llm.example/v1", {"all": SOCKS, "no": "*"}, None),
        ("https://llm.example/v1", {"all": SOCKS, "no": "other.example"}, SOCKS),
        ("http://10.1.2.3:80/v1", {"all": SOCKS, "no": "10.0.0.0/8"}, None),
        ("http://10.1.2.3:80/v1", {"all": SOCKS, "no": "10.1.2.3:80"}, None),
        ("http://11.1.2.3:80/v1", {"all": SOCKS, "no": "10.0.0.0/8, x"}, SOCKS),
        ("http://127.0.0.1:8081/v1", {"all": SOCKS}, None),
        ("http://localhost:8081/v1", {"http": "http://p:1"}, None),
        ("http://[::1]:8081/v1", {"all": SOCKS}, None),
    ],
)
def test_the_proxy_of_an_address(address, proxies, found):
    assert proxy_of(address, proxies) == found


def test_a_proxy_that_cannot_be_used_is_told_in_one_sentence(monkeypatch, server, store):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ALL_PROXY", "socks4://me:word@proxy.example:1080")
    with pytest.raises(UsageError, match=r"proxy socks4://proxy.example:1080 .*NO_PROXY") as caught:
        http_client("https://llm.example/v1", 3)
    assert "word" not in str(caught.value)
    assert run(store, settings_for(server), 2).answered == 2  # this machine is asked directly


def test_a_proxy_of_the_environment_is_used(monkeypatch, server, store):
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{server.port}")
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    far = Settings("m", "http://llm.example/v1", progress=False)
    assert run(store, far, 2).answered == 2
    assert server.asked[0].headers["host"] == "llm.example"


def test_reading_never_raises():
    for raw in ("", "{", "[]", "[[", '{"choices": 3}', '{"choices": [3]}', '{"choices": [{}]}',
                '{"choices": [{"message": 3}]}', '{"choices": [{"message": {"content": 3}}]}',
                '{"choices": [null]}', '{"error": [[[[[[[["x"]]]]]]]]}', "\ufeff{}", "\x00",
                "data:",
                '{"choices": {}, "error": null}'):  # fmt: skip
        told = read(raw, 9)
        assert told.reason
