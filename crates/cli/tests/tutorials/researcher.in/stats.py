# Of each variant: its reads a second over those of the first variant, paired by seed.
import csv
import statistics
import sys

for name in sys.argv[1:]:
    rates = {}
    with open(name, newline="") as table:
        for row in csv.DictReader(table):
            if row["metric"] == "transaction_rate@hot":
                rates.setdefault(row["variant"], []).append(float(row["value"]))
    base, *others = rates
    for variant in others:
        ratios = [new / old for new, old in zip(rates[variant], rates[base])]
        mean = statistics.geometric_mean(ratios)
        print(f"{name}: {variant} is {mean:.3f} times {base}, {min(ratios):.3f} to {max(ratios):.3f}")
contents = {open(name, "rb").read() for name in sys.argv[1:]}
print(", ".join(sys.argv[1:]) + (": the same bytes" if len(contents) == 1 else ": different"))
