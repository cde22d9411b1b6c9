"""Notes, their evolution and their links, without any model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from baselines.amem.replies import Evolution
from memsys.dialogue import Session, Turn
from memsys.system import Unit

NoteText = Literal["paper", "official"]


@dataclass
class Note:
    """One turn: its content and time, what it is about, and the positions it links to."""

    turn: str
    session: str
    content: str
    time: str
    keywords: list[str] = field(default_factory=list)
    context: str = "General"  # authors' code, for a turn that could not be analysed
    tags: list[str] = field(default_factory=list)
    links: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, turn: Turn, session: Session) -> Note:
        """Make the note of a turn; an image's caption stands in brackets before the text."""
        caption = f"[image: {turn.caption}] " if turn.caption else ""
        content = f"{turn.speaker}: {caption}{turn.text}"
        return cls(turn.id, session.id, content, session.date_text)

    def embedded_text(self, form: NoteText) -> str:
        """Return the text whose vector stands for the note.

        `paper`: content ⧺ keywords ⧺ tags ⧺ context; `official`: content, context, keywords, tags.
        """
        keywords, tags = " ".join(self.keywords), " ".join(self.tags)
        parts = [self.content, keywords, tags, self.context]
        if form == "official":
            parts = [self.content, self.context, keywords, tags]
        return " ".join(part for part in parts if part)

    def shown(self) -> str:
        """Return the note as prompts show it."""
        lines = [
            f"Time: {self.time}" if self.time else "",
            f"Content: {self.content}",
            f"Context: {self.context}",
            f"Keywords: {', '.join(self.keywords)}" if self.keywords else "",
            f"Tags: {', '.join(self.tags)}" if self.tags else "",
        ]
        return "\n".join(line for line in lines if line)

    def unit(self, ids: Sequence[str]) -> Unit:
        """Return the note as a unit; links become the ids of the units they lead to."""
        fields = {
            "time": self.time,
            "keywords": list(self.keywords),
            "context": self.context,
            "tags": list(self.tags),
            "links": [ids[i] for i in self.links],
        }
        return Unit(self.turn, self.content, (self.turn,), (self.session,), fields)


def notes_of(units: Sequence[Unit]) -> list[Note]:
    """Return remembered units as notes, their links as positions."""
    position = {unit.id: i for i, unit in enumerate(units)}
    return [
        Note(
            unit.turns[0],
            unit.sessions[0],
            unit.text,
            unit.fields["time"],
            list(unit.fields["keywords"]),
            unit.fields["context"],
            list(unit.fields["tags"]),
            [position[link] for link in unit.fields["links"]],
        )
        for unit in units
    ]


def evolve(
    notes: Sequence[Note], note: Note, neighbours: Sequence[int], reply: Evolution
) -> list[int]:
    """Apply an evolution to the new `note` and its neighbours; return who changed.

    `note` is not among `notes` yet. `strengthen` links it to earlier notes and replaces its tags;
    links to notes that do not exist are ignored. `update_neighbor` replaces contexts and tags in
    the order of `neighbours`. An empty replacement is no replacement.
    """
    changed: list[int] = []
    if not reply.should_evolve:
        return changed
    if "strengthen" in reply.actions:
        note.links += [i for i in reply.suggested_connections if 0 <= i < len(notes)]
        note.tags = list(reply.tags_to_update) or note.tags
    if "update_neighbor" in reply.actions:
        for place, index in enumerate(neighbours):
            neighbour, before = notes[index], (notes[index].context, notes[index].tags)
            if place < len(reply.new_tags_neighborhood):
                neighbour.tags = list(reply.new_tags_neighborhood[place]) or neighbour.tags
            if place < len(reply.new_context_neighborhood):
                neighbour.context = reply.new_context_neighborhood[place] or neighbour.context
            if (neighbour.context, neighbour.tags) != before:
                changed.append(index)
    return changed


def expand(hits: Sequence[int], links: Sequence[Sequence[int]], k: int) -> list[int]:
    """Return each hit followed by its linked notes, repeats kept, as the answer prompt shows them.

    The authors' loop lets k + 1 links of a hit through.
    """
    return [note for hit in hits for note in (hit, *links[hit][: k + 1])]
