#include "data/zip.h"

#include <algorithm>
#include <set>

#include "base/cursor.h"
#include "data/inflate.h"

namespace lathe {
namespace {

// APPNOTE.TXT 6.3: signatures and fixed sizes.
constexpr uint32_t kLocalMagic = 0x04034b50, kCentralMagic = 0x02014b50, kEndMagic = 0x06054b50;
constexpr uint32_t kEnd64Magic = 0x06064b50, kLocator64Magic = 0x07064b50;
constexpr size_t kEndBytes = 22, kLocator64Bytes = 20;
constexpr uint16_t kStored = 0, kDeflated = 8, kEncrypted = 1, kZip64Extra = 1;
constexpr uint32_t kIn64 = 0xffffffff;             // "the value is in the zip64 field"
constexpr uint16_t kMadeBy = 20, kDosDate = 0x21;  // version 2.0; 1980-01-01, so that equal contents give equal files

tl::unexpected<Error> damaged(const std::string& what) { return fail(Code::kCorrupt, "zip archive: " + what); }

struct Directory {
  uint64_t offset = 0, size = 0, entries = 0;
};

bool read_directory64(std::span<const std::byte> archive, size_t end_at, Directory* d) {
  if (end_at < kLocator64Bytes) return false;
  Cursor locator(archive.subspan(end_at - kLocator64Bytes, kLocator64Bytes));
  uint32_t magic = 0, disk = 0;
  uint64_t at = 0;
  if (!locator.read_le(&magic) || magic != kLocator64Magic || !locator.read_le(&disk) || !locator.read_le(&at)) return false;
  Cursor c(archive);
  return c.seek(at) && c.read_le(&magic) && magic == kEnd64Magic && c.skip(28) && c.read_le(&d->entries) && c.read_le(&d->size) &&
         c.read_le(&d->offset);
}

// The record at the end says where the directory is; a comment of up to 65,535 bytes may follow it.
Result<Directory> find_directory(std::span<const std::byte> archive) {
  if (archive.size() < kEndBytes) return damaged("has " + std::to_string(archive.size()) + " bytes, fewer than an empty one");
  const size_t lowest = archive.size() - std::min<size_t>(archive.size(), kEndBytes + 65535);
  for (size_t at = archive.size() - kEndBytes;; --at) {
    Cursor c(archive.subspan(at));
    uint32_t magic = 0, size = 0, offset = 0;
    uint16_t disk = 0, first_disk = 0, here = 0, entries = 0, comment = 0;
    const bool whole = c.read_le(&magic) && c.read_le(&disk) && c.read_le(&first_disk) && c.read_le(&here) &&
                       c.read_le(&entries) && c.read_le(&size) && c.read_le(&offset) && c.read_le(&comment);
    if (whole && magic == kEndMagic && comment == c.remaining()) {
      Directory d{offset, size, entries};
      const bool needs64 = entries == 0xffff || size == kIn64 || offset == kIn64;
      if (needs64 && !read_directory64(archive, at, &d)) return damaged("the zip64 end record is damaged");
      if (disk != 0 || first_disk != 0 || (!needs64 && here != entries)) return damaged("is one of several parts");
      if (d.offset > archive.size() || d.size > archive.size() - d.offset) return damaged("the directory lies outside the file");
      return d;
    }
    if (at == lowest) return damaged("no end record (truncated?)");
  }
}

// Sizes and offset of an entry that do not fit 32 bits stand in an extra field, in this order, each only if needed.
bool read_sizes64(std::span<const std::byte> extra, uint64_t* size, uint64_t* stored, uint64_t* offset) {
  Cursor c(extra);
  while (c.remaining() >= 4) {
    uint16_t id = 0, bytes = 0;
    std::span<const std::byte> field;
    if (!c.read_le(&id) || !c.read_le(&bytes) || !c.take(bytes, &field)) return false;
    if (id != kZip64Extra) continue;
    Cursor f(field);
    for (uint64_t* v : {size, stored, offset})
      if (*v == kIn64 && !f.read_le(v)) return false;
    return true;
  }
  return false;
}

// The bytes of an entry follow its local header, whose name and extra field may have other lengths than the directory's.
bool locate(std::span<const std::byte> archive, uint64_t offset, uint64_t stored, std::span<const std::byte>* out) {
  Cursor c(archive);
  uint32_t magic = 0;
  uint16_t name = 0, extra = 0;
  return c.seek(offset) && c.read_le(&magic) && magic == kLocalMagic && c.skip(22) && c.read_le(&name) && c.read_le(&extra) &&
         c.skip(uint64_t{name} + extra) && c.take(stored, out);
}

Result<ZipEntry> read_header(std::span<const std::byte> archive, Cursor& c) {
  uint32_t magic = 0, crc = 0, stored32 = 0, size32 = 0, offset32 = 0;
  uint16_t flags = 0, method = 0, name_bytes = 0, extra_bytes = 0, comment_bytes = 0;
  std::string_view name;
  std::span<const std::byte> extra;
  const bool whole = c.read_le(&magic) && c.skip(4) && c.read_le(&flags) && c.read_le(&method) && c.skip(4) && c.read_le(&crc) &&
                     c.read_le(&stored32) && c.read_le(&size32) && c.read_le(&name_bytes) && c.read_le(&extra_bytes) &&
                     c.read_le(&comment_bytes) && c.skip(8) && c.read_le(&offset32) && c.take_text(name_bytes, &name) &&
                     c.take(extra_bytes, &extra) && c.skip(comment_bytes);
  if (!whole || magic != kCentralMagic) return damaged("the directory is damaged");
  ZipEntry entry;
  entry.name = std::string(name);
  entry.crc = crc;
  entry.deflated = method == kDeflated;
  if ((flags & kEncrypted) != 0) return fail(Code::kUnsupported, "zip entry '" + entry.name + "' is encrypted");
  if (method != kStored && method != kDeflated)
    return fail(Code::kUnsupported,
                "zip entry '" + entry.name + "' uses compression method " + std::to_string(method) + ", known are 0 and 8");
  uint64_t stored = stored32, offset = offset32;
  entry.size = size32;
  if ((stored32 == kIn64 || size32 == kIn64 || offset32 == kIn64) && !read_sizes64(extra, &entry.size, &stored, &offset))
    return damaged("entry '" + entry.name + "' has no zip64 sizes");
  if (!locate(archive, offset, stored, &entry.stored)) return damaged("entry '" + entry.name + "' lies outside the file");
  if (!entry.deflated && entry.size != stored)
    return damaged("entry '" + entry.name + "' is stored in " + std::to_string(stored) + " bytes, its size is " +
                   std::to_string(entry.size));
  return entry;
}

template <class T>
void put(std::vector<std::byte>& out, T v) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<std::byte>(v >> 8 * i & 255));
}

void put_bytes(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// The fields that local header and directory share: version needed to name length.
void put_shared(std::vector<std::byte>& out, uint32_t crc, uint32_t size, uint16_t name_bytes) {
  put<uint16_t>(out, kMadeBy);
  put<uint16_t>(out, 0);  // flags
  put<uint16_t>(out, kStored);
  put<uint16_t>(out, 0);  // time
  put<uint16_t>(out, kDosDate);
  put<uint32_t>(out, crc);
  put<uint32_t>(out, size);
  put<uint32_t>(out, size);
  put<uint16_t>(out, name_bytes);
  put<uint16_t>(out, 0);  // extra
}

}  // namespace

Result<std::vector<ZipEntry>> parse_zip(std::span<const std::byte> archive) {
  LATHE_TRY(const Directory d, find_directory(archive));
  Cursor c(archive.subspan(static_cast<size_t>(d.offset), static_cast<size_t>(d.size)));
  std::vector<ZipEntry> entries;
  std::set<std::string> names;
  for (uint64_t i = 0; i < d.entries; ++i) {
    LATHE_TRY(ZipEntry entry, read_header(archive, c));
    if (!names.insert(entry.name).second) return damaged("entry '" + entry.name + "' is there twice");
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<std::vector<std::byte>> read_entry(const ZipEntry& entry) {
  std::vector<std::byte> out;
  if (entry.deflated) {
    LATHE_TRY(Inflater inflater, Inflater::open(entry.stored, Inflater::Format::kRaw));
    // Grows with what really comes out, not with what the directory claims.
    auto rest = inflater.read_rest(entry.size);
    if (!rest) return tl::unexpected<Error>(with_context(std::move(rest.error()), "zip entry '" + entry.name + "'"));
    out = std::move(*rest);
  } else {
    out.assign(entry.stored.begin(), entry.stored.end());
  }
  if (out.size() != entry.size)
    return damaged("entry '" + entry.name + "' has " + std::to_string(out.size()) + " bytes, the directory says " +
                   std::to_string(entry.size));
  if (crc32_of(out) != entry.crc) return damaged("entry '" + entry.name + "' fails its checksum");
  return out;
}

Result<void> ZipWriter::add(const std::string& name, std::span<const std::byte> bytes) {
  const uint64_t after = archive_.size() + directory_.size() + bytes.size() + 2 * name.size() + 256;
  if (after >= kIn64 || entries_ == 0xfffe || name.size() > 0xffff)
    return fail(Code::kUnsupported,
                "zip archive: over 4 GiB, 65,534 entries or 65,535 bytes of name at '" + name.substr(0, 80) + "'");
  const auto offset = static_cast<uint32_t>(archive_.size());
  const uint32_t crc = crc32_of(bytes);
  const auto size = static_cast<uint32_t>(bytes.size());
  const auto name_bytes = static_cast<uint16_t>(name.size());
  const auto name_view = std::as_bytes(std::span(name.data(), name.size()));
  put<uint32_t>(archive_, kLocalMagic);
  put_shared(archive_, crc, size, name_bytes);
  put_bytes(archive_, name_view);
  put_bytes(archive_, bytes);

  put<uint32_t>(directory_, kCentralMagic);
  put<uint16_t>(directory_, kMadeBy);
  put_shared(directory_, crc, size, name_bytes);
  put<uint16_t>(directory_, 0);  // comment
  put<uint16_t>(directory_, 0);  // disk
  put<uint16_t>(directory_, 0);  // internal attributes
  put<uint32_t>(directory_, 0);  // external attributes
  put<uint32_t>(directory_, offset);
  put_bytes(directory_, name_view);
  ++entries_;
  return {};
}

std::vector<std::byte> ZipWriter::finish() {
  const auto offset = static_cast<uint32_t>(archive_.size());
  put_bytes(archive_, directory_);
  put<uint32_t>(archive_, kEndMagic);
  put<uint32_t>(archive_, 0);  // disks
  put<uint16_t>(archive_, entries_);
  put<uint16_t>(archive_, entries_);
  put<uint32_t>(archive_, static_cast<uint32_t>(directory_.size()));
  put<uint32_t>(archive_, offset);
  put<uint16_t>(archive_, 0);  // comment
  return std::move(archive_);
}

}  // namespace lathe
