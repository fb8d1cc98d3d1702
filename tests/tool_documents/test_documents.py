"""Tool documents of every kind: what a tool takes is kept whole, and what cannot be read says where."""

from __future__ import annotations

import json
from typing import Any

import pytest

from synthesis.errors import InputError
from synthesis.formats.records import ThemeRecord
from synthesis.tool_documents.document_reader import read_document

SHOP: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Book shop", "description": "Orders and parcels."},
    "paths": {
        "/orders/{id}": {
            "parameters": [{"$ref": "#/components/parameters/OrderId"}],
            "get": {
                "operationId": "getOrder",
                "summary": "Show an order.",
                "parameters": [
                    {"name": "id", "in": "query", "schema": {"type": "string"}},
                    {"name": "Authorization", "in": "header", "required": True, "schema": {"type": "string"}},
                ],
                "responses": {"200": {"description": "The order", "content": {"application/json": {
                    "schema": {"type": "array", "items": {"$ref": "#/components/schemas/Part"}}}}}},
            },
            "put": {
                "operationId": "change order",
                "deprecated": True,
                "requestBody": {"required": True, "content": {
                    "text/plain": {"schema": {"type": "string"}},
                    "application/json": {"schema": {"$ref": "#/components/schemas/Order"}},
                }},
            },
        },
        "/orders": {"post": {"requestBody": {"content": {"application/json": {"schema": {
            "type": "array", "items": {"$ref": "#/components/schemas/Part"}}}}}}},
    },
    "components": {
        "parameters": {"OrderId": {"name": "id", "in": "path", "description": "Its number.", "schema": {
            "type": "integer", "minimum": 0, "exclusiveMinimum": True}}},
        "schemas": {
            "Order": {"type": "object", "required": ["part"], "properties": {
                "part": {"$ref": "#/components/schemas/Part"}, "note": {"type": "string", "nullable": True}}},
            "Part": {"type": "object", "properties": {
                "name": {"type": "string"},
                "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Part"}}}},
        },
    },
}  # fmt: skip
PART = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "parts": {"type": "array", "items": {"$ref": "#/$defs/Part"}}},
}


def read(document: Any, name: str = "shop.json") -> ThemeRecord:
    return read_document((document if isinstance(document, str) else json.dumps(document)).encode(), name)


def test_an_operation_takes_what_its_parameters_and_its_body_say() -> None:
    theme = read(SHOP)
    show, change, place = theme.tools
    assert (theme.key, theme.name, theme.description) == ("book-shop", "Book shop", "Orders and parcels.")
    assert [tool.name for tool in theme.tools] == ["getOrder", "change_order", "post_orders"]
    number = {"type": "integer", "exclusiveMinimum": 0, "description": "Its number."}
    assert show.parameters == {
        "type": "object", "properties": {"id": number, "id_query": {"type": "string"}}, "required": ["id"],
    }, "the key of an account is no parameter"  # fmt: skip
    assert show.description == "Show an order.\n\nReturns: The order. A list of objects with name, parts"
    assert change.parameters == {
        "type": "object",
        "properties": {"id": number, "part": {"$ref": "#/$defs/Part"}, "note": {"type": ["string", "null"]}},
        "required": ["id", "part"],
        "$defs": {"Part": PART},
    }, "a circle is kept by name"
    assert place.parameters is not None
    assert place.parameters["properties"] == {"body": {"type": "array", "items": {"$ref": "#/$defs/Part"}}}


def test_yaml_swagger_and_openapi_31_say_the_same_as_json() -> None:
    later = SHOP | {"openapi": "3.1.0"}
    assert read(later).tools == read(SHOP).tools
    swagger = """
swagger: '2.0'
info: {title: Pets, version: 2024-01-01}
paths:
  /pets/{id}:
    post:
      operationId: feed
      parameters:
        - {name: id, in: path, required: true, type: integer}
        - {name: food, in: formData, required: true, type: string, enum: [hay, corn]}
        - {name: grams, in: formData, type: integer}
      responses:
        200: {description: Fed, schema: {$ref: '#/definitions/Pet'}}
    put:
      operationId: rename
      parameters:
        - {in: body, name: pet, required: true, schema: {$ref: '#/definitions/Pet'}}
definitions:
  Pet: {type: object, required: [name], properties: {name: {type: string}}}
"""
    feed, rename = read(swagger, "pets.yaml").tools
    assert feed.description == "Returns: Fed. An object with name"
    assert feed.parameters == {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "food": {"type": "string", "enum": ["hay", "corn"]},
            "grams": {"type": "integer"},
        },
        "required": ["id", "food"],
    }  # fmt: skip
    assert rename.parameters == {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def test_references_may_be_percent_encoded_and_methods_in_capitals() -> None:
    parameter = {"name": "pet", "in": "path", "schema": {"$ref": "#/components/schemas/List%5BPet%5D"}}
    schemas = {"List[Pet]": {"type": "array", "items": {"type": "string"}}}
    document = {"openapi": "3.0.0", "paths": {"/a/{pet}": {"GET": {"operationId": "look", "parameters": [parameter]}}}}
    (tool,) = read({**document, "components": {"schemas": schemas}}).tools
    assert tool.name == "look"
    assert json.dumps(tool.parameters).count('"type": "array"') == 1


def test_long_chains_of_references_and_large_schemas_are_read() -> None:
    """A definition stands once in a document, however many operations lead to it, and is written out no deeper than
    there is room."""
    link = {name: {"type": "object", "properties": {f"to_{n}": {"$ref": f"#/definitions/{n}"} for n in range(at, 400)}}
            for at, name in ((index + 1, str(index)) for index in range(400))}  # fmt: skip
    posts = {f"/{n}": {"post": {"parameters": [{"name": "b", "in": "body", "schema": {"$ref": "#/definitions/0"}}]}}
             for n in range(3)}  # fmt: skip
    tools = read({"swagger": "2.0", "paths": posts, "definitions": link}).tools
    assert len(tools) == 3
    for tool in tools:
        assert tool.parameters is not None
        assert len(tool.parameters["properties"]) == 399
        assert len(json.dumps(tool.parameters)) < 100_000
    chain = {str(n): {"properties": {"next": {"$ref": f"#/definitions/{n + 1}"}}} for n in range(400)} | {"400": {}}
    tool = read({"swagger": "2.0", "paths": posts, "definitions": chain}).tools[0]
    assert tool.parameters is not None
    assert len(tool.parameters["$defs"]) == 400


def test_ids_that_are_no_names_are_replaced_each_by_its_own() -> None:
    paths = {"/a": {"get": {"operationId": "\u0431\u0440\u043e\u043d\u044c"}, "put": {"operationId": "\u65e5"}},
             "/b": {"get": {"operationId": "find-it"}, "put": {"operationId": "find it"}}}  # fmt: skip
    tools = read({"openapi": "3.1.0", "paths": paths}).tools
    assert [tool.name for tool in tools] == ["get_a", "put_a", "find_it", "find_it_2"]


FORECAST = {"name": "forecast", "description": "Tomorrow.", "inputSchema": {"type": "object", "properties": {"d": {}}}}
TAKES = {"type": "object", "properties": {"d": {}}}


@pytest.mark.parametrize(
    "document",
    [
        {"jsonrpc": "2.0", "id": 1, "result": {"tools": [FORECAST]}},
        {"name": "weather", "tools": [FORECAST]},
        [{"type": "function", "function": {"name": "forecast", "description": "Tomorrow.", "parameters": TAKES}}],
        {"functions": [{"name": "forecast", "description": "Tomorrow.", "parameters": TAKES}]},
        [{"type": "function", "name": "forecast", "description": "Tomorrow.", "parameters": TAKES, "strict": True}],
    ],
)
def test_lists_of_tools_are_read_in_each_of_their_forms(document: Any) -> None:
    theme = read(document, "weather.json")
    assert theme.name == "weather"
    assert [tool.model_dump() for tool in theme.tools] == [
        {"name": "forecast", "description": "Tomorrow.", "parameters": TAKES}
    ]


def test_tasks_beside_a_list_of_tools_are_kept_with_it() -> None:
    theme = read({"tools": [FORECAST], "queries": ["Rain?", {"instruction": "Tell me\nof snow. "}]})
    assert theme.tasks == ("Rain?", "Tell me\nof snow.")


MARKDOWN = """# Table desk

Tables and guests of a restaurant.

## Bookings

### `book_table(day, guests, note)`

Books a table. The kitchen is told.

Parameters:

- `day` (string, required): The day.
- `guests` (integer): How many come,
  children too.
- `note` (string, optional): For the kitchen.

#### Returns

The booking's number.

### list_tables

| Name | Type | Required | Description |
|---|---|---|---|
| `hall` | string | no | Only of this hall |

### cancel(booking)

Cancels. It

- frees the table
- tells the guest

### GET /tables/{id}

Shows one.

### set_menu

```json
{"type": "object", "properties": {"dishes": {"type": "array"}}, "required": ["dishes"]}
```
"""


def test_markdown_gives_tools_with_what_they_take() -> None:
    theme = read(MARKDOWN, "desk.md")
    book, tables, cancel, show, menu = theme.tools
    assert (theme.name, theme.description) == ("Table desk", "Tables and guests of a restaurant.\n\nBookings")
    assert book.parameters == {
        "type": "object",
        "properties": {
            "day": {"type": "string", "description": "The day."},
            "guests": {"type": "integer", "description": "How many come,\nchildren too."},
            "note": {"type": "string", "description": "For the kitchen."},
        },
        "required": ["day", "guests"],
    }
    assert "The kitchen is told." in book.description
    assert "Returns: The booking's number." in book.description
    assert tables.parameters == {
        "type": "object",
        "properties": {"hall": {"type": "string", "description": "Only of this hall"}},
        "required": [],
    }  # fmt: skip
    assert cancel.parameters == {"type": "object", "properties": {"booking": {}}, "required": ["booking"]}
    assert "- frees the table\n- tells the guest" in cancel.description
    assert (show.name, show.description) == ("GET /tables/{id}", "Shows one.")
    assert menu.parameters == {"type": "object", "properties": {"dishes": {"type": "array"}}, "required": ["dishes"]}


def without_name(document: dict[str, Any]) -> dict[str, Any]:
    changed: dict[str, Any] = json.loads(json.dumps(document))
    changed["paths"]["/orders/{id}"]["put"]["operationId"] = "getOrder"
    return changed


BOMB = "tools: &a [x]\n" + "\n".join(f"k{n}: &b{n} [{', '.join([f'*b{n - 1}' if n else '*a'] * 9)}]" for n in range(12))


@pytest.mark.parametrize(
    ("document", "name", "place", "reason"),
    [
        ({"openapi": "2.5"}, "a.json", "openapi", "version '2.5'"),
        ({"openapi": "3.0.0", "paths": {}}, "a.json", "paths", "no operation"),
        ({"openapi": "3.0.0", "paths": {"/a": {"get": []}}}, "a.json", "paths./a.get", "expected an object"),
        (without_name(SHOP), "a.json", "paths./orders/{id}.put.operationId", "also that of paths./orders/{id}.get"),
        (
            {"openapi": "3.0.0", "paths": {"/a": {"get": {"parameters": [{"$ref": "b.yaml#/X"}]}}}},
            "a.json", "paths./a.get.parameters[0].$ref", "another document",
        ),
        (
            {"openapi": "3.0.0", "paths": {"/a": {"get": {"parameters": [{"name": "x", "in": "path", "schema": {
                "$ref": "#/components/schemas/No"}}]}}}},
            "a.json", "paths./a.get.parameters[0].schema.$ref", "does not exist",
        ),
        (
            {"openapi": "3.0.0", "paths": {"/a": {"get": {"parameters": [{"$ref": "#/c"}]}}}, "c": {"$ref": "#/c"}},
            "a.json", "paths./a.get.parameters[0].$ref", "in a circle",
        ),
        ("openapi: 3.0.0\npaths:\n  /a: 1\n  /a: 2\n", "a.yaml", "line 4, column 3", "repeated"),
        ("openapi: 3.0.0\npaths: [\n", "a.yaml", "line 3, column 1", "not valid YAML"),
        ("openapi: 3.0.0\npaths: !!python/object:os.system {}\n", "a.yaml", "line 2, column 8", "not valid YAML"),
        ("openapi: 3.0.0\nx: .inf\n", "a.yaml", "x", "not a number of JSON"),
        (BOMB, "a.yaml", "", "aliases"),
        ("tools: " + "[" * 100_000, "a.yaml", "line 1, column 107", "nested more than 100 deep"),
        ("tools:\n" + "- " * 50_000, "a.yaml", "line 2, column 199", "nested more than 100 deep"),
        ('{"tools": [{"name": "a"}, {"name": "a"}]}', "a.json", "tools[1].name", r"also the name of tools\[0\]"),
        ('{"tools": [{"description": "a"}]}', "a.json", "tools[0].name", "missing"),
        ('[{"name": "x", "primary_label": "Weather", "tools": []}]', "a.json", "", "import of MCP servers"),
        ('{"tools": [{"name": "a"}], "tasks": "b"}', "a.json", "tasks", "expected a list, found a string"),
        ('{"tools": [{"name": "a"}], "tasks": ["b", 3]}', "a.json", "tasks[1]", "expected the text of a task"),
        ('{"tools": [{"name": "a"}], "tasks": [{"q": "b"}]}', "a.json", "tasks[0].instruction", "missing"),
        ('{"x": 1}', "a.json", "", "no list of tools"),
        ("# Title\n\nNothing here names a tool.\n", "a.md", "", "no heading names a tool"),
        ("## `a`\n\n## `a`\n", "a.md", "line 3", "also the tool at line 1"),
        (
            "## `book`\n\n## Cancel it\n\nGone.\n\n### Parameters\n\n- `day` (string)\n",
            "a.md", "line 3", "'Cancel it' says what a tool takes, but names none; write its heading as `cancel_it`",
        ),
        ("## `book`\n\n## Cancel\n\n- `day` (string)\n", "a.md", "line 3", "names none"),
        ("# Tools\n\n## Rent a locker\n\n- `size` (string)\n\n## `open_it()`\n", "a.md", "line 3", "'Rent a locker'"),
        ("# Tools\n\n## Rent\n\n### Parameters\n\n- `size`\n\n## `a()`\n", "a.md", "line 3", "'Rent' says"),
        ('{"tools": [{"name": "a"}], "functions": [{"name": "b"}]}', "a.json", "functions", "a second list of tools"),
        ('{"result": {"tools": [{"name": "a"}], "nextCursor": "2"}}', "a.json", "result.nextCursor", "one page"),
        ("", "a.md", "", "empty"),
    ],
)  # fmt: skip
def test_a_bad_document_says_where(document: Any, name: str, place: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as raised:
        read(document, name)
    assert str(raised.value).startswith(place)
