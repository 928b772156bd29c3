"""Writes files whose headers claim too much data, and otherwise damaged files:

    python3 tests/fuzz/hostile.py

They are seeds of the fuzz targets of file formats.  tests/check_hostile.sh
loads them: each must give an error or a tensor, within little memory.
"""
import io
import os
import struct
import warnings
import zipfile
import zlib

warnings.simplefilter("ignore")  # two entries of one name
os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "seeds"))


def write(path, data):
    with open(path.replace("/", "/hostile_"), "wb") as out:
        out.write(data)


# ---- .npy ----


def npy(header, data=b"", version=1, length=None):
    header = header.encode("latin1")
    length = len(header) if length is None else length
    size = struct.pack("<H" if version == 1 else "<I", length)
    return b"\x93NUMPY" + bytes([version, 0]) + size + header + data


F32 = "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }\n"
SHAPES = {
    "huge": "(4611686018427387904,)",
    "overflow": "(4294967296, 4294967296, 4294967296)",
    "empty_huge": "(0, 9223372036854775807)",
    "huge_empty": "(9223372036854775807, 9223372036854775807, 0)",
    "negative": "(-1, 4)",
    "deep": "(" + "1, " * 70 + ")",
    "long": "(99999999999999999999999,)",
    "more": "()",
    "plenty": "(1000000000,)",
}
for name, shape in SHAPES.items():
    write("npy/%s.npy" % name, npy(F32 % shape, bytes(64)))
four = F32 % "(4,)"
write("npy/header.npy", npy(four, bytes(16), 2, 0xFFFFFFFF))
write("npy/short.npy", npy(four, bytes(16), 1, 10))
write("npy/object.npy", npy(four.replace("<f4", "|O"), bytes(64)))
write("npy/open.npy", npy("{'descr': '<f4', 'shape': (", bytes(64)))
write("npy/many.npy", npy("{" + "'shape': (1,), " * 100 + "}\n", bytes(64)))

# ---- PNG ----


def chunk(kind, data):
    sum = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + sum


def png(width, height, depth, colour, data=bytes(100), extra=b""):
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra
            + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


MOST = 2**31 - 1
write("png/huge.png", png(MOST, MOST, 8, 6))
write("png/large.png", png(60000, 60000, 16, 6))
write("png/wide.png", png(MOST, 1, 8, 0))
write("png/tall.png", png(1, MOST, 8, 0))
write("png/none.png", png(0, 0, 8, 0, b""))
write("png/depth.png", png(4, 4, 7, 5))
write("png/palette.png", png(4, 4, 8, 3))
text = chunk(b"zTXt", b"k\0\0" + zlib.compress(b"x" * 1000000))
write("png/text.png", png(1, 1, 8, 0, b"\0\0", text))
claim = struct.pack(">I", 7900000) + b"eXIf"
write("png/length.png", png(1, 1, 8, 0, b"\0\0", claim))

# ---- .npz ----


def npz(*entries):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return bytearray(out.getvalue())


good = npy(four, bytes(16))
write("npz/claims.npz", npz(("a.npy", npy(F32 % "(100000000000,)", bytes(16)))))
size = npz(("a.npy", good))
at = size.rfind(b"PK\x01\x02")
size[at + 24:at + 28] = struct.pack("<I", 0xFFFFFFF0)
write("npz/size.npz", size)
count = npz(("a.npy", good))
at = count.rfind(b"PK\x05\x06")
count[at + 8:at + 12] = b"\xff\xff\xff\xff"
write("npz/count.npz", count)
write("npz/paths.npz", npz(("../../a.npy", good), ("/b.npy", good),
                           ("a", b"nothing")))
write("npz/twice.npz", npz(("a.npy", good), ("a.npy", good)))
write("npz/nested.npz", npz(("a.npz", bytes(npz(("a.npy", good))))))

# ---- .safetensors ----


def safetensors(header, data=b"", length=None):
    length = len(header) if length is None else length
    return struct.pack("<Q", length) + header.encode() + data


ONE = '{"a":{"dtype":"F32","shape":%s,"data_offsets":%s}}'


def one(name, shape, offsets, length=None):
    write("safetensors/%s.safetensors" % name,
          safetensors(ONE % (shape, offsets), bytes(16), length))


one("length", "[4]", "[0,16]", 2**63)
one("outside", "[4]", "[0,1600]")
one("backwards", "[4]", "[16,0]")
one("overflow", "[4294967296,4294967296,4294967296]", "[0,16]")
one("negative", "[-4]", "[0,16]")
one("empty_huge", "[0,9223372036854775807]", "[0,0]")
write("safetensors/nested.safetensors",
      safetensors('{"a":' * 3000 + "1" + "}" * 3000))
write("safetensors/brackets.safetensors", safetensors("[" * 20000))
two = (ONE % ("[4]", "[0,16]"))[:-1] + "," + (ONE % ("[4]", "[0,16]"))[1:]
write("safetensors/overlap.safetensors",
      safetensors(two.replace('"a"', '"b"', 1), bytes(16)))

# ---- files of torch.save ----


def text(x):
    return b"X" + struct.pack("<I", len(x)) + x.encode()


def number(x):
    return b"\x8a\x08" + struct.pack("<q", x)


def numbers(xs):
    return b"(" + b"".join(map(number, xs)) + b"t"


def storage(key="0", view=b""):
    return (b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(key) +
            text("cpu") + number(4) + view + b"tQ")


def tensor(shape, strides, offset=0, **options):
    return (b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage(**options) +
            number(offset) + numbers(shape) + numbers(strides) +
            b"\x89NtR")


MAGIC = (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."
         b"\x80\x02}.")


def pickle(*entries):
    return b"\x80\x02}(" + b"".join(entries) + b"u."


def old(name, value, keys=("0",), count=4, data=bytes(16)):
    write("pth/%s.pth" % name, MAGIC + value + b"\x80\x02](" + b"".join(
        map(text, keys)) + b"e." + struct.pack("<q", count) + data)


def new(name, value, **entries):
    files = [("x/data.pkl", value), ("x/data/0", bytes(16))]
    write("pth/%s.pth" % name, npz(*files, *[
        ("x/" + k, v) for k, v in entries.items()]))


a = text("a")
fine = pickle(a, tensor([2, 2], [1, 2]))
runs = pickle(a, b"cos\nsystem\n(" + text("echo it ran") + b"tR")
old("plain", fine)
old("runs", runs)
new("runs_zip", runs)
old("other_name", pickle(a, b"cbuiltins\neval\n"))
old("build", pickle(a, b"ccollections\nOrderedDict\n)R}" + a + b"Nsb"), ())
old("overflow", pickle(a, tensor([2**40, 2**40], [2**40, 2**40])))
old("large", pickle(a, tensor([2**40], [0])))
old("negative", pickle(a, tensor([-2, 2], [1, 2])))
old("stride", pickle(a, tensor([2, 2], [1, -2])))
old("outside", pickle(a, tensor([2, 2], [1, 2], 1)))
old("ranks", pickle(a, tensor([1] * 40, [1] * 40)))
old("view", pickle(a, tensor([4], [1], view=b"(" + text("v") + number(2) +
                             number(4) + b"t")))
old("keys", fine, ("1",))
old("twice", fine, ("0", "0"))
old("claims", fine, count=2**61)
old("short", fine, data=bytes(7))
old("memo", pickle(a, b"Nr\xff\xff\xff\x7f"))
old("itself", b"\x80\x02}q\x00" + a + b"h\x00s.", ())
old("deep", pickle(a, b"]" * 5000 + b"a" * 4999), ())
share = b"".join(b"](h%ch%ceq%c0" % (i, i, i + 1) for i in range(60))
old("shares", b"\x80\x02Nq\x000" + share + b"h%c." % 60, ())
old("marks", b"\x80\x02" + b"(" * 5000 + b".")
# one large value that many others contain
many = 400000
new("odd", b"\x80\x02}q\0(" + b"NN" * many + b"u0](" + b"h\0" * many + b"e.")
new("ordered", b"\x80\x02ccollections\nOrderedDict\nq\0]((NNtq\x01" +
    b"h\x01" * many + b"e\x85q\x020](" + b"h\0h\x02R" * many + b"e.")
# one storage many times, with a long key
key, many = "k" * 30000, 5000
write("pth/same_keys.pth", MAGIC + b"\x80\x02" + storage(key)[:-1] +
      b"q\0Q0" + b"h\0Q0" * many + b"].\x80\x02](" + text(key) + b"q\0" +
      b"h\0" * many + b"e." + bytes(8 * (many + 1)))
old("no_elements", pickle(a, tensor([0], [1])), ("0", "0"), 0, bytes(8))
new("missing", pickle(a, tensor([4], [1], key="7")))
new("order", fine, byteorder=b"middle")
new("big", fine, byteorder=b"big")
new("program", fine, **{"constants.pkl": fine})
write("pth/pops.pth", b"((1((.")
write("pth/none.pth", npz(("x/data.txt", b"")))

# ---- .csv ----

write("csv/open.csv", b'"abc\n1,2\n')
write("csv/ragged.csv", b"1,2,3\n4,5\n6\n")
write("csv/nul.csv", b"1,\0,3\n")
write("csv/number.csv", b"1e999999,-1e999999," + b"9" * 5000 + b"\n1,2,3\n")
write("csv/blank.csv", b"\n\n\n,,,\n\n")
write("csv/wide.csv", b"," * 3000 + b"\n" + b"," * 3000)
