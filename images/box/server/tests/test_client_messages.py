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
    for invalid in ("one", {"id": "one"}, message("x" * 201), message(""), message("one", storeHistory="yes")):
        run = box.start("1", message=invalid)
        run.join()
        assert run.status == 400
