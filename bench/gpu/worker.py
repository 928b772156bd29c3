"""The process of the peers.  run.py sends requests, one JSON line each.  If a peer
ends the process, only that peer fails: run.py starts a new process for the next
request."""

import json
import os
import pathlib
import statistics
import sys
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import peers        # noqa: E402
import workloads    # noqa: E402

torch = peers.torch


class Clock:
    """Median milliseconds by events, L2 cache cold."""

    def __init__(self):
        self.flush = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")

    def time(self, f, seconds):
        for _ in range(3):
            f()
        torch.cuda.synchronize()
        times, spent = [], 0.0
        while len(times) < 10 or (spent < 1e3 * seconds and
                                  len(times) < 1000):
            first = torch.cuda.Event(enable_timing=True)
            last = torch.cuda.Event(enable_timing=True)
            self.flush.zero_()
            first.record()
            f()
            last.record()
            last.synchronize()
            times.append(first.elapsed_time(last))
            spent += times[-1]
        return statistics.median(times)


class Worker:
    def __init__(self):
        self.clock, self.peers, self.w = None, {}, None

    def about(self):
        peers.find_missing()
        said = {"missing": peers.missing}
        if torch and torch.cuda.is_available():
            said.update(gpu=torch.cuda.get_device_name(0),
                        torch=torch.__version__, cuda=torch.version.cuda)
        return said

    def ceilings(self, seconds):
        """GB/s of a large copy, TFLOP/s of a large product."""
        self.clock = self.clock or Clock()
        n = min(4 << 30,
                torch.cuda.get_device_properties(0).total_memory // 8)
        x = torch.empty(n, dtype=torch.uint8, device="cuda")
        y = torch.empty_like(x)
        copy = 2e-6 * n / self.clock.time(lambda: y.copy_(x), seconds)
        del x, y
        a = torch.randn(8192, 8192, device="cuda").bfloat16()
        b = torch.randn(8192, 8192, device="cuda").bfloat16()
        ms = self.clock.time(lambda: torch.mm(a, b), seconds)
        return {"copy": copy, "product": 2e-9 * 8192 ** 3 / ms}

    def begin(self, name, small, autotune):
        """Returns the names of the peers that have this workload."""
        peers.mode = "max-autotune-no-cudagraphs" if autotune else "default"
        self.peers = {}
        torch.cuda.empty_cache()
        self.w = next(w for w in workloads.ALL if w.name == name)
        if small:
            self.w = workloads.small(self.w)
        tensors = {name: peers.tensor(t, e)
                   for name, (t, e) in self.w.inputs.items()}
        self.peers = getattr(peers, self.w.group)(self.w, tensors)
        return {"peers": list(self.peers)}

    def compare(self, file):
        """Of each element, with the first peer that gives any: off by a few
        units of the type, relative to it and to a typical one."""
        why = {}
        for name, f in self.peers.items():
            try:
                right = peers.result(self.w, f())
            except Exception as error:
                why[name] = told(error)
                continue
            ours = load(file).cuda()
            if ours.shape != right.shape:
                return {"of": name, "failed": why,
                        "wrong": f"{list(ours.shape)} for "
                                 f"{list(right.shape)}"}
            worst, count = 0.0, 0
            typical = right.float().square().mean().sqrt().item()
            # peers of "losses" round the product to bf16
            rounds = torch.bfloat16 == ours.dtype or self.w.group == "losses"
            unit = 2e-2 if rounds else 2e-5
            for x, y in zip(ours.flatten().split(1 << 26),
                            right.flatten().split(1 << 26)):
                off = (x.float() - y.float()).abs() / (
                    y.float().abs() + typical)
                count += (~(off <= unit)).sum().item()
                worst = max(worst, off.nan_to_num(float("inf")).max().item())
            del right
            said = {"of": name, "failed": why, "off": worst}
            if count:
                said["wrong"] = f"{count} elements of {ours.numel()}, " \
                    f"off by up to {worst:.3g}, as {name} has them"
            return said
        return {"of": None, "failed": why}

    def time(self, peer, seconds):
        self.clock = self.clock or Clock()
        ms = self.clock.time(self.peers[peer], seconds)
        torch.cuda.empty_cache()
        return {"ms": ms}


def load(file):
    """A .safetensors with one tensor."""
    types = {"BF16": torch.bfloat16, "F32": torch.float32}
    with open(file, "rb") as f:
        head = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        (about,) = [v for k, v in head.items() if k != "__metadata__"]
        bytes_of = bytearray(f.read())
    return torch.frombuffer(bytes_of, dtype=types[about["dtype"]]).view(
        about["shape"])


def told(error):
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def main():
    out = os.fdopen(os.dup(1), "w")     # peers print what they like elsewhere
    os.dup2(2, 1)
    worker = Worker()
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            said = getattr(worker, asked.pop("do"))(**asked)
        except Exception as error:
            traceback.print_exc()
            said = {"error": told(error)}
        print(json.dumps(said), file=out, flush=True)


if __name__ == "__main__":
    main()
