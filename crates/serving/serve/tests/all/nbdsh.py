# Cases of the NBD protocol with libnbd as the client: `nbdsh -c SCRIPT`, with the URIs of exports in the environment.
# After each error the next request on the same connection must work.
import errno
import os

uri = os.environ["URI_WRITABLE"]
readonly = os.environ["URI_READONLY"]
block = os.environ["URI_BLOCKS"]
size = 2 << 20


def connect(uri, strict=False, **settings):
    h = nbd.NBD()
    if not strict:
        # What is wrong goes to the server: libnbd would refuse it by itself.
        h.set_strict_mode(0)
    for name, value in settings.items():
        getattr(h, name)(value)
    h.connect_uri(uri)
    return h


def fails(expected, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except nbd.Error as error:
        assert error.errnum == expected, (call, arguments, error)
    else:
        raise AssertionError(f"{call} {arguments} {named} did not fail")


# Flags and sizes.
h = connect(uri)
assert h.get_size() == size and h.get_protocol() == "newstyle-fixed"
assert h.can_flush() and h.can_fua() and h.can_multi_conn() and h.can_trim() and h.can_zero() and h.can_fast_zero() and h.can_df()
assert not h.is_read_only() and h.get_structured_replies_negotiated()
sizes = [h.get_block_size(kind) for kind in (nbd.SIZE_MINIMUM, nbd.SIZE_PREFERRED, nbd.SIZE_MAXIMUM)]
assert sizes[0] >= 512 and sizes[1] >= 4096 and sizes[2] == 32 << 20, sizes

# Data, FUA and flush.
data = bytes(range(256)) * 32
h.pwrite(data, 8192)
assert h.pread(len(data), 8192) == data
h.pwrite(data[:4096], 65536, nbd.CMD_FLAG_FUA)
h.flush()
assert h.pread(4096, 65536) == data[:4096]

# Structured reads: chunks cover the whole, also with DF.
for flags in (0, nbd.CMD_FLAG_DF):
    chunks = []

    def chunk(part, offset, status, error):
        assert status == nbd.READ_DATA and error.value == 0
        chunks.append((offset, bytes(part)))

    h.pread_structured(len(data), 8192, chunk, flags)
    assert sorted(chunks)[0][0] == 8192 and b"".join(part for _, part in sorted(chunks)) == data

# Zeroes, with all flags, and trims.
h.pwrite(data, 1 << 20)
h.zero(4096, 1 << 20)
h.zero(1024, (1 << 20) + 4096, nbd.CMD_FLAG_NO_HOLE | nbd.CMD_FLAG_FUA)
assert h.pread(5120, 1 << 20) == bytes(5120) and h.pread(len(data) - 5120, (1 << 20) + 5120) == data[5120:]
try:
    h.zero(1024, (1 << 20) + 5120, nbd.CMD_FLAG_FAST_ZERO)
except nbd.Error as error:
    assert error.errnum == errno.ENOTSUP
    assert h.pread(1024, (1 << 20) + 5120) == data[5120:6144], "a fast zero that fails changes nothing"
h.trim(65536, 1 << 20, nbd.CMD_FLAG_FUA)

# Errors, each followed by a request that works.
works = lambda: h.pread(512, 8192) == data[:512]
fails(errno.EINVAL, h.pread, 1024, size - 512)
assert works()
fails(errno.ENOSPC, h.pwrite, data[:1024], size - 512)
assert works()
fails(errno.ENOSPC, h.zero, 1024, size - 512)
assert works()
fails(errno.EINVAL, h.trim, 1024, size - 512)
assert works()
fails(errno.EINVAL, h.pread, 512, 100)
assert works()
fails(errno.EINVAL, h.pwrite, data[:100], 512)
assert works()
fails(errno.EINVAL, h.pread, 512, 0, 1 << 9)
assert works()
fails(errno.EINVAL, h.block_status, 4096, 0, lambda *_: 0)
assert works(), "block status without a context"

# Many requests at once, in any order.
cookies = [h.aio_pread(nbd.Buffer(4096), 4096 * at) for at in range(60)]
cookies += [h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray([at]) * 4096), 262144 + 4096 * at) for at in range(60)]
while cookies:
    h.poll(-1)
    cookies = [cookie for cookie in cookies if not h.aio_command_completed(cookie)]
assert all(h.pread(4096, 262144 + 4096 * at) == bytes([at]) * 4096 for at in range(60))

# A flush on one connection covers the writes of another, which sees them too.
other = connect(uri)
h.pwrite(b"x" * 512, 0)
other.flush()
assert other.pread(512, 0) == b"x" * 512
other.shutdown()

# Allocation, whole and one extent.
h.shutdown()
h = connect(uri, add_meta_context="base:allocation")
assert h.can_meta_context("base:allocation")
found = []
extents = lambda context, offset, entries, error: found.extend(zip(entries[::2], entries[1::2])) or 0
h.block_status(size, 0, extents)
assert sum(length for length, _ in found) >= size, found
found.clear()
h.block_status(65536, 0, extents, nbd.CMD_FLAG_REQ_ONE)
assert len(found) == 1 and found[0][0] <= 65536, found
h.shutdown()

# Without structured replies.
h = connect(uri, set_request_structured_replies=False)
assert not h.get_structured_replies_negotiated() and not h.can_df()
assert h.pread(len(data) - 512, 8192 + 512) == data[512:]
fails(errno.EINVAL, h.pread, 1024, size - 512)
assert h.pread(512, 8192) == data[:512]
h.shutdown()

# Read-only: nothing that writes is allowed.
h = connect(readonly)
assert h.is_read_only()
for call in (lambda: h.pwrite(data[:512], 0), lambda: h.zero(512, 0), lambda: h.trim(512, 0)):
    fails(errno.EPERM, call)
assert len(h.pread(512, 0)) == 512
h.shutdown()

# Blocks of the export's own size.
h = connect(block)
assert h.get_block_size(nbd.SIZE_MINIMUM) == 4096
fails(errno.EINVAL, h.pread, 512, 0)
assert len(h.pread(4096, 4096)) == 4096
h.shutdown()

# Options one by one: lists, an unknown export, information, and then a good one.
h = nbd.NBD()
h.set_opt_mode(True)
h.connect_uri(uri)
names = []
assert h.opt_list(lambda name, description: names.append(name) or 0) == 3 and set(names) == {"writable", "readonly", "blocks"}
contexts = []
h.opt_list_meta_context(lambda name: contexts.append(name) or 0)
assert contexts == ["base:allocation"]
h.set_export_name("nobody")
fails(errno.ENOENT, h.opt_info)
h.set_export_name("readonly")
h.opt_info()
assert h.is_read_only()
h.set_export_name("writable")
h.opt_go()
assert h.get_size() == size and h.pread(512, 8192) == data[:512]
h.shutdown()

# Gone in the options, and by abort.
h = nbd.NBD()
h.set_opt_mode(True)
h.connect_uri(uri)
h.opt_abort()
print("all cases are as they should be")
