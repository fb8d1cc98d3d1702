"""Program assembly: the author's own text, put together so that it means the same."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from synthesis.contracts import Program, Tool
from synthesis.drafts import CodeDraft
from synthesis.runtime import Sandbox, derive_working_schema, outline_program
from synthesis.skeleton.assembly import merge_fragments
from synthesis.skeleton.fragments import normalize_fragment, read_attributes, read_method
from synthesis.skeleton.static import examine_program
from tests.skeleton.support import ATTRIBUTES, METHODS, STARTED, fragments, planned


def program(source: str, class_name: str = "PlantSwap") -> Program:
    found = outline_program(source, class_name)
    tools = tuple(Tool(name=m.name, parameters=derive_working_schema(m)) for m in found.methods)
    return Program(source=source, class_name=class_name, tools=tools)


def body_of(source: str) -> str:
    """A method's meaning: its tree without the layout of its docstring."""
    tree = ast.parse(normalize_fragment(source))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
            node.body[0] = ast.Expr(ast.Constant(ast.get_docstring(node)))
    return ast.dump(tree)


def test_imports_stand_at_the_top_each_once() -> None:
    head = merge_fragments(fragments()).split("\n\n")[0]
    assert head.splitlines() == ["import copy", "import datetime", "from typing import Any, Dict, Optional"]


def test_an_import_that_would_change_a_names_meaning_stays_in_its_method() -> None:
    source = merge_fragments(fragments())
    method = outline_program(source, "PlantSwap").method("take_pot")
    assert method is not None
    assert method.source.splitlines()[7] == "        from datetime import datetime"


def test_comments_docstrings_and_strings_stay_as_they_were_written() -> None:
    source = merge_fragments(fragments())
    for words in (
        "MOST = 2  # by the rules",
        "        # Pots by id.",
        "    # What follows is the shelf's work.\n\n    def find_pots",
        "        # Everything fits an empty text.",
        '"""Not now:\nit is held, or the neighbour holds enough"""',
        "            plant (str, optional): A part of the name.",
    ):
        assert words in source


def test_the_program_does_what_its_fragments_say(sandbox: Sandbox) -> None:
    with sandbox.reset(program(merge_fragments(fragments())), STARTED) as episode:
        assert episode.call("take_pot", {"neighbour_id": "N-1", "pot_id": "P-1"}).result == {"success": True}
        assert episode.call("count_pots", {"neighbour_id": "N-1"}).result["pots"] == 1
        assert episode.call("find_pots", {"plant": "fern"}).result["pots"]["P-1"]["since"] == "01.03.2026"
        refused = episode.call("take_pot", {"neighbour_id": "N-1", "pot_id": "P-1"}).result
        assert refused["error"] == "Not now:\nit is held, or the neighbour holds enough"


def test_helpers_of_methods_are_kept_once() -> None:
    helpers = (
        "_WORDS = ('a', 'b')\n\n\n# Joins.\ndef _joined(words) -> str:\n    return ' '.join(words)\n\n\n"
        "def _all(self) -> str:\n    return _joined(_WORDS)\n\n\n"
    )
    code = fragments(find_pots=helpers + METHODS["find_pots"], count_pots=helpers + METHODS["count_pots"])
    source = merge_fragments(code)
    assert source.count("_WORDS = ('a', 'b')") == 1
    assert source.count("# Joins.\ndef _joined") == 1
    assert source.count("    def _all(self)") == 1
    assert source.index("def _joined") < source.index("class PlantSwap")


def test_different_helpers_of_one_name_both_stay_for_the_check_to_name() -> None:
    first = "def _part(self) -> int:\n    return 1\n\n\n"
    code = fragments(find_pots=first + METHODS["find_pots"], count_pots=first.replace("1", "2") + METHODS["count_pots"])
    assert merge_fragments(code).count("def _part(self)") == 2


@pytest.mark.parametrize(
    "text",
    [
        'def f(self) -> str:\n    """Say."""\n    return f"""{1}\n  two {self.x!r}\nend"""',
        "def f(self) -> str:\n    '''Say.\n\n    More.\n    '''\n    return 'a\\\nb' + '''c\n    d'''",
        'def f(self) -> dict:\n\t"""Say."""\n\tif True:\n\t\treturn {"a": """x\n\ty"""}\n',
        'def f(\n    self,\n    # many\n    n: int = 1,\n) -> str:\n    """Say."""\n    # up\n    return """\n\n"""',
    ],
)
def test_text_in_strings_is_not_indented(text: str) -> None:
    attributes = "class A:\n\tdef __init__(self):\n\t\tself.x = 1\n"
    merged = merge_fragments(CodeDraft(class_name="A", attributes=attributes, methods=(text,)))
    (_, method) = next(node for node in ast.parse(merged).body if isinstance(node, ast.ClassDef)).body
    method_tree, text_tree = ast.Module([method], []), ast.parse(text)
    for tree in (method_tree, text_tree):
        node = tree.body[0]
        assert isinstance(node, ast.FunctionDef)
        node.body[0] = ast.Expr(ast.Constant(ast.get_docstring(node)))
    assert ast.dump(method_tree) == ast.dump(text_tree)


@pytest.mark.parametrize(
    "text",
    [
        'def f(self) -> str:\n    """Say."""; return datetime(2026, 1, 2).isoformat()',
        "def f(self) -> str: return datetime(2026, 1, 2).isoformat()",
        "def f(self) -> str:\n    # why\n    return datetime(2026, 1, 2).isoformat()",
    ],
)
def test_local_imports_find_a_place_in_any_layout(sandbox: Sandbox, text: str) -> None:
    attributes = "import datetime\nclass A:\n    def __init__(self):\n        self.x = str(datetime.date(2026, 1, 1))\n"
    method = f"from datetime import datetime\n{text}"
    merged = merge_fragments(CodeDraft(class_name="A", attributes=attributes, methods=(method,)))
    with sandbox.reset(program(merged, "A"), None) as episode:
        assert episode.call("f", {}).result == "2026-01-02T00:00:00"
        assert episode.state() == {"x": "2026-01-01"}


AROUND = '''"""A shelf."""
from __future__ import annotations
import json; LIMIT = json.dumps(1)

# Types.
class T(dict):
    pass

# The class.
class A:
    def __init__(self):
        self.x = 1
    # at its end


def after():
    return 1
'''
TOGETHER = '''"""A shelf."""

from __future__ import annotations
import uuid


import json; LIMIT = json.dumps(1)

# Types.
class T(dict):
    pass


# The class.
class A:
    def __init__(self):
        self.x = 1
    # at its end

    def f(self) -> int:
        """Say."""
        return after()


def after():
    return 1
'''


def test_what_stands_around_the_class_stays_around_it() -> None:
    method = 'import uuid\ndef f(self) -> int:\n    """Say."""\n    return after()\n'
    assert merge_fragments(CodeDraft(class_name="A", attributes=AROUND, methods=(method,))) == TOGETHER


def taken_apart(raw: dict[str, Any]) -> CodeDraft:
    """A real program as its author wrote it: the class without its tools, and each tool."""
    source, name = raw["env_class_code"], raw["env_class_name"]
    tools = {tool["function"]["name"] for tool in raw["tools"]}
    methods = [method for method in outline_program(source, name).methods if method.name in tools]
    lines = source.split("\n")
    for method in methods:
        first = method.line - len(method.decorators) - 1
        lines[first : first + method.source.count("\n")] = [None] * method.source.count("\n")
    rest = "\n".join(line for line in lines if line is not None)
    return CodeDraft(class_name=name, attributes=rest, methods=tuple(method.source for method in methods))


@pytest.mark.data
def test_real_programs_are_rebuilt_from_their_fragments(real_data: Path, sandbox: Sandbox) -> None:
    rebuilt = 0
    for raw in json.loads((real_data / "envscaler/env_metadata.json").read_text()).values():
        code, name = taken_apart(raw), raw["env_class_name"]
        before = outline_program(raw["env_class_code"], name)
        assert (
            read_attributes(code.attributes, [m.name for m in before.methods if m.source in code.methods]).name == name
        )
        source = merge_fragments(code)
        after = outline_program(source, name)
        for method in before.methods:
            made = after.method(method.name)
            assert made is not None
            assert body_of(made.source) == body_of(method.source)
        for text in code.methods:
            read_method(text, outline_program(f"class X:\n{text}", "X").methods[0].name)
        with (
            sandbox.reset(program(source, name), None) as one,
            sandbox.reset(program(raw["env_class_code"], name), None) as other,
        ):
            assert one.state() == other.state()
        rebuilt += 1
    assert rebuilt == 22


@pytest.mark.data
def test_the_fragments_of_a_real_run_become_a_program_without_problems(real_data: Path, sandbox: Sandbox) -> None:
    folder = real_data / "envscaler/pipeline_run"
    (run,) = json.loads((folder / "env_simulator__stage2_syn_env.step4_infer_func_code.json").read_text())
    listed = {one["operation_name"]: one for one in run["operation_list"]}
    name = read_attributes(run["class_definition"], list(listed)).name
    for operation, one in listed.items():
        assert read_method(one["code"], operation).name == operation
    codes = tuple(one["code"] for one in listed.values())
    source = merge_fragments(CodeDraft(class_name=name, attributes=run["class_definition"], methods=codes))
    operations = [{"name": key, "description": "As it says.", "kind": "query"} for key in listed]
    assert examine_program(sandbox, source, name, planned(operations)) == []


def test_attributes_of_the_example_are_the_first_part_of_the_program() -> None:
    source = merge_fragments(fragments())
    for line in ATTRIBUTES.splitlines():
        assert line.startswith(("import", "from")) or line in source
