"""Rows of a lab's table: what, unit, measured, target, met."""

import json
import statistics


class Results:
    """`width`: of the column of what was measured."""

    def __init__(self, progress, width=84):
        self.rows, self._text, self._progress, self._width = [], [], progress, width

    def add(self, what, unit, values, target, at_least=False, by="worst"):
        """`by`: which of the values is held against the target, the worst or the median."""
        worst, median = (min(values) if at_least else max(values)), statistics.median(values)
        measured = worst if by == "worst" else median
        met = measured >= target if at_least else measured <= target
        name = f"{what}, {by} of {len(values)}" if len(values) > 1 else what
        self._append(what, {"what": name, "unit": unit, "measured": round(measured, 4), "target": target, "met": met,
                            "median": round(median, 4), "worst": round(worst, 4), "runs": len(values)})

    def add_failed(self, what, unit, target, why):
        self._append(what, {"what": what, "unit": unit, "measured": None, "target": target, "met": False,
                            "median": None, "worst": None, "runs": 0})
        self._progress.note(f"bench: {what}: {why}")

    def _append(self, what, row):
        self.rows.append(row)
        values = " ".join(f"{row[name]:9.4g}" if row[name] is not None else f"{'failed':>9}"
                          for name in ("median", "worst"))
        self._text.append(f"{what:{self._width}} {row['unit']:>9} {values} {row['target']:8g} {row['runs']:5}  "
                          f"{'yes' if row['met'] else 'NO'}")

    def print_and_write(self, path):
        print(f"\n{'':{self._width}} {'unit':>9} {'median':>9} {'worst':>9} {'target':>8} {'runs':>5}  met")
        print("\n".join(self._text))
        path.write_text(json.dumps(self.rows, indent=1) + "\n")
        met = sum(row["met"] for row in self.rows)
        print(f"\ntargets: {met} of {len(self.rows)} met; {path}")
