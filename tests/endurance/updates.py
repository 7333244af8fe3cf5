"""Updates at random: which steps an object is given next, by what is possible in its pool."""

from .content import size

KIB, MIB = 1 << 10, 1 << 20
# The most that one operation may bring, with all its values.
LARGEST = 90 * MIB
XATTRS_MAX, KEYS_MAX, OMAP_BYTES_MAX = 8, 40, 8 * MIB

# Bounds of sizes, with how often they come. Few are large, as each of those takes as long as thousands of small ones.
SIZES = [
    (48, 1, 128),
    (25, 128, 4 * KIB),
    (15, 4 * KIB, 64 * KIB),
    (8, 64 * KIB, MIB),
    (3, MIB, 8 * MIB),
    (1, 8 * MIB, LARGEST),
]
# How large an object of each kind may become.
KINDS = {"small": 256 * KIB, "middle": 4 * MIB, "large": LARGEST}


class Updates:
    """Chooses steps by a random number generator.

    `next_tag` names a stream of bytes that no other write has. `stripe`: bytes of a stripe, None for a replicated pool.
    """

    def __init__(self, random, next_tag, stripe):
        self.random, self.next_tag, self.stripe = random, next_tag, stripe

    def length(self, limit):
        """A size of 1 to `limit` bytes."""
        weights = [weight for weight, low, _ in SIZES if low <= limit]
        _, low, high = self.random.choices([entry for entry in SIZES if entry[1] <= limit], weights)[0]
        high = min(high, limit)
        if low >= 8 * MIB and self.random.random() < 0.2:
            return high
        return self.random.randint(low, high)

    def next(self, state, kind):
        """Steps of an update of an object in this state."""
        steps, brought = [], 0
        for words in self.chosen(state, kind):
            pairs = (
                words[1]
                if words[0] == "omap_set"
                else [words] if words[0] in ("write", "write_full", "append", "setxattr") else []
            )
            brought += sum(pair[-1] + 64 for pair in pairs)
            if steps and brought > LARGEST:
                break
            steps.append(words)
        return steps

    def chosen(self, state, kind):
        limit = KINDS[kind]
        if self.stripe:
            return self.of_coded(state, limit)
        if not state.exists:
            first = self.random.choice(
                ["write", "write_full", "append", "create", "create_only", "setxattr", "omap_set", "remove"]
            )
            steps = [self.step(first, state, limit)]
            return steps + [self.step("setxattr", state, limit)] if first == "create_only" else steps
        count = self.random.choices([1, 2, 3, 4], [70, 15, 10, 5])[0]
        steps = []
        if self.random.random() < 0.12:
            steps.append(self.guard(state))
        names = [
            "write",
            "write_full",
            "append",
            "truncate",
            "zero",
            "setxattr",
            "rmxattr",
            "omap_set",
            "omap_rm",
            "omap_clear",
        ]
        weights = [25, 12, 15, 8, 8, 8, 4, 12, 5, 3]
        # Only the first step may know how long the object is.
        first, *others = self.random.choices(names, weights, k=count)
        if count == 1 and self.random.random() < 0.06:
            return [*steps, ["remove"]]
        steps.append(self.step(first, state, limit))
        steps += [self.step(name, state, limit) for name in others if name in ("setxattr", "omap_set", "omap_clear")]
        return [words for words in steps if words]

    def of_coded(self, state, limit):
        """Erasure-coded pools take whole objects, appends by whole stripes, and attributes."""
        if not state.exists:
            steps = [self.step(self.random.choice(["write_full", "write_full", "setxattr", "create"]), state, limit)]
        elif self.random.random() < 0.08:
            steps = [["remove"]]
        elif self.random.random() < 0.4 and state.size % self.stripe == 0 and state.size + self.stripe <= limit:
            length = self.length(limit - state.size)
            whole = -(-length // self.stripe) * self.stripe
            length = whole if whole + state.size <= limit and self.random.random() < 0.8 else length
            steps = [["append", self.next_tag(), length]]
        else:
            steps = [self.step(self.random.choice(["write_full", "write_full", "setxattr", "rmxattr"]), state, limit)]
        if self.random.random() < 0.2 and steps[0] and steps[0][0] in ("write_full", "append"):
            steps.append(self.step("setxattr", state, limit))
        return [words for words in steps if words]

    def guard(self, state):
        """A step that looks before others change something; one in three finds something else than it wants."""
        fails = self.random.random() < 0.33
        length = size(state.data)
        if length and self.random.random() < 0.7:
            offset = self.random.randrange(length)
            count = min(length - offset, self.random.choice([1, 100, 5000]))
            return ["cmpext", offset, count, self.random.randrange(count) if fails else -1]
        return ["create", fails]

    def step(self, kind, state, limit):
        """One step, or None where it would have nothing to do."""
        pick, length = self.random, state.size
        if kind == "create":
            return ["create", False]
        if kind == "create_only":
            return ["create", True]
        if kind == "remove":
            return ["remove"]
        if kind == "write":
            count = self.length(limit)
            low = max(0, min(length + 10_000, limit - count))
            offset = 0 if pick.random() < 0.2 else pick.randint(0, low)
            offset = offset // 4096 * 4096 if pick.random() < 0.3 else offset
            return ["write", offset, self.next_tag(), count]
        if kind == "write_full":
            count = self.length(limit)
            return ["write_full", self.next_tag(), count]
        if kind == "append":
            if length >= limit:
                return ["truncate", pick.randrange(limit)] if not self.stripe else None
            count = self.length(limit - length)
            return ["append", self.next_tag(), count]
        if kind == "truncate":
            return ["truncate", pick.randint(0, min(limit, length + 5000))]
        if kind == "zero":
            if not length:
                return ["truncate", 1000]
            offset = pick.randrange(length)
            return ["zero", offset, pick.randint(1, length - offset)]
        if kind == "setxattr":
            count = pick.choice([1, 30, 300, 4000]) if pick.random() < 0.97 else 30_000
            return ["setxattr", f"attribute{pick.randrange(XATTRS_MAX)}", self.next_tag(), count]
        if kind == "rmxattr":
            return (
                ["rmxattr", pick.choice(sorted(state.xattrs))] if state.xattrs else self.step("setxattr", state, limit)
            )
        if kind == "omap_set":
            room = OMAP_BYTES_MAX - sum(count for _, count in state.omap.values())
            pairs = {}
            for _ in range(pick.choice([1, 1, 2, 5, 20])):
                count = pick.choice([0, 1, 20, 200, 4000])
                if pick.random() < 0.03:
                    count = pick.randint(100_000, 3 * MIB)
                if count <= room:
                    room -= count
                    key = f"key{pick.randrange(KEYS_MAX):03}"
                    pairs[key] = [key, self.next_tag(), count]
            return ["omap_set", list(pairs.values())] if pairs else ["omap_clear"]
        if kind == "omap_rm":
            keys = sorted(state.omap)
            if not keys:
                return self.step("omap_set", state, limit)
            return ["omap_rm", pick.sample(keys, min(len(keys), pick.randint(1, 5)))]
        if kind == "omap_clear":
            return ["omap_clear"]
        raise ValueError(kind)
