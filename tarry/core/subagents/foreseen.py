"""What a tree would refuse, said before anything of it enters history (spec §17.14).

Pure. It changes nothing, and refuses nothing that the tree would not: what is not foreseen here, the tree refuses.
"""

from __future__ import annotations

from pydantic import BaseModel

from tarry.core.subagents.definition import Snapshot
from tarry.core.subagents.mailbox import Mailbox
from tarry.core.subagents.protocol import FollowUp, Interrupt, ReadUpdates, SendMessage, StartAgent
from tarry.core.subagents.refusing import Refused
from tarry.core.subagents.tree import Tree


def check_reload(snapshot: Snapshot) -> None:
    """Whether it says which agents there are to be, if only that there are none.

    Raises:
        Refused: `invalid`; an empty object would take them all away.
    """
    if snapshot.is_bare:
        raise Refused(
            "invalid",
            "a reload names the agents that there are to be, in `definitions`; `tarry agents reload` sends those of "
            "this host",
        )


class ForeseeingTree(Tree):
    """A tree that can be asked whether it would refuse."""

    def foresee(self, request: BaseModel) -> None:
        """Whether the tree would refuse this. What a call asked before is answered as it was.

        Raises:
            Refused: as the tree would.
        """
        match request:
            case StartAgent():
                self._foresee_start(request)
            case SendMessage() if self.answers.find("send", request.caller.task_id, request) is None:
                self.check_caller(request.caller)
                self.child(request.caller, request.target).mailbox.check(request.text)
            case FollowUp() if self.answers.find("follow-up", request.caller.task_id, request) is None:
                self._foresee_follow_up(request)
            case ReadUpdates():
                self.check_caller(request.caller)
                self._read_target(request)
            case Interrupt() if self.answers.find("interrupt", request.caller.task_id, request) is None:
                self.check_caller(request.caller)
                self._descendant(request.caller, request.target)
            case Snapshot():
                check_reload(request)

    def _foresee_start(self, request: StartAgent) -> None:
        if self._started_by(request) is not None:
            return
        parent = self.check_caller(request.caller)
        if self.snapshot.find(request.definition) is None:
            return  # the tree says which ones there are
        self._check_number(parent)
        self.paths.name(parent, request.task_name, request.description)
        Mailbox().check(request.prompt)
        self.check_permit(request.caller, self._mode(request))

    def _foresee_follow_up(self, request: FollowUp) -> None:
        self.check_caller(request.caller)
        agent = self.child(request.caller, request.target)
        newest = agent.newest
        self._check_follow_up(agent, None if newest is None or newest.is_stopping else newest, request)
