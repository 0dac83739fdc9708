"""A dead letter changed and sent back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from ....aio import Lake
from ....consumers.dead_letters.edit import LetterEdit
from ....log.errors import InvalidArgument
from ...operating.bodies import body_of
from ...operating.letter_edits import SENT, EditableLetter, editable_letter, resend
from ..views.page import Breadcrumb, PageContext
from .action import Action, ActionCount, ActionForm, ActionPreview, ActionResult, AffectedRows, FormField, FormFieldKind
from .fields import YES_NO, choice, flag_of, lines
from .send import BODY_BYTES_MAX, SAID_CHARS, check_body, property_of

_SHOWN_BYTES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterResend:
    """A dead letter, and what goes back in its place."""

    group: str
    offset: int
    body: str = ""
    keep_body: str | None = None
    """``yes``: the body stays, whatever is given."""
    message_group: str | None = None
    tag: str | None = None
    keys: str | None = None
    """One a line."""
    properties: str | None = None
    """``NAME=VALUE``, one a line."""
    only_group: str | None = None
    """``yes``: the group that gave it up gets it alone."""

    @property
    def keeps_body(self) -> bool:
        return flag_of("keep_body", self.keep_body, operation="edit") or False

    @property
    def alone(self) -> bool:
        return flag_of("only_group", self.only_group, operation="edit") or False

    def edit(self, found: EditableLetter) -> LetterEdit:
        """Raises `InvalidArgument`."""
        if not self.keeps_body:
            check_body(self.body, operation="edit", object=f"dead letter {self.offset} of {self.group}")
        return LetterEdit(
            body=found.letter.body if self.keeps_body else self.body.encode("utf-8", "replace"),
            by="",
            message_group=self.message_group,
            tag=self.tag,
            keys=tuple(lines(self.keys)),
            properties=dict(property_of(one, operation="edit") for one in lines(self.properties)),
        )


def _parts(edit: LetterEdit) -> dict[str, str | None]:
    return {
        "body": body_of(edit.body, most=_SHOWN_BYTES).text,
        "message group": edit.message_group,
        "tag": edit.tag,
        "keys": ", ".join(edit.keys) or None,
        "properties": ", ".join(f"{name}={value}" for name, value in edit.properties.items()) or None,
    }


async def preview(context: PageContext, meant: LetterResend) -> ActionPreview:
    async def look(lake: Lake) -> tuple[EditableLetter, bool]:
        found = await editable_letter(lake, meant.group, meant.offset)
        if found.state == SENT:
            return found, False
        await resend(lake, found, meant.edit(found), by=context.who, only_group=meant.alone, dry_run=True)
        return found, True

    found, goes = await context.using(look)
    state = (found.life, found.letter.message_id, found.state, found.topic_life)
    if not goes:
        return ActionPreview(summary="This dead letter was sent back already.", stamp=repr(state), is_nothing=True)
    edit = meant.edit(found)
    was, becomes = _parts(found.unchanged), _parts(edit)
    changed = tuple((name, was[name], becomes[name]) for name in was if was[name] != becomes[name])
    if edit.body != found.letter.body and was["body"] == becomes["body"]:
        changed = (("body", "as it was", "other line ends, or another end"), *changed)
    who = f"group {meant.group} alone" if meant.alone else "every group that reads the topic"
    how = "with changes" if changed else "unchanged"
    return ActionPreview(
        summary=f"Message {found.letter.message_id} goes back to {found.topic} {how}, for {who}. Its dead letter stays as it is.",
        stamp=repr(state),
        counts=(ActionCount(name="messages", value=1), ActionCount(name="changed parts", value=len(changed))),
        samples=(AffectedRows(title="What changes", columns=("part", "dead letter", "goes back"), rows=changed),)
        if changed
        else (),
        meant=found,
    )


async def do(context: PageContext, meant: LetterResend, preview: ActionPreview) -> ActionResult:
    found = cast("EditableLetter", preview.meant)
    await context.using(lambda lake: resend(lake, found, meant.edit(found), by=context.who, only_group=meant.alone))
    return ActionResult(
        summary=f"Sent {found.letter.message_id} back to {found.topic}, from the dead letter at offset {meant.offset}.",
        counts=(ActionCount(name="messages", value=1),),
    )


async def form(context: PageContext, given: Mapping[str, str]) -> ActionForm:
    group, offset = given.get("group", ""), given.get("offset", "")
    if not (offset.isascii() and offset.isdecimal() and len(offset) <= 18):
        raise InvalidArgument("an argument is no whole number", operation="edit", expected="offset", observed=offset[:200])
    found = await context.using(lambda lake: editable_letter(lake, group, int(offset)))
    now = found.unchanged
    text = _text_of(now.body)
    body = (
        FormField(name="body", label="Body", kind=FormFieldKind.TEXT, value=text, about="Line ends become those of Unix.")
        if text is not None
        else FormField(name="keep_body", label="Body stays as it is", kind=FormFieldKind.FIXED, value="yes")
    )
    return ActionForm(
        about=f"Message {found.letter.message_id}, given up by {group}, goes back to {found.topic} as it stands below.",
        fields=(
            FormField(name="group", label="Consumer group", kind=FormFieldKind.FIXED, value=group),
            FormField(name="offset", label="Dead letter at offset", kind=FormFieldKind.FIXED, value=offset),
            body,
            FormField(name="message_group", label="Message group", value=now.message_group or ""),
            FormField(name="tag", label="Tag", value=now.tag or ""),
            FormField(name="keys", label="Keys", kind=FormFieldKind.TEXT, value="\n".join(now.keys), about="One a line."),
            FormField(
                name="properties",
                label="Properties",
                kind=FormFieldKind.TEXT,
                value="\n".join(f"{name}={value}" for name, value in now.properties.items()),
                about="NAME=VALUE, one a line.",
            ),
            choice("only_group", "For this group alone", YES_NO[::-1], about="Consumers of other groups pass it over then."),
        ),
    )


def _text_of(body: bytes | None) -> str | None:
    """A body that can be edited as a text; None: it cannot."""
    if body is None or len(body) > BODY_BYTES_MAX or b"\0" in body:
        return None
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def words(meant: LetterResend) -> list[str]:
    found = ["dlq", "resend", meant.group, str(meant.offset)]
    if not meant.keeps_body:
        found += ["--body", meant.body if len(meant.body) <= SAID_CHARS else "-"]
    found += ["--message-group", meant.message_group or "", "--tag", meant.tag or ""]
    for name, values in (("key", lines(meant.keys)), ("property", lines(meant.properties))):
        for value in values or [""]:
            found += [f"--{name}", value]
    return found + (["--only-group"] if meant.alone else [])


EDIT = Action(
    name="edit",
    title="Edit the dead letter and send it back",
    about="Sends one dead letter back with changes, once; the letter stays as it is, and the message says who changed it.",
    arguments=LetterResend,
    preview=preview,
    do=do,
    command=words,
    back=lambda meant: Breadcrumb(
        f"Dead letter {meant.offset} of {meant.group}", "letter", {"group": meant.group, "offset": str(meant.offset)}
    ),
    form=form,
    unlogged=frozenset({"body"}),
)
