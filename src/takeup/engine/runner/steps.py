"""Commands that a stage runs: how one that failed is told."""

from takeup.child.run import Ended

LAST_LINES = 3


class StepFailed(Exception):
    """A command ended with another exit code than 0."""

    def __init__(self, step: Ended) -> None:
        """Say how it ended and what it said last."""
        code = step.exit_code
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        if step.stopped:
            how = f"was {step.stopped} and stopped"
        last = (step.stderr or step.stdout).strip().splitlines()[-LAST_LINES:]
        super().__init__(f"{step.command[0]} {how}" + (": " + " / ".join(last) if last else ""))
        self.step = step
