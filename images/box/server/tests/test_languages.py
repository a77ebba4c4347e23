"""The Bash, JavaScript and TypeScript kernels."""

import time
from typing import Any

import pytest
from box import Box, of, result, text


def test_bash_keeps_variables_functions_and_folder(box: Box) -> None:
    box.run('x=5\nf() { echo "f $1 $x"; }\nmkdir -p sub; cd sub\ndeclare -a list=(1 2)', "bash")
    assert text(box.run("f 1; pwd; echo ${list[1]}", "bash")) == f"f 1 5\n{box.data}/sub\n2\n"
    box.run("cd ..", "bash")


def test_bash_keeps_stdout_and_stderr_apart(box: Box) -> None:
    events = box.run("echo out; echo err >&2", "bash")
    assert (text(events), text(events, "stderr")) == ("out\n", "err\n")


def test_bash_runs_heredocs_loops_and_quotes(box: Box) -> None:
    code = "cat <<'EOF'\n$a \"b\" 'c'\nEOF\nfor i in 1 2; do\n  echo $i\ndone\necho 'it'\"'\"'s' !x"
    assert text(box.run(code, "bash")) == "$a \"b\" 'c'\n1\n2\nit's !x\n"


@pytest.mark.parametrize(
    ("code", "value"), [("false", "1"), ("(exit 42)", "42"), ("nosuchcommand", "127"), ("if then", "2")]
)
def test_a_bash_cell_with_an_exit_status_is_an_error(box: Box, code: str, value: str) -> None:
    events = box.run(code, "bash")
    error = of(events, "error")[0]
    assert (error["name"], error["value"], error["traceback"]) == ("ExitStatus", value, [])
    assert (events[-1]["status"], events[-1]["stateLost"]) == ("error", False)
    assert text(box.run("echo $?", "bash")) == f"{value}\n"


def test_commands_in_bash_have_no_stdin(box: Box) -> None:
    assert text(box.run('cat; read x; echo "<$x>"', "bash")) == "<>\n"


def test_an_interrupted_shell_keeps_its_variables(box: Box) -> None:
    for code in ("kept=1; while :; do :; done", "kept=1; sleep 100; echo no"):
        run = box.start(code, "bash")
        run.until("started")
        time.sleep(0.2)
        run.interrupt()
        events = run.wait()
        assert (events[-1]["status"], events[-1]["stateLost"]) == ("interrupted", False)
        assert "no" not in text(events)
        assert text(box.run("echo $kept", "bash")) == "1\n"


def test_a_shell_that_traps_the_interrupt_is_killed_and_replaced(box: Box) -> None:
    context = box.context("bash")
    run = box.start("trap '' INT; while :; do sleep 0.1; done", timeout_ms=300, context=context)
    done = run.wait()[-1]
    assert (done["status"], done["cause"]["stage"], done["stateLost"]) == ("timeout", "restart", True)
    assert text(box.run("echo back", context=context)) == "back\n"


def test_exit_in_bash_reports_the_loss_of_the_shell(box: Box) -> None:
    context = box.context("bash")
    box.run("x=1", context=context)
    events = box.run("exit 3", context=context)
    assert (of(events, "error")[0]["value"], text(events, "stderr")) == ("3", "")
    done = events[-1]
    assert (done["status"], done["stateLost"], done["cause"]["exitCode"]) == ("error", True, 3)
    events = box.run('echo "<$x>"', context=context)
    assert (text(events), events[-1]["stateLost"]) == ("<>\n", False)


def test_a_killed_shell_is_reported_as_killed(box: Box) -> None:
    done = box.run("kill -9 $$", "bash")[-1]
    assert (done["status"], done["cause"]["signal"], done["stateLost"]) == ("killed", "SIGKILL", True)


def test_the_environment_of_a_bash_run_is_undone(box: Box) -> None:
    box.run("A=1; export B=2; unset C", "bash")
    env = {"A": "x y", "B": "'\n", "C": "$(id)"}
    assert text(box.run('printf "%s|" "$A" "$B" "$C"', "bash", env=env)) == "x y|'\n|$(id)|"
    assert text(box.run('echo "$A $B <${C-unset}>"', "bash")) == "1 2 <unset>\n"


def test_a_background_job_of_bash_continues_after_its_cell(box: Box) -> None:
    assert text(box.run("(sleep 0.3; echo made > made) & echo now", "bash")) == "now\n"
    assert text(box.run("sleep 0.6; cat made", "bash")) == "made\n"


def test_a_long_bash_cell_runs(box: Box) -> None:
    code = "\n".join(f"x{i}={i}" for i in range(20_000)) + "\necho $x19999"
    assert text(box.run(code, "bash")) == "19999\n"


def test_javascript_results_are_formatted_as_in_node(box: Box) -> None:
    assert result(box.run("1 + 1", "javascript")) == "2"
    assert (
        result(box.run("({a: [1, 'x'], b: new Map([[1, 2]])})", "javascript"))
        == "{ a: [ 1, 'x' ], b: Map(1) { 1 => 2 } }"
    )
    assert result(box.run("[10n, -0, NaN, Symbol('s')]", "javascript")) == "[ 10n, -0, NaN, Symbol(s) ]"
    assert result(box.run("-0", "javascript")) == "-0"
    assert result(box.run("12n", "javascript")) == "12n"
    assert not of(box.run("undefined", "javascript"), "result")


def test_javascript_has_top_level_await_and_redeclared_variables(box: Box) -> None:
    box.run("let x = await Promise.resolve(4); const y = 1; class A {}", "javascript")
    box.run("const x = 5; let y = x; class A { z = 1 }", "javascript")
    assert result(box.run("[x, y, new A().z]", "javascript")) == "[ 5, 5, 1 ]"


def test_javascript_has_imports_and_require(box: Box) -> None:
    box.http.put("/codebox/files/mod.mjs", content=b"export const a = 1, b = 2; export default 3")
    box.http.put("/codebox/files/lib.cjs", content=b"module.exports = {c: 4}")
    box.http.put("/codebox/files/node_modules/pkg/package.json", content=b'{"exports": {"import": "./i.mjs"}}')
    box.http.put("/codebox/files/node_modules/pkg/i.mjs", content=b"export default 'pkg'")
    code = """import d, {a, b as bee} from './mod.mjs'
import * as all from "./mod.mjs";
import fs, { existsSync } from 'node:fs'
import pkg from 'pkg'; import './mod.mjs'
// import nothing from 'comment'
const s = `import x from 'template' ${ '}' } `, r = /import 'y'/.test("import 'y'")
export const once = (await import('./mod.mjs')).a;
[d, a, bee, all.b, existsSync('mod.mjs'), pkg, require('./lib.cjs').c, s.length, r, once]"""
    assert result(box.run(code, "javascript")).split() == [
        "[",
        "3,",
        "1,",
        "2,",
        "2,",
        "true,",
        "'pkg',",
        "4,",
        "27,",
        "true,",
        "1",
        "]",
    ]


def test_javascript_output_streams_in_order(box: Box) -> None:
    code = """console.log('a'); console.error('e'); display.html('<b>'); console.log('b')
process.stdout.write('c\\n'); display({'text/plain': 'p'}); 5"""
    events = box.run(code, "javascript")
    kinds = [event["type"] for event in events]
    assert kinds == ["started", "stdout", "stderr", "display", "stdout", "display", "result", "done"]
    assert text(events) == "a\nb\nc\n"
    run = box.start("console.log('now'); await new Promise((done) => setTimeout(done, 3000))", "javascript")
    run.until("stdout")
    assert run.get()["state"] == "running"
    run.interrupt()
    run.wait()


def test_output_of_javascript_children_arrives(box: Box) -> None:
    code = "require('child_process').execSync('echo out; echo err >&2', {stdio: 'inherit'}); undefined"
    events = box.run(code, "javascript")
    assert (text(events), text(events, "stderr")) == ("out\n", "err\n")


def test_javascript_values_can_provide_their_own_display(box: Box) -> None:
    code = "({[Symbol.for('Jupyter.display')]: async () => ({'text/html': '<i>', 'text/plain': 'i'})})"
    assert of(box.run(code, "javascript"), "result")[0]["mime"] == {"text/html": "<i>", "text/plain": "i"}
    events = box.run("display({[Symbol.for('Jupyter.display')]: () => ({'a/b': 'c'})}, {id: 'one'})", "javascript")
    assert of(events, "display")[0] == {"seq": 2, "type": "display", "mime": {"a/b": "c"}, "displayId": "one"}


def test_a_javascript_error_has_name_message_and_its_own_stack(box: Box) -> None:
    error = of(box.run("function f() { null.x }\nf()", "javascript"), "error")[0]
    assert (error["name"], error["value"]) == ("TypeError", "Cannot read properties of null (reading 'x')")
    assert error["traceback"][1].startswith("    at f (cell-")
    assert len(error["traceback"]) == 3
    assert of(box.run("let q = ;", "javascript"), "error")[0]["name"] == "SyntaxError"
    assert of(box.run("throw {a: 1}", "javascript"), "error")[0]["value"] == "{ a: 1 }"
    assert of(box.run("await Promise.reject(new RangeError('r'))", "javascript"), "error")[0]["name"] == "RangeError"


def assert_kept_or_reported(done: dict[str, Any], after: list[dict[str, Any]], value: str) -> None:
    """The interrupt may hit Node's own code, which ends Node: then one of the two `done` events reports the loss."""
    if not (done["stateLost"] or after[-1]["stateLost"]):
        assert result(after) == value


@pytest.mark.parametrize(
    "code",
    [
        "while (true) {}",
        "await null; while (true) {}",
        "await new Promise(() => {})",
        "setTimeout(() => { while (true) {} }, 10); await new Promise(() => {})",
    ],
)
def test_interrupting_javascript_keeps_its_variables_or_reports_their_loss(box: Box, code: str) -> None:
    if box.run("globalThis.kept = 9", "javascript")[-1]["stateLost"]:
        # An earlier interrupt may have hit Node's own code, which ends Node only now.
        assert box.run("globalThis.kept = 9", "javascript")[-1]["status"] == "ok"
    run = box.start(code, "javascript")
    run.until("started")
    time.sleep(0.3)
    run.interrupt()
    done = run.wait()[-1]
    assert (done["status"], done["cause"]["stage"]) == ("interrupted", "interrupt")
    assert_kept_or_reported(done, box.run("kept", "javascript"), "9")


def test_an_interrupt_ends_the_child_process_that_javascript_waits_for(box: Box) -> None:
    code = "globalThis.kept = 2; console.log('going'); require('child_process').execSync('sleep 100')"
    run = box.start(code, "javascript")
    run.until("stdout")
    run.interrupt()
    done = run.wait()[-1]
    assert done["status"] == "interrupted"
    assert_kept_or_reported(done, box.run("kept", "javascript"), "2")


def test_a_javascript_timeout_keeps_the_variables_or_reports_their_loss(box: Box) -> None:
    box.run("globalThis.kept = 3", "javascript")
    done = box.start("for (;;) {}", "javascript", timeout_ms=300).wait()[-1]
    assert done["status"] == "timeout"
    assert_kept_or_reported(done, box.run("kept", "javascript"), "3")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("({[Symbol.for('Jupyter.display')]: () => ({'a/b': 10n})})", "Do not know how to serialize a BigInt"),
        ("throw Object.defineProperty(new Error('x'), 'stack', {get() { throw new Error('y') }})", "y"),
        (
            "const bad = () => Object.defineProperty(new Error('x'), 'stack', {get() { throw bad() }}); throw bad()",
            "an error that cannot be shown",
        ),
    ],
)
def test_a_javascript_value_that_cannot_be_displayed_is_an_error(box: Box, code: str, message: str) -> None:
    box.run("globalThis.kept = 1", "javascript")
    events = box.run(code, "javascript", timeoutMs=20_000)
    assert (of(events, "error")[0]["value"], events[-1]["status"]) == (message, "error")
    assert result(box.run("kept", "javascript")) == "1"


def test_a_failed_callback_does_not_end_javascript(box: Box) -> None:
    code = "globalThis.k = 1; setTimeout(() => { throw new Error('late') }, 10); Promise.reject(new Error('lost'));"
    events = box.run(code + " await new Promise((done) => setTimeout(done, 100))", "javascript")
    assert "Error: late" in text(events, "stderr")
    assert "Error: lost" in text(events, "stderr")
    assert result(box.run("k", "javascript")) == "1"


def test_process_exit_reports_the_loss_of_the_variables(box: Box) -> None:
    context = box.context("javascript")
    box.run("globalThis.x = 1", context=context)
    events = box.run("console.log('bye'); process.exit(4)", context=context)
    assert (text(events), text(events, "stderr")) == ("bye\n", "")
    done = events[-1]
    assert (done["status"], done["stateLost"], done["cause"]["exitCode"]) == ("error", True, 4)
    assert result(box.run("typeof x", context=context)) == "'undefined'"


def test_the_environment_of_a_javascript_run_is_undone(box: Box) -> None:
    assert result(box.run("process.env.ONE", "javascript", env={"ONE": "'"})) == '"\'"'
    assert not of(box.run("process.env.ONE", "javascript"), "result")


def test_a_javascript_flood_is_interrupted(box: Box) -> None:
    done = box.run("for (;;) console.log('x'.repeat(1000))", "javascript")[-1]
    # Node ends when the interrupt hits its own code, where this loop spends most of its time.
    assert done["status"] == "output_limit" or (done["status"], done["stateLost"]) == ("killed", True)


def test_typescript_runs_with_its_types_removed(box: Box) -> None:
    code = "enum Color { Red = 3 }\ninterface P { x: number }\nimport os from 'node:os'\nconst p: P = { x: Color.Red as number };"
    events = box.run(code + "\nconst id = <T,>(v: T): T => v; id<number>(p.x!)", "typescript")
    assert result(events) == "3"
    assert events[0]["language"] == "typescript"
    assert result(box.run("let p: string = typeof os.EOL; p", "typescript")) == "'string'"
    assert of(box.run("const z: = 3", "typescript"), "error")[0]["name"] == "SyntaxError"
