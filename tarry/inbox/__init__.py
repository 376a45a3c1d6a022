"""The inbox, as an application may shape it: who is signed in, who may answer what, and links (docs/inbox.md)."""

from tarry.inbox.links import answer_link
from tarry.inbox.people import Inbox, MayAnswer, SignIn

__all__ = ["Inbox", "MayAnswer", "SignIn", "answer_link"]
