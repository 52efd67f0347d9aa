#include "base/store/registry.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/store/crash_point.h"
#include "base/store/lineage.h"
#include "base/store/version_file.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestHistory = 100;

tl::unexpected<Error> unknown(const std::string& ref) {
  return fail(Code::kInvalidArgument, "no version or tag '" + ref + "' in the registry");
}

}  // namespace

bool is_version_name(std::string_view name) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '_' || c == '-'; };
  return !name.empty() && name.size() <= 64 && name[0] != '.' && name[0] != '-' && std::all_of(name.begin(), name.end(), fits);
}

Result<Registry> Registry::open(const std::string& folder, bool create) {
  std::error_code error;
  if (create) {
    fs::create_directories(folder + "/versions", error);
    if (!error) fs::create_directories(folder + "/objects", error);
    if (error) return fail(Code::kIo, "cannot make '" + folder + "': " + error.message());
  }
  if (!fs::is_directory(folder + "/versions", error)) return fail(Code::kInvalidArgument, "'" + folder + "' is no registry");
  Registry registry(folder);
  LATHE_TRY(registry.lock_, lock_file(folder + "/lock", WhenLocked::kWait));
  LATHE_CHECK_OK(registry.load_state());
  return registry;
}

Result<void> Registry::load_state() {
  const std::string path = folder_ + "/state.toml";
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  LATHE_TRY(const std::string text, read_text_file(path));
  LATHE_TRY(state_, parse_state(text, path));
  return {};
}

Result<void> Registry::store_state(const RegistryState& state) {
  crash_point();
  LATHE_CHECK_OK(write_file_atomic(folder_ + "/state.toml", state_text(state)));
  crash_point();
  state_ = state;
  return {};
}

Result<std::vector<Version>> Registry::versions() const {
  std::vector<Version> all;
  std::error_code error;
  for (fs::directory_iterator it(folder_ + "/versions", error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.ends_with(".toml") || !is_version_name(name)) continue;
    LATHE_TRY(const std::string text, read_text_file(it->path().string()));
    LATHE_TRY(all.emplace_back(), parse_version(text, it->path().string()));
  }
  if (error) return fail(Code::kIo, "cannot read '" + folder_ + "': " + error.message());
  std::sort(all.begin(), all.end(),
            [](const Version& a, const Version& b) { return std::tie(a.created, a.name) < std::tie(b.created, b.name); });
  return all;
}

std::string Registry::serving_root(std::span<const Version> all) const {
  return all.empty() ? "" : root_of(all, state_.current.empty() ? all.back().name : state_.current);
}

Result<std::map<std::string, std::string>> Registry::tags() const {
  LATHE_TRY(const std::vector<Version> all, versions());
  std::map<std::string, std::string> tags = state_.tags;
  tags.merge(standing_tags(all, serving_root(all)));  // those that were set win
  return tags;
}

Result<Version> Registry::find(const std::string& ref) const {
  LATHE_TRY(const std::vector<Version> all, versions());
  std::string name = ref == "current" ? state_.current : ref;
  if (const auto tag = state_.tags.find(ref); tag != state_.tags.end()) name = tag->second;
  std::vector<const Version*> found;
  const auto standing = standing_tags(all, serving_root(all));
  const auto stands = standing.find(ref);
  const Version* meant = nullptr;
  for (const Version& v : all) {
    if (v.name == name) return v;
    if (stands != standing.end() && v.name == stands->second) meant = &v;
    if (ref.size() >= 6 && to_hex(v.file).starts_with(ref)) found.push_back(&v);
  }
  if (meant != nullptr) return *meant;
  if (found.size() == 1) return *found[0];
  if (found.size() > 1) return fail(Code::kInvalidArgument, "'" + ref + "' begins the hash of " + std::to_string(found.size()) + " versions");
  return unknown(ref);
}

Result<Version> Registry::add(Version version, std::span<const std::byte> file, std::vector<uint64_t> cuts, const std::string& tag) {
  if (!is_version_name(version.name) || version.name == "current")
    return fail(Code::kInvalidArgument, "'" + version.name + "' cannot be the name of a version (letters, digits, '.', '_', '-')");
  if (!tag.empty() && (!is_version_name(tag) || tag == "current"))
    return fail(Code::kInvalidArgument, "'" + tag + "' cannot be a tag (letters, digits, '.', '_', '-')");
  if (!version.parent.empty()) {
    LATHE_TRY(const Version parent, find(version.parent));
    version.parent = parent.name;
  }
  version.file = hash128(file);
  version.bytes = file.size();
  std::error_code error;
  if (fs::exists(version_path(version.name), error)) {
    LATHE_TRY(const Version there, find(version.name));
    if (there.file != version.file) return fail(Code::kInvalidArgument, "version '" + version.name + "' is there with other bytes");
    version.created = there.created;
  }
  LATHE_TRY(version.chunks, objects_.put(file, std::move(cuts)));
  LATHE_CHECK_OK(write_file_atomic(version_path(version.name), version_text(version)));
  if (!tag.empty()) {
    RegistryState next = state_;
    next.tags[tag] = version.name;
    LATHE_CHECK_OK(store_state(next));
  }
  return version;
}

Result<void> Registry::update(const Version& version) {
  LATHE_TRY(Version v, find(version.name));
  for (const auto& [group, metrics] : version.metrics)
    for (const auto& [metric, value] : metrics) v.metrics[group][metric] = value;
  for (const auto& [device, us] : version.latency_us) v.latency_us[device] = us;
  return write_file_atomic(version_path(v.name), version_text(v));
}

Result<void> Registry::tag(const std::string& tag, const std::string& ref) {
  if (!is_version_name(tag) || tag == "current")
    return fail(Code::kInvalidArgument, "'" + tag + "' cannot be a tag (letters, digits, '.', '_', '-')");
  LATHE_TRY(const Version v, find(ref));
  RegistryState next = state_;
  next.tags[tag] = v.name;
  return store_state(next);
}

Result<Version> Registry::promote(const std::string& ref, const std::optional<std::string>& device) {
  LATHE_TRY(Version v, find(ref));
  if (device && !v.latency_us.contains(*device))
    return fail(Code::kInvalidArgument, "version '" + v.name + "' has no latency measured on device '" + *device + "'");
  LATHE_CHECK_OK(objects_.verify(v.chunks));
  if (v.name == state_.current) return v;
  RegistryState next = state_;
  if (!next.current.empty()) next.history.push_back(next.current);
  if (next.history.size() > kLongestHistory) next.history.erase(next.history.begin());
  next.current = v.name;
  LATHE_CHECK_OK(store_state(next));
  return v;
}

Result<Version> Registry::rollback(const std::optional<std::string>& ref) {
  if (ref) return promote(*ref, {});
  if (state_.history.empty()) return fail(Code::kInvalidArgument, "no version was current before '" + state_.current + "'");
  LATHE_TRY(Version v, find(state_.history.back()));
  LATHE_CHECK_OK(objects_.verify(v.chunks));
  RegistryState next = state_;
  next.current = v.name;
  next.history.pop_back();
  LATHE_CHECK_OK(store_state(next));
  return v;
}

Result<Registry::Collected> Registry::gc(size_t keep) {
  LATHE_TRY(const std::vector<Version> all, versions());
  std::set<std::string> wanted(state_.history.begin(), state_.history.end());
  wanted.insert(state_.current);
  for (const auto& [tag, name] : state_.tags) wanted.insert(name);
  for (const Version& v : all)
    if (root_of(all, v.name) == v.name)
      for (const auto& [tag, name] : standing_tags(all, v.name))
        if (name != v.name) wanted.insert(name);  // an original is kept by its descendants
  for (size_t i = all.size() - std::min(keep, all.size()); i < all.size(); ++i) wanted.insert(all[i].name);
  const std::set<std::string> kept = with_ancestors(all, wanted);
  Collected collected;
  std::set<Hash128> objects;
  for (const Version& v : all) {
    if (kept.contains(v.name)) {
      for (const Chunk& c : v.chunks) objects.insert(c.hash);
      continue;
    }
    // The record goes before the objects, so that no record ever names an object that is gone.
    crash_point();
    std::error_code error;
    if (!fs::remove(version_path(v.name), error)) return fail(Code::kIo, "cannot remove version '" + v.name + "': " + error.message());
    collected.versions.push_back(v.name);
  }
  LATHE_CHECK_OK(remove_leftovers(folder_ + "/versions"));
  LATHE_CHECK_OK(remove_leftovers(folder_));
  LATHE_TRY(collected.swept, objects_.sweep(objects));
  return collected;
}

Result<std::vector<std::string>> Registry::verify() const {
  LATHE_TRY(const std::vector<Version> all, versions());
  std::vector<std::string> problems;
  std::set<std::string> names;
  for (const Version& v : all) names.insert(v.name);
  for (const Version& v : all) {
    if (auto whole = objects_.verify(v.chunks); !whole) problems.push_back("version '" + v.name + "': " + whole.error().message);
    if (!v.parent.empty() && !names.contains(v.parent))
      problems.push_back("version '" + v.name + "': its parent '" + v.parent + "' is not there");
  }
  for (const auto& [tag, name] : state_.tags)
    if (!names.contains(name)) problems.push_back("tag '" + tag + "': version '" + name + "' is not there");
  for (const std::string& name : state_.history)
    if (!names.contains(name)) problems.push_back("history: version '" + name + "' is not there");
  if (!state_.current.empty() && !names.contains(state_.current))
    problems.push_back("the current version '" + state_.current + "' is not there");
  return problems;
}

}  // namespace lathe
