"""The inbox, as an application may shape it: who is signed in, and who may answer what (docs/inbox.md)."""

from tarry.inbox.people import Inbox, MayAnswer, SignIn

__all__ = ["Inbox", "MayAnswer", "SignIn"]
