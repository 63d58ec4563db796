"""The verdict on a package."""

from dataclasses import dataclass, field
from typing import Any, Literal

from takeup.media.check.package import Package
from takeup.media.check.rule import Rule, Severity

FINDINGS_MAX = 50

State = Literal["passed", "failed", "not applicable"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    rule: str
    severity: Severity
    where: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one rule."""

    rule: str
    severity: Severity
    title: str
    state: State
    why: str = ""
    """Why it does not apply."""
    findings: tuple[Finding, ...] = ()
    more: int = 0
    """How many findings were left out."""


@dataclass(frozen=True, slots=True)
class Report:
    """All verdicts."""

    verdicts: tuple[Verdict, ...]
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong that is an error."""
        return not any(v.state == "failed" and v.severity == "error" for v in self.verdicts)

    @property
    def findings(self) -> list[Finding]:
        """Everything that is wrong, errors first."""
        found = [finding for verdict in self.verdicts for finding in verdict.findings]
        return sorted(found, key=lambda finding: finding.severity != "error")

    def count(self, state: State, severity: Severity | None = None) -> int:
        """How many rules ended so."""
        return sum(v.state == state and severity in (None, v.severity) for v in self.verdicts)


def verdict_of(rule: Rule, package: Package) -> Verdict:
    """Hold a package to one rule."""
    why = rule.unmet(package)
    if why:
        return Verdict(rule.id, rule.severity, rule.title, "not applicable", why)
    found = [
        Finding(rule.id, rule.severity, where, message, rule.hint) for where, message in rule.find(package)
    ]
    return Verdict(
        rule.id,
        rule.severity,
        rule.title,
        "failed" if found else "passed",
        findings=tuple(found[:FINDINGS_MAX]),
        more=max(len(found) - FINDINGS_MAX, 0),
    )
