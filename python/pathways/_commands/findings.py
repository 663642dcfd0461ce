"""The findings of `pathways doctor`: the outcome of each check, and their table."""

import dataclasses

OK, WARNING, ERROR = "ok", "warning", "error"
_ORDER = (OK, WARNING, ERROR)


@dataclasses.dataclass(frozen=True)
class Finding:
    """The outcome of one check of one thing."""

    level: str        # OK, WARNING or ERROR
    check: str        # the name of the check: "disk", "hosts", ...
    where: str        # the thing checked: "this machine", "host h0", a path
    text: str         # the observation
    remedy: str = ""  # the remedy; every finding that is not OK has one

    def __post_init__(self):
        assert self.level in _ORDER and bool(self.remedy) == (self.level != OK), self

    def fields(self):
        return dataclasses.asdict(self)


def worst(findings):
    return max((finding.level for finding in findings), key=_ORDER.index, default=OK)


def exit_status(findings):
    """Returns 0 if nothing is wrong, 1 if there are warnings, 2 if there are errors."""
    return _ORDER.index(worst(findings))


def table(findings):
    """Formats the findings for people, the worst first. The remedy stands below its finding."""
    if not findings:
        return "nothing was checked"
    ordered = sorted(findings, key=lambda finding: -_ORDER.index(finding.level))
    checks, places = (max(len(getattr(finding, name)) for finding in findings) for name in ("check", "where"))
    lines = []
    for one in ordered:
        lines.append(f"{one.level:<8} {one.check:<{checks}}  {one.where:<{places}}  {one.text}")
        if one.remedy:
            lines.append(f"{'':<8} {'':<{checks}}  {'':<{places}}    -> {one.remedy}")
    counts = {level: sum(finding.level == level for finding in findings) for level in _ORDER}
    lines.append(f"\n{counts[ERROR]} error(s), {counts[WARNING]} warning(s), {counts[OK]} check(s) without a finding")
    return "\n".join(lines)
