# Half of the reads go to a hot set, the other half are a stream that is never read again.
import random

HOT = 6144  # pages of 4 KiB: 24 MiB
rng = random.Random(1)
with open("trace.txt", "w") as trace:
    for i in range(100_000):
        print(int(rng.random() * HOT), file=trace)
        print(HOT + i, file=trace)
