"""Executions that stand for requests of Jupyter clients."""

from __future__ import annotations

from typing import Any

from box import Box, of, result

PARENT = "[get_ipython().kernel.get_parent()['header'][name] for name in ('msg_id', 'session', 'username')]"


def message(number: str, session: str = "mine", **fields: Any) -> dict[str, Any]:
    """The message of a client."""
    return {"id": number, "session": session, "username": "ada", "storeHistory": True, "allowStdin": True, **fields}


def test_the_messages_of_the_kernel_refer_to_the_request_of_the_client(box: Box) -> None:
    assert result(box.run(PARENT, message=message("one"))) == "['one', 'mine', 'ada']"


def test_a_client_finds_its_executions_again(box: Box) -> None:
    box.run("1", message=message("two", "other"))
    box.run("1", message=message("three", "another"))
    items = box.http.get("/codebox/executions?session=other").json()["items"]
    assert [(item["message"], item["state"]) for item in items] == [
        ({"id": "two", "session": "other", "username": "ada"}, "done")
    ]
    assert box.http.get("/codebox/executions?session=none").json() == {"items": []}


def test_a_request_can_leave_no_trace_in_the_history_and_refuse_input(box: Box) -> None:
    first = box.run("1")[-1]["executionCount"]
    box.run("1", message=message("four", storeHistory=False))
    events = box.run("input()", message=message("five", allowStdin=False))
    assert events[-1]["executionCount"] == first + 1
    assert of(events, "error")[0]["name"] == "StdinNotImplementedError"


def test_an_invalid_message_is_refused(box: Box) -> None:
    for invalid in (
        "one",
        {"id": "one"},
        message("x" * 201),
        message(""),
        message("one", storeHistory="yes"),
        message("one", expressions={"a": 1}),
    ):
        run = box.start("1", message=invalid)
        run.join()
        assert run.status == 400


def test_expressions_are_evaluated_after_the_code_and_reported_before_the_end(box: Box) -> None:
    events = box.run("x = 41", message=message("six", expressions={"next": "x + 1", "wrong": "x.y"}))
    (event,) = of(events, "reply")
    assert event["expressions"]["next"] == {"status": "ok", "data": {"text/plain": "42"}, "metadata": {}}
    assert (event["expressions"]["wrong"]["status"], event["expressions"]["wrong"]["ename"]) == (
        "error",
        "AttributeError",
    )
    assert event["seq"] == events[-1]["seq"] - 1
    assert not of(box.run("1", message=message("seven")), "reply")


def test_values_of_expressions_that_are_too_large_are_errors(box: Box) -> None:
    events = box.run("1", message=message("eight", expressions={"big": "'x' * 5_000_000", "small": "1"}))
    (event,) = of(events, "reply")
    assert {value["evalue"] for value in event["expressions"].values()} == {"the values are too large"}


def test_the_help_that_code_asks_for_is_reported_to_a_client(box: Box) -> None:
    (event,) = of(box.run("len?", message=message("nine")), "reply")
    assert "Return the number of items" in event["payload"][0]["data"]["text/plain"]
    assert not of(box.run("len?"), "reply")


def test_displays_have_the_metadata_that_the_code_gives_them(box: Box) -> None:
    events = box.run(
        "from IPython.display import display\n"
        "deep = {}\n"
        "for _ in range(70): deep = {'text/plain': deep}\n"
        "display({'image/png': 'aGk='}, raw=True, metadata={'image/png': {'width': 3}, 'codebox': {'own': 1}})\n"
        "display('no metadata')\n"
        "display({'text/plain': 'x'}, raw=True, metadata=deep)"
    )
    assert [event.get("metadata") for event in of(events, "display")] == [{"image/png": {"width": 3}}, None, None]
