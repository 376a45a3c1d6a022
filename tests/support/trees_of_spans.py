"""The traces of the runs of `seen_app`, as trees of names; docs/observability.md shows one of them."""

from __future__ import annotations

ASKED = """\
conversation
  invoke_agent
    chat 1
    execute_tool ask_ana
      run_tool ask_ana
      wait
      run_tool ask_ana
    chat 1"""

NESTED = """\
conversation
  invoke_agent
    chat 1
    execute_tool outer
      run_tool outer
        execute_tool inner
          run_tool inner
    chat 1"""

DELEGATED = """\
conversation
  invoke_agent
    chat 1
    execute_tool subagent
      run_tool subagent
        conversation
          invoke_agent
            chat 1
            execute_tool outer
              run_tool outer
                execute_tool inner
                  run_tool inner
            chat 1
    chat 1
    execute_tool wait_agent
      run_tool wait_agent
      wait
      run_tool wait_agent
    chat 1"""

HOOKS = """\
conversation
  invoke_agent
    chat 2
    chat 2
    execute_tool inner
      gate
      run_tool inner
    chat 2
    hooks on_yield
      task review
        run_tool review"""
