#include "base/store/object_store.h"

#include <algorithm>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/file.h"
#include "base/store/crash_point.h"

namespace lathe {
namespace fs = std::filesystem;

std::string ObjectStore::path_of(const Hash128& hash) const {
  const std::string hex = to_hex(hash);
  return folder_ + "/" + hex.substr(0, 2) + "/" + hex.substr(2);
}

Result<std::vector<std::byte>> ObjectStore::read(const Chunk& chunk) const {
  auto bytes = read_file(path_of(chunk.hash));
  if (!bytes) return tl::unexpected(with_context(std::move(bytes.error()), "object " + to_hex(chunk.hash)));
  if (bytes->size() != chunk.bytes || hash128(*bytes) != chunk.hash)
    return fail(Code::kCorrupt, "object " + to_hex(chunk.hash) + " is damaged: its bytes have another hash");
  return bytes;
}

Result<std::vector<Chunk>> ObjectStore::put(std::span<const std::byte> file, std::vector<uint64_t> cuts) {
  cuts.push_back(0);
  cuts.push_back(file.size());
  std::erase_if(cuts, [&](uint64_t at) { return at > file.size(); });
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<Chunk> chunks;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const auto piece = file.subspan(cuts[i], cuts[i + 1] - cuts[i]);
    const Chunk& c = chunks.emplace_back(Chunk{hash128(piece), piece.size()});
    const std::string path = path_of(c.hash);
    std::error_code error;
    if (fs::file_size(path, error) == c.bytes && !error) continue;
    fs::create_directories(fs::path(path).parent_path(), error);
    if (error) return fail(Code::kIo, "cannot make a folder in '" + folder_ + "': " + error.message());
    LATHE_CHECK_OK(write_file_atomic(path, piece));
    crash_point();
  }
  return chunks;
}

Result<void> ObjectStore::get(std::span<const Chunk> chunks, const std::string& path) const {
  LATHE_TRY(AtomicFile out, AtomicFile::create(path));
  for (const Chunk& c : chunks) {
    LATHE_TRY(const auto bytes, read(c));
    LATHE_CHECK_OK(out.write(bytes));
  }
  return out.commit();
}

Result<void> ObjectStore::verify(std::span<const Chunk> chunks) const {
  for (const Chunk& c : chunks)
    if (auto bytes = read(c); !bytes) return tl::unexpected(std::move(bytes.error()));
  return {};
}

Result<ObjectStore::Swept> ObjectStore::sweep(const std::set<Hash128>& keep) {
  Swept swept;
  std::error_code error;
  std::vector<fs::path> doomed;
  for (fs::recursive_directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    if (!it->is_regular_file(error)) continue;
    const auto hash = parse_hash128(it->path().parent_path().filename().string() + it->path().filename().string());
    if (!hash || !keep.contains(*hash)) doomed.push_back(it->path());
  }
  if (error) return fail(Code::kIo, "cannot read '" + folder_ + "': " + error.message());
  for (const fs::path& path : doomed) {
    const uint64_t bytes = fs::file_size(path, error);
    if (!fs::remove(path, error)) return fail(Code::kIo, "cannot remove '" + path.string() + "': " + error.message());
    ++swept.objects;
    swept.bytes += bytes;
    crash_point();
  }
  return swept;
}

}  // namespace lathe
