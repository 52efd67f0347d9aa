// Operators that stay float: from the command line, or from the file that `lathe sensitivity` writes.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/arguments.h"

namespace lathe::tools {

// Of a model that was made with a keep file: the hash of that file's bytes.
inline constexpr const char* kKeepHashKey = "keep_hash";

struct KeepList {
  std::vector<std::string> entries;  // names, patterns and op types
  std::string hash;                  // of the files among them, joined; empty if there were none
  // Puts the hash into a model's metadata.
  void store(std::map<std::string, std::string>* metadata) const;
};

// --keep NAME ...: an entry that ends in .toml is a file with `keep = [...]`.
struct KeepFlags {
  std::vector<std::string> given;
  void add_to(Arguments& args);
  Result<KeepList> read() const;
};

// The text of a keep file, with a comment on top.
std::string keep_file_text(const std::vector<std::string>& names, const std::string& comment);

}  // namespace lathe::tools
