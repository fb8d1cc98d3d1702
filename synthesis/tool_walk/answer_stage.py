"""Execution of a chain, and from it the final words, the answer form and the answer a* (AW 3.1.1).

The final words are written after the trace, so that they refer to existing data. The answer a* is computed by code over
the results of the calls, executed in the sandbox: a value computed by the model itself is never trusted. At another
moment and with another seed it must be the same.
"""

from __future__ import annotations

from typing import Any

from synthesis.contracts import Blueprint, Reference, ReferenceCall
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InputError, Rejected
from synthesis.formats.answer_form import read_submission, serialize_answer
from synthesis.formats.records import EnvironmentRecord
from synthesis.programmatic.query_stage import QueryReply
from synthesis.programmatic.solution_stage import OTHER_SEED
from synthesis.prompts import fence_text, get_prompt
from synthesis.scenarios import prompt_text
from synthesis.stages import Kit
from synthesis.tasks.author_form import INVALID, describe_fields, find_leaked_values, require_form
from synthesis.tasks.leak import Names, collect_names
from synthesis.tasks.submitted_values import is_same_answer
from synthesis.tasks.task_context import Unfit, World, build_world, refuse_leaks, reject_unfit_replies
from synthesis.tool_graph.derivations import require_derivation, run_derivation
from synthesis.tool_graph.execution import Execution, execute_nodes
from synthesis.tool_graph.refinement import UNSAID, find_unsaid, list_intent_values
from synthesis.tool_graph.task_stages import require_blueprint
from synthesis.tool_walk.chain_words import describe_trace
from synthesis.tool_walk.hidden_words import hide_order
from synthesis.tool_walk.written_answers import find_written_fields
from synthesis.verifiers.call_sequences import OTHER_NOW

FAILS, UNSTEADY, WRITTEN = "answer_fails", "answer_unsteady", "answer_written"
TOLD_CHARS = 500


async def write_answer(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft) -> TaskDraft:
    """Return the task with its final words, its answer form, its reference and its expected answer.

    Raises Rejected (`names_a_tool`, `unsaid_value`, `answer_form`, `answer_fails`, `answer_unsteady`, `answer_written`,
    `tells_order`, `reference_fails`) and as `Kit.ask`.
    """
    world = await build_world(kit, record, scenario)
    chain = require_blueprint(task.blueprint)
    execution = await kit.run(_execute_chain, kit, world, chain)
    writer = _Writer(kit, world, chain, execution, await kit.run(collect_names, record, scenario.state), task)
    query_task = await writer.write_query()
    solved = await writer.work_out(query_task)
    if not kit.settings.walk.hidden:
        return solved
    hidden = await hide_order(kit, world, solved, writer.require_sound)
    return solved.model_copy(update={"instruction": hidden, "leaked": tuple(writer.leaked)})


def _execute_chain(kit: Kit, world: World, chain: Blueprint, **elsewhere: Any) -> Execution:
    """Return the execution of the chain. Raises Rejected (`reference_fails`) and InfrastructureError."""
    done = execute_nodes(kit.sandbox, world.program, world.initial, chain.nodes, **elsewhere)
    if done.failed:
        raise Rejected("reference_fails", f"The chain does not go through any more: {done.message}")
    return done


class _Writer:
    """Questions to the author once the chain is executed, and the checks of the replies."""

    def __init__(
        self, kit: Kit, world: World, chain: Blueprint, done: Execution, names: Names, task: TaskDraft
    ) -> None:
        self._kit, self._world, self._chain, self._done = kit, world, chain, done
        self._names, self._task = names, task
        self._elsewhere: Execution | None = None
        self.leaked = dict.fromkeys(task.leaked)

    async def write_query(self) -> TaskDraft:
        """Return the task with its final words and its answer form."""
        record = self._world.record
        words = get_prompt("tool_walk", "query").render(
            about=prompt_text.format_introduction(record),
            tools=prompt_text.format_whole_tools(record, tuple(dict.fromkeys(self._chain.tools))),
            trace=describe_trace(self._chain, self._done.results),
            draft=fence_text("draft", self._task.intent),
            said=fence_text("values", ", ".join(list_intent_values(self._chain)) or "none"),
        )

        def check_reply(reply: QueryReply) -> None:
            if not reply.answer_form:
                raise Unfit(INVALID, "the answer form is empty; ask to be told something that the calls returned")
            require_form(reply.answer_form, {}, "the reply")
            said = "\n".join([reply.title, reply.instruction, *(field.description for field in reply.answer_form)])
            refuse_leaks(said, self._names, self.leaked)
            self.require_sound(reply.instruction)

        with reject_unfit_replies():
            reply = await self._kit.ask("author", "final_query", words, QueryReply, check_reply)
        fresh = {"title": reply.title, "instruction": reply.instruction, "answer_form": reply.answer_form}
        return self._task.model_copy(update={**fresh, "leaked": tuple(self.leaked)})

    def require_sound(self, words: str) -> None:
        """Raise Unfit if the words name the system, or leave out a value that has no other source."""
        refuse_leaks(words, self._names, self.leaked)
        if missing := find_unsaid(self._chain, words):
            raise Unfit(UNSAID, f"nobody could know this, since the words do not say it: {', '.join(missing)}")

    async def work_out(self, task: TaskDraft) -> TaskDraft:
        """Return the task with its answer a*, computed by code over the results."""
        words = get_prompt("tool_walk", "ground_truth").render(
            about=prompt_text.format_introduction(self._world.record),
            trace=describe_trace(self._chain, self._done.results),
            query=fence_text("query", task.instruction),
            form=describe_fields(task.answer_form),
        )
        answer: dict[str, Any] = {}

        async def check_source(source: str) -> None:
            nonlocal answer
            self._kit.check_stop()
            answer = await self._kit.run(self._try_code, task, source)

        with reject_unfit_replies():
            source = await self._kit.ask_code("author", "ground_truth", words, check_source)
        revealed_values = find_leaked_values(task.instruction, task.answer_form, answer)
        notes = (f"The words say a part of the answer: {', '.join(revealed_values[:3])}.",) if revealed_values else ()
        calls = [ReferenceCall(tool=node.tool, arguments=node.call_arguments) for node in self._chain.nodes]
        return task.model_copy(
            update={
                "expected_answer": answer,
                "derivation": source.strip() + "\n",
                "reference": Reference(calls=tuple(calls), answer=serialize_answer(answer)),
                "notes": (*task.notes, *notes),
            }
        )

    def _try_code(self, task: TaskDraft, source: str) -> dict[str, Any]:
        """Return the answer of a derivation. Raises Unfit, Rejected and InfrastructureError."""
        answer = self._run_derivation(task, source, self._done)
        if self._elsewhere is None:
            try:
                self._elsewhere = _execute_chain(self._kit, self._world, self._chain, seed=OTHER_SEED, now=OTHER_NOW)
            except Rejected as error:
                raise Rejected(UNSTEADY, f"Executed at another moment, it ends otherwise: {error}") from error
        other_answer = self._run_derivation(task, source, self._elsewhere)
        if not is_same_answer(task.answer_form, other_answer, answer):
            answers_text = (
                f"{serialize_answer(other_answer)[:TOLD_CHARS]}, and else {serialize_answer(answer)[:TOLD_CHARS]}"
            )
            raise Unfit(
                UNSTEADY, f"executed at another moment, the calls come to {answers_text}: leave such values out"
            )
        return answer

    def _run_derivation(self, task: TaskDraft, source: str, done: Execution) -> dict[str, Any]:
        try:
            require_derivation(source, done.results)
            value = run_derivation(self._kit.sandbox, source, done.results)
        except InputError as error:
            raise Unfit(FAILS, str(error)) from error
        try:
            answer = read_submission(task.answer_form, value)
        except InputError as error:
            raise Unfit(INVALID, f"what the code returns does not fit the answer form: {error}") from error
        require_form(task.answer_form, answer, "the answer")
        if written_fields := find_written_fields(source):
            fields_text = ", ".join(f"{name} = {value[:120]}" for name, value in written_fields.items())
            raise Unfit(WRITTEN, f"written down instead of worked out: {fields_text}; read or count it in the results")
        return answer
