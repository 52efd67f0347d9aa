#include "tools/compress/work_folder.h"

#include <filesystem>

#include "base/atomic_file.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/store/crash_point.h"

namespace lathe::tools {
namespace {

namespace fs = std::filesystem;

std::string text_of(const Tree& tree, std::string_view key) {
  const Tree* v = tree.find(key);
  return v == nullptr || v->as_string() == nullptr ? "" : *v->as_string();
}

std::optional<WorkModel> model_of(const std::string& path, const std::string& hash) {
  const auto bytes = read_file(path);
  if (!bytes || to_hex(hash128(std::span<const std::byte>(*bytes))) != hash) return {};
  return WorkModel{path, *parse_hash128(hash), bytes->size()};
}

}  // namespace

Result<WorkFolder> WorkFolder::open(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return fail(Code::kIo, "cannot make '" + path + "': " + error.message());
  WorkFolder folder(path);
  LATHE_TRY(folder.lock_, lock_file(folder.file("lock"), WhenLocked::kFail));
  LATHE_CHECK_OK(remove_leftovers(path));
  return folder;
}

std::optional<WorkRecord> WorkFolder::find(const std::string& kind, const Hash128& key) const {
  const std::string path = file(stem(kind, key) + ".json");
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  const auto text = read_text_file(path);
  if (!text) return {};
  auto tree = parse_json(*text, path);
  if (!tree || text_of(*tree, "key") != to_hex(key)) return {};
  WorkRecord record;
  const Tree* details = tree->find("details");
  if (details == nullptr || details->as_table() == nullptr) return {};
  if (const std::string hash = text_of(*tree, "model"); !hash.empty()) {
    record.model = model_of(file(stem(kind, key) + ".lathe"), hash);
    if (!record.model) return {};
  }
  record.details = *details;
  return record;
}

Result<WorkRecord> WorkFolder::store(const std::string& kind, const Hash128& key, Tree details, const Graph* graph, const WriteOptions& write) {
  WorkRecord record{std::move(details), {}};
  Tree tree = Tree::table();
  tree.set("key", to_hex(key));
  crash_point();
  if (graph != nullptr) {
    LATHE_TRY(const std::vector<uint8_t> bytes, model_bytes(*graph, write));
    const auto view = std::as_bytes(std::span(bytes));
    record.model = WorkModel{file(stem(kind, key) + ".lathe"), hash128(view), bytes.size()};
    LATHE_CHECK_OK(write_file_atomic(record.model->path, view));
    crash_point();
    tree.set("model", to_hex(record.model->hash));
  }
  tree.set("details", record.details);
  LATHE_CHECK_OK(write_file_atomic(file(stem(kind, key) + ".json"), to_json(tree) + "\n"));
  crash_point();
  return record;
}

Result<Tree> WorkFolder::once(const std::string& kind, const Hash128& key, const std::function<Result<Tree>()>& make) {
  if (auto found = find(kind, key)) return std::move(found->details);
  LATHE_TRY(Tree made, make());
  LATHE_TRY(WorkRecord record, store(kind, key, std::move(made), nullptr, {}));
  return std::move(record.details);
}

Hash128 hash_of(std::initializer_list<std::string_view> texts) {
  Hasher hasher;
  for (const std::string_view text : texts) hasher.update(std::to_string(text.size())).update(":").update(text);
  return hasher.finish();
}

}  // namespace lathe::tools
