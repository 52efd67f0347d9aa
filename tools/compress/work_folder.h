// What a run of a recipe knows already: one record per result, named by a hash of all that it depends on.
//
// Records and models are files that appear whole or not at all, and a model is there before the record that names it, so a process may
// end at any instant. A record that cannot be read, or whose model is not the one that it names, does not count: its work is done again.
// One process at a time.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/hash.h"
#include "base/tree.h"
#include "graph/file/model_file.h"

namespace lathe::tools {

// A model of the work folder.
struct WorkModel {
  std::string path;
  Hash128 hash;  // of its bytes
  uint64_t bytes = 0;
};

struct WorkRecord {
  Tree details;                    // a table
  std::optional<WorkModel> model;  // that the work made
};

class WorkFolder {
 public:
  // Makes the folder. Errors: another process works there.
  static Result<WorkFolder> open(const std::string& path);
  // To look at what is done; the folder need not be there. Requires: nothing but find() is called.
  static WorkFolder view(const std::string& path) { return WorkFolder(path); }

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

  // `kind` opens the names of files; it is for people.
  std::optional<WorkRecord> find(const std::string& kind, const Hash128& key) const;
  Result<WorkRecord> store(const std::string& kind, const Hash128& key, Tree details, const Graph* graph, const WriteOptions& write);
  // What `make` gives, once.
  Result<Tree> once(const std::string& kind, const Hash128& key, const std::function<Result<Tree>()>& make);

 private:
  explicit WorkFolder(std::string path) : path_(std::move(path)) {}
  std::string stem(const std::string& kind, const Hash128& key) const { return kind + "-" + to_hex(key).substr(0, 16); }

  std::string path_;
  std::shared_ptr<void> lock_;
};

// The hash of some texts, none of which can be taken for a part of its neighbour.
Hash128 hash_of(std::initializer_list<std::string_view> texts);

}  // namespace lathe::tools
