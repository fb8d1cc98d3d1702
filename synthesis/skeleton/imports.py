"""Imports of fragments, gathered at the top of the program, each once."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Bound:
    """One name that an import binds. Two that have the same `target` bind the same thing."""

    name: str
    target: str
    module: str
    words: str

    @property
    def line(self) -> str:
        return f"from {self.module} import {self.words}" if self.module else f"import {self.words}"


def bound(node: ast.stmt) -> list[Bound]:
    """The names that a statement imports."""
    if isinstance(node, ast.Import):
        return [_plain(alias) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        return [
            Bound(alias.asname or alias.name, f"{module}.{alias.name}", module, _words(alias)) for alias in node.names
        ]
    return []


def _plain(alias: ast.alias) -> Bound:
    head = alias.name.partition(".")[0]
    return Bound(alias.asname or head, alias.name if alias.asname else head, "", _words(alias))


def _words(alias: ast.alias) -> str:
    return f"{alias.name} as {alias.asname}" if alias.asname else alias.name


@dataclass
class Imports:
    """What stands at the top of the program. `taken` are the names that module level binds, by what they mean."""

    hoisted: list[Bound] = field(default_factory=list)
    taken: dict[str, str] = field(default_factory=dict)

    def hoist(self, binding: Bound) -> bool:
        """Put an import at the top; false where its name already means something else."""
        if self.taken.setdefault(binding.name, binding.target) != binding.target:
            return False
        if binding.line not in [known.line for known in self.hoisted]:
            self.hoisted.append(binding)
        return True

    def text(self) -> str:
        """The lines, `__future__` first, then whole modules, then names out of modules."""
        words: dict[str, list[str]] = {}
        for binding in sorted(
            self.hoisted, key=lambda binding: (binding.module != "__future__", binding.module, binding.words)
        ):
            words.setdefault(binding.module, []).append(binding.words)
        plain = [f"import {name}" for name in words.pop("", [])]
        lines = [f"from {module} import {', '.join(names)}" for module, names in words.items()]
        future = [line for line in lines if line.startswith("from __future__ ")]
        return "\n".join([*future, *plain, *lines[len(future) :]])
