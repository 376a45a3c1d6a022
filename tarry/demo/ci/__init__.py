"""An agent that mends a flaky test and waits for CI, with the CI service it waits for."""
