// Versions of a model with their lineage, tags, and the one that serves now.
//
// On disk: `objects/` (object_store.h), `versions/NAME.toml` (written once, or replaced when figures are added), `state.toml` (tags,
// the current version and those before it). Every change is one renamed file, and state.toml is the last: a process that is killed
// leaves the state before or the state after. Commands that change something hold a lock on `lock`.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/store/object_store.h"

namespace lathe {

struct Version {
  std::string name;
  std::string parent;  // name of the version that it was made from; empty: an original
  Hash128 file;        // of all its bytes
  uint64_t bytes = 0;
  std::vector<Chunk> chunks;
  std::string created;                      // UTC, ISO 8601
  std::string tool;                         // that made it
  std::string command;                      // that made it; may be empty
  std::map<std::string, std::string> facts;  // hashes of what it was made with: calibration, preprocessing, keep list
  std::map<std::string, std::map<std::string, double>> metrics;  // by group ("" : all samples), then metric
  std::map<std::string, double> latency_us;                      // by device
};

struct RegistryState {
  std::map<std::string, std::string> tags;  // to names of versions
  std::string current;                      // empty: none yet
  std::vector<std::string> history;         // what was current before, the last one last
};

// Letters, digits, '.', '_' and '-', not beginning with '.' or '-'; at most 64.
bool is_version_name(std::string_view name);

class Registry {
 public:
  // Makes the folder if `create` says so. Errors: no registry there; the state cannot be read.
  static Result<Registry> open(const std::string& folder, bool create);

  const RegistryState& state() const { return state_; }
  // In order of creation, then name.
  Result<std::vector<Version>> versions() const;
  // Tags that were set, and the standing ones (lineage.h) of the family of the current version, or of the newest while none is current.
  Result<std::map<std::string, std::string>> tags() const;
  // By tag that was set, "current", name, standing tag, or the first digits (6 or more) of the file's hash. Error: none or several.
  Result<Version> find(const std::string& ref) const;

  // Keeps `file` under version.name; `cuts` as ObjectStore::put. The tag, if given, is set with it. Errors: a name that is taken by
  // other bytes or is no name (letters, digits, '.', '_', '-'), an unknown parent.
  Result<Version> add(Version version, std::span<const std::byte> file, std::vector<uint64_t> cuts, const std::string& tag);
  // Replaces what is known of a version: metrics and latencies are joined.
  Result<void> update(const Version& version);
  Result<void> get(const Version& version, const std::string& path) const { return objects_.get(version.chunks, path); }
  Result<void> tag(const std::string& tag, const std::string& ref);
  // Makes a version the current one. Error: a device whose latency is not known for it.
  Result<Version> promote(const std::string& ref, const std::optional<std::string>& device);
  // Back to the version that was current before, or to `ref`.
  Result<Version> rollback(const std::optional<std::string>& ref);

  struct Collected {
    std::vector<std::string> versions;
    ObjectStore::Swept swept;
  };
  // Removes versions that are not tagged (standing tags of every family but "original" count), current, in the history, among the `keep`
  // newest, or an ancestor of one of these; and objects that no version names.
  Result<Collected> gc(size_t keep);
  // One line per problem: a version whose bytes are missing or damaged, a tag or a parent that names none.
  Result<std::vector<std::string>> verify() const;

 private:
  explicit Registry(std::string folder) : folder_(std::move(folder)), objects_(folder_ + "/objects") {}
  std::string serving_root(std::span<const Version> all) const;  // versions in order of creation
  Result<void> load_state();
  Result<void> store_state(const RegistryState& state);
  std::string version_path(const std::string& name) const { return folder_ + "/versions/" + name + ".toml"; }

  std::string folder_;
  ObjectStore objects_;
  RegistryState state_;
  std::shared_ptr<void> lock_;  // held while the object lives
};

}  // namespace lathe
