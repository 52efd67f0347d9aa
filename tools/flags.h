// Options that several verbs share, and how they become objects.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/file/model_file.h"
#include "graph/import/import.h"
#include "runtime/host/session.h"
#include "tools/arguments.h"

namespace lathe::tools {

// --const name=1,2 and --shape name=1x3x224x224, for models that are imported on the way.
struct ImportFlags {
  std::vector<std::string> constants, shapes;
  void add_to(Arguments& args);
  Result<ImportOptions> options() const;
};

// --threads N (0: as many as this process may use) and --isa NAME.
struct SessionFlags {
  uint32_t threads = 1;
  std::string isa;
  void add_to(Arguments& args);
  Result<SessionOptions> options() const;
};

// --target NAME ..., --sparse, --strip and -o FILE of verbs that write a lowered model.
struct WriteFlags {
  std::string output;
  std::vector<std::string> targets = {"host"};
  std::string sparse = "auto";
  bool strip = false;
  void add_to(Arguments& args);
  Result<WriteOptions> options() const;  // also fails if the output cannot be written
  void print_written() const;            // "wrote int8.lathe, 101.4 KB"
};

}  // namespace lathe::tools
